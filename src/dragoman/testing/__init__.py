"""Tests of agents without a model: scripts, recordings, a faulty HTTP server, and ways to split bytes.

- `ScriptedModel`: a transport that answers with a list of replies
- `cassette`: records real answers once, and replays them
- `Upstream`: a real HTTP server on this machine that answers from a script, with the faults that you list
- `chunkings`: the ways to split bytes or text into pieces
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
