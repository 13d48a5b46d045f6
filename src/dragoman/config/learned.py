"""What was learned of endpoints, kept in a file beside the user's own: `learned.toml`, one row per address and model.

`dragoman doctor` writes rows that hold until it is asked again. What a run learns from an error is forgotten after a
week: whoever has mended his server should not have to know of this file.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from dragoman.config.files import parse, read_text, user_file
from dragoman.config.writing import to_toml
from dragoman.errors import ConfigError, DragomanError
from dragoman.providers import Fact
from dragoman.providers.endpoint import read_quirks
from dragoman.providers.provider import from_mapping

FILE = "learned.toml"
MOST_ROWS = 500
KEPT_DAYS = 7
"""How long a lesson counts that a run learned from an error."""
_DAY = 86_400
_HEAD = """\
# What dragoman has learned of endpoints by asking them. `dragoman doctor` writes this file, and so do runs in which an
# endpoint refused something. It may be edited, and it may be deleted: then everything is learned again.
"""

_ALWAYS = ("url", "model")
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")

Source = Literal["doctor", "run"]


class Lesson(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row of the file."""

    url: str
    model: str
    source: Source = "run"
    learned: str = ""
    """The day, as 2030-12-31."""
    native_tool_calls: bool | None = None
    wire: str = ""
    format: str = ""
    why: str = ""
    quirks: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def fact(self) -> Fact:
        return Fact(self.native_tool_calls, self.wire, self.why, self.quirks, self.capabilities, self.format)


class FileFacts:
    """Facts that outlive the process. What cannot be read or written costs the lesson, never the run."""

    def __init__(self, path: Path, source: Source = "run", calendar: Callable[[], float] = time.time) -> None:
        self.path = path
        self._source: Source = source
        self._calendar = calendar
        self._lessons: dict[tuple[str, str], Lesson] | None = None
        self._is_ours = True
        self.problems: list[str] = []
        """What is wrong with the file, in words."""

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        lesson = self._read().get((endpoint_url, model))
        return lesson.fact if lesson is not None and self._counts(lesson) else None

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        """Keep a fact. The doctor's replaces what was known; a run's is added to it."""
        # Somebody else may have written in the meantime.
        self._lessons = None
        lessons = self._read()
        before = lessons.pop((endpoint_url, model), None)
        whole = fact if self._source == "doctor" or before is None else before.fact | fact
        source = self._source if before is None or before.source == "run" else before.source
        lessons[endpoint_url, model] = Lesson(
            endpoint_url,
            model,
            source,
            self._today(),
            whole.native_tool_calls,
            whole.wire,
            whole.format,
            whole.why,
            whole.quirks,
            whole.capabilities,
        )
        self._write(lessons)

    def forget(self, endpoint_url: str, model: str) -> bool:
        """Drop what is known of an endpoint; whether there was anything."""
        self._lessons = None
        lessons = self._read()
        known = lessons.pop((endpoint_url, model), None)
        if known is not None:
            self._write(lessons)
        return known is not None

    def __len__(self) -> int:
        return len(self._read())

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _counts(self, lesson: Lesson) -> bool:
        if lesson.source == "doctor":
            return True
        try:
            day = time.mktime(time.strptime(lesson.learned, "%Y-%m-%d"))
        except (ValueError, OverflowError):
            return False
        return self._calendar() - day < (KEPT_DAYS + 1) * _DAY

    def _today(self) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(self._calendar()))

    def _read(self) -> dict[tuple[str, str], Lesson]:
        if self._lessons is None:
            try:
                self._lessons, problems = read_lessons(self.path)
            except ConfigError as error:
                # A file that somebody has edited, and broken, is his to mend: it is not written over.
                self._lessons, problems, self._is_ours = {}, [f"{self.path} is not used: {error}"], False
            self.problems += [problem for problem in problems if problem not in self.problems]
        return self._lessons

    def _write(self, lessons: Mapping[tuple[str, str], Lesson]) -> None:
        kept = list(lessons.values())[-MOST_ROWS:]
        if not self._is_ours:
            return
        try:
            replace_file(self.path, write_lessons(kept))
        except OSError as error:
            self.problems.append(f"{self.path} cannot be written: {(error.strerror or 'it failed').lower()}")


def learned_file(environment: Mapping[str, str]) -> Path | None:
    """Where lessons are kept: beside the user's own file; None where there is no place, or it is switched off."""
    own = user_file(environment)
    return own and own.parent / FILE


def read_lessons(path: Path) -> tuple[dict[tuple[str, str], Lesson], list[str]]:
    """The rows of a file, and what is wrong with the others. Raises ConfigError if it is none."""
    if not path.exists():
        return {}, []
    rows = parse(read_text(path), str(path)).get("facts", [])
    found: dict[tuple[str, str], Lesson] = {}
    problems = []
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        try:
            lesson = msgspec.convert(row, Lesson)
            # A flag that a later version has dropped must not break a run.
            read_quirks(lesson.quirks, "a row")
            from_mapping(lesson.capabilities)
        except (msgspec.ValidationError, DragomanError) as error:
            problems.append(f"{path}: fact {number} is not used: {error}")
        else:
            found[lesson.url, lesson.model] = lesson
    return found, problems


def write_lessons(lessons: list[Lesson]) -> str:
    """The text of a file."""
    parts = [_HEAD]
    for lesson in lessons:
        row = structs.asdict(lesson)
        tables = {name: row.pop(name) for name in ("quirks", "capabilities")}
        lines = ["\n[[facts]]"]
        lines += [
            f"{name} = {_write(value)}" for name, value in row.items() if value or name in _ALWAYS or value is False
        ]
        for name, table in tables.items():
            lines += [f"{name}.{flag} = {_write(value)}" for flag, value in table.items()]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _write(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_write, value)) + "]"
    # The words of an endpoint may hold what no TOML can: half a character, or one that controls a terminal.
    return to_toml(value.encode("utf-8", "replace").decode().translate(_CONTROLS) if isinstance(value, str) else value)


def replace_file(path: Path, text: str) -> None:
    """Write a file so that whoever reads it sees the old text or the new one, and nothing in between."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
