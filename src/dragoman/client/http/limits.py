"""How much of an answer, and how many connections, we are willing to hold."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Caps on what a server can make us hold. None of them is ever reached by an honest one."""

    body_bytes: int = 64 * 1024 * 1024
    """Of one body, after decoding."""
    wire_bytes: int = 64 * 1024 * 1024
    """Of one body, as it comes over the wire: a compressed one may decode to nothing for as long as it likes."""
    head_bytes: int = 64 * 1024
    """Of the status line and all headers; also of all trailers, and of all chunk extensions."""
    headers: int = 200
    connections: int = 400
    """Open at once, for all origins together. Further requests wait for one to become free."""
    idle_seconds: float = 30.0
    """How long a connection is kept for the next request."""
