"""What a driver is given to work with: who carries requests, who is asked, who is told, and what time it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol

from dragoman.agent.approving import Approver
from dragoman.agent.compaction import Compactor
from dragoman.agent.events import RunEvent
from dragoman.agent.hooks import Hooks
from dragoman.agent.journalling import Ledger
from dragoman.providers import Endpoint, Fact
from dragoman.types import Request

Listener = Callable[[str, RunEvent], object]


class Speaker(Protocol):
    """Whatever can carry a request: `dragoman.client.Client`, or something of your own."""

    def stream(self, request: Request, *, whole: bool = False, deadline: float | None = None) -> AsyncIterator[Any]: ...


class Surroundings:
    """What a driver is given to work with."""

    def __init__(
        self,
        *,
        speaker: Callable[[Endpoint], Speaker],
        hooks: Hooks | None = None,
        approver: Approver | None = None,
        compactor: Compactor | None = None,
        ledger: Ledger | None = None,
        learn: Callable[[Endpoint, Fact], None] | None = None,
        listeners: Iterable[Listener] = (),
        streaming: bool = False,
        data: Any = None,
        workspace: str | None = None,
        max_output: int | None = None,
        mode: str = "",
        room: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.speaker = speaker
        self.hooks = hooks or Hooks()
        self.approver = approver
        self.compactor = compactor
        self.ledger = ledger
        self.learn = learn
        self.listeners = tuple(listeners)
        self.streaming = streaming
        self.data = data
        self.workspace = workspace
        self.max_output = max_output
        self.mode = mode
        self.room = room
        """Waited for between two pieces of a reply, so that a slow listener makes the model wait."""
        self.clock = clock
