"""The line editor of `dragoman chat`: messages of several lines, pastes, history and completion."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from dragoman.cli.screen import CHAT_CONTINUATION, CHAT_PROMPT, QUOTES
from dragoman.secrets import scrub
from dragoman.state_files import make_folder, opened, replace_file

_MOST_COMPLETIONS = 200

# ---- history ---------------------------------------------------------------------------------------------------------

_MOST_ENTRIES = 1000
_LARGEST_FILE = 4 * 1024 * 1024
_LONGEST_ENTRY = 20_000


class PrivateHistory(History):
    """The messages of earlier chats, one JSON string per line, in a file that only its owner can read.

    A message that contains a secret is not written. If the file cannot be used, the history lasts for one chat.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The messages, the newest first."""
        entries = self._read()
        if self._path is not None and len(entries) > _MOST_ENTRIES:
            entries = entries[-_MOST_ENTRIES:]
            with contextlib.suppress(OSError):
                replace_file(self._path, "".join(map(_as_line, entries)))
        return reversed(entries)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with opened(self._path, os.O_RDONLY) as descriptor:
                # The newest are at the end. The line that is cut is no JSON.
                os.lseek(descriptor, max(os.fstat(descriptor).st_size - _LARGEST_FILE, 0), os.SEEK_SET)
                data = os.read(descriptor, _LARGEST_FILE)
        except OSError:
            return []
        entries = []
        for line in data.splitlines():
            with contextlib.suppress(msgspec.DecodeError, UnicodeError):
                entries.append(msgspec.json.decode(line, type=str))
        return entries

    def store_string(self, string: str) -> None:
        if self._path is None or len(string) > _LONGEST_ENTRY or scrub(string) != string:
            return
        with contextlib.suppress(OSError):
            make_folder(self._path)
            with opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, 0o600)
                os.write(descriptor, _as_line(string).encode())


def _as_line(text: str) -> str:
    return json.dumps(text) + "\n"


# ---- completion ------------------------------------------------------------------------------------------------------

CompleteCommand = Callable[[str], Iterable[str]]
"""The texts that may stand in place of the argument of a command, given the line before the cursor."""


class MessageCompleter(Completer):
    """Completes the commands that begin with a slash, their arguments, and the names of files."""

    def __init__(self, commands: Iterable[str], complete_argument: CompleteCommand) -> None:
        self._commands = sorted(commands)
        self._complete_argument = complete_argument

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
        if before.startswith("/") and word == before:
            found: Iterable[str] = [f"/{name} " for name in self._commands if f"/{name}".startswith(word)]
        else:
            argument = self._complete_argument(before) if before.startswith("/") else ()
            found = [each for each in argument if each.startswith(word)] or complete_path(word)
        for number, each in enumerate(found):
            if number == _MOST_COMPLETIONS:
                return
            yield Completion(each, start_position=-len(word))


def complete_path(word: str) -> list[str]:
    """The paths that begin with a word. A folder ends with a slash."""
    folder, name = os.path.split(word)
    if not word:
        return []
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry.name + ("/" if entry.is_dir() else " ") for entry in entries if entry.name.startswith(name)]
    except (OSError, ValueError):
        return []
    return sorted(os.path.join(folder, each) for each in found if name.startswith(".") or not each.startswith("."))


# ---- the editor ------------------------------------------------------------------------------------------------------


class Interrupted(Exception):
    """Ctrl-C at an empty prompt."""


class LineEditor:
    """Reads messages at a terminal."""

    def __init__(self, history: Path | None, completer: Completer) -> None:
        # Standard output is for the answers of the model.
        output = create_output(stdout=sys.stderr)
        if isinstance(output, Vt100_Output):
            # A terminal that answers late would type its answer into the next question.
            output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            message=[("class:prompt", CHAT_PROMPT)],
            multiline=True,
            prompt_continuation=_continue,
            key_bindings=_bindings(),
            history=PrivateHistory(history),
            completer=completer,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_suspend=True,
            style=Style.from_dict({"prompt": "bold ansigreen"}),
            interrupt_exception=Interrupted,
            output=output,
        )

    async def read(self) -> str:
        """The next message. Raises EOFError at its end, and Interrupted."""
        return unquote(await self._session.prompt_async(set_exception_handler=False))

    def stop(self, error: BaseException) -> bool:
        """Let `read` raise an error, after it restored the terminal. Returns False if it does not wait."""
        app = self._session.app
        if not app.is_running or app.loop is None:
            return False

        def end() -> None:
            if app.is_running and app.future is not None and not app.future.done():
                app.exit(exception=error)

        app.loop.call_soon_threadsafe(end)
        return True


def _continue(width: int, line: int, is_wrapped: int) -> str:
    return " " * width if is_wrapped else CHAT_CONTINUATION


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif is_open(buffer.text) or _has_more(event):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=Interrupted(), style="class:aborting")

    return bindings


def _has_more(event: KeyPressEvent) -> bool:
    """Whether more keys have arrived: lines that were pasted without the marks of a paste are one message."""
    if event.app.key_processor.input_queue:
        return True
    try:
        return bool(select.select([event.app.input.fileno()], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def is_open(text: str) -> bool:
    """Whether a message began with a line of three quotes, and the second one has not come."""
    lines = [line.strip() for line in text.split("\n")]
    return lines[0] == QUOTES and lines.count(QUOTES) == 1


def unquote(text: str) -> str:
    """A message without the lines of three quotes around it."""
    lines = text.strip("\n").split("\n")
    if len(lines) > 1 and lines[0].strip() == QUOTES == lines[-1].strip():
        return "\n".join(lines[1:-1]).strip("\n")
    return text
