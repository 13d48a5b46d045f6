"""When a conversation has to be made shorter, and how short."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.agent.compaction import Room
from dragoman.agent.estimating import Estimate
from dragoman.types import Message, Tool


class ContextSettings(Struct, frozen=True, kw_only=True):
    """When room is made, and how much."""

    window: int | None = None
    """Tokens that the model's context holds; None takes what is known of the model."""
    full: float = 0.85
    """The share at which room is made."""
    aim: float = 0.6
    """The share that is in use afterwards, at most."""
    reply: int = 4096
    """Tokens that are kept free for the reply, where the request sets no limit of its own."""


def find_room(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    estimate: Estimate,
    window: int | None,
    settings: ContextSettings,
    *,
    max_tokens: int | None = None,
    overflowed: bool = False,
) -> Room | None:
    """The room that the messages have to fit into; None when they may stay as they are.

    `overflowed` says that the provider refused them as too long: then the estimate was wrong, and is not asked.
    """
    if window is None and not overflowed:
        return None
    size = estimate.count(messages, tools)
    if overflowed or window is None:
        return Room(int(min(size, window or size) * settings.aim), estimate, tools)
    available = window - min(max_tokens or settings.reply, window // 2)
    if size <= available * settings.full:
        return None
    return Room(int(available * settings.aim), estimate, tools)
