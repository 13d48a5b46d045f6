"""The whole grammar: which of calls and replies it allows, from which row, in which syntax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from dragoman.errors import ConfigError, nearest
from dragoman.formats.grammars.calls import CallWriter
from dragoman.formats.grammars.gbnf import write_gbnf
from dragoman.formats.grammars.lark import write_lark
from dragoman.formats.grammars.limits import Limits, Loss
from dragoman.formats.grammars.nodes import NEVER, Node, Rules, Tree, choice
from dragoman.formats.grammars.replies import reply
from dragoman.formats.grammars.schemas import write_schema
from dragoman.formats.grammars.shapes import shape_of
from dragoman.formats.plan import Plan
from dragoman.formats.row import Format
from dragoman.toolset import Toolset
from dragoman.types import Tool

Syntax = Literal["gbnf", "lark", "json_schema"]
SYNTAXES: tuple[Syntax, ...] = ("gbnf", "lark", "json_schema")
ToolChoice = str | Mapping[str, Any]


class Grammar(Struct, frozen=True):
    """A grammar, and what of the schemas it does not hold."""

    text: str
    syntax: Syntax
    format: str
    losses: tuple[Loss, ...] = ()


def build(tools: Toolset, row: Format, plan: Plan, *, syntax: str, tool_choice: ToolChoice, limits: Limits) -> Grammar:
    """The grammar of a format for these tools."""
    if syntax not in SYNTAXES:
        guess = nearest(syntax, SYNTAXES)
        raise ConfigError(
            f"unknown syntax of grammars {syntax!r}" + (f"; did you mean {guess!r}?" if guess else ""),
            hint=f"take one of {', '.join(SYNTAXES)}",
        )
    wants = read_choice(tool_choice, tools)
    if syntax == "json_schema":
        return Grammar(write_schema(wants, row, limits), "json_schema", row.name)
    tree, losses = build_tree(wants, row, plan, limits)
    if syntax == "gbnf":
        return Grammar(write_gbnf(tree), "gbnf", row.name, losses)
    return Grammar(write_lark(tree), "lark", row.name, losses)


class Wants(Struct, frozen=True):
    """What a reply may be."""

    replies: bool
    tools: tuple[Tool, ...]


def read_choice(given: ToolChoice, tools: Toolset) -> Wants:
    """`auto`, `required` (or `any`), `none`, or the name of one tool, in the spellings of the wires."""
    if given == "none":
        return Wants(True, ())
    if given in ("auto", "required", "any"):
        return Wants(given == "auto", _unique(tools.tools))
    names, replies = _named(given)
    chosen = [tools.find(name) if isinstance(name, str) else None for name in names]
    found = tuple(tool for tool in chosen if tool is not None)
    if not found or len(found) != len(names):
        wrong = next((name for name, tool in zip(names, chosen, strict=True) if tool is None), given)
        raise ConfigError(
            f"tool_choice {wrong!r} names no offered tool",
            hint="give 'auto', 'required', 'none' or {'name': ...} with the name of an offered tool",
        )
    return Wants(replies, _unique(found))


def _named(given: ToolChoice) -> tuple[list[Any], bool]:
    if not isinstance(given, Mapping):
        return [], False
    function = given.get("function")
    if isinstance(given.get("names"), list | tuple):
        return list(given["names"]), given.get("mode") == "auto"
    return [given.get("name") or (function.get("name") if isinstance(function, Mapping) else None)], False


def _unique(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple({tool.name: tool for tool in tools}.values())


def build_tree(wants: Wants, row: Format, plan: Plan, limits: Limits) -> tuple[Tree, tuple[Loss, ...]]:
    """The grammar before it is written in any syntax."""
    rules = Rules()
    ways: list[Node] = []
    losses: tuple[Loss, ...] = ()
    if wants.replies or not wants.tools:
        ways.append(rules.define("reply", reply(row, plan, limits.reply)))
    if wants.tools:
        writer = CallWriter(shape_of(row), plan, rules, limits)
        calls = writer.calls(wants.tools)
        losses = tuple(writer.losses)
        if calls == NEVER and not wants.replies:
            raise ConfigError(
                f"none of the tools can be called in the format {row.name!r}",
                hint="; ".join(map(str, losses[:3])) or "offer at least one tool",
            )
        ways.append(rules.define("calls", calls))
    return Tree(choice(ways), rules.named), losses
