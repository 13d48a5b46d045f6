"""What the machine wants done. A driver does it and tells the machine how it went, with one of the inputs."""

from __future__ import annotations

from msgspec import Struct

from dragoman.agent.compaction import Room
from dragoman.agent.events import LoopEvent
from dragoman.agent.outcomes import RunResult
from dragoman.extraction.tool_mode import Composed
from dragoman.providers import Endpoint, Fact
from dragoman.types import Message, Operand, Tool, ToolCall


class Ask(Struct, frozen=True):
    """Send a request. Answered by Replied."""

    turn: int
    composed: Composed
    deadline: float | None = None
    """When the reply has to be there, in seconds since the run began."""
    delivers: tuple[str, ...] = ()
    """The ids of the calls whose results the model is told for the first time."""


class Review(Struct, frozen=True):
    """Show a call to the hooks, and find out what it is about. Answered by Reviewed."""

    call: ToolCall
    tool: Tool


class AskApproval(Struct, frozen=True):
    """Ask whoever may approve. Answered by Approved, Denied or Postponed."""

    call: ToolCall
    tool: Tool
    why: str
    operands: tuple[Operand, ...] = ()
    suggestion: str = ""
    """The rule that would allow calls like this one."""


class Bond(Struct, frozen=True):
    """What an approval holds for."""

    request: str
    digest: str
    expires: float | None = None


class Planned(Struct, frozen=True):
    """A call that is to run now, or as soon as there is room for it."""

    call: ToolCall
    tool: Tool
    seconds: float
    """How long it may take once it has begun."""
    deadline: float | None = None
    """When it has to be over at the latest, in seconds since the run began."""
    operands: tuple[Operand, ...] = ()
    bond: Bond | None = None
    """The approval, where there had to be one: it is checked once more right before the call runs."""


class RunTools(Struct, frozen=True):
    """Run these calls, beside one another. Each is answered by ToolAnswered, or by Stale."""

    batch: tuple[Planned, ...]
    turn: int


class CancelTools(Struct, frozen=True):
    """Stop these calls; they are answered already, and what they still say is not listened to."""

    call_ids: tuple[str, ...]


class Compact(Struct, frozen=True):
    """Make the conversation shorter. Answered by Compacted."""

    messages: list[Message]
    room: Room


class Learn(Struct, frozen=True):
    """Remember this of an endpoint."""

    fact: Fact
    endpoint: Endpoint


class Tell(Struct, frozen=True):
    """Tell whoever watches."""

    event: LoopEvent


class Finish(Struct, frozen=True):
    """The run is over."""

    result: RunResult


class Park(Struct, frozen=True):
    """Nothing can go on before somebody approves: leave the run as it is, so that it can be taken up again."""

    result: RunResult


Command = Ask | Review | AskApproval | RunTools | CancelTools | Compact | Learn | Tell | Finish | Park
