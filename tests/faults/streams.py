"""Streams to be damaged: one of every wire, with text and two calls."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman import wire
from dragoman.client import Client, Retries
from dragoman.events import Event
from dragoman.replies import fold
from dragoman.testing import ScriptedModel, call, calls
from dragoman.testing.script import as_reply, number_calls, write_stream
from dragoman.types import Message, Reply, Request, Text, Tool, Usage

WIRES = wire.names()
WEATHER = Tool(
    "weather",
    "Forecast",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
)
QUESTION = Request("", [Message("user", [Text("Is it warm?")])], [WEATHER])
ONCE = Retries(attempts=1)
TWICE = Retries(attempts=2, base=0.0)
TYPES = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}


def header(spoken: str) -> dict[str, str]:
    return {"content-type": TYPES.get(spoken, "text/event-stream")}


def record(spoken: str, said: Any = None) -> list[bytes]:
    """The frames of a reply with words and two calls."""
    if said is None:
        said = calls(call("weather", city="Paris"), call("weather", city="Zürich", days=3), say="Let me look: °C.")
    numbers = iter(range(1, 100))
    reply = number_calls(as_reply(said, usage=Usage(12, 34)), lambda: f"call_{next(numbers)}")
    return write_stream(reply, spoken, deltas=6)


def read_plainly(spoken: str, data: bytes) -> Reply:
    """What the codec alone makes of the bytes, without any client."""
    stage = wire.get(spoken).reply_stream()
    events: list[Event] = [*stage.feed(data), *stage.close()]
    return fold(events)


def ask(script: ScriptedModel, *, whole: bool = False, retries: Retries = ONCE, **settings: Any) -> Reply:
    request = settings.pop("request", QUESTION)
    client = Client(settings.pop("endpoint", None) or script.endpoint(), transport=script, retries=retries, **settings)
    return asyncio.run(client.ask(request, whole=whole))
