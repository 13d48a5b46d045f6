"""Two schemas that must both hold, written as one.

`merge(first, second, leave)` returns a schema that accepts every value that both schemas accept. What cannot be written
in the same object is passed to `leave` as a schema of its own. The merged schema together with everything that was left
accepts exactly the values that both accept:

    merge(a, b)  +  left   ==   {"allOf": [a, b]}

The caller decides what to do with the rest: keep it in `allOf`, or drop it and report the loss.

How the keywords are joined:

- **A property that only one side names** must also fit the `additionalProperties` of the other side. So two closed
  objects with different properties accept only the properties that both name.
- **`prefixItems`**: a position that only one side describes must also fit the `items` of the other side.
- **`oneOf`** and **`anyOf`**: every pair of branches becomes one branch. This is exact for `oneOf`, too: exactly one
  pair fits if and only if exactly one branch fits on each side. More than 16 pairs are not written.
- **`const`**: two different constants, or a constant that an enum does not hold, accept nothing: the result is `False`.
- **`contains`**, **`if`**, **`pattern`**, **`format`**, **`multipleOf`**: the second one is left.
- **Annotations** (`title`, `description`, `default`) come from the second schema.

There are two exceptions. `nullable` is not a keyword of JSON Schema; it stays if one side states it. `unevaluatedItems`
and `unevaluatedProperties` stay where they are, and the merged schema may then accept more.

Nested schemas are not merged at once: `{"allOf": [one, other]}` replaces them. So the work for one call does not
depend on the depth of the schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.jsonschema.keywords import ANNOTATIONS, WELL_FORMED, is_of, key_of, kinds_of, same
from dragoman.types import JsonObject

MOST_PAIRS = 16
"""Two unions become one with every pair of their branches; more pairs than this are not written."""

Leave = Callable[[JsonObject], None]
"""Takes the keywords of the second schema that could not be joined, as a schema."""

_IMPOSSIBLE: Any = object()
_LEFT: Any = object()
_PREFERRED = ANNOTATIONS | {"description", "default"}


def merge(first: Any, second: Any, leave: Leave) -> Any:
    """Return the schema that accepts what both accept, as far as one object can state it; False if nothing can fit."""
    if first is False or second is False:
        return False
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second if isinstance(second, dict) else first
    merged = dict(first)
    rest = _join_groups(merged, second, leave)
    for key, value in rest.items():
        if key not in merged or key in _PREFERRED or not _means_something(key, merged[key]):
            merged[key] = value
        elif _means_something(key, value) and not same(merged[key], value):
            joined = _JOINS[key](merged[key], value) if key in _JOINS else _LEFT
            if joined is _IMPOSSIBLE:
                return False
            if joined is _LEFT:
                leave({key: value})
            else:
                merged[key] = joined
    if _contradicts(merged) and not _contradicts(first) and not _contradicts(second):
        return False
    return _with_fitting_choices(merged)


def both(first: Any, second: Any) -> Any:
    """Return `allOf` of two schemas, which is merged when that place is reached."""
    if first is False or second is False:
        return False
    if first is True or same(first, second):
        return second
    return first if second is True else {"allOf": [first, second]}


def _means_something(key: str, value: Any) -> bool:
    return key not in WELL_FORMED or type(value) in WELL_FORMED[key]


# ---- keywords that depend on each other ------------------------------------------------------------------------------


def _join_groups(merged: JsonObject, second: JsonObject, leave: Leave) -> JsonObject:
    """Join the keywords that depend on each other; return the other keywords of the second schema."""
    rest = second
    for keys, join in _GROUPS:
        ours = {key: merged[key] for key in keys if key in merged}
        theirs = {key: second[key] for key in keys if key in second}
        if not ours or not theirs:
            continue
        rest = {key: value for key, value in rest.items() if key not in theirs}
        if same(ours, theirs):
            continue
        joined = join(ours, theirs)
        if joined is None:
            leave(theirs)
        else:
            merged.update(joined)
    return rest


def _join_objects(first: JsonObject, second: JsonObject) -> JsonObject | None:
    sides = (first, second)
    if not all(_means_something(key, value) for side in sides for key, value in side.items()):
        return _keep_sound(first, second)
    others = [side.get("additionalProperties", True) for side in sides]
    if any("patternProperties" in side for side in sides) and others != [True, True]:
        # Which names `additionalProperties` is about depends on the patterns of the same side alone.
        return None
    joined: JsonObject = {}
    if any("properties" in side for side in sides):
        ours, theirs = (side.get("properties", {}) for side in sides)
        names = dict.fromkeys([*ours, *theirs])
        joined["properties"] = {name: both(ours.get(name, others[0]), theirs.get(name, others[1])) for name in names}
    if any("patternProperties" in side for side in sides):
        joined["patternProperties"] = _join_members(*(side.get("patternProperties", {}) for side in sides))
    if any("additionalProperties" in side for side in sides):
        joined["additionalProperties"] = both(*others)
    return joined


def _join_arrays(first: JsonObject, second: JsonObject) -> JsonObject | None:
    sides = (first, second)
    if not all(_means_something(key, value) for side in sides for key, value in side.items()):
        # A list of `items` is the older spelling of a tuple, which does mean something.
        is_older = any(isinstance(side.get("items"), list) for side in sides)
        return None if is_older else _keep_sound(first, second)
    rest = [side.get("items", True) for side in sides]
    joined: JsonObject = {}
    if any("prefixItems" in side for side in sides):
        ours, theirs = (side.get("prefixItems", []) for side in sides)
        length = max(len(ours), len(theirs))
        ours = [*ours, *[rest[0]] * (length - len(ours))]
        theirs = [*theirs, *[rest[1]] * (length - len(theirs))]
        joined["prefixItems"] = list(map(both, ours, theirs))
    if any("items" in side for side in sides):
        joined["items"] = both(*rest)
    return joined


def _keep_sound(first: JsonObject, second: JsonObject) -> JsonObject | None:
    """Remove keywords with invalid values, which have no meaning, and join the rest with the other side."""
    ours, theirs = (
        {key: value for key, value in side.items() if _means_something(key, value)} for side in (first, second)
    )
    if ours == first and not theirs:
        return first
    return theirs if not ours else None


def _leave_group(first: JsonObject, second: JsonObject) -> None:
    return None


_GROUPS: tuple[tuple[tuple[str, ...], Callable[[JsonObject, JsonObject], JsonObject | None]], ...] = (
    (("properties", "patternProperties", "additionalProperties"), _join_objects),
    (("prefixItems", "items", "additionalItems"), _join_arrays),
    (("contains", "minContains", "maxContains"), _leave_group),
    (("if", "then", "else"), _leave_group),
)


# ---- single keywords -------------------------------------------------------------------------------------------------


def _join_members(first: JsonObject, second: JsonObject) -> JsonObject:
    joined = dict(first)
    for name, schema in second.items():
        joined[name] = both(joined[name], schema) if name in joined else schema
    return joined


def _join_types(first: Any, second: Any) -> Any:
    ours, theirs = kinds_of(first), kinds_of(second)
    if not ours or not theirs:  # An unknown type accepts anything.
        return first if ours else second
    common = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    common += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in common]
    if not common:
        return _IMPOSSIBLE
    return common[0] if len(common) == 1 else common


def _join_choices(first: list[Any], second: list[Any]) -> Any:
    try:
        allowed = set(map(key_of, second))
        return [value for value in first if key_of(value) in allowed] or _IMPOSSIBLE
    except RecursionError:
        return _LEFT


def _join_unions(first: list[Any], second: list[Any]) -> Any:
    if not first or not second:  # An empty union has no meaning.
        return first or second
    if len(first) * len(second) > MOST_PAIRS:
        return _LEFT
    pairs = [both(one, other) for one in first for other in second]
    return [pair for pair in pairs if pair is not False] or _IMPOSSIBLE


def _join_names(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(name for name in second if name not in first)]


def _join_dependencies(first: JsonObject, second: JsonObject) -> Any:
    if not all(isinstance(names, list) for names in [*first.values(), *second.values()]):
        return _LEFT
    return first | {name: _join_names(first.get(name, []), names) for name, names in second.items()}


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": _join_choices,
    "const": lambda first, second: _IMPOSSIBLE,
    "required": _join_names,
    "dependentRequired": _join_dependencies,
    "dependentSchemas": _join_members,
    "$defs": lambda first, second: {**second, **first},
    "definitions": lambda first, second: {**second, **first},
    "propertyNames": both,
    "anyOf": _join_unions,
    "oneOf": _join_unions,
    "allOf": lambda first, second: [*first, *second],
    "not": lambda first, second: {"anyOf": [first, second]},
    "uniqueItems": lambda first, second: first or second,
    "nullable": lambda first, second: first and second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


# ---- types and choices that came from both sides ---------------------------------------------------------------------


def _contradicts(node: JsonObject) -> bool:
    """Whether no choice has a type that is allowed."""
    choices = [node["const"]] if "const" in node else node.get("enum")
    kinds = list(kinds_of(node.get("type")))
    if not isinstance(choices, list) or not kinds:
        return False
    if node.get("nullable") is True:
        kinds.append("null")
    return not any(is_of(value, kinds) for value in choices)


def _with_fitting_choices(merged: JsonObject) -> Any:
    """An enum and a constant: only the constant, if the enum holds it."""
    if "const" not in merged or not isinstance(merged.get("enum"), list):
        return merged
    if not any(same(merged["const"], value) for value in merged["enum"]):
        return False
    return {key: value for key, value in merged.items() if key != "enum"}
