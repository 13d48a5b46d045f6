"""What each target makes of each construction, and what the report says about it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.tables import each_row

from dragoman.errors import ConfigError
from dragoman.types import Tool
from dragoman.wire.schemas import TARGETS, Compiled, compile_schema

OPEN = ("openai", "anthropic", "ollama", "bedrock", "mistral", "cohere")
PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string", "description": "what"}, "n": {"type": "number"}},
    "required": ["q"],
}


def compile_(schema: Any, target: str, *, inline: bool = False) -> Compiled:
    return compile_schema(Tool("x", parameters=schema), target, inline=inline)


def compile_property(schema: Any, target: str, *, required: bool = True, **root: Any) -> tuple[Any, list[str]]:
    """The compiled form of one property, and the report."""
    whole = {"type": "object", "properties": {"p": schema}, "required": ["p"] if required else [], **root}
    compiled = compile_(whole, target)
    assert compiled.schema is not None
    return compiled.schema["properties"].get("p"), [str(loss) for loss in compiled.losses]


# ---- nothing to do ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", OPEN)
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, PLAIN], ids=str)
def test_plain_schemas_go_out_as_they_are(schema: dict[str, Any], target: str) -> None:
    compiled = compile_(schema, target)
    assert compiled.schema is schema
    assert compiled.losses == ()
    assert not compiled.undo


@each_row("target", TARGETS)
@each_row("nothing", [{}, None, True])
def test_a_tool_without_parameters(nothing: Any, target: str) -> None:
    compiled = compile_(nothing, target)
    assert compiled.losses == ()
    expected: dict[str, Any] = {"type": "object", "properties": {}}
    if target.startswith("gemini"):
        expected = {}
    elif target == "openai_strict":
        expected |= {"required": [], "additionalProperties": False}
    elif target == "anthropic_strict":
        expected |= {"additionalProperties": False}
    assert compiled.schema == expected


@pytest.mark.parametrize("target", ["gemini", "gemini_json"])
def test_gemini_declares_no_parameters_for_an_object_without_properties(target: str) -> None:
    assert compile_({"type": "object"}, target).schema == {}


def test_what_goes_with_undeclared_parameters_is_reported() -> None:
    schema = {"type": "object", "description": "Tags.", "additionalProperties": {"type": "string"}}
    compiled = compile_(schema, "gemini")
    assert compiled.schema == {}
    assert [str(loss) for loss in compiled.losses] == [
        "tool x: dropped additionalProperties at $",
        "tool x: dropped description at $: there are no parameters to declare",
    ]


def test_gemini_writes_types_in_upper_case() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "array", "items": {"type": "string"}}}}
    assert compile_(schema, "gemini").schema == {
        "type": "OBJECT",
        "properties": {"q": {"type": "ARRAY", "items": {"type": "STRING"}}},
    }
    assert compile_(schema, "gemini").losses == ()


def test_a_schema_that_is_changed_in_place_is_compiled_anew() -> None:
    schema = copy.deepcopy(PLAIN)
    first = compile_(schema, "openai").schema
    schema["properties"]["l"] = {"type": "array"}
    assert first is schema
    assert compile_(schema, "openai").schema == {
        **schema,
        "properties": {**schema["properties"], "l": {"type": "array", "items": {}}},
    }
    strict = compile_(schema, "openai_strict").schema
    schema["properties"]["q"]["type"] = "integer"
    again = compile_(schema, "openai_strict").schema
    assert strict is not None
    assert again is not None
    assert (strict["properties"]["q"]["type"], again["properties"]["q"]["type"]) == ("string", "integer")


def test_an_unknown_target_is_named_with_the_nearest_known() -> None:
    with pytest.raises(ConfigError, match="gemnini") as caught:
        compile_(PLAIN, "gemnini")
    assert "gemini" in caught.value.next_step


# ---- one construction after the other --------------------------------------------------------------------------------

ANY = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}
PAIRS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "integer"}},
        "required": ["key", "value"],
        "additionalProperties": False,
    },
    "description": "(an object, written as a list of its keys and values)",
}

CONSTRUCTIONS: list[tuple[str, Any, str, Any, list[str]]] = [
    # ---- limits and formats
    ("pattern", {"type": "string", "pattern": "^a"}, "gemini", {"type": "STRING", "pattern": "^a"}, []),
    (
        "pattern",
        {"type": "string", "pattern": "^a"},
        "ollama",
        {"type": "string", "description": "(pattern: ^a)"},
        ["dropped pattern at $.properties.p, put in words in the description"],
    ),
    (
        "limits",
        {"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9},
        "anthropic_strict",
        {"type": "integer", "description": "How many. (at least 1; at most 9)"},
        [
            "dropped minimum at $.properties.p, put in words in the description",
            "dropped maximum at $.properties.p, put in words in the description",
        ],
    ),
    (
        "lengths",
        {"type": "string", "maxLength": 3},
        "openai_strict",
        {"type": "string", "description": "(3 or fewer characters)"},
        ["dropped maxLength at $.properties.p, put in words in the description"],
    ),
    (
        "few items",
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "anthropic_strict",
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        [],
    ),
    (
        "many items",
        {"type": "array", "items": {"type": "string"}, "minItems": 2},
        "anthropic_strict",
        {"type": "array", "items": {"type": "string"}, "description": "(2 or more items)"},
        ["dropped minItems at $.properties.p, put in words in the description"],
    ),
    (
        "exclusive limit of integers",
        {"type": "integer", "exclusiveMinimum": 0},
        "gemini",
        {"type": "INTEGER", "minimum": 1},
        ["rewrote exclusiveMinimum as minimum at $.properties.p"],
    ),
    (
        "exclusive limit of numbers",
        {"type": "number", "exclusiveMinimum": 0},
        "gemini",
        {"type": "NUMBER", "description": "(more than 0)"},
        ["dropped exclusiveMinimum at $.properties.p, put in words in the description"],
    ),
    (
        "flag of draft 4",
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "anthropic",
        {"type": "number", "minimum": 0, "exclusiveMinimum": 0},
        ["rewrote exclusiveMinimum at $.properties.p as a number"],
    ),
    ("known format", {"type": "string", "format": "uri"}, "anthropic_strict", {"type": "string", "format": "uri"}, []),
    (
        "unknown format",
        {"type": "string", "format": "uri"},
        "gemini",
        {"type": "STRING", "description": "(format: uri)"},
        ["dropped format at $.properties.p, put in words in the description"],
    ),
    ("number format", {"type": "integer", "format": "int64"}, "gemini", {"type": "INTEGER", "format": "int64"}, []),
    (
        "default",
        {"type": "integer", "default": 3},
        "openai_strict",
        {"type": "integer", "description": "(default: 3)"},
        ["dropped default at $.properties.p, put in words in the description"],
    ),
    # ---- constants and choices
    (
        "const",
        {"const": "a"},
        "openai_strict",
        {"enum": ["a"], "type": "string"},
        ["rewrote const as enum at $.properties.p", "took $.properties.p to be of type string"],
    ),
    ("const", {"const": "a"}, "anthropic", {"const": "a"}, []),
    ("enum of numbers", {"enum": [1, 2]}, "openai", {"enum": [1, 2]}, []),
    (
        "enum of numbers",
        {"type": "integer", "enum": [1, 2], "description": "Level."},
        "gemini",
        {"type": "STRING", "enum": ["1", "2"], "description": "Level. (stands for integer)"},
        ["wrote the enum at $.properties.p as strings"],
    ),
    (
        "enum with null",
        {"type": ["string", "null"], "enum": ["a", None]},
        "gemini",
        {"type": "STRING", "nullable": True, "enum": ["a"]},
        [],
    ),
    (
        "enum with the empty string",
        {"type": "string", "enum": ["", "a"]},
        "gemini",
        {"type": "STRING", "enum": ["a"]},
        ["dropped the empty string from enum at $.properties.p"],
    ),
    (
        "enum that its type forbids",
        {"type": "string", "enum": ["a", None]},
        "openai_strict",
        {"type": "string", "enum": ["a"]},
        ["dropped enum values at $.properties.p that its type does not allow, or that stand twice"],
    ),
    # ---- null
    (
        "optional of pydantic",
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "gemini",
        {"type": "STRING", "nullable": True},
        [],
    ),
    ("list of types", {"type": ["string", "null"]}, "gemini", {"type": "STRING", "nullable": True}, []),
    (
        "list of types",
        {"type": ["string", "integer"], "minimum": 1},
        "gemini",
        {"anyOf": [{"type": "STRING"}, {"type": "INTEGER", "minimum": 1}]},
        [],
    ),
    (
        "list of types",
        {"type": ["string", "null"]},
        "anthropic_strict",
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        [],
    ),
    ("nullable", {"type": "string", "nullable": True}, "openai_strict", {"type": ["string", "null"]}, []),
    ("nullable", {"type": "string", "nullable": True}, "gemini", {"type": "STRING", "nullable": True}, []),
    # ---- unions
    (
        "oneOf",
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "ollama",
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ["rewrote oneOf as anyOf at $.properties.p"],
    ),
    (
        "words beside anyOf",
        {"description": "Who.", "anyOf": [{"type": "string"}, {"type": "integer", "description": "id"}]},
        "gemini",
        {"anyOf": [{"type": "STRING", "description": "Who."}, {"type": "INTEGER", "description": "id"}]},
        [],
    ),
    (
        "constraints beside anyOf",
        {"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        "openai_strict",
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]},
        [
            "moved what stands beside anyOf at $.properties.p into its branches",
            "merged allOf at $.properties.p.anyOf[0]",
            "merged allOf at $.properties.p.anyOf[1]",
        ],
    ),
    (
        "allOf",
        {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 3}], "description": "d"},
        "gemini",
        {"type": "INTEGER", "minimum": 3, "description": "d"},
        ["merged allOf at $.properties.p"],
    ),
    # ---- arrays
    ("array without items", {"type": "array"}, "ollama", {"type": "array"}, []),
    (
        "array without items",
        {"type": "array"},
        "openai",
        {"type": "array", "items": {}},
        ["added items at $.properties.p"],
    ),
    (
        "array without items",
        {"type": "array"},
        "openai_strict",
        {"type": "array", "items": ANY},
        [
            "added items at $.properties.p",
            "narrowed $.properties.p.items from anything to string, number, boolean, null",
        ],
    ),
    (
        "tuple",
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        "gemini",
        {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}},
        ["merged prefixItems at $.properties.p into one schema for all items"],
    ),
    (
        "tuple of draft 4",
        {"type": "array", "items": [{"type": "integer"}]},
        "anthropic",
        {"type": "array", "prefixItems": [{"type": "integer"}]},
        ["rewrote items at $.properties.p as prefixItems"],
    ),
    # ---- objects
    (
        "map",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        "openai_strict",
        PAIRS,
        ["wrote the object at $.properties.p as a list of keys and values"],
    ),
    (
        "map",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        "gemini_json",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [],
    ),
    (
        "map",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        "ollama",
        {"type": "object", "description": '(additionalProperties: {"type":"integer"})'},
        ["dropped additionalProperties at $.properties.p, put in words in the description"],
    ),
    (
        "required that is not defined",
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
        "gemini",
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ["dropped b from required at $.properties.p: not defined"],
    ),
    # ---- odd spellings
    ("spelling", {"type": "dict"}, "mistral", {"type": "object"}, ["rewrote type at $.properties.p as object"]),
    ("spelling", {"type": "STRING"}, "openai", {"type": "string"}, ["rewrote type at $.properties.p as string"]),
    (
        "no type",
        {"type": "any"},
        "openai",
        {},
        ["dropped type at $.properties.p: it names none that JSON Schema knows"],
    ),
    (
        "required as a flag",
        {"type": "string", "required": True},
        "openai",
        {"type": "string"},
        ["dropped required at $.properties.p: its value is no proper one"],
    ),
    (
        "anything",
        {"description": "free"},
        "openai_strict",
        {**ANY, "description": "free"},
        ["narrowed $.properties.p from anything to string, number, boolean, null"],
    ),
    (
        "untyped",
        {"minLength": 1},
        "gemini",
        {"type": "STRING", "minLength": 1},
        ["took $.properties.p to be of type string"],
    ),
    # ---- references that lead nowhere
    (
        "outside",
        {"$ref": "https://example.com/s.json", "type": "string"},
        "openai",
        {"type": "string"},
        ["dropped $ref https://example.com/s.json at $.properties.p: it does not resolve in this schema"],
    ),
    (
        "annotations",
        {"type": "string", "title": "P"},
        "ollama",
        {"type": "string"},
        ["dropped title at $.properties.p"],
    ),
]


@each_row(
    ("schema", "target", "expected", "report"),
    [row[1:] for row in CONSTRUCTIONS],
    ids=[f"{row[0]} for {row[2]}" for row in CONSTRUCTIONS],
)
def test_construction(schema: Any, target: str, expected: Any, report: list[str]) -> None:
    compiled, losses = compile_property(schema, target)
    assert compiled == expected
    assert losses == [f"tool x: {line}" for line in report]


# ---- references ------------------------------------------------------------------------------------------------------

PLACE = {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]+$"}}, "required": ["zip"]}


def test_references_are_inlined_and_what_they_hold_is_reported_where_it_stands() -> None:
    schema = {
        "type": "object",
        "properties": {"home": {"$ref": "#/$defs/Place"}, "work": {"$ref": "#/$defs/Place", "description": "Where?"}},
        "$defs": {"Place": PLACE},
    }
    compiled = compile_(schema, "ollama")
    place = {
        "type": "object",
        "properties": {"zip": {"type": "string", "description": "(pattern: ^[0-9]+$)"}},
        "required": ["zip"],
    }
    assert compiled.schema == {
        "type": "object",
        "properties": {"home": place, "work": {**place, "description": "Where?"}},
    }
    assert [str(loss) for loss in compiled.losses] == [
        "tool x: inlined #/$defs/Place",
        "tool x: dropped pattern at $.$defs.Place.properties.zip, put in words in the description",
    ]


@pytest.mark.parametrize("target", ["openai", "anthropic", "gemini_json", "bedrock", "mistral", "cohere"])
def test_references_stay_unless_inlining_is_asked_for(target: str) -> None:
    schema = {"type": "object", "properties": {"home": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": PLACE}}
    assert compile_(schema, target).schema == schema
    assert compile_(schema, target).losses == ()
    inlined = compile_(schema, target, inline=True)
    assert inlined.schema == {"type": "object", "properties": {"home": PLACE}}
    assert [str(loss) for loss in inlined.losses] == ["tool x: inlined #/$defs/Place"]


def test_strict_references_stand_alone() -> None:
    schema = {
        "type": "object",
        "properties": {
            "plain": {"$ref": "#/definitions/Place"},
            "described": {"$ref": "#/definitions/Place", "description": "Where?"},
            "narrowed": {"$ref": "#/definitions/Place", "maxProperties": 1},
        },
        "required": ["plain", "described", "narrowed"],
        "definitions": {"Place": PLACE},
    }
    compiled = compile_(schema, "openai_strict")
    assert compiled.schema is not None
    place = {**PLACE, "additionalProperties": False}
    assert compiled.schema["properties"] == {
        "plain": {"$ref": "#/$defs/Place"},
        "described": {"anyOf": [{"$ref": "#/$defs/Place"}], "description": "Where?"},
        "narrowed": {**place, "description": "(1 or fewer properties)"},
    }
    assert compiled.schema["$defs"] == {"Place": place}
    assert "tool x: moved #/definitions/Place to #/$defs/Place" in map(str, compiled.losses)


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                "parent": {"$ref": "#/$defs/Node"},
            },
            "required": ["name", "children"],
        }
    },
}


@pytest.mark.parametrize("target", ["openai", "openai_strict", "anthropic", "gemini_json", "mistral", "cohere"])
def test_recursion_stays_where_it_may(target: str) -> None:
    compiled = compile_(TREE, target)
    assert compiled.schema is not None
    assert compiled.schema["properties"]["root"] == {"$ref": "#/$defs/Node"}
    assert not any(loss.rule == "cut" for loss in compiled.losses)


@pytest.mark.parametrize("target", ["anthropic_strict", "gemini", "ollama", "bedrock"])
def test_recursion_is_cut_where_it_must_be(target: str) -> None:
    compiled = compile_(TREE, target)
    assert compiled.schema is not None
    assert [str(loss) for loss in compiled.losses if loss.rule == "cut"] == [
        "tool x: cut the recursion of #/$defs/Node after 4 levels"
    ]
    node, levels = compiled.schema["properties"]["root"], 1
    while "parent" in node["properties"]:
        node, levels = node["properties"]["parent"], levels + 1
    assert levels == 4
    # What is required there stays, and can only be left empty.
    assert "leave it empty" in node["properties"]["children"]["description"]
    assert node["required"] == ["name", "children"]


def test_a_recursion_that_no_finite_value_fits_leaves_the_tool_out() -> None:
    endless = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
    }
    compiled = compile_(endless, "gemini")
    assert compiled.schema is None
    assert [str(loss) for loss in compiled.losses][-1] == "tool x: left out: no arguments could fit its parameters"


# ---- the root --------------------------------------------------------------------------------------------------------

EITHER = {
    "type": "object",
    "description": "Find.",
    "properties": {"limit": {"type": "integer"}},
    "oneOf": [
        {"properties": {"id": {"type": "string"}, "kind": {"const": "id"}}, "required": ["id", "kind"]},
        {"properties": {"name": {"type": "string"}, "kind": {"const": "name"}}, "required": ["name", "kind"]},
    ],
}


@pytest.mark.parametrize("target", ["openai", "anthropic", "bedrock", "mistral", "cohere"])
def test_unions_at_the_root_are_merged(target: str) -> None:
    compiled = compile_(EITHER, target)
    assert compiled.schema == {
        "type": "object",
        "description": "Find.",
        "properties": {
            "limit": {"type": "integer"},
            "id": {"type": "string"},
            "kind": {"enum": ["id", "name"]},
            "name": {"type": "string"},
        },
        "required": ["kind"],
    }
    assert [str(loss) for loss in compiled.losses] == ["tool x: merged the branches of oneOf at $"]


def test_what_belongs_together_is_said_in_words_where_there_is_room() -> None:
    compiled = compile_(EITHER, "gemini_json")
    assert compiled.schema is not None
    assert compiled.schema["description"] == "Find. (give one of: id and kind; name and kind)"


def test_requirements_as_a_union_inside_an_object_are_said_in_words() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    compiled, _ = compile_property(schema, "gemini")
    assert compiled == {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
        "description": "(give one of: a; b)",
    }


@each_row("target", TARGETS)
@each_row(
    "root",
    [
        {"properties": {"q": {"type": "string"}}, "required": ["q"]},
        {"type": ["object", "null"], "properties": {"q": {"type": "string"}}, "required": ["q"]},
        {"allOf": [{"type": "object", "properties": {"q": {"type": "string"}}}, {"required": ["q"]}]},
        {"$ref": "#/$defs/Q", "$defs": {"Q": {"properties": {"q": {"type": "string"}}, "required": ["q"]}}},
        {"anyOf": [{"type": "string"}, {"properties": {"q": {"type": "string"}}, "required": ["q"]}]},
    ],
    ids=["no type", "or null", "allOf", "reference", "union with others"],
)
def test_the_root_becomes_a_plain_object(root: dict[str, Any], target: str) -> None:
    compiled = compile_(root, target)
    assert compiled.schema is not None
    plain = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    assert compiled.schema == compile_(plain, target).schema


@each_row("target", TARGETS)
@each_row(
    ("parameters", "why"),
    [
        (False, "its parameters are not a JSON Schema"),
        ([], "its parameters are not a JSON Schema"),
        ("object", "its parameters are not a JSON Schema"),
        ({"type": "string"}, "its parameters cannot be an object"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "its parameters cannot be an object"),
    ],
    ids=str,
)
def test_a_tool_that_takes_no_object_is_left_out(parameters: Any, why: str, target: str) -> None:
    compiled = compile_(parameters, target)
    assert compiled.schema is None
    assert [str(loss) for loss in compiled.losses][-1] == f"tool x: left out: {why}"


# ---- strict ----------------------------------------------------------------------------------------------------------


def test_strict_openai_requires_everything_and_closes_every_object() -> None:
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"type": "integer"},
            "unit": {"enum": ["c", "f"]},
            "near": {"type": "object", "properties": {"km": {"type": "number"}}, "additionalProperties": True},
        },
        "required": ["q"],
    }
    compiled = compile_(schema, "openai_strict")
    assert compiled.schema == {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"type": ["integer", "null"]},
            "unit": {"enum": ["c", "f", None], "type": ["string", "null"]},
            "near": {
                "type": ["object", "null"],
                "properties": {"km": {"type": ["number", "null"]}},
                "required": ["km"],
                "additionalProperties": False,
            },
        },
        "required": ["q", "n", "unit", "near"],
        "additionalProperties": False,
    }
    assert [str(loss) for loss in compiled.losses] == [
        "tool x: took $.properties.unit to be of type string",
        "tool x: asks for null where these are absent at $.properties.near: km",
        "tool x: closed $.properties.near to further properties",
        "tool x: asks for null where these are absent at $: n, unit, near",
    ]


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count)}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"inner": schema}, "required": ["inner"]}
    return schema


def choosing(count: int, letter: str = "v") -> dict[str, Any]:
    values = [f"{letter}{n}" for n in range(count)]
    return {"type": "object", "properties": {"p": {"type": "string", "enum": values}}}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (wide(5_000), True),
        (wide(5_001), False),
        (deep(10), True),
        (deep(11), False),
        (choosing(999), True),
        (choosing(1_001), False),
        (choosing(500, "v" * 240), False),
    ],
    ids=["properties", "too many", "levels", "too deep", "choices", "too many choices", "too many letters"],
)
def test_strict_openai_has_limits(schema: dict[str, Any], fits: bool) -> None:
    compiled = compile_(schema, "openai_strict")
    assert (compiled.schema is not None) == fits
    assert any("left out: too large" in str(loss) for loss in compiled.losses) != fits
    assert compile_(schema, "openai").schema is schema


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("openai", ["user-id", "user_id", "$top", "1st", "a.b"]),
        ("anthropic", ["user-id", "user_id", "_top", "1st", "a.b"]),
        ("bedrock", ["user-id", "user_id", "_top", "1st", "a.b"]),
        ("gemini", ["user_id_2", "user_id", "_top", "_1st", "a_b"]),
        ("gemini_json", ["user_id_2", "user_id", "_top", "_1st", "a_b"]),
    ],
)
def test_refused_names_are_replaced(target: str, expected: list[str]) -> None:
    names = ["user-id", "user_id", "$top", "1st", "a.b"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    compiled = compile_(schema, target)
    assert compiled.schema is not None
    assert list(compiled.schema["properties"]) == compiled.schema["required"] == expected
    renamed = [(old, new) for old, new in zip(names, expected, strict=True) if old != new]
    assert len(compiled.losses) == len(renamed)
    assert all(str(loss).endswith(f" to {new}") for loss, (_, new) in zip(compiled.losses, renamed, strict=True))
