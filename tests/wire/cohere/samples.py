"""What several tests of this wire need: a rich body, frames, and the ways to read and to serve them."""

from __future__ import annotations

from typing import Any

from tests.wire.judges.answers import to_sse

from dragoman.events import Event
from dragoman.replies import fold, unfold
from dragoman.types import Message, Reply, Usage
from dragoman.wire.codec import Prepared
from dragoman.wire.cohere import Cohere
from dragoman.wire.quirks import Quirks

Body = dict[str, Any]
WIRE = Cohere()

PLAN = {"cohere": {"field": "tool_plan"}}
THOUGHT = {"cohere": {"field": "thinking"}}
PARIS = {"city": "Paris", "days": 2}
CITATION = {
    "start": 0,
    "end": 4,
    "text": "Rain",
    "sources": [{"type": "document", "id": "d1", "document": {"id": "d1", "sky": "rain"}}],
}
USAGE = {
    "billed_units": {"input_tokens": 3, "output_tokens": 7},
    "tokens": {"input_tokens": 11, "output_tokens": 7},
    "cached_tokens": 4,
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def call(id: str, name: str, arguments: str) -> Body:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# A body with everything that this wire has a word for.
RICH: Body = {
    "model": "command-a-03-2025",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Like here?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "tool_plan": "I will look it up.",
            "content": [{"type": "thinking", "thinking": "Two cities."}, {"type": "text", "text": "A moment."}],
            "tool_calls": [call("c1", "weather", '{"city":"Oslo"}'), call("c2", "ping", "{}")],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [
                {"type": "document", "document": {"id": "d1", "data": {"sky": "rain", "degrees": 4}}},
                {"type": "text", "text": "as of noon"},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "pong"},
        {"role": "assistant", "content": "Rain.", "citations": [CITATION]},
        {"role": "user", "content": "Thanks"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": SCHEMA}},
        {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}},
    ],
    "strict_tools": True,
    "tool_choice": "REQUIRED",
    "thinking": {"type": "enabled", "token_budget": 500},
    "stream": True,
    "max_tokens": 100,
    "stop_sequences": ["END"],
    "seed": 7,
    "k": 10,
    "p": 0.9,
    "temperature": 0.3,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "safety_mode": "OFF",
    "documents": [{"id": "d0", "data": {"text": "A fact."}}],
    "citation_options": {"mode": "FAST"},
}


# ---- frames --------------------------------------------------------------------------------------------------------


def start(kind: str, index: Any = 0, **message: Any) -> Body:
    return {"type": kind, "index": index, "delta": {"message": message}}


BEGIN: Body = {"type": "message-start", "id": "r1", "delta": {"message": {"role": "assistant"}}}


def text(piece: str, index: int = 0) -> Body:
    return start("content-delta", index, content={"text": piece})


def thought(piece: str, index: int = 0) -> Body:
    return start("content-delta", index, content={"thinking": piece})


def plan(piece: str) -> Body:
    return {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}}


def begin_call(index: Any, id: Any, name: Any, arguments: Any = "") -> Body:
    entry = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return start("tool-call-start", index, tool_calls=entry)


def append_arguments(index: Any, arguments: Any) -> Body:
    return start("tool-call-delta", index, tool_calls={"function": {"arguments": arguments}})


def end_call(index: Any) -> Body:
    return {"type": "tool-call-end", "index": index}


def end(reason: Any = "COMPLETE", **more: Any) -> Body:
    return {"type": "message-end", "delta": {"finish_reason": reason, **more}}


# ---- reading and serving -------------------------------------------------------------------------------------------


def read(*pieces: bytes, sent: Prepared | None = None) -> list[Event]:
    stream = WIRE.reply_stream(sent)
    return [event for piece in pieces for event in stream.feed(piece)] + stream.close()


def read_frames(*frames: Body, sent: Prepared | None = None) -> Reply:
    return fold(read(*to_sse(*frames), sent=sent))


def serve(events: list[Event], quirks: Quirks | None = None) -> list[bytes]:
    stream = Cohere(quirks or Quirks()).event_stream(model="model-1", id="r1")
    return [piece for event in events for piece in stream.feed(event)] + stream.close()


def served(reply: Reply) -> Reply:
    """What a client reads in the stream of a reply."""
    return fold(read(*serve(unfold(reply))))


def reply(*parts: Any, stop: Any = "end", usage: Usage | None = None, **more: Any) -> Reply:
    return Reply(Message("assistant", list(parts)), usage or Usage(11, 7), stop, id="r1", **more)
