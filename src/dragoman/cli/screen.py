"""Input and output of commands: files, the screen, progress, excerpts of long text, and errors."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import time
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from dragoman.agent.redaction import redact_arguments
from dragoman.agent.result import OutcomeKind, RunResult
from dragoman.characters import escape_json, escape_line, escape_message, escape_text, quote_value
from dragoman.cli.exit_codes import EXIT_CODES, FATAL, NO_ANSWER, SIGNAL_BASE, USAGE_ERROR, is_temporary
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import UnknownRun, UnknownSession
from dragoman.media import describe_size, measure, read_base64
from dragoman.secrets import HumanSink, scrub
from dragoman.toolset import Toolset
from dragoman.types import File, Image, Text, ToolResult

# rich is imported on first use: many commands print only plain text.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.status import Status


# ---- download progress -----------------------------------------------------------------------------------------------

_PROGRESS_STEPS = 10


class ProgressLine:
    """Prints the progress of a download: a bar on a terminal, a line for every tenth in a pipe. Use it in a `with`."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, int] = {}

    def __call__(self, text: str, done: int, total: int) -> None:
        if self._silent:
            return
        text = escape_line(text)
        if sys.stderr.isatty():
            self._draw(text, done, total)
        else:
            self._print_line(text, done, total)

    def _draw(self, text: str, done: int, total: int) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            label = TextColumn("{task.description}", markup=False)
            columns = (label, BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        if text not in self._tasks:
            self._tasks[text] = self._progress.add_task(text, total=total or None)
        self._progress.update(self._tasks[text], completed=done, total=total or None)

    def _print_line(self, text: str, done: int, total: int) -> None:
        step = done * _PROGRESS_STEPS // total if total else 0
        if self._printed.get(text, -1) >= step:
            return
        self._printed[text] = step
        size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"
        print(f"{text}: {size}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


# ---- output ----------------------------------------------------------------------------------------------------------

# `dragoman.characters` escapes what a person reads, at a terminal and in a pipe. Two outputs are for programs: the
# answer of a model and a path are unchanged in a pipe, and JSON spells invisible characters in its own way.


def print_line(text: str, *, error: bool = False) -> None:
    """Print one line for a person."""
    print(escape_line(text), file=sys.stderr if error else sys.stdout)


def print_path(path: str) -> None:
    """Print a path: for a person at a terminal, unchanged for a program in a pipe."""
    print(escape_line(path) if sys.stdout.isatty() else path)


def may_be_terminal(stream: IO[str]) -> bool:
    """Whether rich may treat a stream as a terminal. It checks the variables that rich reads, without an import."""
    return stream.isatty() or "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ


def can_draw(stream: IO[str]) -> bool:
    """Whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


class Screen:
    """Prints lines of styled words, in colour only on a terminal. Nothing in them is interpreted as markup."""

    def __init__(self, file: IO[str] | None = None) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, file=file)
        self._started = False

    @property
    def width(self) -> int | None:
        """The width of the terminal; None in a pipe, where nothing is shortened."""
        return self._console.width if self._console.is_terminal else None

    def line(self, *words: str | tuple[str, str]) -> None:
        """Print words, each plain or with a style, on one line. A line break in a word is an escape."""
        self._print([(word, "") if isinstance(word, str) else word for word in words], escape_line)

    def block(self, content: str, *, indent: int = 2, style: str = "") -> None:
        """Print a text of several lines, indented."""
        self.rows(" " * indent, escape_text(content), style)

    def rows(self, mark: str, escaped: str, style: str = "") -> None:
        """Print the lines of an escaped text, each behind a mark."""
        for line in escaped.split("\n"):
            self._print([(mark, ""), (line, style)], str)

    def _print(self, words: Iterable[tuple[str, str]], escape: Callable[[str], str]) -> None:
        print_row(self._console, [(escape(content), style) for content, style in words])
        self._started = True

    def heading(self, title: str) -> None:
        if self._started:
            self.line()
        self.line((title, "bold"))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print a line for every label whose content is not empty."""
        for label, content in facts:
            if content:
                self.line(GAP, (f"{label}: ", "yellow"), content)

    def fit(self, text: str, used: int) -> str:
        """A text cut to the rest of a line after `used` characters; in a pipe the whole text."""
        from rich.cells import cell_len, chop_cells

        room = None if self.width is None else max(_NARROWEST, self.width - used)
        if room is None or cell_len(text) <= room:
            return text
        return f"{chop_cells(text, room - 1)[0]}…"


GAP = "  "
_CONTINUED = "... "
_NARROWEST = 20
_LONGEST_WORD = 24
"""A longer word is broken at the margin."""


def print_row(console: Console, words: Iterable[tuple[str, str]], end: str = "\n") -> None:
    """Print escaped words with their styles on one line.

    A terminal would continue a long line in its first column, where it could look like a line of its own. So the
    continuation is indented and marked.
    """
    from rich.text import Text

    text = Text()
    for content, style in words:
        text.append(content, style)
    if end == "\n":
        text.rstrip()
    text.expand_tabs(4)
    if not console.is_terminal or text.cell_len <= console.width:
        console.print(text, end=end)
        return
    plain = text.plain
    indent = min(len(plain) - len(plain.lstrip()), 8) * " " + _CONTINUED
    offsets = _break_words(plain, max(console.width, _NARROWEST), max(console.width - len(indent), _NARROWEST))
    head, *rest = text.divide(offsets)
    parts = [head, *(Text(indent, "dim") + each for each in rest)]
    for part in parts[:-1]:
        console.print(part)
    console.print(parts[-1], end=end)


def _break_words(plain: str, first: int, others: int) -> list[int]:
    """Where the rows of a long line begin: behind a blank if one is near, else where the row is full."""
    from rich.cells import chop_cells

    offsets: list[int] = []
    start, width = 0, first
    for _ in range(len(plain)):
        # Only the part that can fit is measured: a line may be very long.
        row = chop_cells(plain[start : start + width + 1], width)[0]
        if start + len(row) >= len(plain):
            break
        blank = row.rfind(" ")
        start += blank + 1 if blank >= max(len(row) // 2, len(row) - _LONGEST_WORD) else len(row)
        offsets.append(start)
        width = others
    return offsets


def pad_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows of a table, escaped, with all cells but the last of each row as wide as their column."""
    rows = [[escape_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [[*map(str.ljust, row, widths), row[-1]] for row in rows]


class Table:
    """Rows in columns. A terminal that is too narrow shows fewer columns, or each row on several lines."""

    def __init__(
        self, screen: Screen, heads: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str] = ()
    ) -> None:
        """`optional` names the columns that may be left out, the least important one first."""
        self._screen = screen
        self._heads = heads
        cells = [[escape_line(cell) for cell in row] for row in (heads, *rows)]
        self._widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        self._shown = list(range(len(heads)))
        for name in optional:
            if not self._fits:
                self._shown.remove(heads.index(name))
        self._is_stacked = not self._fits

    @property
    def _fits(self) -> bool:
        *others, last = self._shown
        size = sum(self._widths[each] + len(GAP) for each in others) + min(self._widths[last], _NARROWEST)
        return self._screen.width is None or size <= self._screen.width

    def heads(self) -> None:
        if not self._is_stacked:
            self.row(self._heads, *["bold"] * len(self._heads))

    def row(self, cells: Sequence[str], *styles: str) -> None:
        """Print a row; the styles are those of its first cells."""
        cells = [escape_line(cell) for cell in cells]
        kinds = [*styles, *[""] * (len(cells) - len(styles))]
        first, *others = self._shown
        if self._is_stacked:
            self._screen.line((cells[first], kinds[first]))
            for each in others:
                if cells[each] not in ("", "-"):
                    label = f"{self._heads[each]}: " if self._heads[each] else ""
                    self._screen.line(GAP, (label, "dim"), (cells[each], kinds[each]))
            return
        words: list[str | tuple[str, str]] = []
        used = 0
        for each in self._shown[:-1]:
            words += [(cells[each].ljust(self._widths[each]), kinds[each]), GAP]
            used += self._widths[each] + len(GAP)
        last = self._shown[-1]
        self._screen.line(*words, (self._screen.fit(cells[last], used), kinds[last]))


def ellipsis(text: str, limit: int) -> str:
    """A text that is cut to `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def count(number: int, noun: str) -> str:
    """A number of things: `1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_time(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def write_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    # A lone surrogate becomes \udXXX through `backslashreplace`, which is how JSON itself writes it.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    print(escape_json(json.dumps(value, ensure_ascii=False, indent=2)))


def pretty_json(value: Any) -> str:
    """Readable JSON: short values on one line, longer ones on several. Invisible characters in it are escapes."""
    short = escape_json(json.dumps(value, ensure_ascii=False))
    return short if len(short) <= 72 else escape_json(json.dumps(value, ensure_ascii=False, indent=2))


class LineIndex:
    """Maps offsets in a text to lines and columns, which count from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = text.find("\n", position + 1)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def describe(self, span: tuple[int, int]) -> str:
        """A span as text, such as `2:1, offsets 14..71`."""
        line, column = self.line_and_column(span[0])
        return f"{line}:{column}, offsets {span[0]}..{span[1]}"


# ---- errors ----------------------------------------------------------------------------------------------------------

_USAGE_ERRORS = (ConfigError, UnknownRun, UnknownSession)

NO_FOLDER = ("the current folder does not exist any more", "change to a folder that exists: cd ~")
OUTCOME_HINTS: dict[OutcomeKind, str] = {
    "turn_limit": "allow more with --turns N, and resume with --resume",
    "token_limit": "allow more with --tokens N",
    "cost_limit": "allow more with --cost N, or give a price in the configuration",
    "time_limit": "allow more with --seconds N",
    "context_full": "start a new session, or choose a model with a larger context window",
    "truncated": "allow a longer reply with --option max_tokens=N",
    "starved": "allow a longer reply with --option max_tokens=N, or less thinking with --option reasoning=low",
    "awaiting_approval": "`dragoman approvals list` shows the requests; answer them, then use --resume",
    "blank": "try again, or choose another model",
    "mistake_limit": "a larger model, or --tool-mode text, may call the tools correctly",
    "looping": "the model repeats itself: ask for something smaller, or choose another model",
    "unauthorized": "check the key and its permissions; give it with --key @FILE, or in the variable that "
    "`dragoman providers NAME` names",
}


def exit_code_of(result: RunResult, signal: int | None = None) -> int:
    """The exit code of a run. `signal` is the one that ended it, if one did."""
    if signal is not None and result.outcome.kind == "cancelled":
        return SIGNAL_BASE + signal
    return EXIT_CODES[result.outcome.category]


def print_error(message: str, hint: str = "") -> None:
    """Print an error and a hint. A message of a provider may quote a key, so secrets are removed."""
    print(f"error: {escape_message(scrub(message))}", file=sys.stderr)
    if hint:
        print(f"hint: {escape_message(hint)}", file=sys.stderr)


def print_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {escape_message(warning)}", file=sys.stderr)


def report_error(error: Exception, environment: Mapping[str, str]) -> int:
    """Print the error that ended a run, and return the exit code. A traceback is printed with DRAGOMAN_DEBUG only."""
    if isinstance(error, DragomanError):
        print_error(str(error), error.command_hint)
        if is_temporary(error):
            return NO_ANSWER
        return USAGE_ERROR if isinstance(error, _USAGE_ERRORS) else FATAL
    if isinstance(error, OSError):
        print_error(*_explain_os_error(error))
        return USAGE_ERROR if error.errno == errno.ENOENT else FATAL
    if environment.get("DRAGOMAN_DEBUG"):
        print(escape_message("".join(traceback.format_exception(error)).rstrip("\n")), file=sys.stderr)
    print_error(
        f"{type(error).__name__}: {error}",
        "this is a bug in dragoman; set DRAGOMAN_DEBUG=1 to see a traceback, and report it",
    )
    return FATAL


def _explain_os_error(error: OSError) -> tuple[str, str]:
    """The message and the hint for an error of the system that no command expected."""
    try:
        os.getcwd()
    except OSError:
        if error.errno == errno.ENOENT:
            return NO_FOLDER
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{quote_value(os.fsdecode(error.filename))}: {why}", "check the path and its permissions"
    return f"cannot write the output: {why}", "check its destination and the disk space"


# ---- excerpts --------------------------------------------------------------------------------------------------------

MAX_LINES = 4
MAX_LINE_CHARS = 160
_SLACK = 24


def cut(text: str, limit: int) -> str:
    """The first `limit` characters and the number of those left out. A text that is only a little longer is kept."""
    if len(text) <= limit + _SLACK:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """A text on one line."""
    # A result may be long, so only the part that can be shown is processed.
    shown = escape_line(text[: limit + _SLACK].replace("\r\n", "\n"))
    return shown if len(text) <= limit + _SLACK else f"{shown[:limit]}… (+{len(text) - limit} characters)"


def first_lines(text: str, lines: int = MAX_LINES, width: int = MAX_LINE_CHARS) -> list[str]:
    """The first lines of a text, each cut to the width, and the number of lines left out."""
    stripped = text.strip("\n")
    pieces = stripped.split("\n", lines)
    shown = [cut(escape_text(piece.rstrip("\r").replace("\t", "    ")), width) for piece in pieces[:lines]]
    if len(pieces) > lines:
        hidden_lines = pieces[lines].count("\n") + 1
        shown.append(f"… {count(hidden_lines, 'more line')}")
    return shown


def write_arguments(arguments: Any) -> str:
    """Arguments as JSON; as Python writes them if JSON cannot."""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        return repr(arguments)


_MAIN_ARGUMENTS = ("path", "file", "file_path", "command", "url", "pattern", "query", "name")
"""The most important arguments, in the order in which they are printed."""
_MAX_VALUE_CHARS = 80


def summarise(arguments: Mapping[str, Any]) -> str:
    """Arguments on one line: the most important first, long values cut, secrets hidden."""
    arguments = redact_arguments(HumanSink(), dict(arguments), is_asked=False)
    named = sorted(
        arguments, key=lambda name: _MAIN_ARGUMENTS.index(name) if name in _MAIN_ARGUMENTS else len(_MAIN_ARGUMENTS)
    )
    return ", ".join(f"{one_line(str(name), 40)}: {_summarise_value(str(name), arguments[name])}" for name in named)


def _summarise_value(name: str, value: Any) -> str:
    from dragoman.secrets.fields import Weight, weigh_key

    if weigh_key(name) >= Weight.SECRET:
        return "[redacted]"
    text = value if isinstance(value, str) else scrub(write_arguments(value))
    shown = escape_line(text[:_MAX_VALUE_CHARS])
    return shown if len(text) <= _MAX_VALUE_CHARS else f"{shown}…"


def result_text(result: ToolResult) -> str:
    """The result of a tool as text; images and files by their kind."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text if isinstance(part, Text) else describe_part(part) for part in result.content)


_HEAD_CHARS = 4 * 16_384
"""The beginning of the data of an image, in which its dimensions are looked for."""


def describe_part(part: Image | File) -> str:
    """An image or a file in words: its kind, name, media type, dimensions and size, or its address."""
    found = [part.media_type or ""]
    if part.data is not None:
        size = measure(read_base64(part.data[:_HEAD_CHARS])) if isinstance(part, Image) else None
        found += [f"{size[0]}x{size[1]}"] if size is not None else []
        found.append(describe_size(len(part.data) * 3 // 4 - part.data[-2:].count("=")))
    elif part.url:
        found.append(one_line(part.url, 100))
    kind = type(part).__name__.lower()
    named = f" {part.name}" if isinstance(part, File) and part.name else ""
    return f"[{', '.join([kind + named, *filter(None, found)])}]"


# ---- spinner ---------------------------------------------------------------------------------------------------------

_MAX_SPINNER_CHARS = 100


class Spinner:
    """A spinner with a text beside it, on a terminal only."""

    def __init__(self, get_console: Callable[[], Console], *, shown: bool = True) -> None:
        self._get_console = get_console
        self._status: Status | None = None
        self._text = ""
        self._is_enabled = shown

    @cached_property
    def is_live(self) -> bool:
        """Whether there is a terminal that can show it."""
        if not self._is_enabled or not may_be_terminal(sys.stderr):
            return False
        console = self._get_console()
        return console.is_terminal and not console.is_dumb_terminal

    def show(self, text: str) -> None:
        """Show the spinner with this text, or change its text."""
        if not self.is_live or text == self._text:
            return
        from rich.text import Text

        self._text = text
        console = self._get_console()
        room = max(20, min(_MAX_SPINNER_CHARS, console.width - 4))
        shown = Text(ellipsis(one_line(text, _MAX_SPINNER_CHARS), room), "dim")
        if self._status is None:
            self._status = console.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def hide(self) -> None:
        self._text = ""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the spinner while something is printed, and show it again."""
        text = self._text
        self.hide()
        yield
        if text:
            self.show(text)


# ---- the prompt of a chat --------------------------------------------------------------------------------------------

CHAT_PROMPT = "you> "
CHAT_CONTINUATION = "   . "
QUOTES = '"""'
"""A line of them begins and ends a message of several lines."""

# ---- input files -----------------------------------------------------------------------------------------------------

STANDARD_INPUT = "-"


def read_text(path: str | None) -> str:
    """The text of a file, or of standard input when there is no file or it is `-`."""
    hint = "name a file (dragoman parse reply.txt), pipe text in, or type it after: dragoman parse -"
    data = _read_input(path, "text", hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not an error: text that was cut inside a character can still be parsed.
        print(f"note: byte {error.start} is not UTF-8; such bytes are read as U+FFFD", file=sys.stderr)
        return data.decode("utf-8-sig", "replace")


def read_json(path: str | None) -> Any:
    """The JSON value of a file, or of standard input."""
    data = _read_input(path, "JSON", "name a file, or pipe it in").removeprefix(b"\xef\xbb\xbf")
    name = "standard input" if path in (None, STANDARD_INPUT) else path
    return decode_json(data, str(name), "give the body of a request as JSON")


def read_tools(path: str | None) -> Toolset | None:
    """The tools of a Python file, or of a JSON file: a list, one tool, or an object that has the list under `tools`."""
    if path is None:
        return None
    if path.endswith(".py") or ".py:" in path:
        from dragoman.config.tool_sources import load_source  # it would make every command slower

        return Toolset.of(load_source(path))
    value = decode_json(_read_file(path), path, _TOOLS_HINT)
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if not isinstance(value, list | dict):
        found = "null" if value is None else f"a {type(value).__name__}"
        raise ConfigError(f"{path} contains {found} instead of tools", hint=_TOOLS_HINT)
    return Toolset.of(value)


_TOOLS_HINT = 'write a list such as [{"name": "...", "description": "...", "parameters": {"type": "object"}}]'


def read_bytes(path: str) -> bytes:
    """The content of a file, or of standard input if the path is `-`."""
    return _read_input(path, "input", "")


def _read_input(path: str | None, what: str, hint: str) -> bytes:
    if path is None and sys.stdin.isatty():
        raise ConfigError(f"there is no {what} to read", hint=hint)
    return sys.stdin.buffer.read() if path is None or path == STANDARD_INPUT else _read_file(path)


def decode_json(data: bytes, name: str, hint: str) -> Any:
    """The value of JSON that the user gave. Raises ConfigError with the name of its source."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON: {error}", hint=hint) from None


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path}: {why}", hint="check the path; - reads standard input") from None
    except ValueError as error:
        raise ConfigError(f"cannot read {path!r}: {error}", hint="check the path") from None
