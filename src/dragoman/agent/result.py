"""How a run can end, what it leaves behind, and the limits it runs under."""

from __future__ import annotations

from operator import add
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import astuple

from dragoman.errors import ConfigError
from dragoman.types import InvalidCall, Message, ToolCall, ToolResult, Usage

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


class Outcome(Struct, frozen=True):
    """Why a run ended. `category` says what a caller may do about it.

    `success`: nothing. `waiting`: answer, then go on with the run. `retryable`: try again. `capacity`: allow more.
    `fatal`: mend something first.
    """

    kind: OutcomeKind
    reason: str = ""
    category: Category = "success"

    @property
    def is_success(self) -> bool:
        return self.category == "success"


def end(kind: OutcomeKind, reason: str = "", *, category: Category | None = None) -> Outcome:
    """An outcome with the category that belongs to its kind, unless the caller knows better."""
    return Outcome(kind, reason, category or CATEGORIES[kind])


class Problem(Struct, frozen=True):
    """Something that went wrong on the way and did not end the run, or was done about it."""

    kind: str
    message: str
    turn: int = 0


class RunResult(Struct, frozen=True):
    """Everything a run leaves behind."""

    outcome: Outcome
    text: str = ""
    """The final answer; on another outcome, the last words of the model."""
    data: Any = None
    """The structured answer, where one was asked for."""
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
