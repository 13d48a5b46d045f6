"""What an official client understood of an answer, in words that are the same for every wire."""

from __future__ import annotations

from typing import Any

import msgspec


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as the program behind the official client would see it."""

    text: str = ""
    thinking: str = ""
    # (id, name, arguments); the id is None where the client's own types drop it.
    calls: tuple[tuple[str | None, str, dict[str, Any]], ...] = ()
    # (input, output) as the client's usage object says it; None when there is none.
    usage: tuple[int, int] | None = None
    # The client's own word for why the model stopped, not translated.
    stop: str = ""
    model: str = ""
    # (name of the exception class, HTTP status, message) when the client raised an error.
    error: tuple[str, int | None, str] | None = None
    # What only some wires have: signatures, encrypted reasoning, a refusal, further counters.
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
