"""A grammar as a JSON schema, for formats that are JSON and nothing else, and for servers that take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.args.schemas import kinds_of
from dragoman.errors import ConfigError
from dragoman.formats.grammars.limits import Limits
from dragoman.formats.grammars.values import count
from dragoman.formats.row import Format
from dragoman.formats.writing import write_json, write_json_calls
from dragoman.types import JsonObject, Tool

if TYPE_CHECKING:
    from dragoman.formats.grammars.building import Wants

_ONE = frozenset({"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"})
_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_JOINS = frozenset({"allOf", "anyOf", "oneOf", "$ref"})


def write_schema(wants: Wants, row: Format, limits: Limits) -> str:
    """The schema of a reply that is one call, or a list of them."""
    if row.writer is not write_json_calls:
        raise ConfigError(
            f"the format {row.name!r} is no JSON by itself, so that no schema describes it",
            hint="take syntax='gbnf' or 'lark', or the format json",
        )
    if wants.replies or not wants.tools:
        raise ConfigError(
            "a JSON schema cannot leave room for a plain reply",
            hint="ask for calls alone with tool_choice='required', or take syntax='gbnf' or 'lark'",
        )
    definitions: JsonObject = {}
    calls = [_envelope(tool, number, definitions, limits) for number, tool in enumerate(wants.tools, 1)]
    one: JsonObject = calls[0] if len(calls) == 1 else {"anyOf": calls}
    schema = one
    if limits.calls > 1:
        definitions["call"] = one
        call = {"$ref": "#/$defs/call"}
        schema = {"anyOf": [call, {"type": "array", "items": call, "minItems": 2, "maxItems": limits.calls}]}
    try:
        return write_json({**schema, "$defs": definitions})
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the parameters of a tool are no JSON: {error}", hint="mend the schema of the tool"
        ) from None


def _envelope(tool: Tool, number: int, definitions: JsonObject, limits: Limits) -> JsonObject:
    name = f"arguments-{number}"
    definitions[name] = _Bounds(f"#/$defs/{name}", limits).arguments(tool.parameters)
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/{name}"}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


class _Bounds:
    """A tool's schema with an end to everything, and with references that hold at its new place."""

    def __init__(self, place: str, limits: Limits) -> None:
        self._place = place
        self._limits = limits

    def arguments(self, schema: JsonObject) -> JsonObject:
        bounded: Any = self.bound(schema)
        return {"type": "object", **bounded} if _JOINS.isdisjoint(bounded) else bounded

    def bound(self, schema: object, *, closes: bool = True) -> object:
        if not isinstance(schema, dict):
            return schema
        found: JsonObject = {}
        for keyword, value in schema.items():
            found[keyword] = self._keyword(keyword, value)
        kinds = kinds_of(schema["type"]) if "type" in schema else ()
        if kinds:
            found["type"] = kinds[0] if len(kinds) == 1 else list(kinds)
        fixed = "enum" in schema or "const" in schema
        if "string" in kinds and not fixed and self._limits.characters is not None:
            found.setdefault("maxLength", max(self._limits.characters, count(schema, "minLength") or 0))
        if "array" in kinds and not fixed:
            found.setdefault("maxItems", max(self._limits.items, count(schema, "minItems") or 0))
        if closes and isinstance(schema.get("properties"), dict) and _JOINS.isdisjoint(schema):
            found.setdefault("additionalProperties", False)
        return found

    def _keyword(self, keyword: str, value: Any) -> Any:
        if keyword == "$ref" and isinstance(value, str) and value.startswith("#"):
            return self._place + value[1:]
        if keyword in _ONE:
            return self.bound(value)
        if keyword in _LISTS and isinstance(value, list):
            return [self.bound(each) for each in value]
        if keyword == "allOf" and isinstance(value, list):
            # Parts that hold together must not each refuse what the others name.
            return [self.bound(each, closes=False) for each in value]
        if keyword in _MAPS and isinstance(value, dict):
            return {name: self.bound(each) for name, each in value.items()}
        return value
