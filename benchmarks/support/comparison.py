"""The same work done by us and by LiteLLM: requests to a wire, and what the wire answers back.

Each side starts from the conversation as its user holds it and ends at the bytes that are sent: ours is a `Request`,
LiteLLM's are messages in the form of OpenAI chat, which is its own neutral form. Beside that stands what a gateway
does with us: it starts from OpenAI chat too, and ends there.
"""

from __future__ import annotations

import base64
import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from benchmarks.support import conversations, streams
from benchmarks.support.environments import Worker
from benchmarks.support.measuring import CHUNKS, MESSAGES, Figures, through
from benchmarks.support.timing import on_fresh, take_turns

from dragoman import wire
from dragoman.replies import fold
from dragoman.stage import Pipe, collect
from dragoman.types import Request
from dragoman.wire.codec import Codec

# LiteLLM speaks OpenAI chat itself: to there, nothing is translated.
WIRES = ("openai_responses", "anthropic", "gemini", "ollama", "bedrock", "mistral", "cohere")
COPIES = 5
# Our own few microseconds take more rounds to settle than LiteLLM's milliseconds, and its streams take long.
ROUNDS = 4
COUNT = CHUNKS[-1]

_write = msgspec.json.Encoder().encode


def compare(codec: Codec, worker: Worker, rounds: int, *, wrapped: bool) -> tuple[Figures, list[str]]:
    """Microseconds of both, by name, and what LiteLLM could not do. `wrapped`: its slow stream wrapper too."""
    figures: Figures = {}
    notes: list[str] = []

    def ask(prefix: str, **job: Any) -> dict[str, Any]:
        answer = worker.ask(wire=codec.name, **{"rounds": rounds, **job})
        figures.update({f"{prefix}_{kind}": cost for kind, cost in answer.items() if isinstance(cost, float)})
        if "error" in answer:
            notes.append(f"{prefix}: {answer['error']}")
        if answer.get("calls") == 0:
            notes.append(f"{prefix}: it reads no call")
        return answer

    reply = _write(codec.encode_reply(conversations.reply()))
    encoded = base64.b64encode(reply).decode()
    for length in MESSAGES:
        body = wire.get("openai_chat").encode_request(conversations.conversation(length))
        figures |= _own(codec, length, reply, rounds)
        figures |= _gateway(codec, length, body, reply, rounds)
        ask(f"request_{length}", do="request", body=body)
        ask(f"both_{length}", do="completion", body=body, reply=encoded)
    figures |= _reply(codec, reply, rounds)
    ask("reply", do="reply", body=encoded)
    figures |= _stream(codec, rounds)
    pieces = streams.chunks(codec.name, COUNT)
    job = {
        "pieces": [base64.b64encode(piece).decode() for piece in pieces],
        "bodies": [each.decode() for each in streams.bodies(codec.name, pieces)],
    }
    answer = ask("chunk", do="stream", wrapped=wrapped, rounds=max(1, rounds // ROUNDS), **job)
    if "text" in answer:
        notes += _differences(codec, pieces, answer)
    gc.collect()
    return figures, notes


def _differences(codec: Codec, pieces: list[bytes], answer: dict[str, Any]) -> list[str]:
    """Whether LiteLLM read the same stream to its end: a figure for less work would not be a fair one."""
    ours = fold(collect(codec.reply_stream(), pieces))
    found = []
    if answer["text"] != len(ours.text):
        found.append(f"chunk: it reads {answer['text']} of {len(ours.text)} characters of text")
    if not answer["arguments"]:
        found.append("chunk: it reads no call")
    return found


def _own(codec: Codec, length: int, reply: bytes, rounds: int) -> Figures:
    """From a request to its bytes, alone and with the reply to it."""

    # New objects each time, as LiteLLM gets them: nothing may be gained from seeing the same ones again.
    def fresh() -> Iterator[Request]:
        return (conversations.conversation(length) for _ in range(COPIES))

    def both(request: Request) -> object:
        sent = codec.prepare(request)
        _write(sent.body)
        return codec.decode_reply(reply, sent)

    return {
        f"request_{length}_ours": on_fresh(lambda own: _write(codec.prepare(own).body), fresh, ROUNDS * rounds),
        f"both_{length}_ours": on_fresh(both, fresh, ROUNDS * rounds),
    }


def _gateway(codec: Codec, length: int, body: dict[str, Any], reply: bytes, rounds: int) -> Figures:
    """The same from OpenAI chat to the wire, and from the wire back to OpenAI chat."""
    chat = wire.get("openai_chat")

    def fresh() -> Iterator[dict[str, Any]]:
        return (copy.deepcopy(body) for _ in range(COPIES))

    def both(own: dict[str, Any]) -> object:
        sent = codec.prepare(chat.decode_request(own))
        _write(sent.body)
        return chat.encode_reply(codec.decode_reply(reply, sent))

    def request(own: dict[str, Any]) -> object:
        return _write(codec.prepare(chat.decode_request(own)).body)

    return {
        f"gateway_request_{length}_ours": on_fresh(request, fresh, ROUNDS * rounds),
        f"gateway_both_{length}_ours": on_fresh(both, fresh, ROUNDS * rounds),
    }


def _reply(codec: Codec, body: bytes, rounds: int) -> Figures:
    sent = codec.prepare(conversations.conversation(2))
    chat = wire.get("openai_chat")
    runs: dict[str, Callable[[], object]] = {
        "reply_ours": lambda: codec.decode_reply(body, sent),
        "gateway_reply_ours": lambda: chat.encode_reply(codec.decode_reply(body, sent)),
    }
    return take_turns(runs, ROUNDS * rounds)


def _stream(codec: Codec, rounds: int) -> Figures:
    sent = codec.prepare(conversations.conversation(2))
    pieces = streams.chunks(codec.name, COUNT)
    chat = wire.get("openai_chat")
    makers: dict[str, Callable[[], Any]] = {
        "chunk_ours": lambda: codec.reply_stream(sent),
        "gateway_chunk_ours": lambda: Pipe(codec.reply_stream(sent), chat.event_stream()),
    }
    runs = {name: through(make, pieces) for name, make in makers.items()}
    return {name: cost / len(pieces) for name, cost in take_turns(runs, rounds).items()}
