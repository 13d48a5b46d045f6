"""The same work done by us and by LiteLLM: OpenAI chat requests to a wire, and what the wire answers back."""

from __future__ import annotations

import base64
import copy
import gc
from collections.abc import Callable
from typing import Any

import msgspec
from benchmarks.support import conversations, streams
from benchmarks.support.environment import Worker
from benchmarks.support.measuring import CHUNKS, MESSAGES, Figures, through
from benchmarks.support.timing import on_fresh, take_turns

from dragoman import wire
from dragoman.replies import fold
from dragoman.stage import Pipe, collect
from dragoman.wire.codec import Codec

# LiteLLM speaks OpenAI chat itself: to there, nothing is translated.
WIRES = ("openai_responses", "anthropic", "gemini", "ollama", "bedrock", "mistral", "cohere")
# Its `completion` would open a connection for these, whatever client it is given.
WITHOUT_COMPLETION = ("openai_responses", "cohere")
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
        return answer

    reply = _write(codec.encode_reply(conversations.reply()))
    encoded = base64.b64encode(reply).decode()
    for length in MESSAGES:
        body = wire.get("openai_chat").encode_request(conversations.conversation(length))
        figures[f"request_{length}_ours"] = _request(codec, body, rounds)
        ask(f"request_{length}", do="request", body=body)
        figures[f"both_{length}_ours"] = _both(codec, body, reply, rounds)
        if codec.name not in WITHOUT_COMPLETION:
            ask(f"both_{length}", do="completion", body=body, reply=encoded)
    figures["reply_ours"] = _reply(codec, reply, rounds)
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


def _request(codec: Codec, body: dict[str, Any], rounds: int) -> float:
    chat = wire.get("openai_chat")
    # New objects each time, as a server sees them, and as LiteLLM gets them.
    return on_fresh(
        lambda own: codec.prepare(chat.decode_request(own)),
        lambda: (copy.deepcopy(body) for _ in range(COPIES)),
        ROUNDS * rounds,
    )


def _both(codec: Codec, body: dict[str, Any], reply: bytes, rounds: int) -> float:
    """A request from OpenAI chat to the wire, and the reply back to OpenAI chat."""
    chat = wire.get("openai_chat")

    def once(own: dict[str, Any]) -> object:
        sent = codec.prepare(chat.decode_request(own))
        _write(sent.body)
        return chat.encode_reply(codec.decode_reply(reply, sent))

    return on_fresh(once, lambda: (copy.deepcopy(body) for _ in range(COPIES)), ROUNDS * rounds)


def _reply(codec: Codec, body: bytes, rounds: int) -> float:
    sent = codec.prepare(conversations.conversation(2))
    chat = wire.get("openai_chat")
    return take_turns({"": lambda: chat.encode_reply(codec.decode_reply(body, sent))}, rounds)[""]


def _stream(codec: Codec, rounds: int) -> Figures:
    sent = codec.prepare(conversations.conversation(2))
    pieces = streams.chunks(codec.name, COUNT)
    chat = wire.get("openai_chat")
    makers: dict[str, Callable[[], Any]] = {
        "chunk_ours": lambda: codec.reply_stream(sent),
        "chunk_to_chat_ours": lambda: Pipe(codec.reply_stream(sent), chat.event_stream()),
    }
    runs = {name: through(make, pieces) for name, make in makers.items()}
    return {name: cost / len(pieces) for name, cost in take_turns(runs, rounds).items()}
