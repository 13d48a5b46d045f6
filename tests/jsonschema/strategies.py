"""Small schemas and values with few names, numbers and texts, so that they often fit each other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "ab")
KINDS = ("string", "integer", "number", "boolean", "null", "object", "array")
scalars = st.sampled_from([None, True, False, 0, 1, 2, 3, 1.0, 1.5, -1, "", "a", "ab", "abc"])


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)


values = st.recursive(scalars, nested, max_leaves=6)

_kinds = st.sampled_from(KINDS)
_structure: dict[str, st.SearchStrategy[Any]] = {
    "type": _kinds | st.lists(_kinds, min_size=1, max_size=3, unique=True),
    "enum": st.lists(values, min_size=1, max_size=4),
    "const": values,
    "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
}
_numbers = st.integers(0, 3)
_limits: dict[str, st.SearchStrategy[Any]] = {
    "minimum": _numbers,
    "maximum": _numbers,
    "exclusiveMinimum": _numbers,
    "exclusiveMaximum": _numbers,
    "multipleOf": st.integers(1, 3),
    "minLength": _numbers,
    "maxLength": _numbers,
    "pattern": st.sampled_from(["a", "^a", "b$"]),
    "minItems": _numbers,
    "maxItems": _numbers,
    "uniqueItems": st.booleans(),
    "minProperties": _numbers,
    "maxProperties": _numbers,
    "dependentRequired": st.dictionaries(st.sampled_from(NAMES), st.just(["b"]), max_size=2),
    "title": st.sampled_from(["one", "other"]),
}


def _object(keywords: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=most, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


def _structures(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return {
        **_structure,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        "additionalProperties": inner,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "anyOf": branches,
        "allOf": branches,
    }


def _everything(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    members = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    return {
        **_structures(inner),
        **_limits,
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
        "propertyNames": inner,
        "dependentSchemas": members,
        "contains": inner,
        "minContains": st.integers(0, 2),
        "maxContains": st.integers(0, 2),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }


_leaves = st.booleans() | _object(_structure, 2)
structural = st.recursive(_leaves, lambda inner: _object(_structures(inner), 4), max_leaves=6)
"""Schemas of the keywords that `fits` looks at."""
schemas = st.recursive(_leaves | _object(_limits, 3), lambda inner: _object(_everything(inner), 5), max_leaves=6)
"""Schemas of every keyword that `merge` joins or leaves."""
