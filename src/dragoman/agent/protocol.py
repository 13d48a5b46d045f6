"""The inputs and commands of the machine."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.agent.context import ContextBudget
from dragoman.agent.events import LoopEvent
from dragoman.agent.result import RunResult
from dragoman.extraction.judge import Extraction
from dragoman.extraction.tool_mode import ComposedRequest
from dragoman.providers import Endpoint, Fact
from dragoman.types import JsonObject, Message, Operand, Reply, Tool, ToolCall, ToolResult, Usage

# --------------------------------------------------------------------------------------------------------------------
# What the machine is told. Whatever happens in the world reaches it as one of these, and nothing else does.
#
# They are plain data: the journal records them, and a run that broke off is brought back by telling a new machine the
# same things again. `at` is the number of seconds since the run began, on a clock that never jumps.


class Replied(Struct, frozen=True, tag="replied"):
    """The model answered, or failed to. `found` is what reading the reply made of it."""

    reply: Reply
    found: Extraction = Extraction()
    at: float = 0.0
    model: str = ""
    """The model that answered, where a fallback took over."""


class Reviewed(Struct, frozen=True, tag="reviewed"):
    """The hooks have seen a call that is about to run, and its tool has said what it is about."""

    call_id: str
    verdict: Literal["go", "deny", "stop"] = "go"
    arguments: JsonObject | None = None
    """Other arguments for the call; they are checked like the model's own."""
    reason: str = ""
    at: float = 0.0
    operands: tuple[Operand, ...] = ()
    uninspected: str = ""
    """Why nobody could find out what the call is about."""


class Approved(Struct, frozen=True, tag="approved"):
    """Somebody allowed a call, exactly as it stood in the request with this digest."""

    call_id: str
    arguments: JsonObject | None = None
    """Other arguments than the model's; they are checked and decided on like its own."""
    by: str = ""
    at: float = 0.0
    request: str = ""
    """The id of the request that was answered; no two are alike."""
    digest: str = ""
    expires: float | None = None
    """Until when it holds, in seconds since 1970."""
    rule: str = ""
    """A rule that is to hold for the rest of the run as well."""
    result: str | None = None
    """What the model is told instead: the call does not run."""
    operands: tuple[Operand, ...] = ()
    """What the call is about with the other arguments."""
    uninspected: str = ""


class Stale(Struct, frozen=True, tag="stale"):
    """What was approved is no longer what would run, or the approval has expired."""

    call_id: str
    reason: str = ""
    at: float = 0.0
    operands: tuple[Operand, ...] = ()
    """What the call is about now."""
    uninspected: str = ""


class Postponed(Struct, frozen=True, tag="postponed"):
    """Nobody has answered yet, and somebody may later. It is never recorded: a run that goes on asks again."""

    call_id: str
    request: str = ""
    at: float = 0.0


class Denied(Struct, frozen=True, tag="denied"):
    call_id: str
    reason: str = ""
    by: str = ""
    """Who denied it: `the user`, or whatever stood in for one."""
    at: float = 0.0
    request: str = ""


class ToolAnswered(Struct, frozen=True, tag="tool_answered"):
    """A call that was started has its result, whatever became of it."""

    call_id: str
    result: ToolResult
    ends: Literal["finished", "halted", "failed"] | None = None
    reason: str = ""
    is_mistake: bool = False
    """The arguments could not be converted into the types of the function, and nothing ran."""
    seconds: float = 0.0
    at: float = 0.0
    ran: bool = True
    """False where there was no time left to begin."""


class Steered(Struct, frozen=True, tag="steered"):
    """Somebody put in a word while the run was going on."""

    message: Message
    at: float = 0.0


class Compacted(Struct, frozen=True, tag="compacted"):
    """The conversation was made shorter; `losses` says what is no longer in it."""

    messages: list[Message]
    losses: list[str] = []
    at: float = 0.0


class Cancelled(Struct, frozen=True, tag="cancelled"):
    reason: str = ""
    partial: str = ""
    """What the model had said of a reply that was cut short."""
    at: float = 0.0


class Stopped(Struct, frozen=True, tag="stopped"):
    """A hook ended the run, or failed where nothing may go on without it."""

    reason: str = ""
    failed: bool = False
    at: float = 0.0
    usage: Usage = Usage()
    """Of a reply that nobody got to see."""
    model: str = ""


class ProblemNoted(Struct, frozen=True, tag="problem_noted"):
    """Something went wrong outside of the machine and did not end the run: the result lists it."""

    kind: str
    message: str
    at: float = 0.0


class Ticked(Struct, frozen=True, tag="ticked"):
    """Time has passed."""

    at: float = 0.0


Input = (
    Replied
    | Reviewed
    | Approved
    | Denied
    | Stale
    | Postponed
    | ToolAnswered
    | Steered
    | Compacted
    | Cancelled
    | Stopped
    | ProblemNoted
    | Ticked
)


# --------------------------------------------------------------------------------------------------------------------
# What the machine wants done. A driver does it and tells the machine how it went, with one of the inputs.


class Ask(Struct, frozen=True):
    """Send a request. Answered by Replied."""

    turn: int
    composed: ComposedRequest
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


class Planned(Struct, frozen=True):
    """A call that is to run now, or as soon as there is room for it."""

    call: ToolCall
    tool: Tool
    seconds: float
    """How long it may take once it has begun."""
    deadline: float | None = None
    """When it has to be over at the latest, in seconds since the run began."""
    operands: tuple[Operand, ...] = ()
    approved: Approved | None = None
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
    budget: ContextBudget


class RememberFact(Struct, frozen=True):
    """Remember this of an endpoint."""

    fact: Fact
    endpoint: Endpoint


class Emit(Struct, frozen=True):
    """Tell whoever watches."""

    event: LoopEvent


class Finish(Struct, frozen=True):
    """The run is over."""

    result: RunResult


class Defer(Struct, frozen=True):
    """Nothing can go on before somebody approves: leave the run as it is, so that it can be taken up again."""

    result: RunResult


Command = Ask | Review | AskApproval | RunTools | CancelTools | Compact | RememberFact | Emit | Finish | Defer
