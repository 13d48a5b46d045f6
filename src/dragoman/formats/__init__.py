"""Text formats for tool calls: parse, render, prompt instructions, grammars and explanations, from one catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from dragoman.errors import ConfigError
from dragoman.formats.nonce import NONCE, STALE_NONCE, nonce_format
from dragoman.formats.parser import Attempt as Explanation
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.registry import get, load_installed, names, plan_for, register, unregister
from dragoman.formats.template import Format
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

if TYPE_CHECKING:
    from dragoman.formats.grammars.builder import Grammar, Syntax
    from dragoman.formats.loose.stage import LooseParser
    from dragoman.formats.prompt import Layout
    from dragoman.formats.renderer import Call

Tools = Toolset | Iterable[object] | None
"""A prepared Toolset, or a list of tools, dicts or functions. None: every name may be a tool."""

__all__ = [
    "NONCE",
    "STALE_NONCE",
    "Explanation",
    "Format",
    "Parsed",
    "Parser",
    "augment_system_prompt",
    "explain",
    "fold",
    "from_response_template",
    "get",
    "grammar",
    "grammar_report",
    "instructions",
    "load_installed",
    "names",
    "needs_compact",
    "nonce_format",
    "parse",
    "parser",
    "register",
    "render",
    "unregister",
]


def parser(
    format: str | Format = "auto",
    tools: Tools = None,
    *,
    extra: Iterable[Format] = (),
    loose: bool = False,
    calls_in_thinking: Literal["report", "ignore"] = "report",
    starts_in_thinking: bool = False,
    more_thinking: bool = False,
) -> Parser | LooseParser:
    """Return a parser for text in pieces: `.feed(piece)` and `.close()` return events.

    `format` is a name or a row, which need not be registered. The parser also searches for the `extra` rows. `loose`
    also finds calls without the markers of a format. Calls inside thinking are reported as refused, or ignored and
    left as thinking; they never count. `starts_in_thinking`: the prompt contains the opening think tag.
    `more_thinking` also treats common words such as <reasoning> and <thinking> as think tags.
    """
    engine = Parser(
        plan_for(format, loose=loose, more_thinking=more_thinking, extra=extra),
        Toolset.of(tools),
        calls_in_thinking=calls_in_thinking,
        starts_in_thinking=starts_in_thinking,
    )
    return _load_loose()(engine) if loose else engine


@cache
def _load_loose() -> Callable[[Parser], LooseParser]:
    """Import loose mode once. A late import in a function costs a microsecond per call."""
    from dragoman.formats.improvised.entry import read_message
    from dragoman.formats.loose.stage import LooseParser

    return partial(LooseParser, read_message=read_message)


def parse(
    text: str,
    format: str | Format = "auto",
    tools: Tools = None,
    *,
    extra: Iterable[Format] = (),
    loose: bool = False,
    calls_in_thinking: Literal["report", "ignore"] = "report",
    starts_in_thinking: bool = False,
    more_thinking: bool = False,
) -> Parsed:
    """Parse a whole text. The options are those of `parser`."""
    if not isinstance(text, str):
        raise ConfigError(
            f"parse takes a text, not {type(text).__name__}",
            hint="decode bytes: data.decode(); give the body or the object of a reply to dragoman.extract",
        )
    stage = parser(
        format,
        tools,
        extra=extra,
        loose=loose,
        calls_in_thinking=calls_in_thinking,
        starts_in_thinking=starts_in_thinking,
        more_thinking=more_thinking,
    )
    return fold(stage.close(text))


def render(calls: Iterable[Call] | ToolCall, format: str | Format) -> str:
    """Write calls in a format. Raises CannotExpress for a value that the format cannot carry."""
    from dragoman.formats.renderer import as_calls
    from dragoman.formats.renderer import render as write

    row = format if isinstance(format, Format) else get(format)
    return write(as_calls(calls), row, plan_for(format))


def instructions(
    tools: Tools,
    format: str | Format = "fenced",
    compact: bool = False,
    *,
    layout: Layout = "schema",
    nonce: str | None = None,
) -> str:
    """Return the text for a system prompt that describes these tools and this format to a model.

    Each tool is described by its JSON Schema, or with `layout="list"` by a heading and one line per parameter.
    `compact` uses one line per tool. With a `nonce`, the text describes the nonce format instead of `format`.
    """
    from dragoman.formats.prompt import instruct

    return instruct(Toolset.of(tools) or Toolset(()), format, compact=compact, layout=layout, nonce=nonce)


def augment_system_prompt(
    existing: str | None,
    tools: Tools,
    *,
    compact: bool = False,
    format: str | Format = "fenced",
    layout: Layout = "schema",
    nonce: str | None = None,
) -> str:
    """Append the instructions to a system prompt: the prompt unchanged, one blank line, the instructions.

    Without tools, a prompt stays as it is: a model that learns how to call and has nothing to call invents tools.
    """
    from dragoman.formats.prompt import augment

    offered = Toolset.of(tools)
    if existing and offered is not None and not len(offered):
        return existing
    return augment(existing, instructions(offered, format, compact, layout=layout, nonce=nonce))


def needs_compact(prompt: str, *, native: bool, weak: bool) -> str | None:
    """Return why a model should get the compact instructions instead of this full prompt; None if it need not."""
    from dragoman.formats.prompt import needs_compact as judge

    return judge(prompt, native=native, weak=weak)


def from_response_template(name: str, declaration: Mapping[str, Any]) -> Format:
    """Make a row from the `response_template` in a model's tokenizer configuration, for `register`."""
    from dragoman.formats.declared import from_response_template as translate

    return translate(name, declaration)


def explain(text: str, format: str = "auto", tools: Tools = None, *, loose: bool = False) -> list[Explanation]:
    """Return, for every opener and near miss in the text, what the parser did with it, and why."""
    from dragoman.formats.explanation import explain as explain_text

    return explain_text(text, plan_for(format, loose=loose), Toolset.of(tools), loose=loose)


def grammar(
    tools: Tools,
    format: str | Format = "hermes",
    syntax: Syntax = "gbnf",
    *,
    tool_choice: str | Mapping[str, Any] = "auto",
    most_calls: int = 4,
    most_items: int = 16,
    longest_text: int | None = 1000,
    longest_reply: int | None = None,
    deepest: int = 3,
) -> str:
    """Return a grammar that restricts a model to calls of these tools in this format, or to a plain reply.

    `syntax` is `gbnf` (llama.cpp), `lark` (llguidance), or `json_schema` for formats that are JSON alone.
    `tool_choice` is `auto` (calls or a reply), `required`, `none`, or `{"name": ...}`. The limits apply if a schema
    states none: calls in a reply, items of a list, characters of a string, levels of free JSON and of recursion.
    `grammar_report` also lists the parts of the schemas that the grammar does not enforce.
    """
    return grammar_report(
        tools,
        format,
        syntax,
        tool_choice=tool_choice,
        most_calls=most_calls,
        most_items=most_items,
        longest_text=longest_text,
        longest_reply=longest_reply,
        deepest=deepest,
    ).text


def grammar_report(
    tools: Tools,
    format: str | Format = "hermes",
    syntax: Syntax = "gbnf",
    *,
    tool_choice: str | Mapping[str, Any] = "auto",
    most_calls: int = 4,
    most_items: int = 16,
    longest_text: int | None = 1000,
    longest_reply: int | None = None,
    deepest: int = 3,
) -> Grammar:
    """Return the grammar as `.text`, and in `.losses` the parts of the schemas that it does not enforce."""
    from dragoman.formats.grammars.builder import build
    from dragoman.formats.grammars.nodes import Limits

    row = format if isinstance(format, Format) else get(format)
    limits = Limits(most_calls, most_items, longest_text, longest_reply, deepest)
    toolset = Toolset.of(tools) or Toolset(())
    return build(toolset, row, plan_for(format), syntax=syntax, tool_choice=tool_choice, limits=limits)
