"""How much of a server we are willing to hold, and how long we wait for it."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Caps on what a server can make us hold or wait for. An honest one reaches none of them."""

    start_seconds: float = 30.0
    """From starting a server to its list of tools."""
    probe_seconds: float = 5.0
    """For an answer to the question whether the server speaks the newest protocol; then it is asked the older way."""
    call_seconds: float = 300.0
    """For one call, where the run that makes it sets no deadline."""
    close_seconds: float = 2.0
    """For each step of closing: to end by itself, to end when told to."""
    message_bytes: int = 4 * 1024 * 1024
    """Of one message from a server."""
    stderr_bytes: int = 8 * 1024
    """Of what a server wrote to its standard error; the last of it is kept."""
    noise_lines: int = 100
    """Lines on the standard output that are no messages, such as a greeting, before the server counts as broken."""
    tools: int = 500
    """Of one server."""
    pages: int = 50
    """Of its list of tools."""
    schema_bytes: int = 64 * 1024
    schema_depth: int = 32
    description_characters: int = 4000
    result_parts: int = 200
    restart_delays: tuple[float, ...] = (0.0, 0.5, 2.0)
    """Seconds before each restart of a server that ended or broke the protocol; after the last one it stays down."""
    calls_to_recover: int = 20
    """After so many answers since its last restart, a server has all its restarts again."""
