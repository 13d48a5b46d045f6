"""How a run can end, and what it leaves behind."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from dragoman.types import InvalidCall, Message, ToolCall, ToolResult, Usage

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

CATEGORIES: dict[OutcomeKind, Category] = {
    "answered": "success",
    "halted": "success",
    "stopped": "success",
    "cancelled": "retryable",
    "turn_limit": "capacity",
    "token_limit": "capacity",
    "cost_limit": "capacity",
    "time_limit": "capacity",
    "context_full": "capacity",
    "mistake_limit": "fatal",
    "looping": "fatal",
    "blank": "retryable",
    "starved": "capacity",
    "truncated": "capacity",
    "refused": "fatal",
    "tool_failed": "fatal",
    "provider_failed": "retryable",
    "unauthorized": "fatal",
    "hook_failed": "fatal",
    "interrupted": "retryable",
    "awaiting_approval": "waiting",
}


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
