"""What each API demands of the schema of a tool's parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.wire.rules.shapes import Check, Spot, anything, array, boolean, mapping, numeric, one_of, text

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_OF_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_OF_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_NAMES = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXT_LIMITS = ("minLength", "maxLength")
_CONDITIONS = ("not", "if", "then", "else", "dependentRequired", "dependentSchemas")
_ANTHROPIC_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


def _children(schema: dict[str, Any], spot: Spot) -> Iterator[tuple[Any, Spot]]:
    """The schemas directly inside a schema."""
    for key in _OF_ONE:
        if key in schema and not isinstance(schema[key], bool):
            yield schema[key], spot.at(key)
    for key in _OF_MANY:
        for position, entry in enumerate(schema[key] if isinstance(schema.get(key), list) else ()):
            yield entry, spot.at(key, position)
    for key in _OF_NAMES:
        for name, entry in (schema[key] if isinstance(schema.get(key), dict) else {}).items():
            yield entry, spot.at(key, name)


def _every(schema: Any, spot: Spot, depth: int = 0) -> Iterator[tuple[dict[str, Any], Spot, int]]:
    """A schema and all schemas inside it, each with its place and depth."""
    if isinstance(schema, dict):
        yield schema, spot, depth
        for inner, place in _children(schema, spot):
            # A choice and a definition are no level of their own.
            beside = place.path.removeprefix(spot.path).startswith((".anyOf", ".oneOf", ".allOf", ".$defs"))
            yield from _every(inner, place, depth if beside else depth + 1)


def _well_formed(schema: Any, spot: Spot) -> None:
    """The grammar of JSON Schema: lower-case types, and every keyword of the right kind."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        spot.say("must be a schema: an object or a boolean")
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            spot.at("type").say(f"{kind!r} is no type of JSON Schema")
    for key in _OF_NAMES:
        if key in schema and not isinstance(schema[key], dict):
            spot.at(key).say("must be an object")
    for key in _OF_MANY:
        if key in schema and not (isinstance(schema[key], list) and schema[key]):
            spot.at(key).say("must be an array that is not empty")
    if "required" in schema:
        array(text())(schema["required"], spot.at("required"))
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        spot.at("enum").say("must be an array that is not empty")
    for inner, place in _children(schema, spot):
        _well_formed(inner, place)


def object_schema(value: Any, spot: Spot) -> None:
    """Any JSON Schema whose root is an object: what every API that takes JSON Schema wants at least."""
    before = len(spot.found)
    _well_formed(value, spot)
    if len(spot.found) == before and not (isinstance(value, dict) and value.get("type") == "object"):
        spot.say("must have the root type 'object'")


def rooted_schema(value: Any, spot: Spot) -> None:
    """The schema of an Anthropic tool: an object, and no choice at its root."""
    object_schema(value, spot)
    for key in ("oneOf", "anyOf", "allOf"):
        if isinstance(value, dict) and key in value:
            spot.say(f"must not have {key} at its root")


def _is_object(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema


def _closed(schema: dict[str, Any], spot: Spot) -> None:
    if _is_object(schema) and schema.get("additionalProperties") is not False:
        spot.say("is strict and so needs additionalProperties: false on every object")


def _forbidden(schema: dict[str, Any], spot: Spot, *keys: str) -> None:
    for key in keys:
        if key in schema:
            spot.say(f"is strict and so may not use {key}")


def _lone_reference(schema: dict[str, Any], spot: Spot) -> None:
    if "$ref" not in schema:
        return
    if len(schema) > 1:
        spot.say("has keys beside $ref, which strict schemas may not have")
    if not re.fullmatch(r"#(/\$defs/[^/]+)?", str(schema["$ref"])):
        spot.at("$ref").say("may only point to # or #/$defs/name")


def openai_strict(value: Any, spot: Spot) -> None:
    """The schema of an OpenAI function with `strict: true`."""
    if "anyOf" in value:
        spot.say("is strict and so must not have anyOf at its root")
    places = list(_every(value, spot))
    for schema, place, _ in places:
        _closed(schema, place)
        _lone_reference(schema, place)
        _forbidden(schema, place, "default", "oneOf", "allOf", "const", *_TEXT_LIMITS, *_CONDITIONS)
        missing = set(schema.get("properties", {})) - set(schema.get("required", []))
        for name in sorted(missing):
            place.say(f"is strict and so must require every property, {name!r} too")
    if max((depth for *_, depth in places), default=0) > 10:
        spot.say("is strict and so must have at most 10 levels")
    if sum(len(schema.get("properties", {})) for schema, *_ in places) > 5000:
        spot.say("is strict and so must have at most 5000 properties")
    if sum(len(schema.get("enum", [])) for schema, *_ in places) > 1000:
        spot.say("is strict and so must have at most 1000 enum values")


def anthropic_strict(value: Any, spot: Spot) -> None:
    """The schema of an Anthropic tool with `strict: true`."""
    for schema, place, _ in _every(value, spot):
        _closed(schema, place)
        _lone_reference(schema, place)
        _forbidden(schema, place, "default", "oneOf", "pattern", "maxItems", *_NUMBER_LIMITS, *_TEXT_LIMITS)
        if schema.get("format", "date") not in _ANTHROPIC_FORMATS:
            place.at("format").say(f"{schema['format']!r} is not a format that strict schemas may use")
        if schema.get("minItems", 0) not in {0, 1}:
            place.at("minItems").say("must be 0 or 1 in a strict schema")
    if _recursive(value):
        spot.say("is strict and so must not be recursive")


def _recursive(schema: Any) -> bool:
    """Whether a definition leads back to itself; a reference to the root always does."""
    definitions = schema.get("$defs", {})
    reached = {
        name: {str(inner.get("$ref", "")) for inner, *_ in _every(body, Spot())} - {""}
        for name, body in definitions.items()
    }
    if any(inner.get("$ref") == "#" for inner, *_ in _every(schema, Spot())):
        return True
    for start in reached:
        pending, seen = list(reached[start]), set()
        while pending:
            name = pending.pop().removeprefix("#/$defs/")
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                pending.extend(reached.get(name, ()))
    return False


_GEMINI: dict[str, Check] = {
    "type": one_of("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"),
    **dict.fromkeys(("format", "title", "description", "pattern"), text()),
    **dict.fromkeys(("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"), numeric),
    **dict.fromkeys(("minimum", "maximum"), numeric),
    "nullable": boolean,
    "enum": array(text(), least=1),
    "required": array(text()),
    "propertyOrdering": array(text()),
    "properties": mapping,
    **dict.fromkeys(("items", "anyOf", "default", "example"), anything),
}


def gemini_schema(value: Any, spot: Spot) -> None:
    """The `parameters` of a Gemini function: the classic subset of OpenAPI, with an OBJECT that has properties."""
    _gemini_schema(value, spot)
    if not isinstance(value, dict):
        return
    if value.get("type") != "OBJECT":
        spot.say("must have the root type OBJECT")
    elif not value.get("properties"):
        spot.say("must be left out for a function without parameters, not be an OBJECT without properties")
    for name in value["properties"] if isinstance(value.get("properties"), dict) else ():
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
            spot.at("properties").say(f"the parameter name {name!r} must match [a-zA-Z_][a-zA-Z0-9_]{{0,63}}")


def _gemini_schema(value: Any, spot: Spot) -> None:
    if not isinstance(value, dict):
        spot.say("must be a schema object")
        return
    before = len(spot.found)
    for key, entry in value.items():
        if key in _GEMINI:
            _GEMINI[key](entry, spot.at(key))
        else:
            spot.say(f"has the unknown key {key!r}")
    if len(spot.found) > before:
        return
    _gemini_kind(value, spot)
    for key in ("required", "propertyOrdering"):
        for name in value.get(key, ()):
            if name not in value.get("properties", {}):
                spot.at(key).say(f"names the property {name!r}, which is not defined")
    for inner, place in _children(value, spot):
        _gemini_schema(inner, place)


def _gemini_kind(value: dict[str, Any], spot: Spot) -> None:
    kind = value.get("type")
    if kind is None and "anyOf" not in value:
        spot.say("lacks the required key 'type'")
    if "enum" in value and kind != "STRING":
        spot.at("enum").say("is only allowed for the type STRING")
    if kind == "ARRAY" and "items" not in value:
        spot.say("is an ARRAY and so needs items")
    if kind == "STRING" and value.get("format", "enum") not in {"enum", "date-time"}:
        spot.at("format").say("must be enum or date-time for the type STRING")
    if kind == "OBJECT" and value.get("properties") == {}:
        spot.at("properties").say("must not be empty")
    if "anyOf" in value and not (isinstance(value["anyOf"], list) and value["anyOf"]):
        spot.at("anyOf").say("must be an array that is not empty")
