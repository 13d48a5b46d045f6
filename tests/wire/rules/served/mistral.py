"""What Mistral sends: chat completions in its own words."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.served import openai_chat
from tests.wire.rules.served.common import Frame
from tests.wire.rules.shapes import Spot


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    openai_chat.reply(body, spot, openai_chat.MISTRAL)


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of chunks."""
    openai_chat.stream(frames, spot, openai_chat.MISTRAL)
