"""The events of the agent loop. Listeners also receive the events of each reply.

    RunStarted
      ( Asked RequestRetried* <events of the reply>
        ( CallDecided | ApprovalNeeded | ApprovalGiven | ToolStarted | ToolProgressed | ToolEnded | Noticed )*
        TurnEnded )*
    RunEnded

A call that never ran (unknown, invalid, denied, duplicate, blocked) has a `ToolEnded` with `ran` False, and no
`ToolStarted`.
"""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.agent.result import RunResult
from dragoman.client.retry import RequestRetried
from dragoman.events import Event
from dragoman.types import InvalidCall, ToolCall, ToolResult, Usage


class RunStarted(Struct, frozen=True):
    """A run begins, or continues after a pause or a crash (`resumed`)."""

    run_id: str
    model: str
    session: str | None = None
    resumed: bool = False
    provider: str = ""
    parent: str = ""
    """The parent run, if a tool of that run started this one."""


class Asked(Struct, frozen=True):
    """A request was sent. `mode` says how it offers the tools: `native` or `text`; empty without tools."""

    turn: int
    model: str
    messages: int = 0
    tools: int = 0
    mode: str = ""
    provider: str = ""


class CallDecided(Struct, frozen=True):
    """The policy decided on a call: `verdict` is allow, ask or deny; `rule` and `code` give the reason."""

    call: ToolCall
    verdict: str
    reason: str = ""
    rule: str = ""
    code: str = ""
    turn: int = 0


class ApprovalNeeded(Struct, frozen=True):
    """A call waits for an approval. `why` is the reason, and `digest` binds the answer to this call."""

    call: ToolCall
    why: str
    turn: int = 0
    request: str = ""
    """The id of the request. An answer refers to it."""
    digest: str = ""


class ApprovalGiven(Struct, frozen=True):
    """A call was approved or denied. `by` names who answered."""

    call: ToolCall
    approved: bool
    reason: str = ""
    by: str = ""
    request: str = ""
    digest: str = ""


class ToolStarted(Struct, frozen=True):
    """A tool begins to run."""

    call: ToolCall
    turn: int = 0


class ToolProgressed(Struct, frozen=True):
    """A tool reported progress. `fraction` is between 0 and 1, or None if it is unknown."""

    call_id: str
    name: str
    message: str
    fraction: float | None = None


class ToolEnded(Struct, frozen=True):
    """A call has its result. `ran` is False if the tool was not called: denied, invalid, or refused."""

    call: ToolCall | InvalidCall
    result: ToolResult
    seconds: float = 0.0
    ran: bool = True
    error: str = ""
    """The traceback, if the tool raised an exception that it does not use to answer the model. It is redacted."""


class Noticed(Struct, frozen=True):
    """Information for people: a blocked call, tools offered as text, a trimmed context, a failed hook."""

    kind: str
    message: str
    turn: int = 0


class TurnEnded(Struct, frozen=True):
    """A turn is over: the model replied, and every call of the reply has a result."""

    turn: int
    usage: Usage
    cost: float | None = None
    results: list[ToolResult] = field(default_factory=list)


class RunEnded(Struct, frozen=True):
    """The run is over. This is its last event."""

    result: RunResult


LoopEvent = (
    RunStarted
    | Asked
    | RequestRetried
    | CallDecided
    | ApprovalNeeded
    | ApprovalGiven
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | Noticed
    | TurnEnded
    | RunEnded
)
"""The events of the loop, in addition to those of replies."""
RunEvent = Event | LoopEvent
"""Everything that a run reports: the events of replies, and those of the loop."""
