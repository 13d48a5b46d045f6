"""Requests for the tests of this wire, and their bodies, seen to be ones that the API takes."""

from __future__ import annotations

from typing import Any

from tests.wire.judges import gemini as judge
from tests.wire.rules import violations

from dragoman.types import Message, Request, Text, Tool
from dragoman.wire import registry
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.quirks import Quirks

SEARCH = Tool(
    "search",
    "Search the web",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "filters": {"type": "array", "items": {"type": "object", "properties": {"site": {"type": "string"}}}},
        },
        "required": ["query"],
    },
)
PING = Tool("ping", "Ping", {"type": "object"})


def codec(**flags: Any) -> Codec:
    return registry.get("gemini", Quirks(**flags))


def ask(*messages: Message, tools: list[Tool] | None = None, model: str = "gemini-2.5-pro", **options: Any) -> Request:
    return Request(model, list(messages), tools or [], options)


def user(*parts: Any) -> Message:
    return Message("user", [Text(part) if isinstance(part, str) else part for part in parts])


def prepare(request: Request, **flags: Any) -> Prepared:
    """The prepared request, seen to break no rule of the wire and to fit the official types."""
    prepared = codec(**flags).prepare(request)
    assert violations("gemini", prepared.body, model=request.model if flags.get("call_signatures") else "") == []
    judge.validate_request(prepared.body)
    return prepared


def rules_of(prepared: Prepared) -> list[str]:
    return [loss.rule for loss in prepared.losses]
