"""Expensive schemas: the work of a validator is counted in advance, and too much is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tables import each_row

from dragoman import formats
from dragoman.args import coerce, load, validate
from dragoman.args import loader as loading
from dragoman.jsonschema import fit
from dragoman.jsonschema.effort import MOST_VISITS, Effort, measure
from dragoman.types import Tool

Way = Callable[[dict[str, Any]], dict[str, Any]]

# Each refers to the next definition twice, for the same member or item of a value.
THROUGH_MEMBERS: dict[str, Way] = {
    "allOf of properties": lambda ref: {"allOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}}]},
    "anyOf of properties": lambda ref: {
        "anyOf": [{"properties": {"a": ref}, "required": ["b"]}, {"properties": {"a": ref}, "required": ["c"]}]
    },
    "patternProperties": lambda ref: {"patternProperties": {"^a": ref, "a$": ref}},
    "properties and patternProperties": lambda ref: {"properties": {"a": ref}, "patternProperties": {"a": ref}},
    "additionalProperties": lambda ref: {"allOf": [{"additionalProperties": ref}, {"properties": {"a": ref}}]},
    "not": lambda ref: {"properties": {"a": {"not": {"not": {"allOf": [ref, ref]}}}}},
    "if": lambda ref: {"properties": {"a": {"if": ref, "then": ref}}},
}
THROUGH_ITEMS: dict[str, Way] = {
    "items and contains": lambda ref: {"items": ref, "contains": ref},
    "oneOf of items": lambda ref: {"oneOf": [{"items": ref}, {"items": ref, "minItems": 2}]},
    "prefixItems": lambda ref: {"allOf": [{"prefixItems": [ref]}, {"items": [ref]}]},
}
WAYS = THROUGH_MEMBERS | THROUGH_ITEMS
LEVELS = 25


def doubled(way: Way, levels: int = LEVELS) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{n}": way({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "string", "minLength": 1}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def nested(name: str, levels: int = LEVELS) -> dict[str, Any]:
    value: Any = "s"
    for _ in range(levels):
        value = {"a": value} if name in THROUGH_MEMBERS else [value]
    return {"x": value}


@pytest.mark.parametrize("name", WAYS)
def test_arguments_that_would_keep_the_validator_busy_are_refused_with_the_reason(name: str) -> None:
    schema = doubled(WAYS[name])
    refused = [f"$: cannot be checked: that takes more than {MOST_VISITS} steps with its schema"]
    assert [str(fault) for fault in validate(nested(name), schema)] == refused
    assert [str(fault) for fault in load(nested(name), schema).errors] == refused
    assert [str(fault) for fault in validate({"x": "s"}, schema)] != refused


def exceeds(schema: dict[str, Any], value: Any, most: int = MOST_VISITS) -> bool:
    return Effort(schema, most=most).count(value) > most


@pytest.mark.parametrize("name", WAYS)
def test_a_few_levels_are_no_reason_to_refuse(name: str) -> None:
    schema = doubled(WAYS[name], 6)
    assert not any("cannot be checked" in fault.why for fault in validate(nested(name, 6), schema))
    assert not exceeds(schema, nested(name, 6))


def branch(number: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"op": {"const": f"op{number}"}, "left": of, "right": of}}


def test_an_expression_in_a_recursive_union_is_checked_however_deep_it_is() -> None:
    node = {"$ref": "#/$defs/node"}
    branches = [branch(number, node) for number in range(20)]
    schema = {
        "type": "object",
        "properties": {"x": node},
        "$defs": {"node": {"anyOf": [*branches, {"type": "integer"}]}},
    }
    value: Any = 1
    for level in range(40):
        value = {"op": f"op{level % 20}", "left": value, "right": 2}
    assert validate({"x": value}, schema) == []
    value["op"] = "none"
    assert validate({"x": value}, schema) != []


def naive(schema: Any, value: Any, root: dict[str, Any]) -> int:
    """The visits of the simplest validator there is, and steps for names: eight for each pattern, two for required."""
    if not isinstance(schema, dict):
        return 0
    matched = 0
    if isinstance(value, dict):
        matched = 8 * len(value) * len(schema.get("patternProperties", {}))
        matched += 2 * min(len(value), len(schema.get("required", [])))
    inner: list[tuple[Any, Any]] = [
        (each, value) for key in ("allOf", "anyOf", "oneOf") for each in schema.get(key, [])
    ]
    inner += [(schema[key], value) for key in ("not", "if", "then", "else") if key in schema]
    if "$ref" in schema:
        inner.append((root["$defs"][schema["$ref"].rpartition("/")[2]], value))
    if isinstance(value, dict):
        for name, item in value.items():
            inner += [(schema.get("properties", {}).get(name), item), (schema.get("additionalProperties"), item)]
            inner += [(each, item) for each in schema.get("patternProperties", {}).values()]
    if isinstance(value, list):
        items = schema.get("items")
        for place, item in enumerate(value):
            prefix = schema.get("prefixItems", items if isinstance(items, list) else [])
            inner += [(prefix[place] if place < len(prefix) else None, item)]
            inner += [(items, item), (schema.get("contains"), item)]
    return 1 + matched + sum(naive(each, part, root) for each, part in inner)


@each_row("name", WAYS)
@each_row("levels", [1, 2, 4, 7])
def test_the_count_is_what_a_simple_validator_visits(name: str, levels: int) -> None:
    schema, value = doubled(WAYS[name], levels), nested(name, levels)
    visits = naive(schema, value, schema)
    assert not exceeds(schema, value, most=visits)
    assert exceeds(schema, value, most=visits - 1)


def test_a_schema_with_many_branches_and_a_large_value_multiply() -> None:
    branches = [{"type": "array", "items": {"allOf": [{"enum": [n]}, {"type": "integer"}]}} for n in range(900)]
    schema = {"type": "object", "properties": {"x": {"anyOf": branches}}}
    assert exceeds(schema, {"x": list(range(20_000))})
    assert not exceeds(schema, {"x": list(range(500))})


# ---- work that is not the visit of a schema --------------------------------------------------------------------------

OBJECTS = [{"k": number} for number in range(500)]
LIST = list(range(500))
NAMES = [f"k{number}" for number in range(2_000)]
TWICE = [{"$ref": "#/$defs/d"}] * 1_000
UNEVALUATED = {"unevaluatedProperties": False}
# The schema of `x`, its definition `d`, and a value for which the validator would need seconds to hours.
HEAVY: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "an enum of objects": ({"items": {"enum": OBJECTS}}, {}, [{"k": 499}] * 2_000),
    "an enum of lists": ({"items": {"enum": [[1] * 40 + [n] for n in LIST[:50]]}}, {}, [[1] * 40 + [49]] * 500),
    "a large constant": ({"allOf": TWICE}, {"const": 2 * LIST}, 2 * LIST),
    "objects that must differ": ({"allOf": TWICE}, {"uniqueItems": True}, OBJECTS),
    "limits with a fraction": ({"items": {"allOf": [{"minimum": -1.5 - n} for n in LIST]}}, {}, LIST),
    "numbers of many digits": ({"items": {"allOf": [{"minimum": 10**300}] * 100}}, {}, [10**301] * 500),
    "a tiny unit": ({"items": {"allOf": [{"multipleOf": 1e-300}] * 50}}, {}, [1e300] * 500),
    "required names": ({"items": {"allOf": TWICE}}, {"required": NAMES}, [dict.fromkeys(NAMES, 1)] * 10),
    "dependent names": ({"items": {"dependentRequired": {n: ["a"] for n in NAMES}}}, {}, [{"a": 1}] * 9_000),
    "dependent schemas": ({"items": {"dependentSchemas": {n: {} for n in NAMES}}}, {}, [{"a": 1}] * 9_000),
    "a pattern": ({"pattern": "[ab]*a[ab]{1000}c"}, {}, "ab" * 20_000),
    "patterns of names": ({"patternProperties": {"(a{0,30}){0,30}b": {}}}, {}, {"a" * 990 + n: 1 for n in NAMES[:50]}),
    "a pattern for names": (
        {"propertyNames": {"pattern": "(a{0,30}){0,30}b"}},
        {},
        {"a" * 9_000 + n: 1 for n in "xyz"},
    ),
    "a pattern with a look-ahead": ({"items": {"pattern": "(a+)+(?!x)b"}}, {}, ["a" * 60] * 500),
    "a pattern that is tried often": ({"pattern": r"(?:a?){200}a{200}\b(?!x)"}, {}, "a" * 100),
    "a pattern behind a negation": ({"items": {"not": {"pattern": "(a*)*(?<!b)c"}}}, {}, ["a" * 90] * 500),
}


@pytest.mark.parametrize("name", HEAVY)
def test_work_that_depends_on_the_value_is_counted(name: str) -> None:
    inner, definition, value = HEAVY[name]
    schema = {"type": "object", "properties": {"x": inner}, "$defs": {"d": definition}}
    refused = [f"$: cannot be checked: that takes more than {MOST_VISITS} steps with its schema"]
    assert [str(fault) for fault in validate({"x": value}, schema)] == refused
    small = value[:2] if isinstance(value, str | list) else dict(list(value.items())[:0])
    assert [str(fault) for fault in validate({"x": small}, schema)] != refused


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas"])
def test_a_chain_of_unevaluated_members_is_refused(keyword: str) -> None:
    def chain(levels: int) -> dict[str, Any]:
        definitions: dict[str, Any] = {f"d{levels}": {"properties": {"a": True}}}
        for level in range(levels):
            ref = {"$ref": f"#/$defs/d{level + 1}"}
            inner: Any = [ref] if keyword.endswith("Of") else {"a": ref} if keyword == "dependentSchemas" else ref
            definitions[f"d{level}"] = (ref if keyword == "$ref" else {keyword: inner}) | UNEVALUATED
        return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}

    assert "cannot be checked" in validate({"x": {"a": 1}}, chain(60))[0].why
    assert not any("cannot be checked" in fault.why for fault in validate({"x": {"a": 1}}, chain(3)))


def test_a_text_is_read_once_for_all_branches_of_a_union(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.args import coercion

    reads: list[str] = []
    original = coercion.read_structure
    monkeypatch.setattr(coercion, "read_structure", lambda text: reads.append(text) or original(text))
    branches = [{"type": "object", "required": [f"k{n}"]} for n in range(300)]
    coerce({"x": "{'a': ['x', ]}"}, {"type": "object", "properties": {"x": {"anyOf": branches}}})
    assert len(reads) == 1


def test_the_key_of_a_value_is_computed_once_for_all_enums(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    original = fit._Key.__init__

    def counting(key: Any, value: Any) -> None:
        made.append(value)
        original(key, value)

    monkeypatch.setattr(fit._Key, "__init__", counting)
    branches = [{"enum": [[n], {"a": n}]} for n in range(300)]
    value = {"x": [LIST]}
    coerce(value, {"type": "object", "properties": {"x": {"type": "array", "items": {"anyOf": branches}}}})
    assert 1 <= len(made) <= 4


# ---- explanations of faults ------------------------------------------------------------------------------------------


class Counted:
    """Counts how much of a value is given to the schema engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = 0
        for name in ("accepts", "local_errors"):
            original = getattr(loading._Checks, name)

            def counting(checks: Any, schema: Any, value: Any, original: Any = original) -> Any:
                self.read += measure(value).nodes
                return original(checks, schema, value)

            monkeypatch.setattr(loading._Checks, name, counting)


MANY = 2_000
FAULTY: dict[str, tuple[dict[str, Any], Any]] = {
    "required names": ({"required": [f"q{n}" for n in range(MANY)]}, {"k": "a" * 100_000}),
    "required behind a condition": (
        {"if": {}, "then": {"required": [f"q{n}" for n in range(MANY)]}},
        {"k": "a" * 9_999},
    ),
    "dependent names": ({"dependentRequired": {"k": [f"q{n}" for n in range(MANY)]}}, {"k": "a" * 100_000}),
    "names that are not allowed": ({"propertyNames": {"maxLength": 1}}, {f"key{n}": n for n in range(MANY)}),
    "parts": ({"allOf": [{"items": {"maxLength": 1}, "minItems": n} for n in range(500)]}, ["ab"] * MANY),
    "branches": ({"anyOf": [{"items": {"maxLength": 1}, "minItems": n} for n in range(500)]}, ["ab"] * MANY),
    "members": ({"additionalProperties": {"type": "null"}}, {f"key{n}": "a" * 100 for n in range(MANY)}),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_explanation_of_a_fault_costs_a_multiple_of_the_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, value = FAULTY[name]
    schema = {"type": "object", "properties": {"x": inner}}
    counted = Counted(monkeypatch)
    found = validate({"x": value}, schema)
    assert 1 <= len(found) <= 100
    assert counted.read <= 500_000 + 21 * measure({"x": value}).nodes


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"not": {"type": "string"}}, "x", "$.x: has a form that is not allowed"),
        ({"if": {"type": "string"}, "then": {"maxLength": 1}}, "xy", "$.x: must have at most 1 characters"),
        ({"if": {"type": "string"}, "else": {"minimum": 3}}, 1, "$.x: must be at least 3, got 1"),
        ({"contains": {"const": 1}}, [2], "$.x: has 0 items of a form of which it must have 1 to 1"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "$.x: the name 'ab' is not allowed"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "$.x: missing required 'b'"),
    ],
)
def test_conditions_are_explained_at_their_place(schema: dict[str, Any], value: Any, fault: str) -> None:
    whole = {"type": "object", "properties": {"x": schema}}
    assert [str(each) for each in validate({"x": value}, whole)] == [fault]


# ---- coercion --------------------------------------------------------------------------------------------------------

NODE = {"$ref": "#/$defs/node"}
SPREADING: dict[str, tuple[dict[str, Any], Any]] = {
    "lists of lists": (
        {"anyOf": [{"type": "array", "items": NODE, "minItems": n} for n in range(4)] + [{"type": "string"}]},
        [{"a": n} for n in range(2_000)],
    ),
    "wide union": (
        {"anyOf": [{"type": "array", "items": {"type": "object", "required": [f"k{n}"]}} for n in range(500)]},
        [{"a": n} for n in range(2_000)],
    ),
    "enum in another case": ({"type": "array", "items": {"enum": [f"v{n}" for n in range(3_000)]}}, ["V1"] * 3_000),
}


@pytest.mark.parametrize("name", SPREADING)
def test_coercion_ends_after_a_number_of_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    definition, value = SPREADING[name]
    schema = {"type": "object", "properties": {"x": NODE}, "$defs": {"node": definition}}
    steps = [fit.Steps(), fit.Steps()]
    waiting = list(steps)
    for module in ("dragoman.jsonschema.fit.Steps", "dragoman.args.coercion.Steps"):
        monkeypatch.setattr(module, lambda: waiting.pop() if waiting else fit.Steps())
    assert coerce({"x": value}, schema).value is not None
    # The last check may be one list or object over the limit.
    assert all(each.left > -10_000 for each in steps)


def test_choices_of_every_kind_are_looked_up() -> None:
    choices = [*range(500), {"a": [1, 2.0]}, [True], None, "x"]
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": choices}}}}
    shape = fit.shape_of(schema)
    assert fit.fits(shape, {"x": [1, 1.0, {"a": [1, 2]}, [True], None, "x"]}, exact=False)
    assert not fit.fits(shape, {"x": [True]})
    assert not fit.fits(shape, {"x": [[1]]})


# ---- grammars --------------------------------------------------------------------------------------------------------


def size_of_grammar(schema: dict[str, Any], syntax: Any) -> int:
    return len(formats.grammar([Tool("t", "", {"type": "object", "properties": {"x": schema}})], "hermes", syntax))


@pytest.mark.parametrize("syntax", ["gbnf", "lark"])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"type": "string", "pattern": "(" * n + "a" + "+)" * n},
        lambda n: {"type": "string", "pattern": "[^a]" * n},
        lambda n: {"type": "string", "pattern": "(a|" * n + "b" + ")" * n},
        lambda n: {"prefixItems": [{"type": "string"}] * n},
        lambda n: {"type": "object", "required": [f"q{k}" for k in range(n)]},
        lambda n: {"type": "object", "properties": {f"q{k}": {"type": "string"} for k in range(n)}},
        lambda n: {"enum": [f"q{k}" for k in range(n)]},
    ],
)
def test_a_grammar_grows_with_its_schema(make: Callable[[int], dict[str, Any]], syntax: str) -> None:
    small, large = size_of_grammar(make(300), syntax), size_of_grammar(make(1_200), syntax)
    assert large <= 4.6 * small


def test_a_repeat_inside_repeats_is_read_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.formats.grammars import patterns

    reads = 0
    original = patterns._Reader._atom

    def counting(reader: Any) -> Any:
        nonlocal reads
        reads += 1
        assert reads < 2_000
        return original(reader)

    monkeypatch.setattr(patterns._Reader, "_atom", counting)
    size_of_grammar({"type": "string", "pattern": "(" * 25 + "a" + "+)" * 25}, "gbnf")
    assert reads > 25
