"""A judge of requests, written from the descriptions of the APIs alone and not from this project's encoders."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tests.wire.rules import (
    anthropic,
    bedrock,
    cohere,
    gemini,
    mistral,
    ollama,
    openai_chat,
    openai_responses,
)
from tests.wire.rules.options import Options
from tests.wire.rules.shapes import Spot

_CHECKS: dict[str, Callable[[dict[str, Any], Spot, Options], None]] = {
    "openai_chat": openai_chat.check,
    "openai_responses": openai_responses.check,
    "anthropic": anthropic.check,
    "gemini": gemini.check,
    "ollama": ollama.check,
    "bedrock": bedrock.check,
    "mistral": mistral.check,
    "cohere": cohere.check,
}
WIRES = tuple(_CHECKS)


def violations(
    wire: str, body: dict[str, Any], *, model: str = "", unsigned: bool = False, extra: Collection[str] = ()
) -> list[str]:
    """Every rule of the wire that a request body breaks, each as a sentence that begins with a JSON path.

    `model` turns on the rules of its family; `unsigned` lets reasoning go without a signature (for the relatives of
    Anthropic's API); `extra` names keys of a dialect that are to be let through (such as `reasoning_content`).
    The rules about order and pairing are only looked at when every object has its right shape.
    """
    spot = Spot(extra=frozenset(extra))
    _CHECKS[wire](body, spot, Options(model=model, unsigned=unsigned))
    return spot.found
