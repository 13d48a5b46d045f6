"""Builds the grammar of a format (calls and plain replies) in GBNF, Lark or JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from dragoman.errors import ConfigError, did_you_mean
from dragoman.formats.grammars.calls import CallWriter
from dragoman.formats.grammars.nodes import NEVER, FreeText, Limits, Loss, Node, Rules, Tree, choice
from dragoman.formats.grammars.syntax import write_gbnf, write_lark
from dragoman.formats.grammars.values import count
from dragoman.formats.notation import write_strict_json
from dragoman.formats.plan import Plan
from dragoman.formats.readers.python import ListedCalls
from dragoman.formats.template import Format
from dragoman.formats.unmarked import RESIDUE, JsonAnywhere, WholeMessage
from dragoman.jsonschema.keywords import kinds_of
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# Plain replies: text that the parser cannot read as a call.
#
# A plain reply begins with a visible character and contains no marker of the format: no opener in any spelling, no tag
# around calls or the thinking of its own models, no token that it drops. If the format reads calls from bare JSON, the
# reply contains no `{`; if it reads lists of calls in Python, no `[`.


def reply(row: Format, plan: Plan, most: int | None) -> Node:
    """Return the grammar of text that this format reads as text."""
    markers = {*plan.section_ends, *plan.drops, *(tag for pair in row.thinking for tag in pair)}
    brackets = ""
    for opener, entries in plan.openers.items():
        if all(entry in RESIDUE for entry in entries):
            continue
        if all(isinstance(entry, JsonAnywhere) for entry in entries):
            brackets += "{"
        else:
            markers.add(opener)
    for entry in (*plan.line_entries, *plan.message_entries):
        if isinstance(entry, ListedCalls):
            brackets += "["
        elif isinstance(entry, WholeMessage):
            brackets += "{"
        else:
            raise ConfigError(
                f"in the format {row.name!r} a plain reply cannot be distinguished from a call",
                hint="use tool_choice='required', or another format, for example hermes",
            )
    markers.update(brackets)
    kept = {marker for marker in markers if not any(other != marker and other in marker for other in markers)}
    return FreeText(tuple(sorted(kept)), 1, most, starts_visible=True)


# --------------------------------------------------------------------------------------------------------------------
# A grammar as a JSON Schema, for formats that are only JSON, and for servers that accept one.

_ONE = frozenset({"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"})
_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_JOINS = frozenset({"allOf", "anyOf", "oneOf", "$ref"})


def write_schema(wants: ReplyForm, row: Format, limits: Limits) -> str:
    """Return the schema of a reply that is one call or a list of calls."""
    if row.template != "{calls}" or row.notation != "json":
        raise ConfigError(
            f"the format {row.name!r} is not JSON alone, so no JSON Schema describes it",
            hint="use syntax='gbnf' or 'lark', or the format json",
        )
    if wants.replies or not wants.tools:
        raise ConfigError(
            "a JSON Schema cannot allow a plain reply",
            hint="use tool_choice='required', or syntax='gbnf' or 'lark'",
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
        return write_strict_json({**schema, "$defs": definitions})
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the parameters of a tool are not JSON: {error}", hint="correct the schema of the tool"
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
    """Adds a limit to every open part of a tool's schema, and rewrites its references for their new place."""

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
            # Parts of an `allOf` must not each forbid the properties that the others name.
            return [self.bound(each, closes=False) for each in value]
        if keyword in _MAPS and isinstance(value, dict):
            return {name: self.bound(each) for name, each in value.items()}
        return value


# --------------------------------------------------------------------------------------------------------------------
# The whole grammar: whether it allows calls and replies, from which row, in which syntax.

Syntax = Literal["gbnf", "lark", "json_schema"]
SYNTAXES: tuple[Syntax, ...] = ("gbnf", "lark", "json_schema")
ToolChoice = str | Mapping[str, Any]


class Grammar(Struct, frozen=True):
    """A grammar, and the parts of the schemas that it does not enforce."""

    text: str
    syntax: Syntax
    format: str
    losses: tuple[Loss, ...] = ()


def build(tools: Toolset, row: Format, plan: Plan, *, syntax: str, tool_choice: ToolChoice, limits: Limits) -> Grammar:
    """Build the grammar of a format for these tools."""
    if syntax not in SYNTAXES:
        raise ConfigError(
            f"unknown syntax of grammars {syntax!r}{did_you_mean(syntax, SYNTAXES)}",
            hint=f"use one of {', '.join(SYNTAXES)}",
        )
    wants = read_choice(tool_choice, tools)
    if syntax == "json_schema":
        return Grammar(write_schema(wants, row, limits), "json_schema", row.name)
    tree, losses = build_tree(wants, row, plan, limits)
    if syntax == "gbnf":
        return Grammar(write_gbnf(tree), "gbnf", row.name, losses)
    return Grammar(write_lark(tree), "lark", row.name, losses)


class ReplyForm(Struct, frozen=True):
    """What a reply may contain."""

    replies: bool
    tools: tuple[Tool, ...]


def read_choice(given: ToolChoice, tools: Toolset) -> ReplyForm:
    """Read a tool choice: `auto`, `required` (or `any`), `none`, or the name of one tool, as on the wires."""
    if given == "none":
        return ReplyForm(True, ())
    if given in ("auto", "required", "any"):
        return ReplyForm(given == "auto", _unique(tools.tools))
    names, replies = _named(given)
    chosen = [tools.find(name) if isinstance(name, str) else None for name in names]
    found = tuple(tool for tool in chosen if tool is not None)
    if not found or len(found) != len(names):
        wrong = next((name for name, tool in zip(names, chosen, strict=True) if tool is None), given)
        raise ConfigError(
            f"tool_choice {wrong!r} does not name an offered tool",
            hint="use 'auto', 'required', 'none' or {'name': ...} with the name of an offered tool",
        )
    return ReplyForm(replies, _unique(found))


def _named(given: ToolChoice) -> tuple[list[Any], bool]:
    if not isinstance(given, Mapping):
        return [], False
    function = given.get("function")
    if isinstance(given.get("names"), list | tuple):
        return list(given["names"]), given.get("mode") == "auto"
    return [given.get("name") or (function.get("name") if isinstance(function, Mapping) else None)], False


def _unique(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple({tool.name: tool for tool in tools}.values())


def build_tree(wants: ReplyForm, row: Format, plan: Plan, limits: Limits) -> tuple[Tree, tuple[Loss, ...]]:
    """Build the grammar as a tree, which any syntax can write."""
    rules = Rules()
    ways: list[Node] = []
    losses: tuple[Loss, ...] = ()
    if wants.replies or not wants.tools:
        ways.append(rules.define("reply", reply(row, plan, limits.reply)))
    if wants.tools:
        writer = CallWriter(row, plan, rules, limits)
        calls = writer.calls(wants.tools)
        losses = tuple(writer.losses)
        if calls == NEVER and not wants.replies:
            raise ConfigError(
                f"none of the tools can be called in the format {row.name!r}",
                hint="; ".join(map(str, losses[:3])) or "offer at least one tool",
            )
        ways.append(rules.define("calls", calls))
    return Tree(choice(ways), rules.named), losses
