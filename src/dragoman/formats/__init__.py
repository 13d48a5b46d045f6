"""What models write: text tool calls in every known spelling, read, written and explained by one engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from dragoman.formats.engine import Attempt as Explanation
from dragoman.formats.engine import Parser
from dragoman.formats.parsed import Parsed, fold
from dragoman.formats.registry import get, names, plan_for, register, unregister
from dragoman.formats.row import Format
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

if TYPE_CHECKING:
    from dragoman.formats.looseness import LooseParser
    from dragoman.formats.rendering import Call

Tools = Toolset | Iterable[object] | None
"""Whatever describes tools: a prepared Toolset, or a list of tools, dicts or functions. None: nothing is gated."""

__all__ = [
    "Explanation",
    "Format",
    "Parsed",
    "Parser",
    "explain",
    "fold",
    "from_response_template",
    "get",
    "instructions",
    "names",
    "parse",
    "parser",
    "register",
    "render",
    "unregister",
]


def parser(
    format: str = "auto",
    tools: Tools = None,
    *,
    loose: bool = False,
    calls_in_thinking: Literal["report", "ignore"] = "report",
    starts_in_thinking: bool = False,
    more_thinking: bool = False,
) -> Parser | LooseParser:
    """A parser to feed piece by piece: `.feed(piece)` and `.close()` return events.

    `loose` also finds calls that no format announces. Calls inside thinking are reported as refused, or ignored and
    left as thinking; they never count. `starts_in_thinking`: the opening think tag stood in the prompt.
    `more_thinking` takes common words such as <reasoning> and <thinking> for think tags as well.
    """
    engine = Parser(
        plan_for(format, loose=loose, more_thinking=more_thinking),
        Toolset.of(tools),
        calls_in_thinking=calls_in_thinking,
        starts_in_thinking=starts_in_thinking,
    )
    if not loose:
        return engine
    from dragoman.formats.looseness import LooseParser

    return LooseParser(engine)


def parse(
    text: str,
    format: str = "auto",
    tools: Tools = None,
    *,
    loose: bool = False,
    calls_in_thinking: Literal["report", "ignore"] = "report",
    starts_in_thinking: bool = False,
    more_thinking: bool = False,
) -> Parsed:
    """Read a whole text: the same parser, closed with all of it. The options are those of `parser`."""
    stage = parser(
        format,
        tools,
        loose=loose,
        calls_in_thinking=calls_in_thinking,
        starts_in_thinking=starts_in_thinking,
        more_thinking=more_thinking,
    )
    return fold(stage.close(text))


def render(calls: Iterable[Call] | ToolCall, format: str) -> str:
    """Write calls the way a model of this format does. Raises CannotExpress for what the format cannot carry."""
    from dragoman.formats.rendering import as_calls
    from dragoman.formats.rendering import render as write

    row = get(format)
    return write(as_calls(calls), row, plan_for(row.name))


def instructions(tools: Tools, format: str = "fenced", compact: bool = False) -> str:
    """The text for a system prompt that teaches a model these tools and this format."""
    from dragoman.formats.prompt import sample_call, write_instructions

    offered = Toolset.of(tools) or Toolset(())
    return write_instructions(offered, render([sample_call(offered)], format), compact=compact)


def from_response_template(name: str, declaration: Mapping[str, Any]) -> Format:
    """A row from the `response_template` that a model ships in its tokenizer's configuration; `register` takes it."""
    from dragoman.formats.declared import from_response_template as translate

    return translate(name, declaration)


def explain(text: str, format: str = "auto", tools: Tools = None, *, loose: bool = False) -> list[Explanation]:
    """For every opener and near miss in the text: what became of it, and why."""
    from dragoman.formats.explaining import explain as explain_text

    return explain_text(text, plan_for(format, loose=loose), Toolset.of(tools), loose=loose)
