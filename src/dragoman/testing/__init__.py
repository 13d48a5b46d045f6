"""Test your agents without a model: scripts, recordings, a hostile upstream, and every way to cut bytes.

- `ScriptedModel`: a transport that plays a model from a list of replies
- `cassette`: record real answers once, replay them for ever
- `Upstream`: a real HTTP server on this machine that answers from a script and breaks in the ways you list
- `chunkings`: the ways in which bytes or text may arrive
"""

from __future__ import annotations

from dragoman.testing.chunkings import chunkings, every_split
from dragoman.testing.faults import Fault
from dragoman.testing.replay import CassetteMiss, RecordingTransport, ReplayTransport, cassette
from dragoman.testing.script import (
    Answer,
    Exchange,
    ScriptedModel,
    ScriptExhausted,
    call,
    calls,
    scripted_endpoint,
    sse,
    text,
    thinking,
)
from dragoman.testing.upstream import Upstream

__all__ = [
    "Answer",
    "CassetteMiss",
    "Exchange",
    "Fault",
    "RecordingTransport",
    "ReplayTransport",
    "ScriptExhausted",
    "ScriptedModel",
    "Upstream",
    "call",
    "calls",
    "cassette",
    "chunkings",
    "every_split",
    "scripted_endpoint",
    "sse",
    "text",
    "thinking",
]
