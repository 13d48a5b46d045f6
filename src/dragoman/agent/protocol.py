"""The inputs and commands of the machine."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.agent.context import ContextBudget
from dragoman.agent.events import LoopEvent
from dragoman.agent.result import RunResult
from dragoman.extraction.judge import Extraction
from dragoman.extraction.tool_mode import ComposedRequest
from dragoman.providers import Endpoint, Fact
from dragoman.types import JsonObject, Message, Operand, Reply, Tool, ToolCall, ToolResult, Usage

# --------------------------------------------------------------------------------------------------------------------
# Inputs: what happened. The machine receives nothing else.
#
# Inputs are plain data. The journal stores them, and a new machine that receives the same inputs reaches the same
# state. `at` is the number of seconds since the run began, on a monotonic clock.


class Replied(Struct, frozen=True, tag="replied"):
    """The model replied, or the request failed. `found` is the extraction of the reply."""

    reply: Reply
    found: Extraction = Extraction()
    at: float = 0.0
    model: str = ""
    """The model that replied, if a fallback replaced the first one."""


class Reviewed(Struct, frozen=True, tag="reviewed"):
    """The hooks have seen a call that is about to run, and its tool has reported the operands."""

    call_id: str
    verdict: Literal["go", "deny", "stop"] = "go"
    arguments: JsonObject | None = None
    """Arguments that replace the model's. They are validated like the model's."""
    reason: str = ""
    at: float = 0.0
    operands: tuple[Operand, ...] = ()
    uninspected: str = ""
    """Why the operands of the call are unknown."""


class Approved(Struct, frozen=True, tag="approved"):
    """The approver allowed a call, exactly as in the request with this digest."""

    call_id: str
    arguments: JsonObject | None = None
    """Arguments that replace the model's. They are validated, and the policy decides on them as on the model's."""
    by: str = ""
    at: float = 0.0
    request: str = ""
    """The id of the answered request. It is unique."""
    digest: str = ""
    expires: float | None = None
    """When the approval expires, in seconds since 1970."""
    rule: str = ""
    """A rule that also applies for the rest of the run."""
    result: str | None = None
    """A text that the model receives as the result. The call does not run."""
    operands: tuple[Operand, ...] = ()
    """The operands of the call with the replaced arguments."""
    uninspected: str = ""


class Stale(Struct, frozen=True, tag="stale"):
    """The approved call is no longer the call that would run, or the approval has expired."""

    call_id: str
    reason: str = ""
    at: float = 0.0
    operands: tuple[Operand, ...] = ()
    """The operands of the call now."""
    uninspected: str = ""


class Postponed(Struct, frozen=True, tag="postponed"):
    """Nobody has answered yet. The journal does not store this input: a resumed run asks again."""

    call_id: str
    request: str = ""
    at: float = 0.0


class Denied(Struct, frozen=True, tag="denied"):
    call_id: str
    reason: str = ""
    by: str = ""
    """Who denied it: `the user`, or what decided instead of a user."""
    at: float = 0.0
    request: str = ""


class ToolAnswered(Struct, frozen=True, tag="tool_answered"):
    """A started call has a result, whether it succeeded or not."""

    call_id: str
    result: ToolResult
    ends: Literal["finished", "halted", "failed", "stopped"] | None = None
    """The run ends with this result: because of the tool, or because a hook stopped it."""
    reason: str = ""
    is_mistake: bool = False
    """The arguments could not be converted to the types of the function, so nothing ran."""
    seconds: float = 0.0
    at: float = 0.0
    ran: bool = True
    """False if there was no time left to start."""
    error: str = ""
    """The traceback of an exception in the tool, redacted."""
    retries: bool = False
    """The tool asked the model to call it again."""


class Steered(Struct, frozen=True, tag="steered"):
    """The user added a message during the run."""

    message: Message
    at: float = 0.0


class Compacted(Struct, frozen=True, tag="compacted"):
    """The conversation was compacted. `losses` describes what was removed."""

    messages: list[Message]
    losses: list[str] = []
    at: float = 0.0


class Cancelled(Struct, frozen=True, tag="cancelled"):
    reason: str = ""
    partial: str = ""
    """The received part of an interrupted reply."""
    at: float = 0.0
    unstarted: tuple[str, ...] = ()
    """The ids of calls that were about to run, and whose start is not recorded."""


class Stopped(Struct, frozen=True, tag="stopped"):
    """A hook ended the run, or failed in a place where the run cannot continue without it."""

    reason: str = ""
    failed: bool = False
    at: float = 0.0
    usage: Usage = Usage()
    """The usage of a reply that the machine does not receive."""
    model: str = ""


class ProblemNoted(Struct, frozen=True, tag="problem_noted"):
    """A problem outside the machine that did not end the run. The result lists it."""

    kind: str
    message: str
    at: float = 0.0


class ChildSpent(Struct, frozen=True, tag="child_spent"):
    """Child runs, which tools of this run started, have used this much."""

    usage: Usage
    cost: float | None = None
    turns: int = 0
    at: float = 0.0


class AnswerChecked(Struct, frozen=True, tag="answer_checked"):
    """The validators have seen an answer. `rejected` is their reason for another attempt; None accepts it."""

    rejected: str | None = None
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
    | ChildSpent
    | AnswerChecked
    | Ticked
)


# --------------------------------------------------------------------------------------------------------------------
# Commands: what to do next. The driver executes a command and answers it with one of the inputs.


class Ask(Struct, frozen=True):
    """Send a request. Answered by Replied."""

    turn: int
    composed: ComposedRequest
    deadline: float | None = None
    """The deadline of the reply, in seconds since the run began."""
    delivers: tuple[str, ...] = ()
    """The ids of the calls whose results this request sends for the first time."""


class Review(Struct, frozen=True):
    """Pass a call to the hooks, and inspect its operands. Answered by Reviewed."""

    call: ToolCall
    tool: Tool


class AskApproval(Struct, frozen=True):
    """Ask the approver. Answered by Approved, Denied or Postponed."""

    call: ToolCall
    tool: Tool
    why: str
    operands: tuple[Operand, ...] = ()
    suggestion: str = ""
    """The rule that would allow calls like this one."""


class Planned(Struct, frozen=True):
    """A call to run now, or as soon as the concurrency limit allows it."""

    call: ToolCall
    tool: Tool
    seconds: float
    """The time limit of the call after its start."""
    deadline: float | None = None
    """The latest end of the call, in seconds since the run began."""
    operands: tuple[Operand, ...] = ()
    approved: Approved | None = None
    """The approval, if the call needed one. It is checked again right before the call runs."""


class RunTools(Struct, frozen=True):
    """Run these calls concurrently. Each is answered by ToolAnswered or by Stale."""

    batch: tuple[Planned, ...]
    turn: int


class CancelTools(Struct, frozen=True):
    """Cancel these calls. They already have a result; the machine ignores a late one."""

    call_ids: tuple[str, ...]


class Compact(Struct, frozen=True):
    """Compact the conversation. Answered by Compacted."""

    messages: list[Message]
    budget: ContextBudget


class CheckAnswer(Struct, frozen=True):
    """Pass an answer to the validators: the structured answer, or the text. Answered by AnswerChecked."""

    answer: Any


class RememberFact(Struct, frozen=True):
    """Store a fact about an endpoint."""

    fact: Fact
    endpoint: Endpoint


class Emit(Struct, frozen=True):
    """Send an event to the listeners."""

    event: LoopEvent


class Finish(Struct, frozen=True):
    """The run is over."""

    result: RunResult


class Defer(Struct, frozen=True):
    """Every open call waits for an approval: leave the run open, so that it can be resumed."""

    result: RunResult


Command = (
    Ask | Review | AskApproval | RunTools | CancelTools | Compact | CheckAnswer | RememberFact | Emit | Finish | Defer
)
