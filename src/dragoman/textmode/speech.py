"""What an assistant said and called, as one text in a format, and read out of that text again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats import Format, Parsed
from dragoman.formats.renderer import difference
from dragoman.textmode.breaking import MARK, break_everything, break_tokens, mend_tokens
from dragoman.toolset import Toolset
from dragoman.types import Tool, ToolCall

FALLBACK = "fenced"
"""The format for calls that a model's own cannot carry: it writes JSON, which carries everything."""
_PROBE = ToolCall("", "zz_name", {"zz_key": "1"})


class Written(Struct, frozen=True):
    """A text, and what had to be done so that it reads back as it was meant."""

    text: str
    exact: bool = True
    format: str = ""
    broken: bool = False


class Speech:
    """Writes and reads the assistant's side of a conversation in one format."""

    def __init__(self, format: str | Format, tools: Toolset | None = None) -> None:
        self.row = format if isinstance(format, Format) else formats.get(format)
        self._format = format
        fallback = formats.get(FALLBACK)
        self._rows = (self.row,) if self.row is fallback else (self.row, fallback)
        self._tools = tools if tools is None or not _carries_types(self.row) else _names_only(tools)

    def parse(self, text: str) -> Parsed:
        """What stands in a text of this format; calls in the fallback are read as well."""
        return formats.parse(text, self._format, self._tools, extra=self._rows[1:])

    def read_text(self, parsed: Parsed) -> str:
        return mend_tokens(parsed.text.strip())

    def write(self, text: str, raws: Sequence[str], calls: Sequence[ToolCall]) -> Written:
        """The trimmed text, calls that could not be read as they were written, then the calls, joined by newlines."""
        text = text.strip()
        wanted = [call for raw in raws for call in self.parse(raw).calls] + list(calls)
        first: Written | None = None
        for format, rendered in self._render(calls):
            for shown in _ways_to_show(text):
                joined = "\n".join(filter(None, (shown, *raws, rendered)))
                written = Written(joined, format=format, broken=shown != text)
                first = first or written
                if self._reads_back(written.text, None if raws else text, wanted):
                    return written
        return Written(first.text if first else "\n".join(filter(None, (text, *raws))), exact=False)

    def _render(self, calls: Sequence[ToolCall]) -> Iterator[tuple[str, str]]:
        for row in self._rows:
            try:
                yield row.name, formats.render(calls, row) if calls else ""
            except (CannotExpress, ValueError, RecursionError):
                continue

    def _reads_back(self, written: str, text: str | None, calls: Sequence[ToolCall]) -> bool:
        parsed = self.parse(written)
        return (
            [call.name for call in parsed.calls] == [call.name for call in calls]
            and all(difference(one.arguments, other.arguments) is None for one, other in _pairs(calls, parsed.calls))
            and (text is None or (self.read_text(parsed) == text and not parsed.thinking and not parsed.broken))
        )


def _pairs(one: Iterable[ToolCall], other: Iterable[ToolCall]) -> Iterator[tuple[ToolCall, ToolCall]]:
    return zip(one, other, strict=True)


def _ways_to_show(text: str) -> Iterator[str]:
    """A text as it is; where that would be read as more than text, broken up, first a little and then thoroughly."""
    if MARK not in text:
        yield text
    if text:
        yield break_tokens(text).text
        yield break_everything(text)


def _carries_types(row: Format) -> bool:
    """Whether `"1"` comes back as text without a schema that says so."""
    try:
        written = formats.render([_PROBE], row)
    except CannotExpress:
        return False
    return [call.arguments for call in formats.parse(written, row).calls] == [_PROBE.arguments]


def _names_only(tools: Toolset) -> Toolset:
    """What was said stays as it was said: a schema would change arguments that do not fit it."""
    return Toolset(Tool(tool.name) for tool in tools)
