"""What each wire costs on its own: requests, replies and streams, each beside plain JSON work on the same bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from benchmarks.support import conversations, streams
from benchmarks.support.timing import take_turns

from dragoman.stage import Stage
from dragoman.wire.codec import Codec

MESSAGES = (2, 50)
CHUNKS = (200, 2_000)

Figures = dict[str, float]

_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def plain(bodies: Sequence[bytes]) -> Callable[[], None]:
    """The yardstick: JSON read and written again, nothing else."""

    def once() -> None:
        for body in bodies:
            _write(_read(body))

    return once


def measure(codec: Codec, rounds: int) -> Figures:
    """All figures of one wire, in microseconds: per body, and per chunk or event of a stream."""
    bodies: dict[str, Callable[[], object]] = {}
    for length in MESSAGES:
        bodies |= _runs_of_bodies(codec, length)
    figures = take_turns(bodies, rounds)
    chunks: dict[str, Callable[[], object]] = {}
    counts: dict[str, int] = {}
    for count in CHUNKS:
        for name, (run, pieces) in _runs_of_streams(codec, count).items():
            chunks[name], counts[name] = run, pieces
    figures |= {name: cost / counts[name] for name, cost in take_turns(chunks, rounds).items()}
    gc.collect()
    return figures


def _runs_of_bodies(codec: Codec, length: int) -> dict[str, Callable[[], object]]:
    request = conversations.conversation(length)
    sent = codec.prepare(request)
    body = _write(sent.body)
    reply = conversations.reply()
    answer = _write(codec.encode_reply(reply))
    return {
        f"encode_{length}": lambda: _write(codec.prepare(request).body),
        f"decode_{length}": lambda: codec.decode_request(body, model=request.model),
        f"plain_request_{length}": plain([body]),
        f"encode_reply_{length}": lambda: _write(codec.encode_reply(reply)),
        f"decode_reply_{length}": lambda: codec.decode_reply(answer, sent),
        f"plain_reply_{length}": plain([answer]),
    }


def _runs_of_streams(codec: Codec, count: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Each with the number of chunks or events that go through it."""
    sent = codec.prepare(conversations.conversation(2))
    pieces = streams.chunks(codec.name, count)
    events = streams.events(count)
    bodies = streams.bodies(codec.name, pieces)
    return {
        f"read_{count}": (through(lambda: codec.reply_stream(sent), pieces), len(pieces)),
        f"written_{count}": (through(codec.event_stream, events), len(events)),
        f"plain_chunk_{count}": (plain(bodies), len(bodies)),
    }


def through(make: Callable[[], Stage[Any, Any]], pieces: Sequence[Any]) -> Callable[[], None]:
    """One whole stream through a new stage."""

    def once() -> None:
        stage = make()
        feed = stage.feed
        for piece in pieces:
            feed(piece)
        stage.close()

    return once
