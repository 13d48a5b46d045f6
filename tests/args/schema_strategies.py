"""Schemas with values that fit them, values of any kind, and things that are no proper schema at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["city", "days", "unit", "user_id", "notes", "deep"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
SCALARS = st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS
JSON = st.recursive(
    SCALARS | st.sampled_from(["3", "3.0", "true", "None", "null", "[1]", '{"city": "x"}', "[1", "1/2", "celsius"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3),
    max_leaves=8,
)

_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "integer": st.integers(),
    "number": st.integers() | NUMBERS,
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.lists(SCALARS, max_size=2),
    "object": st.dictionaries(NAMES, SCALARS, max_size=2),
}


@st.composite
def fitting(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that it accepts."""
    schema, value = draw(_part(depth))
    if draw(st.booleans()):
        return {"$ref": "#/$defs/part", "$defs": {"part": schema}}, value
    return schema, value


@st.composite
def _part(draw: st.DrawFn, depth: int) -> tuple[dict[str, Any], Any]:
    makers = ["kind", "kinds", "enum", "const"]
    if depth:
        makers += ["object", "array", "anyOf", "allOf", "nullable"]
    maker = draw(st.sampled_from(makers))
    if maker == "kind":
        kind = draw(st.sampled_from(sorted(_KINDS)))
        return {"type": kind}, draw(_KINDS[kind])
    if maker == "kinds":
        kinds = draw(st.lists(st.sampled_from(sorted(_KINDS)), min_size=1, max_size=3, unique=True))
        return {"type": kinds}, draw(_KINDS[draw(st.sampled_from(kinds))])
    if maker == "enum":
        choices = draw(st.lists(SCALARS, min_size=1, max_size=3))
        return {"enum": choices}, draw(st.sampled_from(choices))
    if maker == "const":
        value = draw(JSON)
        return {"const": value}, value
    return draw(_compound(maker, depth))


@st.composite
def _compound(draw: st.DrawFn, maker: str, depth: int) -> tuple[dict[str, Any], Any]:
    if maker == "object":
        members = draw(st.dictionaries(NAMES, _part(depth - 1), max_size=3))
        present = [name for name in members if draw(st.booleans())]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: each for name, (each, _) in members.items()},
            "required": draw(st.lists(st.sampled_from(present), unique=True)) if present else [],
            **draw(st.sampled_from([{}, {"additionalProperties": True}, {"additionalProperties": False}])),
        }
        return schema, {name: members[name][1] for name in present}
    schema, value = draw(_part(depth - 1))
    if maker == "array":
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
    if maker == "anyOf":
        other, _ = draw(_part(depth - 1))
        return {"anyOf": draw(st.permutations([schema, other]))}, value
    if maker == "nullable":
        return {**schema, "nullable": True}, draw(st.sampled_from([value, value, None])) if _is_simple(
            schema
        ) else value
    return {"allOf": [schema, {}]}, value


def _is_simple(schema: dict[str, Any]) -> bool:
    return "type" in schema and "enum" not in schema and "const" not in schema


_KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "items"),
        *("prefixItems", "anyOf", "oneOf", "allOf", "$ref", "$defs", "nullable", "not", "if", "then", "else"),
        *("pattern", "minimum", "exclusiveMinimum", "multipleOf", "minLength", "uniqueItems"),
    ]
)
_LEAVES = (
    SCALARS
    | st.sampled_from(["#", "#/$defs/city", "#/properties/city", "http://example.com/schema", "(", "#/anyOf/0"])
    | st.sampled_from(["string", "integer", "dict", "float", "any", "object", "array", "null", "wibble"])
)
SCHEMA_SOUP = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS | NAMES, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON, most of it with the words of a schema in the wrong places."""
