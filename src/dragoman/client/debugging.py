"""`DRAGOMAN_DEBUG`: the exact bytes of every request and answer, without the secrets in them.

`1` writes to stderr, a path appends to that file, a function is called with each block. One block holds one request
and its answer, and is written when the answer is over, so that blocks of concurrent requests do not mix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman.client.transport import HttpRequest
from dragoman.secrets.exchanges import RequestRedactor

VARIABLE = "DRAGOMAN_DEBUG"
SHOWN = 1024 * 1024
"""How many bytes of a body are shown."""
_OFF = frozenset({"", "0", "false", "no", "off"})
_ON = frozenset({"1", "true", "yes", "on", "stderr", "-"})

Writer = Callable[[str], object]


def choose_writer(given: bool | str | Path | Writer | None, environment: Mapping[str, str]) -> Writer | None:
    """Where blocks go; None if nobody wants them."""
    setting = environment.get(VARIABLE, "") if given is None else given
    if callable(setting):
        return setting
    text = "1" if setting is True else "" if setting is False else str(setting).strip()
    if text.lower() in _OFF:
        return None
    if text.lower() in _ON:
        return _write_to_stderr
    return _FileWriter(Path(text)).write


class Record:
    """One request and its answer, as they are seen."""

    def __init__(self, request: HttpRequest, scrubber: RequestRedactor) -> None:
        self._scrubber = scrubber
        self._parts: list[bytes] = []
        self._size = 0
        self._missing = 0
        self._request = request
        self._head = "no answer"

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status}"]
        lines += [f"{name}: {self._scrubber.header(name, value)}" for name, value in headers.items()]
        self._head = "\n".join(lines)

    def add(self, piece: bytes) -> None:
        room = SHOWN - self._size
        if room > 0:
            self._parts.append(piece[:room])
            self._size += min(len(piece), room)
        self._missing += max(0, len(piece) - max(0, room))

    def write(self, number: int, note: str = "") -> str:
        """The block. Both bodies are scrubbed as a whole: a secret that came in two pieces is found."""
        request = self._request
        lines = [f"{request.method} {self._scrubber.address(request.url)}"]
        lines += [f"{name}: {self._scrubber.header(name, value)}" for name, value in request.headers.items()]
        sent = self._show(request.body[:SHOWN], max(0, len(request.body) - SHOWN))
        came = self._show(b"".join(self._parts), self._missing)
        end = f"\n--- {self._scrubber.text(note)}" if note else ""
        return (
            f"=== request {number}\n"
            + "\n".join(lines)
            + f"\n\n{sent}\n--- answer {number}\n{self._head}\n\n{came}{end}\n"
        )

    def _show(self, data: bytes, missing: int) -> str:
        text = self._scrubber.data(data).decode("utf-8", "backslashreplace")
        return f"{text}\n... and {missing} bytes more" if missing else text


class Debugger:
    """Numbers the blocks of one client and hands them to the writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._count = 0

    def open(self, request: HttpRequest, scrubber: RequestRedactor) -> Record:
        return Record(request, scrubber)

    def close(self, record: Record, note: str = "") -> None:
        self._count += 1
        self._writer(record.write(self._count, note))


def _write_to_stderr(block: str) -> None:
    print(block, file=sys.stderr, flush=True)


class _FileWriter:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, block: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(block + "\n")
