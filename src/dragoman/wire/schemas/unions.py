"""Unions where a target has no room for them: at the root, and beside other constraints."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.vocabulary import CONSTRAINTS, same
from dragoman.wire.schemas.wording import json_text

_MOST_VARIANTS = 16


def merge_branches(node: JsonObject, branches: list[JsonObject]) -> JsonObject:
    """One object that takes what any of the branches takes: all their properties, and what all of them require."""
    merged = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
    own = merged.get("properties", {})
    variants: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in branch.get("properties", {}).items():
            known = variants.setdefault(name, [])
            if len(known) < _MOST_VARIANTS and not any(same(schema, other) for other in known):
                known.append(schema)
    properties = dict(own)
    for name, schemas in variants.items():
        either = _either(schemas)
        properties[name] = {"allOf": [own[name], either]} if name in own and not same(own[name], either) else either
    if properties:
        merged["properties"] = properties
    required = list(merged.get("required", []))
    shared = [name for name in branches[0].get("required", []) if all(_asks_for(each, name) for each in branches)]
    required += [name for name in dict.fromkeys(shared) if name not in required]
    if required:
        merged["required"] = required
    if "additionalProperties" not in merged and all(each.get("additionalProperties") is False for each in branches):
        merged["additionalProperties"] = False
    return merged


def _asks_for(branch: JsonObject, name: str) -> bool:
    return name in branch.get("required", [])


def _either(schemas: list[Any]) -> Any:
    """One of several schemas; constants, which tell branches apart, become the choices of one enum."""
    if len(schemas) == 1:
        return schemas[0]
    if all(isinstance(each, dict) and "const" in each and not (each.keys() - _TAG) for each in schemas):
        choices = {json_text(each["const"]): each["const"] for each in schemas}
        kept = {key: value for key, value in schemas[0].items() if key != "const" and same_in_all(schemas, key)}
        return {**kept, "enum": list(choices.values())}
    return {"anyOf": schemas}


_TAG = frozenset({"type", "const", "title", "description"})


def same_in_all(schemas: list[JsonObject], key: str) -> bool:
    return all(key in each and same(each[key], schemas[0][key]) for each in schemas)


def sets_of_names(branches: list[JsonObject]) -> str:
    """Which properties belong together, in words; "" when the branches do not differ in what they require."""
    sets = list(dict.fromkeys(tuple(branch.get("required", [])) for branch in branches))
    if len(sets) < 2 or not all(sets):
        return ""
    return "give one of: " + "; ".join(" and ".join(names) for names in sets)


def only_requires(branch: Any) -> bool:
    """Whether a branch says no more than which properties must be there."""
    return isinstance(branch, dict) and branch.keys() <= {"required", "type", "title", "description"}


def distribute(node: JsonObject, keyword: str) -> JsonObject:
    """The constraints beside a union, moved into each of its branches."""
    base = {key: value for key, value in node.items() if key in CONSTRAINTS}
    rest = {key: value for key, value in node.items() if key not in CONSTRAINTS}
    rest[keyword] = [_both(base, branch) for branch in node[keyword]]
    return rest


def _both(base: JsonObject, branch: Any) -> Any:
    if branch is True:
        return base
    return {"allOf": [base, branch]} if isinstance(branch, dict) else branch
