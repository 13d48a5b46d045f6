"""One line of the log: a JSON object whose last field is the hash of everything before it.

The hash is taken of the bytes as they stand, so there are no two ways to write the same record: a changed space is a
change. `prev` is the hash of the record before, which makes the lines a chain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

Kind = Literal[
    "decision",
    "approval_asked",
    "approval_given",
    "approval_ignored",
    "started",
    "ended",
    "run_started",
    "run_ended",
]
KINDS: tuple[str, ...] = get_args(Kind)
TORN = "torn"
"""Written by the log itself: what a writer that was killed has left in front of this record."""
GAP = "gap"
"""Written by the log itself: records that were there are gone, and the log goes on nevertheless."""
CONTINUED = "continued"
"""Written by the log itself: the first record of a file, behind the last one of the file before."""
NOTHING_BEFORE = "0" * 64
MOST_OF_A_LINE = 1 << 20
"""Bytes; a longer line was not written by the log."""

_MARK = b',"hash":"'
_TAIL = len(_MARK) + 64 + len(b'"}')


class Link(Struct, frozen=True):
    """What the chain needs to know of a record."""

    n: int
    kind: str
    prev: str
    hash: str


_decode_link = msgspec.json.Decoder(Link).decode


def write_line(number: int, at: float, kind: str, fields: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """A line with its end, and its hash."""
    record = {"n": number, "at": at, "kind": kind, **fields, "prev": previous}
    # ASCII alone: no reader of lines takes anything in it for the end of one.
    body = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    hashed = sha256(body).hexdigest()
    return body[:-1] + _MARK + hashed.encode("ascii") + b'"}\n', hashed


def read_link(line: bytes) -> Link | None:
    """The link of a line without its end; None if it is not as the log wrote it."""
    body, mark, hashed, end = line[:-_TAIL], line[-_TAIL:-66], line[-66:-2], line[-2:]
    if mark != _MARK or end != b'"}' or sha256(body + b"}").hexdigest().encode("ascii") != hashed:
        return None
    try:
        return _decode_link(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_record(line: bytes) -> dict[str, Any] | None:
    """A record with all its fields, whether it was changed or not; None if it is no JSON object."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
