"""What a driver is given to work with: who carries requests, who is asked, who is told, and what time it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from dragoman.agent.approvals import Approver
from dragoman.agent.auditing import Auditor
from dragoman.agent.compaction import Compactor
from dragoman.agent.desk import Terms
from dragoman.agent.events import RunEvent
from dragoman.agent.hooks import Hooks
from dragoman.agent.journalling import Ledger
from dragoman.agent.questions import Answer, Question
from dragoman.providers import Endpoint, Fact
from dragoman.secrets import HumanSink, ModelSink
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
        terms: Terms | None = None,
        human_sink: HumanSink | None = None,
        model_sink: ModelSink | None = None,
        auditor: Auditor | None = None,
        parked: Mapping[str, tuple[Question, Answer | None]] | None = None,
        sandbox: Any = None,
        ask_user: Callable[..., Any] | None = None,
        room: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
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
        self.terms = terms or Terms("")
        self.human_sink = human_sink or HumanSink()
        """Hides secrets from people and logs."""
        self.model_sink = model_sink
        """Hides secrets in results from the model; None where it may see them."""
        self.auditor = auditor
        self.parked = parked
        """Questions about calls that were in the journal, with their answers."""
        self.sandbox = sandbox
        self.ask_user = ask_user
        self.room = room
        """Waited for between two pieces of a reply, so that a slow listener makes the model wait."""
        self.clock = clock
        self.wall = wall
