"""Small rewritings of one schema node, each for all targets: spelling, tuples, constants, nulls, missing types."""

from __future__ import annotations

from typing import Any

from dragoman.args.schemas import kinds_of
from dragoman.types import JsonObject
from dragoman.wire.schemas.losses import Losses
from dragoman.wire.schemas.pointers import References
from dragoman.wire.schemas.vocabulary import KIND_OF_KEYWORD, TYPES, WELL_FORMED, is_of, kind_of, same

SCALARS = ("string", "number", "boolean", "null")
"""What stands for "anything" where every schema has to name its type."""

_DEEPEST = 60


def tidy(schema: JsonObject, path: str, losses: Losses, *, upper: bool = False) -> JsonObject:
    """A copy in which every known keyword has a value that it may have; what cannot be mended is left out."""
    node: JsonObject = {}
    for key, value in schema.items():
        if key == "type":
            _tidy_type(value, node, path, losses, upper)
            continue
        types = WELL_FORMED.get(key)
        if types is None or type(value) in types:
            node[key] = value
        elif not _mend(key, value, schema, node, path, losses):
            losses.add("dropped", f"dropped {key} at {path}: its value is no proper one")
    required = node.get("required")
    if required is not None and not all(isinstance(name, str) for name in required):
        losses.add("dropped", f"dropped what is no name from required at {path}")
        node["required"] = [name for name in required if isinstance(name, str)]
    for key in ("anyOf", "oneOf", "allOf"):
        if node.get(key) == []:
            losses.add("dropped", f"dropped {key} at {path}: it is empty")
            del node[key]
    return node


def _tidy_type(value: Any, node: JsonObject, path: str, losses: Losses, upper: bool) -> None:
    if isinstance(value, str) and value in TYPES:
        node["type"] = value
        return
    kinds = kinds_of(value) if value != [] else ()
    if not kinds:
        losses.add("dropped", f"dropped type at {path}: it names none that JSON Schema knows")
        return
    node["type"] = kinds[0] if len(kinds) == 1 else list(kinds)
    if node["type"] == value or [*kinds] == value:
        return
    if not (upper and isinstance(value, str) and value == kinds[0].upper()):
        losses.add("rewritten", f"rewrote type at {path} as {', '.join(kinds)}")


def _mend(key: str, value: Any, schema: JsonObject, node: JsonObject, path: str, losses: Losses) -> bool:
    """Older spellings that are still about: tuples as `items`, a flag for an exclusive limit."""
    if key == "items" and isinstance(value, list):
        node["prefixItems"] = value
        if isinstance(schema.get("additionalItems"), dict | bool):
            node["items"] = schema["additionalItems"]
        losses.add("rewritten", f"rewrote items at {path} as prefixItems")
        return True
    if key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        limit = "minimum" if key == "exclusiveMinimum" else "maximum"
        bound = schema.get(limit)
        if value and type(bound) in (int, float):
            node[key] = bound
            losses.add("rewritten", f"rewrote {key} at {path} as a number")
        return True
    if key in WELL_FORMED and type(value) is float and value.is_integer() and int in WELL_FORMED[key]:
        node[key] = int(value)
        return True
    return False


def kinds_in(node: JsonObject) -> list[str]:
    kinds = node.get("type")
    return list(kinds) if isinstance(kinds, list) else [] if kinds is None else [kinds]


def set_kinds(node: JsonObject, kinds: list[str]) -> None:
    node["type"] = kinds[0] if len(kinds) == 1 else kinds


def infer_kinds(node: JsonObject) -> list[str]:
    """The types that a schema without `type` means, by its values or by what it speaks of; [] for anything."""
    if "enum" in node:
        return list(dict.fromkeys(kind_of(value) for value in node["enum"] if kind_of(value)))
    if "const" in node:
        return [kind_of(node["const"])]
    spoken_of = dict.fromkeys(KIND_OF_KEYWORD[key] for key in node if key in KIND_OF_KEYWORD)
    return list(spoken_of) if len(spoken_of) == 1 else []


def settle_choices(node: JsonObject, path: str, losses: Losses) -> None:
    """Leave in an enum only what its type allows: a validator would refuse the rest, and some targets the schema."""
    kinds = kinds_in(node)
    kept = [value for value in node["enum"] if is_of(value, kinds)] if kinds else node["enum"]
    if not kept and node["enum"]:
        losses.add("dropped", f"dropped type at {path}: its enum holds nothing of that type")
        del node["type"]
        kept = node["enum"]
    unique: list[Any] = []
    texts: set[str] = set()
    for value in kept:
        if isinstance(value, str):
            if value not in texts:
                texts.add(value)
                unique.append(value)
        elif len(unique) > 1_000 or not any(same(value, other) for other in unique):
            unique.append(value)
    if len(unique) != len(node["enum"]):
        losses.add("dropped", f"dropped enum values at {path} that its type does not allow, or that stand twice")
        node["enum"] = unique


def spell_out_nullable(node: JsonObject) -> JsonObject:
    """`nullable: true` as JSON Schema says it: null among the types, the choices or the branches."""
    if node.pop("nullable", None) is not True:
        return node
    return allow_null(node)


def allow_null(node: JsonObject) -> JsonObject:
    """The same schema, and null."""
    if "$ref" in node or "const" in node or "allOf" in node:
        return {"anyOf": [node, {"type": "null"}]}
    widened = dict(node)
    for keyword in ("anyOf", "oneOf"):
        if keyword in widened:
            branches = widened[keyword]
            if not any(isinstance(branch, dict) and "null" in kinds_in(branch) for branch in branches):
                widened[keyword] = [*branches, {"type": "null"}]
    kinds = kinds_in(widened)
    if kinds and "null" not in kinds:
        widened["type"] = [*kinds, "null"]
    if "enum" in widened and not any(value is None for value in widened["enum"]):
        widened["enum"] = [*widened["enum"], None]
    return widened


def takes_null(schema: Any, references: References, depth: int = 0) -> bool:
    """Whether a schema, as its author wrote it, accepts null."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return schema is not False
    if schema.get("nullable") is True:
        return True
    kinds = kinds_of(schema["type"]) if "type" in schema else ()
    if kinds and "null" not in kinds:
        return False
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and not any(value is None for value in choices):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str) and references.has(reference):
        known = references.takes_null
        if reference not in known:
            known[reference] = False
            known[reference] = takes_null(references.target(reference), references, depth + 1)
        if not known[reference]:
            return False
    return _branches_take_null(schema, references, depth + 1)


def _branches_take_null(schema: JsonObject, references: References, depth: int) -> bool:
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if (
            isinstance(branches, list)
            and branches
            and not any(takes_null(each, references, depth) for each in branches)
        ):
            return False
    parts = schema.get("allOf")
    return not isinstance(parts, list) or all(takes_null(part, references, depth) for part in parts)
