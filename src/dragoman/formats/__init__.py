"""What models write: text tool calls in every known spelling, read, written and explained by one engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from dragoman.formats.nonce import NONCE, STALE_NONCE, nonce_format
from dragoman.formats.parser import Attempt as Explanation
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.registry import get, names, plan_for, register, unregister
from dragoman.formats.template import Format
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

if TYPE_CHECKING:
    from dragoman.formats.grammars.builder import Grammar, Syntax
    from dragoman.formats.loose.stage import LooseParser
    from dragoman.formats.prompt import Layout
    from dragoman.formats.renderer import Call

Tools = Toolset | Iterable[object] | None
"""Whatever describes tools: a prepared Toolset, or a list of tools, dicts or functions. None: nothing is gated."""

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
    """A parser to feed piece by piece: `.feed(piece)` and `.close()` return events.

    `format` is a name, or a row, which need not be registered; `extra` rows are looked for as well. `loose` also finds
    calls that no format announces. Calls inside thinking are reported as refused, or ignored and left as thinking;
    they never count. `starts_in_thinking`: the opening think tag stood in the prompt. `more_thinking` takes
    common words such as <reasoning> and <thinking> for think tags as well.
    """
    engine = Parser(
        plan_for(format, loose=loose, more_thinking=more_thinking, extra=extra),
        Toolset.of(tools),
        calls_in_thinking=calls_in_thinking,
        starts_in_thinking=starts_in_thinking,
    )
    if not loose:
        return engine
    from dragoman.formats.loose.stage import LooseParser

    return LooseParser(engine)


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
    """Read a whole text: the same parser, closed with all of it. The options are those of `parser`."""
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
    """Write calls the way a model of this format does. Raises CannotExpress for what the format cannot carry."""
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
    """The text for a system prompt that teaches a model these tools and this format.

    Tools are described by their JSON Schemas, or in `layout="list"` by a heading and a line for each parameter;
    `compact` spends one line on a tool. With a `nonce` the wrapper of this turn is taught, whatever the format.
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
    """A system prompt with the instructions behind it: yours comes first, unchanged, then one blank line."""
    from dragoman.formats.prompt import augment

    return augment(existing, instructions(tools, format, compact, layout=layout, nonce=nonce))


def needs_compact(prompt: str, *, native: bool, weak: bool) -> str | None:
    """Why a model should be given the compact instructions instead of this full prompt; None if it may stay."""
    from dragoman.formats.prompt import needs_compact as judge

    return judge(prompt, native=native, weak=weak)


def from_response_template(name: str, declaration: Mapping[str, Any]) -> Format:
    """A row from the `response_template` that a model ships in its tokenizer's configuration; `register` takes it."""
    from dragoman.formats.declared import from_response_template as translate

    return translate(name, declaration)


def explain(text: str, format: str = "auto", tools: Tools = None, *, loose: bool = False) -> list[Explanation]:
    """For every opener and near miss in the text: what became of it, and why."""
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
    """What a model may write: calls of these tools in this format, or a plain reply; for engines that hold it to that.

    `syntax` is `gbnf` (llama.cpp), `lark` (llguidance), or `json_schema` for formats that are JSON alone.
    `tool_choice` is `auto` (calls or a reply), `required`, `none`, or `{"name": ...}`. The limits hold where a schema
    states none: calls in a reply, items of a list, characters of a text, levels of free JSON and of recursion.
    `grammar_report` also says what of the schemas is not held.
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
    """The grammar as `.text`, and in `.losses` everything in the schemas that it cannot hold a model to."""
    from dragoman.formats.grammars.builder import build
    from dragoman.formats.grammars.nodes import Limits

    row = format if isinstance(format, Format) else get(format)
    limits = Limits(most_calls, most_items, longest_text, longest_reply, deepest)
    toolset = Toolset.of(tools) or Toolset(())
    return build(toolset, row, plan_for(format), syntax=syntax, tool_choice=tool_choice, limits=limits)
