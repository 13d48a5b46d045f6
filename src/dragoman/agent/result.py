"""How a run can end, what it leaves behind, and the limits it runs under."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import astuple

from dragoman.errors import ConfigError, DragomanError
from dragoman.types import InvalidCall, Message, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    import typing_extensions

    # Without a declared answer the data is Any. At run time, TypeVar has no default before Python 3.13.
    AnswerT = typing_extensions.TypeVar("AnswerT", default=Any)
else:
    AnswerT = TypeVar("AnswerT")

# --------------------------------------------------------------------------------------------------------------------
# How a run can end, and what it leaves behind.

Category = Literal["success", "waiting", "retryable", "capacity", "fatal"]
OutcomeKind = Literal[
    "answered",
    "halted",
    "stopped",
    "cancelled",
    "turn_limit",
    "token_limit",
    "cost_limit",
    "time_limit",
    "context_full",
    "mistake_limit",
    "looping",
    "blank",
    "starved",
    "truncated",
    "refused",
    "tool_failed",
    "provider_failed",
    "unauthorized",
    "hook_failed",
    "interrupted",
    "awaiting_approval",
]

_BY_CATEGORY: dict[Category, tuple[OutcomeKind, ...]] = {
    "success": ("answered", "halted", "stopped"),
    "waiting": ("awaiting_approval",),
    "retryable": ("cancelled", "blank", "provider_failed", "interrupted"),
    "capacity": ("turn_limit", "token_limit", "cost_limit", "time_limit", "context_full", "starved", "truncated"),
    "fatal": ("mistake_limit", "looping", "refused", "tool_failed", "unauthorized", "hook_failed"),
}
CATEGORIES = {kind: category for category, kinds in _BY_CATEGORY.items() for kind in kinds}


HINTS: dict[OutcomeKind, str] = {
    "cancelled": "start the run again, or resume it where a journal was kept",
    "turn_limit": "allow more with limits=Limits(turns=...)",
    "token_limit": "allow more with limits=Limits(tokens=...)",
    "cost_limit": "allow more with limits=Limits(cost=...), or give prices with connection=Connection(prices=...)",
    "time_limit": "allow more with limits=Limits(seconds=...)",
    "context_full": "shorten the conversation, or choose a model with a larger context window",
    "mistake_limit": 'look at result.problems; a larger model, or tool_mode="text", may call the tools correctly',
    "looping": "look at the calls in result.calls; the model repeats itself",
    "blank": "try again, or choose another model",
    "starved": 'allow a longer reply with options={"max_tokens": ...}, or less reasoning',
    "truncated": 'allow a longer reply with options={"max_tokens": ...}',
    "refused": "the provider declined the content of the request",
    "tool_failed": "look at the error of the tool in result.results",
    "provider_failed": "the reason is the message of the provider or of the connection",
    "unauthorized": "check the key and what it may do",
    "hook_failed": "a hook raised; result.problems names it",
    "interrupted": "resume the run: agent.resume(run_id)",
    "awaiting_approval": "answer the approval, then resume the run: agent.resume(run_id)",
}
"""What a developer can do about an outcome. The command line has its own, which name its options."""


class Outcome(Struct, frozen=True):
    """Why a run ended. `category` says what a caller may do about it.

    `success`: nothing. `waiting`: answer, then resume the run. `retryable`: try again. `capacity`: allow more.
    `fatal`: change something first.
    """

    kind: OutcomeKind
    reason: str = ""
    category: Category = "success"
    hint: str = ""
    """What to do next; empty after a success."""

    @property
    def is_success(self) -> bool:
        return self.category == "success"


def end(kind: OutcomeKind, reason: str = "", *, category: Category | None = None, hint: str = "") -> Outcome:
    """An outcome with the category and the hint of its kind, unless the caller knows better."""
    return Outcome(kind, reason, category or CATEGORIES[kind], hint or HINTS.get(kind, ""))


class Problem(Struct, frozen=True):
    """Something that went wrong on the way and did not end the run, or was done about it."""

    kind: str
    message: str
    turn: int = 0


class RunResult(Struct, Generic[AnswerT], frozen=True):
    """Everything a run leaves behind."""

    outcome: Outcome
    text: str = ""
    """The final answer; on another outcome, the last words of the model."""
    data: AnswerT = None  # type: ignore[assignment]
    """The structured answer, where one was asked for; None where the run did not get that far."""
    messages: list[Message] = field(default_factory=list)
    """The whole conversation, with every call answered; give it to another run to go on."""
    results: list[ToolResult] = field(default_factory=list)
    """The results of this run, in order, with the structured data of the tools."""
    calls: list[ToolCall | InvalidCall] = field(default_factory=list)
    """The calls of this run that were answered by `results`, in the same order."""
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars; None where no price is known."""
    turns: int = 0
    problems: list[Problem] = field(default_factory=list)
    run_id: str = ""
    session: str | None = None
    model: str = ""

    def __str__(self) -> str:
        return self.text


class RunFailed(DragomanError):
    """A run ended without an answer. `result` is what it left behind, and `outcome` says why it ended."""

    def __init__(self, result: RunResult[Any]) -> None:
        outcome = result.outcome
        words = outcome.kind.replace("_", " ")
        super().__init__(f"{words}: {outcome.reason}" if outcome.reason else words, hint=outcome.hint)
        self.result = result
        self.outcome = outcome


def check_result(result: RunResult[AnswerT]) -> RunResult[AnswerT]:
    """The result of a run that succeeded or waits for an approval; any other one raises `RunFailed`."""
    if result.outcome.category not in ("success", "waiting"):
        raise RunFailed(result)
    return result


# --------------------------------------------------------------------------------------------------------------------
# How much a run may take, and what it has taken so far.


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a run. None means that there is none."""

    turns: int = 10
    """Requests to the model. The calls of the last reply still run."""
    tokens: int | None = None
    """Input and output of all requests together."""
    cost: float | None = None
    """In US dollars. Where no price is known, a run with this limit does not start."""
    seconds: float | None = None
    """Of the whole run, waiting for approvals included."""
    turn_seconds: float | None = None
    """Of one request and the calls of its reply."""
    tool_seconds: float = 120.0
    """Of one call, where its tool says nothing else."""
    calls_per_turn: int = 64
    """More calls than this in one reply, and none of them runs."""
    repairs: int = 2
    """How often in a row the model is asked again because a reply held nothing but calls that cannot be run."""
    mistakes: int = 3
    """Turns in a row without one good call, after which the run ends."""
    blanks: int = 1
    """How often in a row the model is asked again because it said nothing."""
    concurrency: int = 8
    """Calls of one run that run at the same time."""

    def __post_init__(self) -> None:
        for name in ("turns", "calls_per_turn", "concurrency", "mistakes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"limits.{name} has to be at least 1", hint="leave it out for the default")
        for name in ("tokens", "cost", "seconds", "turn_seconds", "tool_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"limits.{name} has to be more than 0", hint="None stands for no limit")


class Spending:
    """What a run and the runs below it have used. Whoever has a parent adds to the parent's account as well."""

    def __init__(self, limits: Limits, parent: Spending | None = None) -> None:
        self.limits = limits
        self.parent = parent
        self.usage = Usage()
        self.cost: float | None = 0.0

    def add(self, usage: Usage, cost: float | None) -> None:
        """Take in one reply."""
        self.usage = add_usage(self.usage, usage)
        self.cost = None if self.cost is None or cost is None else self.cost + cost
        if self.parent is not None:
            self.parent.add(usage, cost)

    def exceeded(self) -> tuple[str, str] | None:
        """The kind of limit that is reached here or further up, and the words for it."""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        if self.limits.tokens is not None and tokens >= self.limits.tokens:
            return "token_limit", f"{tokens} tokens were used, and {self.limits.tokens} are allowed"
        if self.limits.cost is not None:
            if self.cost is None:
                return "cost_limit", "a limit of cost is set, and no price is known for the model"
            if self.cost >= self.limits.cost:
                return "cost_limit", f"{self.cost:.4f} dollars were spent, and {self.limits.cost:g} are allowed"
        return self.parent.exceeded() if self.parent is not None else None


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum of two usages."""
    return Usage(*map(add, astuple(one), astuple(other)))
