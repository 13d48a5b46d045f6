"""Our own rows: replies in the documented shapes of every wire, whole, streamed, damaged and broken off."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from tests.rows import Row, known_failures, read_rows

from dragoman.events import Event
from dragoman.replies import fold
from dragoman.types import Reply, Thinking
from dragoman.wire import get, names

ROWS = read_rows("wire")
KNOWN = known_failures("wire")
CHUNKINGS = (1, 7, 50)

every_wire = pytest.mark.parametrize("wire", names())


def rows_of(wire: str, form: str) -> list[Row]:
    return [row for row in ROWS if row["wire"] == wire and form in row]


def frame(kind: str, payload: Any) -> bytes:
    """A frame of an event stream, written from its description: lengths, headers, payload and two checksums."""
    special = kind.endswith("Exception")
    headers = {
        ":exception-type" if special else ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception" if special else "event",
    }
    block = b"".join(
        struct.pack(">B", len(name)) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(block) + len(body), len(block))
    prelude += struct.pack(">I", crc32(prelude))
    message = prelude + block + body
    return message + struct.pack(">I", crc32(message))


def bytes_of(row: Row) -> bytes:
    if row["wire"] == "bedrock":
        return b"".join(frame(kind, payload) for kind, payload in row["stream"])
    return "".join(row["stream"]).encode()


def events_of(row: Row, size: int | None = None) -> list[Event]:
    given = bytes_of(row)
    stream = get(row["wire"]).reply_stream()
    step = size or max(len(given), 1)
    pieces = [given[at : at + step] for at in range(0, len(given), step)]
    return [event for piece in pieces for event in stream.feed(piece)] + stream.close()


def faults_of(row: Row, reply: Reply) -> list[str]:
    """Where a reply is not as the row demands. What a row does not name is not looked at."""
    return [*_faults_of_content(row, reply), *_faults_of_ending(row, reply)]


def _faults_of_content(row: Row, reply: Reply) -> Iterator[str]:
    thinking = "".join(part.text for part in reply.message.parts if isinstance(part, Thinking))
    if reply.text != row.get("text", reply.text):
        yield f"text {reply.text!r}"
    if thinking != row.get("thinking", thinking):
        yield f"thinking {thinking!r}"
    calls = [(call.name, call.arguments) for call in reply.calls]
    if repr(calls) != repr([(name, arguments) for name, arguments, *_ in row["calls"]]):
        yield f"calls {calls}"
    wanted = [identity for _, _, identity in row["calls"]]
    if [call.wire_id for call in reply.calls] != wanted or not all(call.id for call in reply.calls):
        yield f"ids {[(call.id, call.wire_id) for call in reply.calls]}"
    invalid = [call.name for call in reply.invalid]
    if invalid != row.get("invalid", invalid):
        yield f"invalid {invalid}"


def _faults_of_ending(row: Row, reply: Reply) -> Iterator[str]:
    if reply.stop != row["stop"]:
        yield f"stop {reply.stop}"
    failure = reply.failure.kind if reply.failure else None
    if failure != row["failure"]:
        yield f"failure {reply.failure}"
    usage = reply.usage
    counted = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    if "usage" in row and counted != dict.fromkeys(counted, 0) | row["usage"]:
        yield f"usage {counted}"


def check(rows: list[Row], faults: dict[str, list[str]]) -> None:
    known = {row["id"] for row in rows} & KNOWN.keys()
    assert {identity: found for identity, found in faults.items() if found and identity not in known} == {}
    assert {identity for identity in known if not faults[identity]} == set(), "right by now: edit known.toml"


@every_wire
def test_whole_replies_say_what_they_were_built_from(wire: str) -> None:
    rows = rows_of(wire, "body")
    check(rows, {row["id"]: faults_of(row, get(wire).decode_reply(row["body"])) for row in rows})


@every_wire
def test_streams_say_what_they_were_built_from(wire: str) -> None:
    rows = rows_of(wire, "stream")
    check(rows, {row["id"]: faults_of(row, fold(events_of(row))) for row in rows})


@pytest.mark.parametrize("size", CHUNKINGS)
@every_wire
def test_any_cutting_of_a_stream_gives_the_same_events(wire: str, size: int) -> None:
    for row in rows_of(wire, "stream"):
        assert events_of(row, size) == events_of(row), row["id"]


@every_wire
def test_errors_are_told_apart(wire: str) -> None:
    rows = rows_of(wire, "status")
    assert rows
    faults = {}
    for row in rows:
        failure = get(wire).decode_failure(row["status"], row["error"], row.get("headers"))
        found = (failure.kind, failure.retry_after)
        faults[row["id"]] = [] if found == (row["failure"], row.get("retry_after")) else [str(failure)]
        if row["message"] not in failure.message:
            faults[row["id"]].append(f"message {failure.message!r}")
    check(rows, faults)


def test_there_are_enough_rows() -> None:
    assert len(ROWS) >= 300
    assert {row["wire"] for row in ROWS} == set(names())


def test_known_failures_name_a_row_and_a_reason() -> None:
    assert KNOWN.keys() <= {row["id"] for row in ROWS}
    assert all(reason.strip() for reason in KNOWN.values())
