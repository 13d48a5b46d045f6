"""The last exchanges of a gateway in memory, without secrets, and on request in files.

The store has two limits: a number of exchanges, and their size. The oldest exchange is removed first. Everything in it
has passed the scrubber before; the store itself changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from dragoman.characters import escape_message
from dragoman.errors import ConfigError
from dragoman.pipeline.report import Report
from dragoman.state_files import opened
from dragoman.types import InvalidCall, JsonObject, ToolCall

log = logging.getLogger("dragoman.server")

MOST_EXCHANGES = 200
MOST_BYTES = 64 * 1024 * 1024
"""The size of all exchanges together, as JSON."""
MOST_SUBSCRIBERS = 16
_MOST_WAITING = 256
_SMALLEST = 2000
MOST_OF_A_FILE = 64 * 1024 * 1024
KEPT_FILES = 4
RECORD_FILE = "exchanges.jsonl"

Filter = Literal["all", "repaired", "refused", "failed"]
FILTERS: tuple[Filter, ...] = ("all", "repaired", "refused", "failed")
MarkKind = Literal["call", "refused", "invalid", "suspect"]


class Sent(Struct, frozen=True):
    """An HTTP request without secrets."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    is_cut: bool = False
    """Whether the body is only a beginning."""


class Hop(Struct, frozen=True):
    """One request to an endpoint, and its raw answer."""

    sent: Sent
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    note: str = ""
    """Why the body is not the one that came, or how the connection failed."""
    wait: float = 0.0
    """Seconds until the head of the answer."""
    seconds: float = 0.0


class Mark(Struct, frozen=True):
    """A place in the text of a reply: a call, or something that is not one."""

    kind: MarkKind
    name: str
    span: tuple[int, int]
    why: str = ""


class Held(Struct, frozen=True):
    """A call that does not fit its tool or does not count, and the reason."""

    kind: MarkKind
    name: str
    why: str
    arguments: JsonObject | None = None


class Turn(Struct, frozen=True):
    """One reply of a model, and what was found in it."""

    text: str = ""
    thinking: str = ""
    native: list[ToolCall | InvalidCall] = field(default_factory=list)
    """The calls in fields of the wire, as the endpoint sent them."""
    calls: list[ToolCall] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    stop: str = ""
    notice: str = ""
    tool_mode: str = ""
    format: str = ""
    trust: str = ""
    family: tuple[str, ...] | None = None
    """The formats of the model, if they are known."""
    opens_thinking: bool = False


class Entry(Struct, frozen=True):
    """One exchange."""

    id: str
    number: int
    began: float
    """Seconds since 1970."""
    sent: Sent
    report: Report
    hops: list[Hop] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    tools: list[JsonObject] = field(default_factory=list)
    trust: str = "compat"
    profile: str = ""
    dollars: float | None = None
    prompt: str = ""
    """The beginning of the last message of the user."""
    replay_of: str = ""
    running: bool = False
    size: int = _SMALLEST
    """The bytes of the entry as JSON."""

    @property
    def state(self) -> str:
        """One word for the list."""
        if self.running:
            return "running"
        report = self.report
        if report.failure:
            return "failed"
        if report.repair_turn and report.calls:
            # What was wrong with the first reply is right in the second one.
            return "repaired"
        if report.refused or report.invalid or report.suspects:
            return "refused"
        return "repaired" if self.report.is_repaired else "ok"

    def fits(self, show: Filter, words: str = "") -> bool:
        """Whether a filter and a search let the entry through."""
        report = self.report
        kinds: dict[Filter, bool] = {
            "all": True,
            "repaired": self.report.is_repaired,
            "refused": bool(report.refused or report.invalid or report.suspects),
            "failed": bool(report.failure),
        }
        return kinds[show] and (not words or self._contains(words.casefold()))

    def _contains(self, words: str) -> bool:
        return any(words in text.casefold() for text in self._texts())

    def _texts(self) -> Iterator[str]:
        report = self.report
        yield f"{self.id} {report.requested_model} {report.model} {report.wire} {report.failure} {report.client}"
        yield " ".join([*report.notes, *report.losses, *report.retries, report.repair_turn])
        yield self.sent.url
        yield self.sent.body
        for hop in self.hops:
            yield hop.sent.url
            yield hop.body
        for turn in self.turns:
            yield turn.text
            yield " ".join([*(call.name for call in turn.calls), *(f"{each.name} {each.why}" for each in turn.held)])


Change = tuple[str, Entry]
"""What happened to an entry: `changed`, or `removed`."""


class Store:
    """Keeps the last entries, and tells subscribers about each change."""

    def __init__(
        self, most: int = MOST_EXCHANGES, most_bytes: int = MOST_BYTES, file: RecordFile | None = None
    ) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._queues: set[asyncio.Queue[Change | None]] = set()
        self._file = file
        self.size = 0
        self.dropped = 0
        """Exchanges that were not kept, because too many waited for their redaction."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> None:
        """Keep an entry, or replace the one with the same id. Remove the oldest ones above the limits."""
        before = self._entries.get(entry.id)
        self.size += entry.size - (before.size if before is not None else 0)
        self._entries[entry.id] = entry
        while len(self._entries) > self._most or (self.size > self._most_bytes and len(self._entries) > 1):
            _, oldest = self._entries.popitem(last=False)
            self.size -= oldest.size
            self._tell("removed", oldest)
        self._tell("changed", entry)

    def remove(self, id: str) -> None:
        """Remove an entry that cannot be kept."""
        entry = self._entries.pop(id, None)
        if entry is not None:
            self.size -= entry.size
            self._tell("removed", entry)

    @property
    def has_file(self) -> bool:
        """Whether the entries are written to a file, too."""
        return self._file is not None

    def write(self, entry: Entry) -> None:
        """Add a finished entry to the file. This blocks, so it runs in a thread."""
        if self._file is not None:
            self._file.append(entry)

    def find(self, id: str) -> Entry | None:
        """Return an entry that is still kept."""
        return self._entries.get(id)

    def list(self, show: Filter = "all", words: str = "") -> list[Entry]:
        """Return the entries that fit, the newest first."""
        return [entry for entry in reversed(list(self._entries.values())) if entry.fits(show, words)]

    # ---- subscribers ------------------------------------------------------------------------------------------------

    def subscribe(self) -> asyncio.Queue[Change | None] | None:
        """Return a queue of changes; None if there are too many. `None` in the queue ends it."""
        if len(self._queues) >= MOST_SUBSCRIBERS:
            return None
        queue: asyncio.Queue[Change | None] = asyncio.Queue(_MOST_WAITING)
        self._queues.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[Change | None]) -> None:
        self._queues.discard(queue)

    def close(self) -> None:
        """End all subscriptions."""
        for queue in list(self._queues):
            self._end(queue)

    def _tell(self, what: str, entry: Entry) -> None:
        for queue in list(self._queues):
            if queue.full():
                # A page that reads too slowly connects again, and loads the list anew.
                self._end(queue)
            else:
                queue.put_nowait((what, entry))

    def _end(self, queue: asyncio.Queue[Change | None]) -> None:
        self._queues.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


# --------------------------------------------------------------------------------------------------------------------
# Files: one JSON object per line. Only their owner can read them.


class RecordFile:
    """Appends entries to a file in a folder of its own. A file above the limit is renamed; the oldest is deleted."""

    def __init__(self, folder: Path, most: int = MOST_OF_A_FILE, kept: int = KEPT_FILES) -> None:
        """Raises ConfigError if the folder cannot be used, or if others can read it."""
        self._path = open_folder(folder) / RECORD_FILE
        self._most, self._kept = most, kept
        self._has_failed = False

    def append(self, entry: Entry) -> None:
        """Write one line. A full disk ends the recording, and not the gateway."""
        if self._has_failed:
            return
        line = encode_entry(entry) + b"\n"
        try:
            self._rotate(len(line))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            with opened(self._path, flags) as descriptor:
                os.fchmod(descriptor, 0o600) if hasattr(os, "fchmod") else None
                _write(descriptor, line)
        except OSError as error:
            self._has_failed = True
            log.error("exchanges are no longer recorded: %s", escape_message(f"{self._path}: {error.strerror}"))

    def _rotate(self, size: int) -> None:
        try:
            if os.lstat(self._path).st_size + size <= self._most:
                return
        except FileNotFoundError:
            return
        names = [self._path, *(self._path.with_name(f"exchanges.{number}.jsonl") for number in range(1, self._kept))]
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_folder(folder: Path) -> Path:
    """Create the folder of a recording, or check it: it has to be a folder that only its owner can use."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot record to {folder}: {error.strerror}", hint="name a folder with --record") from None
    if not S_ISDIR(found.st_mode):
        raise ConfigError(f"cannot record to {folder}: it is not a folder", hint="name a folder with --record")
    if os.name == "posix" and (S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.getuid()):
        hint = "name a folder for the exchanges alone; it is created with the right mode"
        raise ConfigError(f"cannot record to {folder}: other users can read it", hint=hint)
    return folder


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as one line of JSON."""
    return msgspec.json.encode(entry, enc_hook=_encode_other)


def _encode_other(value: Any) -> str:
    return str(value)
