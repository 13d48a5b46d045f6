"""Schemas with values that fit them, and schemas of every kind of brokenness."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["city", "days", "unit", "notes", "deep", "id"])
ODD_NAMES = NAMES | st.sampled_from(["user-id", "a b", "", "1st", "x" * 70, "ä", "user_id", "$ref", "type"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
FRACTIONS = st.sampled_from([0.5, -2.25, 1e9 + 0.5])
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | FRACTIONS | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_NAMES, inner, max_size=3), max_leaves=6
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "integer": st.integers(-99, 99),
    "number": st.integers(-99, 99) | FRACTIONS,
    "boolean": st.booleans(),
    "null": st.none(),
}
KEYWORDS = [
    "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "not",
    "additionalProperties", "prefixItems", "minimum", "exclusiveMinimum", "pattern", "format", "minItems", "maxLength",
    "default", "description", "title", "nullable", "patternProperties", "if", "x-vendor", "examples",
    "propertyOrdering", "definitions", "uniqueItems", "additionalItems",
]  # fmt: skip
WORDS = st.sampled_from(["object", "string", "array", "STRING", "dict", "#/$defs/a", "#", "http://x/y", "date-time"])
WILD = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner | WORDS, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
    max_leaves=20,
)
"""Anything, with the words of JSON Schema in all the wrong places."""

REFERENCES = st.sampled_from(
    ["#", "#/$defs/a", "#/$defs/b", "#/definitions/c", "#/properties/city", "#/nowhere", "b.json"]
)


EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "description": TEXTS,
        "title": TEXTS,
        "default": SCALARS,
        "nullable": st.booleans(),
        "minimum": st.integers(0, 3),
        "exclusiveMaximum": st.integers(5, 9),
        "maxLength": st.integers(0, 9),
        "minItems": st.integers(0, 2),
        "pattern": st.just("^a"),
        "format": st.sampled_from(["date-time", "email", "int64", "odd"]),
        "not": st.just({"type": "null"}),
    },
)
KINDS = st.sampled_from(sorted(VALUES))


def _with_extras(part: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return part | st.builds(dict.__or__, EXTRAS, part)


LEAVES = _with_extras(
    st.fixed_dictionaries({}, optional={"type": KINDS | st.lists(KINDS, min_size=1, max_size=3)})
    | st.sampled_from([{"enum": [1, "1", None, 2.5]}, {"const": 3}, {"enum": ["a", ""]}, {"enum": [{}]}])
    | st.fixed_dictionaries({"$ref": REFERENCES})
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(ODD_NAMES, inner, max_size=3),
            "required": st.lists(ODD_NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
            "propertyOrdering": st.lists(ODD_NAMES, max_size=2),
        },
    )


def _branching(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    arrays = st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner, "prefixItems": several})
    unions = st.dictionaries(st.sampled_from(["anyOf", "oneOf", "allOf"]), several, min_size=1, max_size=2)
    return _with_extras(arrays | _objects(inner) | unions)


SCHEMAS = st.recursive(LEAVES, _branching, max_leaves=8)
"""Well formed schemas that use every keyword, with references that may lead in circles."""

ROOTS = st.builds(
    dict.__or__,
    _objects(SCHEMAS) | SCHEMAS,
    st.fixed_dictionaries(
        {},
        optional={
            "$defs": st.fixed_dictionaries({}, optional={"a": SCHEMAS, "b": SCHEMAS}),
            "definitions": st.fixed_dictionaries({"c": SCHEMAS}),
        },
    ),
)


@st.composite
def fitting(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """An object schema within what every target can express, and arguments that it accepts."""
    definitions: dict[str, Any] = {}
    schema, value = draw(_members(2, definitions))
    if definitions:
        schema["$defs"] = definitions
    return schema, value


@st.composite
def _members(draw: st.DrawFn, depth: int, definitions: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    members = draw(st.dictionaries(NAMES, _parts(depth, definitions), min_size=1, max_size=3))
    present = [name for name in members if draw(st.booleans())]
    schema: dict[str, Any] = {"type": "object", "properties": {name: each for name, (each, _) in members.items()}}
    required = [name for name in present if draw(st.booleans())]
    if required:
        schema["required"] = required
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    return schema, {name: members[name][1] for name in present}


@st.composite
def _parts(draw: st.DrawFn, depth: int, definitions: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    makers = [
        "kind",
        "kinds",
        "enum",
        "const",
        *(["object", "array", "map", "optional", "tagged", "ref"] * bool(depth)),
    ]
    maker = draw(st.sampled_from(makers))
    if maker == "kind":
        kind = draw(st.sampled_from(["string", "integer", "number", "boolean"]))
        return {"type": kind}, draw(VALUES[kind])
    if maker == "kinds":
        kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
        return {"type": kinds}, draw(VALUES[draw(st.sampled_from(kinds))])
    if maker == "enum":
        values = draw(st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True))
        values += draw(st.sampled_from([[], ["a", "b"], [True], [None]]))
        return {"enum": values}, draw(st.sampled_from(values))
    if maker == "const":
        value = draw(st.integers(-9, 9) | st.sampled_from(["a", True]))
        return {"const": value}, value
    return draw(_compound(maker, depth - 1, definitions))


@st.composite
def _compound(draw: st.DrawFn, maker: str, depth: int, definitions: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    if maker == "object":
        return draw(_members(depth, definitions))
    schema, value = draw(_parts(depth, definitions))
    if maker == "array":
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
    if maker == "map":
        keys = draw(st.lists(TEXTS, unique=True, max_size=2))
        return {"type": "object", "additionalProperties": schema}, dict.fromkeys(keys, value)
    if maker == "optional":
        return {"anyOf": [schema, {"type": "null"}]}, draw(st.sampled_from([value, value, None]))
    if maker == "ref":
        name = f"part{len(definitions)}"
        definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}, value
    return draw(_tagged(depth, definitions))


@st.composite
def _tagged(draw: st.DrawFn, depth: int, definitions: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A union of objects that a constant tells apart."""
    branches = []
    for tag in ("circle", "square"):
        schema, value = draw(_members(depth, definitions))
        schema["properties"] = {"kind": {"const": tag}, **schema["properties"]}
        schema["required"] = ["kind", *schema.get("required", [])]
        branches.append((schema, {"kind": tag, **value}))
    keyword = draw(st.sampled_from(["anyOf", "oneOf"]))
    return {keyword: [schema for schema, _ in branches]}, draw(st.sampled_from(branches))[1]
