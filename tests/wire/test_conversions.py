"""Replies that one wire gave, told on every other: calls, text, thinking and stop are the same there."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.rows import read_rows
from tests.tables import each_row
from tests.wire.test_own_rows import bytes_of

from dragoman.replies import fold, unfold
from dragoman.types import File, Image, Reply, Text, Thinking
from dragoman.wire import get, names

# What a wire has no word for; the stop becomes the plain end.
NO_WORD = {"cohere": {"refusal", "pause"}, "ollama": {"refusal", "pause", "stop_sequence"}}
_is_file = re.compile(r"\[file[ :][^]]*\]")
ENDS = {"end", "stop_sequence", "pause", "unknown"}


def describe(reply: Reply) -> dict[str, Any]:
    thinking = "".join(part.text for part in reply.message.parts if isinstance(part, Thinking))
    calls = [(call.name, call.arguments) for call in reply.calls]
    # The chat wire has a field for a refusal, and stops as after any answer.
    refuses = any(isinstance(part, Text) and part.is_refusal for part in reply.message.parts)
    stop = "refusal" if refuses else reply.stop
    return {"calls": calls, "text": reply.text, "thinking": thinking, "stop": stop}


def retell(reply: Reply, wire: str) -> Iterator[Reply]:
    """The reply as a client of the wire reads it: whole and streamed."""
    codec = get(wire)
    yield codec.decode_reply(json.loads(json.dumps(codec.encode_reply(reply))))
    writer, reader = codec.event_stream(model="m", id="i"), codec.reply_stream()
    pieces = [piece for event in unfold(reply) for piece in writer.feed(event)] + writer.close()
    yield fold([event for piece in pieces for event in reader.feed(piece)] + reader.close())


def changes(reply: Reply, wire: str) -> list[str]:
    """What is not the same on this wire, but for what it has no form for."""
    wanted = describe(reply)
    if wanted["stop"] in NO_WORD.get(wire, ()) or wanted["stop"] in ENDS:
        wanted["stop"] = "end"
    found: list[str] = []
    for got in map(describe, retell(reply, wire)):
        if got["stop"] in ENDS or got["stop"] == reply.stop:
            # The same, or the word of the wire itself that came back to it.
            got["stop"] = wanted["stop"]
        if wire == "anthropic" and any(isinstance(part, Image) for part in reply.message.parts):
            # Its model shows no images: words stand for them.
            got["text"] = wanted["text"]
        if any(isinstance(part, File) for part in reply.message.parts) and _is_file.search(got["text"]):
            # Words stand for a recording, where a wire has no form for it.
            got["text"] = _is_file.sub("", got["text"])
        found += [
            f"{name}: {wanted[name]!r} became {got[name]!r}"[:400] for name in wanted if wanted[name] != got[name]
        ]
    return found


def own_replies(wire: str) -> Iterator[tuple[str, Reply]]:
    for row in read_rows("wire"):
        if row["wire"] == wire and row.get("failure") is None and not row.get("invalid"):
            if "body" in row:
                yield row["id"], get(wire).decode_reply(row["body"])
            elif "stream" in row:
                stream = get(wire).reply_stream()
                yield row["id"], fold(stream.feed(bytes_of(row)) + stream.close())


@each_row("target", names())
@each_row("source", names())
def test_our_own_replies_say_the_same_on_every_wire(source: str, target: str) -> None:
    replies = list(own_replies(source))
    assert len(replies) > 10
    assert {identity: found for identity, reply in replies if (found := changes(reply, target))} == {}


@pytest.mark.full
@pytest.mark.parametrize("target", names())
def test_recorded_replies_say_the_same_on_every_wire(target: str, shared_data: Callable[[str], Path]) -> None:
    found: dict[str, list[str]] = {}
    with gzip.open(shared_data("recordings_dev.jsonl.gz")) as file:
        for line in file:
            row = msgspec.json.decode(line)
            data = base64.b64decode(row["body"]) if row["encoded"] else row["body"].encode("utf-8", "surrogateescape")
            stream = get(row["wire"]).reply_stream()
            whole = not row["streamed"]
            reply = get(row["wire"]).decode_reply(data) if whole else fold(stream.feed(data) + stream.close())
            if reply.failure is None and (changed := changes(reply, target)):
                found[row["id"]] = changed
    assert found == {}
