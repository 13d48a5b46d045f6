"""The faults of an HTTP server, one row each.

A fault either is its own answer (a status, a page of HTML, no answer), or damages the intended answer (cut at a byte, a
wrong length, a frame sent twice). `apply_fault` converts an answer and a fault into steps: bytes to send, and what
happens to the connection in between.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from typing import Literal

from msgspec import Struct, field

FaultKind = Literal[
    "reset",
    "close",
    "end",
    "stall",
    "status",
    "html",
    "redirect",
    "garbage",
    "bomb",
    "long_line",
    "pings",
    "huge_head",
    "many_headers",
    "slow_head",
    "slow",
    "short_length",
    "long_length",
    "bad_chunk",
    "trailing_bytes",
    "duplicate",
    "reorder",
    "drop",
    "insert",
]
Happening = Literal["reset", "close", "stall", "pause", "wait"]


class Fault(Struct, frozen=True):
    """One fault.

    | kind | what happens | `at` |
    |---|---|---|
    | reset | the connection is reset | byte of the body; None: before the answer |
    | close | the connection is closed, the body unfinished | byte of the body; None: before the answer |
    | end | the body ends properly, but too early | byte of the body |
    | stall | nothing more comes, and nothing ends | byte of the body; None: no answer at all |
    | status | an answer of that `status`, `headers` and `body` | |
    | html | a page of HTML with status 200 | |
    | redirect | 307 to the address in `headers["location"]` | |
    | garbage | bytes that are not HTTP | |
    | bomb | `size` bytes of blanks, compressed | |
    | long_line | one line of `size` bytes that never ends | |
    | pings | comments of an event stream every `seconds`, for ever | |
    | huge_head | one header of `size` bytes | |
    | many_headers | `size` headers | |
    | slow_head | the head stops | byte of the head |
    | slow | the body in pieces, `seconds` apart, or each after `upstream.go_on()` | bytes of a piece |
    | short_length | the length that is announced is smaller than the body | bytes less, 1 if None |
    | long_length | the length that is announced is larger than the body | bytes more, 1 if None |
    | bad_chunk | the size of a chunk is not a number | |
    | trailing_bytes | more bytes follow the end of the body | |
    | duplicate | a frame is sent twice | frame |
    | reorder | a frame is sent after its successor | frame |
    | drop | a frame is not sent | frame |
    | insert | the bytes of `body` are sent between two frames | frame |
    """

    kind: FaultKind
    at: int | None = None
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | str = b""
    size: int = 0
    seconds: float | None = None

    @property
    def answers(self) -> bool:
        """Whether it is its own answer, and uses no reply of the script."""
        return self.kind in _OWN or (self.at is None and self.kind in ("reset", "close", "stall"))

    def payload(self) -> bytes:
        """Return the body as bytes."""
        return self.body.encode() if isinstance(self.body, str) else self.body


class Step(Struct, frozen=True):
    """Bytes to send, then an event of the connection, if any."""

    data: bytes = b""
    then: Happening | None = None
    seconds: float = 0.0
    repeats: bool = False


class IntendedAnswer(Struct, frozen=True):
    """The intended answer, with its body in pieces. One piece is sent with its length, several are sent in chunks."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    chunked: bool = False

    def head(self, length: int | None = None) -> bytes:
        framing = {"transfer-encoding": "chunked"} if self.chunked else {"content-length": str(length or 0)}
        lines = [f"HTTP/1.1 {self.status} {_phrase(self.status)}"]
        lines += [f"{name}: {value}" for name, value in {**self.headers, **framing}.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def write(self) -> list[bytes]:
        """Return the bytes of the whole answer."""
        body = b"".join(self.pieces)
        if not self.chunked:
            return [self.head(len(body)) + body]
        return [self.head(), *map(chunk, self.pieces), chunk(b"")]


def chunk(piece: bytes) -> bytes:
    """Return a piece in the chunked framing; the empty piece ends the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def apply_fault(fault: Fault | None, meant: IntendedAnswer) -> list[Step]:
    """Return the steps that replace the intended answer."""
    if fault is None:
        return [Step(data) for data in meant.write()]
    return _TABLE[fault.kind](fault, meant)


# ---- instead of an answer ------------------------------------------------------------------------------------------


def _status(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    headers = {"content-type": "application/json", **fault.headers}
    return [Step(data) for data in IntendedAnswer(fault.status, headers, [fault.payload()]).write()]


def _html(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    page = fault.payload() or b"<!DOCTYPE html><html><body><h1>Welcome</h1>Please log in to this network.</body></html>"
    return [Step(data) for data in IntendedAnswer(200, {"content-type": "text/html", **fault.headers}, [page]).write()]


def _redirect(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    headers = {"location": "http://elsewhere.invalid/", **fault.headers}
    return [Step(data) for data in IntendedAnswer(fault.status if fault.status // 100 == 3 else 307, headers).write()]


def _garbage(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    return [Step(fault.payload() or b"\x00\xff\xfeSSH-2.0-nothing here is HTTP\r\n\r\n", "close")]


def _bomb(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    body = compress_blanks(fault.size or 1 << 26)
    headers = {"content-type": "application/json", "content-encoding": "gzip", **fault.headers}
    return [Step(data) for data in IntendedAnswer(200, headers, [body]).write()]


@cache
def compress_blanks(size: int) -> bytes:
    """Return this many spaces, compressed about a thousandfold, without keeping them in memory."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    blanks = b" " * (1 << 20)
    packed = [packing.compress(blanks[: min(size - done, 1 << 20)]) for done in range(0, size, 1 << 20)]
    return b"".join([*packed, packing.flush()])


def _long_line(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    size = fault.size or 1 << 26
    head = IntendedAnswer(200, {"content-type": "text/event-stream", **fault.headers}, chunked=True).head()
    blanks = chunk(b" " * (1 << 16))
    return [Step(head + chunk(b"data: ")), *([Step(blanks)] * (size >> 16)), Step(then="stall")]


def _pings(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    head = IntendedAnswer(200, {"content-type": "text/event-stream", **fault.headers}, chunked=True).head()
    return [Step(head), Step(chunk(b": ping\n\n"), "pause", 0.01 if fault.seconds is None else fault.seconds, True)]


def _huge_head(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    return [Step(IntendedAnswer(200, {"x-large": "x" * (fault.size or 1 << 20)}).head(0))]


def _many_headers(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    return [Step(IntendedAnswer(200, {f"x-{number}": "y" for number in range(fault.size or 100_000)}).head(0))]


# ---- on the way ----------------------------------------------------------------------------------------------------


def _interrupt(fault: Fault, meant: IntendedAnswer, then: Happening) -> list[Step]:
    """Return the answer up to a byte of its body, then the event of the connection."""
    if fault.at is None:
        return [Step(then=then)]
    body = b"".join(meant.pieces)
    if not meant.chunked:
        return [Step(meant.head(len(body)) + body[: fault.at], then)]
    steps, left = [Step(meant.head())], fault.at
    for piece in meant.pieces:
        if len(piece) > left:
            # The chunk is announced in full.
            steps.append(Step(b"%x\r\n" % len(piece) + piece[:left]))
            break
        steps.append(Step(chunk(piece)))
        left -= len(piece)
    return [*steps, Step(then=then)]


def _end(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    body = b"".join(meant.pieces)[: fault.at]
    return [Step(data) for data in _with_pieces(meant, [body] if body else []).write()]


def _slow_head(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    return [Step(meant.head(1)[: fault.at or 20], "stall")]


def _slow(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    size = max(fault.at or 1, 1)
    head, *rest = meant.write()
    body = b"".join(rest)
    if not meant.chunked:
        mark = head.index(b"\r\n\r\n") + 4
        head, body = head[:mark], head[mark:]
    then: Happening = "wait" if fault.seconds is None else "pause"
    pieces = [body[place : place + size] for place in range(0, len(body), size)]
    return [Step(head), *(Step(piece, then, fault.seconds or 0.0) for piece in pieces)]


def _wrong_length(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    body = b"".join(meant.pieces)
    by = fault.at or 1
    length = max(len(body) - by, 0) if fault.kind == "short_length" else len(body) + by
    plain = IntendedAnswer(meant.status, meant.headers, meant.pieces)
    return [Step(plain.head(length) + body, "close")]


def _bad_chunk(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    head = IntendedAnswer(meant.status, meant.headers, chunked=True).head()
    good = [chunk(piece) for piece in meant.pieces[: fault.at or 0]]
    return [Step(head + b"".join(good) + b"zz\r\n" + b"".join(meant.pieces[fault.at or 0 :]) + b"\r\n", "close")]


def _trailing(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    *rest, last = meant.write()
    return [
        *(Step(data) for data in rest),
        Step(last + (fault.payload() or b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray")),
    ]


def _edit_frames(fault: Fault, meant: IntendedAnswer) -> list[Step]:
    frames, place = list(meant.pieces), fault.at or 0
    if fault.kind == "insert":
        frames.insert(place, fault.payload())
    elif place < len(frames):
        frame = frames.pop(place)
        if fault.kind == "duplicate":
            frames[place:place] = [frame, frame]
        elif fault.kind == "reorder":
            frames.insert(place + 1, frame)
    return [Step(data) for data in _with_pieces(meant, frames).write()]


def _with_pieces(meant: IntendedAnswer, pieces: list[bytes]) -> IntendedAnswer:
    return IntendedAnswer(meant.status, meant.headers, pieces, meant.chunked)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


_OWN = frozenset({"status", "html", "redirect", "garbage", "bomb", "long_line", "pings", "huge_head", "many_headers"})
_TABLE: dict[FaultKind, Callable[[Fault, IntendedAnswer], list[Step]]] = {
    "reset": partial(_interrupt, then="reset"),
    "close": partial(_interrupt, then="close"),
    "end": _end,
    "stall": partial(_interrupt, then="stall"),
    "status": _status,
    "html": _html,
    "redirect": _redirect,
    "garbage": _garbage,
    "bomb": _bomb,
    "long_line": _long_line,
    "pings": _pings,
    "huge_head": _huge_head,
    "many_headers": _many_headers,
    "slow_head": _slow_head,
    "slow": _slow,
    "short_length": _wrong_length,
    "long_length": _wrong_length,
    "bad_chunk": _bad_chunk,
    "trailing_bytes": _trailing,
    "duplicate": _edit_frames,
    "reorder": _edit_frames,
    "drop": _edit_frames,
    "insert": _edit_frames,
}
