"""A request is prepared here as every test of requests wants it: held to the rules and to the official types."""

from __future__ import annotations

from typing import Any

from tests.wire.judges import anthropic as judge
from tests.wire.rules import violations

from dragoman.types import JsonObject, Message, Part, Request, Text, Tool, ToolCall, ToolResult
from dragoman.wire.anthropic import Anthropic
from dragoman.wire.codec import Prepared
from dragoman.wire.quirks import Quirks

CODEC = Anthropic()
HELLO = Message("user", [Text("Hi")])
# A model that refuses nothing by its name.
MODEL = "claude-sonnet-4-5"


def prepare(
    messages: list[Message] | None = None,
    tools: list[Tool] | None = None,
    quirks: Quirks | None = None,
    **options: Any,
) -> Prepared:
    """The request, held to the rules of the wire and the types of the official client."""
    quirks = quirks or Quirks()
    sent = Anthropic(quirks).prepare(Request(MODEL, messages or [HELLO], tools or [], options))
    sampled = {"temperature", "top_p", "top_k"}
    assert violations("anthropic", sent.body, unsigned=quirks.unsigned_thinking) == []
    judge.validate_request({name: value for name, value in sent.body.items() if name not in sampled})
    return sent


def body_of(*messages: Message, **more: Any) -> JsonObject:
    return prepare(list(messages), **more).body


def reports(sent: Prepared) -> list[str]:
    return [loss.rule for loss in sent.losses]


def used(*parts: Part) -> list[Message]:
    """A conversation in which the assistant spoke these parts, with calls that are answered."""
    results: list[Part] = [ToolResult(part.id, content="ok") for part in parts if isinstance(part, ToolCall)]
    answer = [Message("tool", results)] if results else []
    return [HELLO, Message("assistant", list(parts)), *answer, Message("user", [Text("Go on")])]
