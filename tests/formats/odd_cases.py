"""Running a text through one row, whole and in pieces, for the tests of the odd formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.plan import Plan
from dragoman.formats.renderer import render, write_template
from dragoman.formats.template import Format
from dragoman.toolset import Toolset
from dragoman.types import ToolCall


def tool(name: str, required: Iterable[str] = (), **kinds: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": list(required)}}


TOOLS = Toolset(
    [
        tool("search", ["query"], query="string", limit="integer", tags="array", near="object"),
        tool("shell", ["command"], command="string", approved="boolean"),
        tool("python", ["code"], code="string"),
        tool("move", ["source", "target"], source="string", target="string"),
        tool("ping"),
    ]
)


def write(calls: Sequence[ToolCall], row: Format) -> str:
    """The calls as the row writes them, not yet read back: the reader under test has to do that."""
    return write_template(calls, row)


def write_checked(calls: Sequence[ToolCall], row: Format) -> str:
    """The calls as `formats.render` writes them: a text that would be read otherwise is refused."""
    return render(calls, row, Plan([row], named=True))


class Rows:
    """Parsers for some rows, compiled once."""

    def __init__(self, rows: Iterable[Format]) -> None:
        self.rows = {row.name: row for row in rows}
        self._plans = {name: Plan([row], named=True) for name, row in self.rows.items()}
        self._plans["all"] = Plan(self.rows.values(), named=False)

    def run(self, name: str, pieces: Iterable[str], tools: Toolset | None = TOOLS) -> Parsed:
        stage = Parser(self._plans[name], tools)
        events = [event for piece in pieces for event in stage.feed(piece)]
        return fold(events + stage.close())

    def read(self, name: str, text: str, tools: Toolset | None = TOOLS) -> Parsed:
        """Read the text whole, and make sure that nothing is lost and that no way of cutting it changes anything."""
        whole = self.run(name, [text], tools)
        assert "".join(event.raw for event in whole.events if hasattr(event, "raw")) == text
        expected = account(whole)
        assert account(self.run(name, list(text), tools)) == expected
        for place in range(1, len(text)):
            assert account(self.run(name, [text[:place], text[place:]], tools)) == expected, place
        return whole


def account(parsed: Parsed) -> tuple[Any, ...]:
    refused = [event.call for event in parsed.refused]
    broken = [(event.raw, event.why, event.span, event.is_cut) for event in parsed.broken]
    return parsed.text, parsed.thinking, parsed.calls, refused, broken


def calls_of(parsed: Parsed) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in parsed.calls]
