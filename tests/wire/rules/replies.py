"""A judge of what a server sends: whole replies and streams, for every API."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.served import (
    anthropic,
    bedrock,
    cohere,
    gemini,
    mistral,
    ollama,
    openai_chat,
    openai_responses,
)
from tests.wire.rules.served.common import DONE, Frame
from tests.wire.rules.shapes import Spot

__all__ = ["DONE", "Frame", "reply_violations", "stream_violations"]

_JUDGES: dict[str, Any] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "bedrock": bedrock,
    "mistral": mistral,
    "cohere": cohere,
}


def reply_violations(wire: str, body: dict[str, Any]) -> list[str]:
    """Every rule that a whole reply (or the body of an error) breaks, each as a sentence with a JSON path."""
    spot = Spot()
    _JUDGES[wire].reply(body, spot)
    return spot.found


def stream_violations(wire: str, frames: list[Frame]) -> list[str]:
    """Every rule that a stream breaks; `$[3]` is its fourth frame.

    A frame is (event, data) of a server-sent event, with `(None, {"[DONE]": True})` for its closing word, (None, line)
    of JSON lines, or (event type, payload) of an AWS event stream.
    """
    spot = Spot()
    _JUDGES[wire].stream(frames, spot)
    return spot.found
