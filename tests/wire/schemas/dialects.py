"""What each target takes, said a second time and apart from the compiler: the judge of what comes out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Found = Iterator[str]

PLAIN_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
SUBSET_TYPES = {name.upper() for name in PLAIN_TYPES}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUBSET_KEYS = _words("""
    type format title description nullable enum items minItems maxItems properties required minProperties
    maxProperties minimum maximum minLength maxLength pattern anyOf example propertyOrdering
""")
JSON_SCHEMA_KEYS = _words("""
    type format title description default items prefixItems minItems maxItems enum const properties required
    minProperties maxProperties minimum maximum minLength maxLength pattern additionalProperties anyOf oneOf
    uniqueItems $ref $defs
""")
OLLAMA_ROOT_KEYS = _words("type $defs items required properties")
OLLAMA_KEYS = _words("anyOf type items description enum properties required")
STRICT_KEYS = _words("""
    type title description enum properties required additionalProperties items anyOf $ref $defs format pattern
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems
""")
CLAUDE_STRICT_KEYS = _words("""
    type title description enum const properties required additionalProperties items anyOf allOf $ref $defs format
    minItems
""")
STRICT_FORMATS = _words("date-time time date duration email hostname uri ipv4 ipv6 uuid")


def faults_of(schema: dict[str, Any], target: str) -> list[str]:
    """Everything in a compiled schema that the target would refuse or silently lose."""
    if schema == {} and target in ("gemini", "gemini_json"):
        return []
    return list(_root(schema, target)) + [
        f"{path}: {fault}" for path, node in nodes(schema) for fault in _RULES[target](node, path == "$", schema)
    ]


def nodes(schema: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """Every place of a schema that holds a schema. (Built by hand here: JSON Schema is more than its dicts.)"""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, each in schema.get(key, {}).items():
            yield from nodes(each, f"{path}.{key}.{name}")
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}.{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, each in enumerate(schema.get(key, [])):
            yield from nodes(each, f"{path}.{key}[{number}]")


def _root(schema: dict[str, Any], target: str) -> Found:
    if schema.get("type") != ("OBJECT" if target == "gemini" else "object"):
        yield f"the root is of type {schema.get('type')}"
    for key in {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & schema.keys():
        yield f"{key} at the root"


def _any(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    """What holds for all: types that exist, references that lead somewhere."""
    if not isinstance(node, dict):
        return
    kinds = node.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in PLAIN_TYPES:
            yield f"type {kind}"
    if "$ref" in node and not _leads(node["$ref"], whole):
        yield f"$ref {node['$ref']} leads nowhere"
    if not isinstance(node.get("required", []), list):
        yield "required is no list"


def _leads(reference: str, whole: Any) -> bool:
    for step in reference[1:].split("/")[1:]:
        whole = whole.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(whole, dict) else None
    return isinstance(whole, dict | bool)


def _openai(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _any(node, root, whole)
    if isinstance(node, dict) and node.get("type") == "array" and "items" not in node:
        yield "array without items"


def _strict(node: Any, allowed: frozenset[str]) -> Found:
    if not isinstance(node, dict):
        yield "no schema"
        return
    yield from (f"keyword {key}" for key in node.keys() - allowed)
    if "$ref" in node:
        if node.keys() != {"$ref"}:
            yield "siblings of $ref"
        if not re.fullmatch(r"#|#/\$defs/[^/]+", node["$ref"]):
            yield f"$ref {node['$ref']}"
        return
    if not {"type", "anyOf", "enum", "const"} & node.keys():
        yield "no type"
    if node.get("type") == "object" or "properties" in node:
        if node.get("additionalProperties") is not False:
            yield "open object"
        if not set(node.get("required", [])) <= node.get("properties", {}).keys():
            yield "required names what is not defined"
    if "format" in node and node["format"] not in STRICT_FORMATS:
        yield f"format {node['format']}"
    if node.get("type") == "array" and "items" not in node:
        yield "array without items"


def _openai_strict(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _any(node, root, whole)
    yield from _strict(node, STRICT_KEYS)
    if isinstance(node, dict) and "properties" in node and sorted(node["required"]) != sorted(node["properties"]):
        yield "not all properties are required"


def _anthropic(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _any(node, root, whole)
    if isinstance(node, dict):
        for name in node.get("properties", {}):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                yield f"property {name!r}"


def _anthropic_strict(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _anthropic(node, root, whole)
    yield from _strict(node, CLAUDE_STRICT_KEYS)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("type"), list):
        yield "a list of types"
    if node.get("minItems", 0) > 1:
        yield "minItems over 1"
    if any(isinstance(value, dict | list) for value in node.get("enum", [])):
        yield "enum of objects"
    if root and _recursive(whole):
        yield "recursion"


def _recursive(whole: dict[str, Any]) -> bool:
    """Whether definitions are left when those are taken away, again and again, that refer to none of the others."""
    refers = {
        name: {
            node["$ref"].rpartition("/")[2] for _, node in nodes(schema) if isinstance(node, dict) and "$ref" in node
        }
        for name, schema in whole.get("$defs", {}).items()
    }
    while refers:
        left = {name: onward for name, onward in refers.items() if onward & refers.keys()}
        if len(left) == len(refers):
            return True
        refers = left
    return False


def _gemini(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    if not isinstance(node, dict):
        yield "no schema"
        return
    yield from (f"keyword {key}" for key in node.keys() - SUBSET_KEYS)
    if "anyOf" in node:
        if node.keys() != {"anyOf"}:
            yield "fields beside anyOf"
        return
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in SUBSET_TYPES:
        yield f"type {kind}"
    if "enum" in node and (kind != "STRING" or not all(isinstance(value, str) and value for value in node["enum"])):
        yield "enum of what are no strings"
    if kind == "ARRAY" and "items" not in node:
        yield "ARRAY without items"
    if kind == "OBJECT" and not node.get("properties"):
        yield "OBJECT without properties"
    if not set(node.get("required", [])) <= node.get("properties", {}).keys():
        yield "required names what is not defined"
    if kind == "STRING" and node.get("format", "enum") not in ("enum", "date-time"):
        yield f"format {node['format']}"
    yield from _parameter_names(node)


def _parameter_names(node: dict[str, Any]) -> Found:
    for name in node.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
            yield f"property {name!r}"


def _gemini_json(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _any(node, root, whole)
    if isinstance(node, dict):
        yield from (f"keyword {key}" for key in node.keys() - JSON_SCHEMA_KEYS)
        yield from _parameter_names(node)
        if not set(node.get("required", [])) <= node.get("properties", {}).keys():
            yield "required names what is not defined"


def _ollama(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _any(node, root, whole)
    if isinstance(node, dict):
        yield from (f"keyword {key}" for key in node.keys() - (OLLAMA_ROOT_KEYS if root else OLLAMA_KEYS))
    else:
        yield "no schema"


def _bedrock(node: Any, root: bool, whole: dict[str, Any]) -> Found:
    yield from _anthropic(node, root, whole)
    if root and _recursive(whole):
        yield "recursion"


_RULES = {
    "openai": _openai,
    "openai_strict": _openai_strict,
    "anthropic": _anthropic,
    "anthropic_strict": _anthropic_strict,
    "gemini": _gemini,
    "gemini_json": _gemini_json,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "mistral": _any,
    "cohere": _any,
}


def as_json_schema(schema: Any) -> Any:
    """A compiled schema, whatever its dialect, as a validator understands it."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: {name: as_json_schema(each) for name, each in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("enum", "const", "default", "example")
        else as_json_schema(value)
        for key, value in schema.items()
    }
    if isinstance(plain.get("type"), str):
        plain["type"] = plain["type"].lower()
    if plain.pop("nullable", False):
        return {"anyOf": [plain, {"type": "null"}]}
    return plain
