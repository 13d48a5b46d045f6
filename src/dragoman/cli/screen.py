"""Terminal output: excerpts, progress, exit codes; and the inputs of commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from dragoman.agent.result import Category, RunResult
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import UnknownRun, UnknownSession
from dragoman.secrets import scrub
from dragoman.toolset import Toolset
from dragoman.types import File, Image, InvalidCall, Text, ToolCall, ToolResult

# rich is imported by whatever draws first: many commands print nothing but plain text.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.status import Status


# --------------------------------------------------------------------------------------------------------------------
# How far a download is: a bar on a terminal, a line for every tenth in a pipe.

_STEPS = 10


class ProgressLine:
    """Call it with what is going on, what is done and how much there is; use it in a `with`."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, int] = {}

    def __call__(self, words: str, done: int, total: int) -> None:
        if self._silent:
            return
        if sys.stderr.isatty():
            self._draw(words, done, total)
        else:
            self._tell(words, done, total)

    def _draw(self, words: str, done: int, total: int) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            text = TextColumn("{task.description}", markup=False)
            columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        if words not in self._tasks:
            self._tasks[words] = self._progress.add_task(words, total=total or None)
        self._progress.update(self._tasks[words], completed=done, total=total or None)

    def _tell(self, words: str, done: int, total: int) -> None:
        step = done * _STEPS // total if total else 0
        if self._told.get(words, -1) >= step:
            return
        self._told[words] = step
        size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"
        print(f"{words}: {size}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


# --------------------------------------------------------------------------------------------------------------------
# Drawing on a terminal or into a pipe: the same words in both, colours only on a terminal.

# Escape sequences in a model's text could repaint the reader's terminal, so control characters are shown as pictures.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: "\u2421"} | {code: "\ufffd" for code in range(0x80, 0xA0)}


def show_controls(text: str) -> str:
    """The text with a picture for every control character but the ends of lines and tabs."""
    return text.translate(_PICTURES)


def may_be_terminal(stream: IO[str]) -> bool:
    """Whether rich may take a stream for a terminal; found without importing rich, by the variables that it reads."""
    return stream.isatty() or "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ


class Screen:
    """Prints lines made of styled words; nothing in them is taken for markup."""

    def __init__(self, file: IO[str] | None = None) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, file=file)
        self._started = False

    @property
    def width(self) -> int | None:
        """The width to fit into, or None in a pipe, where nothing is shortened."""
        return self._console.width if self._console.is_terminal else None

    def line(self, *words: str | tuple[str, str]) -> None:
        """Print words, each plain or with a style, on one line."""
        from rich.text import Text

        text = Text()
        for word in words:
            content, style = (word, "") if isinstance(word, str) else word
            text.append(show_controls(content), style)
        text.rstrip()
        self._console.print(text)
        self._started = True

    def block(self, content: str, *, indent: int = 2, style: str = "") -> None:
        """Print a text of several lines, indented."""
        for line in content.split("\n"):
            self.line(" " * indent, (line, style))

    def heading(self, title: str) -> None:
        if self._started:
            self.line()
        self.line((title, "bold"))


def write_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    # A lone surrogate becomes \udXXX through `backslashreplace`, which is how JSON itself writes it.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    print(json.dumps(value, ensure_ascii=False, indent=2))


def pretty_json(value: Any) -> str:
    """JSON for people: short values on one line, longer ones over several."""
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 72 else json.dumps(value, ensure_ascii=False, indent=2)


class Places:
    """Offsets in a text as people count: lines and columns from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = text.find("\n", position + 1)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def name(self, span: tuple[int, int]) -> str:
        """A span in words, such as `2:1, offsets 14..71`."""
        line, column = self.line_and_column(span[0])
        return f"{line}:{column}, offsets {span[0]}..{span[1]}"


# --------------------------------------------------------------------------------------------------------------------
# How a run ends for whoever started the command: the exit codes, and the words on standard error.

FATAL = 1
MISUSED = 2
CODES: dict[Category, int] = {"success": 0, "fatal": FATAL, "capacity": 3, "retryable": 4, "waiting": 5}
_MISUSES = (ConfigError, UnknownRun, UnknownSession)
SIGNALLED = 128
"""Added to the number of the signal: 130 for Ctrl-C, 143 for SIGTERM."""

WHAT_HELPS: dict[str, str] = {
    "turn_limit": "allow more with --turns N, then go on with --resume",
    "token_limit": "allow more with --tokens N",
    "cost_limit": "allow more with --cost N, or give a price in the configuration",
    "time_limit": "allow more with --seconds N",
    "context_full": "begin a new session, or choose a model with a larger window",
    "truncated": "allow a longer reply with --option max_tokens=N",
    "starved": "allow a longer reply with --option max_tokens=N, or less thinking with --option reasoning=low",
    "awaiting_approval": "`dragoman approvals list` shows what waits; once it is answered, --resume goes on",
    "unauthorized": "check the key and what it may do; `dragoman providers NAME` says where it is looked for",
}


def code_of(result: RunResult, signal: int | None = None) -> int:
    """The exit code of a run. `signal` is the one that ended it, if one did."""
    if signal is not None and result.outcome.kind == "cancelled":
        return SIGNALLED + signal
    return CODES[result.outcome.category]


def complain(message: str, hint: str = "") -> None:
    """Say what is wrong, and what to do about it; a provider's words may quote a key."""
    print(f"error: {show_controls(scrub(message))}", file=sys.stderr)
    if hint:
        print(f"hint: {show_controls(hint)}", file=sys.stderr)


def complain_about(error: Exception, environment: Mapping[str, str]) -> int:
    """Say what broke a run off, and give the exit code; no traceback unless somebody debugs."""
    if isinstance(error, DragomanError):
        complain(str(error), error.next_step)
        return MISUSED if isinstance(error, _MISUSES) else FATAL
    if isinstance(error, OSError):
        complain(f"the output cannot be written: {error.strerror or error}", "check where it goes, and the disk")
        return FATAL
    if environment.get("DRAGOMAN_DEBUG"):
        traceback.print_exception(error)
    complain(
        f"{type(error).__name__}: {error}",
        "this is a fault of dragoman itself; with DRAGOMAN_DEBUG=1 it shows where it happened",
    )
    return FATAL


# --------------------------------------------------------------------------------------------------------------------
# Short, harmless pieces of what models and tools say: for one line of a terminal, or a few.

# They turn the direction of what follows, so that a command can be made to look like another one.
_TURNS = {code: "\ufffd" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
_TURNS |= {0x2028: "\u240a", 0x2029: "\u240a"}
MOST_LINES = 4
MOST_OF_A_LINE = 160
_SLACK = 24


def tame(text: str) -> str:
    """The text without anything that moves a cursor, changes a colour or turns the direction of writing."""
    return show_controls(text.replace("\r\n", "\n")).translate(_TURNS)


def cut(text: str, most: int) -> str:
    """The beginning of a text; what was cut off is counted. A few characters more are not worth a cut."""
    if len(text) <= most + _SLACK:
        return text
    return f"{text[:most]}… (+{len(text) - most} characters)"


def one_line(text: str, most: int = MOST_OF_A_LINE) -> str:
    """A text on one line."""
    # Only as much as can be shown is looked at: a result may be long.
    beginning = text[: most + _SLACK]
    shown = tame(beginning.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", " "))
    if len(text) <= most + _SLACK:
        return shown
    return f"{shown[:most]}… (+{len(text) - most} characters)"


def first_lines(text: str, lines: int = MOST_LINES, width: int = MOST_OF_A_LINE) -> list[str]:
    """The first lines of a text, each of them cut; the last one says how many there are more."""
    stripped = text.strip("\n")
    pieces = stripped.split("\n", lines)
    shown = [cut(tame(piece.rstrip("\r").replace("\t", "    ")), width) for piece in pieces[:lines]]
    if len(pieces) > lines:
        more = pieces[lines].count("\n") + 1
        shown.append(f"… {more} more line{'s' if more > 1 else ''}")
    return shown


def write_call(call: ToolCall | InvalidCall, most: int = MOST_OF_A_LINE) -> str:
    """The arguments of a call on one line; of one that could not be read, what stood there."""
    written = write_arguments(call.arguments) if isinstance(call, ToolCall) else call.raw
    return one_line(written, most)


def write_arguments(arguments: Any, indent: int | None = None) -> str:
    """Arguments as JSON, whatever a model put into them."""
    try:
        return json.dumps(arguments, ensure_ascii=False, indent=indent, default=repr)
    except (ValueError, RecursionError):
        return repr(arguments)


_FIRST = ("path", "file", "file_path", "command", "url", "pattern", "query", "name")
"""What most calls are about, in the order in which it is named."""
_MOST_OF_A_VALUE = 80


def summarise(arguments: Mapping[str, Any]) -> str:
    """Arguments in a few words: what the call is about first, long values cut, and nothing of what is a secret."""
    named = sorted(arguments, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    return ", ".join(f"{one_line(str(name), 40)}: {_summarise_value(str(name), arguments[name])}" for name in named)


def _summarise_value(name: str, value: Any) -> str:
    from dragoman.secrets import scrub
    from dragoman.secrets.fields import Weight, weigh_key

    if weigh_key(name) >= Weight.SECRET:
        return "[redacted]"
    text = scrub(value if isinstance(value, str) else write_arguments(value))
    shown = tame(text[:_MOST_OF_A_VALUE].replace("\n", "\\n").replace("\t", " "))
    return shown if len(text) <= _MOST_OF_A_VALUE else f"{shown}…"


def result_text(result: ToolResult) -> str:
    """What a tool answered, as text; images and files by their kind."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text if isinstance(part, Text) else name_part(part) for part in result.content)


def name_part(part: Image | File) -> str:
    """An image or a file in a few words."""
    kind = type(part).__name__.lower()
    named = f" {part.name}" if isinstance(part, File) and part.name else ""
    return f"[{kind}{named}{', ' + part.media_type if part.media_type else ''}]"


# --------------------------------------------------------------------------------------------------------------------
# The line that moves while something is waited for: on a terminal alone, and gone when there is something to read.

_MOST = 100


class Waiting:
    """A spinner with a few words beside it."""

    def __init__(self, get_console: Callable[[], Console], *, shown: bool = True) -> None:
        self._get_console = get_console
        self._status: Status | None = None
        self._words = ""
        self._shown = shown

    @cached_property
    def is_live(self) -> bool:
        """Whether there is a terminal on which a line can move."""
        if not self._shown or not may_be_terminal(sys.stderr):
            return False
        console = self._get_console()
        return console.is_terminal and not console.is_dumb_terminal

    def show(self, words: str) -> None:
        """Show these words, or change them."""
        if not self.is_live or words == self._words:
            return
        from rich.text import Text

        self._words = words
        console = self._get_console()
        shown = Text(one_line(words, max(20, min(_MOST, console.width - 4))), "dim")
        if self._status is None:
            self._status = console.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def hide(self) -> None:
        """Take the line away."""
        self._words = ""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the line away while something is written, and bring it back."""
        words = self._words
        self.hide()
        yield
        if words:
            self.show(words)


# --------------------------------------------------------------------------------------------------------------------
# Reading what a command is given: the model's text and the tools that were offered to it.

STANDARD_INPUT = "-"


def read_text(path: str | None) -> str:
    """The text of a file, or of standard input when there is no file or it is `-`."""
    if path is None and sys.stdin.isatty():
        raise ConfigError(
            "there is no text to read",
            hint="name a file (dragoman parse reply.txt), pipe text in, or type it after: dragoman parse -",
        )
    data = sys.stdin.buffer.read() if path in (None, STANDARD_INPUT) else _read_file(path or "")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not an error: a model's output that was cut inside a character can still be read.
        print(f"note: byte {error.start} is not UTF-8; such bytes are read as U+FFFD", file=sys.stderr)
        return data.decode("utf-8-sig", "replace")


def read_json(path: str | None) -> Any:
    """The JSON value of a file, or of standard input."""
    if path is None and sys.stdin.isatty():
        raise ConfigError("there is no JSON to read", hint="name a file, or pipe it in")
    data = sys.stdin.buffer.read() if path in (None, STANDARD_INPUT) else _read_file(path or "")
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        name = "standard input" if path in (None, STANDARD_INPUT) else path
        raise ConfigError(f"{name} is not JSON: {error}", hint="give the body of a request as JSON") from None


def read_tools(path: str | None) -> Toolset | None:
    """The tools of a JSON file: a list of tools, one tool, or an object that has the list under `tools`."""
    if path is None:
        return None
    try:
        value: Any = msgspec.json.decode(_read_file(path))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint=_TOOLS_HINT) from None
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if not isinstance(value, list | dict):
        raise ConfigError(f"{path} holds no tools but {_name_of(value)}", hint=_TOOLS_HINT)
    return Toolset.of(value)


_TOOLS_HINT = 'it holds a list such as [{"name": "...", "description": "...", "parameters": {"type": "object"}}]'


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path}: {why}", hint="check the path; - reads standard input") from None
    except ValueError as error:
        raise ConfigError(f"cannot read {path!r}: {error}", hint="check the path") from None


def _name_of(value: object) -> str:
    return "null" if value is None else f"a {type(value).__name__}"
