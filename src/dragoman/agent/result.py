"""The outcomes of a run, its result, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct, field

from dragoman.errors import ConfigError, DragomanError
from dragoman.replies import add_usage
from dragoman.types import InvalidCall, Message, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    import typing_extensions

    # Without a declared answer the data is Any. At run time, TypeVar has no default before Python 3.13.
    AnswerT = typing_extensions.TypeVar("AnswerT", default=Any)
else:
    AnswerT = TypeVar("AnswerT")

# --------------------------------------------------------------------------------------------------------------------
# The outcomes of a run, and its result.

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
    "cancelled": "start the run again, or resume it if it has a journal",
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
    "unauthorized": "check the key and its permissions",
    "hook_failed": "a hook raised an exception; result.problems names it",
    "interrupted": "resume the run: agent.resume(run_id)",
    "awaiting_approval": "answer the approval, then resume the run: agent.resume(run_id)",
}
"""The next step of a developer after an outcome. The command line has its own table, which names its options."""


class Outcome(Struct, frozen=True):
    """Why a run ended. `category` tells the caller how to react.

    `success`: nothing to do. `waiting`: answer, then resume the run. `retryable`: try again. `capacity`: raise a limit.
    `fatal`: change something first.
    """

    kind: OutcomeKind
    reason: str = ""
    category: Category = "success"
    hint: str = ""
    """The next step; empty after a success."""

    @property
    def is_success(self) -> bool:
        """Whether the run ended with an answer."""
        return self.category == "success"


def end(kind: OutcomeKind, reason: str = "", *, category: Category | None = None, hint: str = "") -> Outcome:
    """Return an outcome with the category and the hint of its kind, unless the caller gives others."""
    return Outcome(kind, reason, category or CATEGORIES[kind], hint or HINTS.get(kind, ""))


class Problem(Struct, frozen=True):
    """A problem that did not end the run, or a measure against one."""

    kind: str
    message: str
    turn: int = 0
    """The number of the turn, as in the events; 0 before the first request."""


UNHEARD = "the run ended before the model received: {text}"
"""The problem `unheard`: a message of the user that came too late."""


class RunResult(Struct, Generic[AnswerT], frozen=True):
    """The result of a run."""

    outcome: Outcome
    text: str = ""
    """The final answer. For an outcome other than success, the last text of the model."""
    data: AnswerT = None  # type: ignore[assignment]
    """The structured answer, if one was requested; None if the run ended before it."""
    messages: list[Message] = field(default_factory=list)
    """The whole conversation, with a result for every call. Pass it to another run to continue."""
    results: list[ToolResult] = field(default_factory=list)
    """The tool results of this run, in order, with the structured data of the tools."""
    calls: list[ToolCall | InvalidCall] = field(default_factory=list)
    """The calls of this run, in the order of `results`."""
    usage: Usage = Usage()
    """The tokens of this run and of its child runs."""
    cost: float | None = None
    """In US dollars, child runs included; None if a price is unknown."""
    turns: int = 0
    """The requests of this run and of its child runs."""
    problems: list[Problem] = field(default_factory=list)
    run_id: str = ""
    session: str | None = None
    model: str = ""

    def __str__(self) -> str:
        return self.text


class RunFailed(DragomanError):
    """A run ended without an answer. `result` is its result, and `outcome` says why it ended."""

    def __init__(self, result: RunResult[Any]) -> None:
        outcome = result.outcome
        words = outcome.kind.replace("_", " ")
        super().__init__(f"{words}: {outcome.reason}" if outcome.reason else words, hint=outcome.hint)
        self.result = result
        self.outcome = outcome


def check_result(result: RunResult[AnswerT]) -> RunResult[AnswerT]:
    """Return the result of a run that succeeded or waits for an approval. Raise `RunFailed` for any other."""
    if result.outcome.category not in ("success", "waiting"):
        raise RunFailed(result)
    return result


# --------------------------------------------------------------------------------------------------------------------
# The limits of a run, and what it has used so far.


class SharedBudget(Protocol):
    """What runs share: `dragoman.Budget`, or your own implementation. Its methods are called from any thread."""

    @property
    def cost(self) -> float | None:
        """The limit in US dollars."""

    def add(self, usage: Usage, cost: float | None, turns: int = 0) -> None:
        """Add what a run has used."""

    def exceeded(self) -> tuple[str, str] | None:
        """Return the kind of limit that is reached, such as `token_limit`, and its message."""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a run. None means no limit."""

    turns: int = 10
    """The number of requests to the model, those of child runs included. The calls of the last reply still run."""
    tokens: int | None = None
    """The tokens of all requests and replies together."""
    cost: float | None = None
    """The cost in US dollars. A run with this limit does not start if no price is known for its model."""
    seconds: float | None = None
    """The duration of the whole run, including the wait for approvals."""
    turn_seconds: float | None = None
    """The duration of one request and the calls of its reply."""
    tool_seconds: float = 120.0
    """The duration of one call, if its tool has no timeout of its own."""
    calls_per_turn: int = 64
    """The number of calls in one reply. If a reply has more, none of them runs."""
    repairs: int = 2
    """How often in a row the model is asked again because a reply contains only calls that cannot run."""
    mistakes: int = 3
    """The number of turns in a row without a valid call after which the run ends."""
    blanks: int = 1
    """How often in a row the model is asked again because its reply is empty."""
    concurrency: int = 8
    """The number of calls of one run that run at the same time."""
    budget: SharedBudget | None = None
    """A budget that runs share. That of the agent also counts for a run with limits of its own."""

    def __post_init__(self) -> None:
        if self.budget is not None and not callable(getattr(self.budget, "exceeded", None)):
            raise ConfigError(f"limits.budget is {self.budget!r}"[:200], hint='write budget=Budget("name", cost=...)')
        for name in ("turns", "calls_per_turn", "concurrency", "mistakes", "repairs", "blanks"):
            value, least = getattr(self, name), 0 if name in ("repairs", "blanks") else 1
            if not isinstance(value, int):
                raise ConfigError(
                    f"limits.{name} must be a whole number, not {value!r}", hint="omit it for the default"
                )
            if value < least:
                raise ConfigError(f"limits.{name} must be at least {least}", hint="omit it for the default")
        for name in ("tokens", "cost", "seconds", "turn_seconds", "tool_seconds"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | float):
                raise ConfigError(f"limits.{name} must be a number, not {value!r}", hint="None means no limit")
            if value is not None and value <= 0:
                raise ConfigError(f"limits.{name} must be more than 0", hint="None means no limit")


class Spending:
    """What a run and its child runs have used. A child run also adds to its parent."""

    def __init__(self, limits: Limits, parent: Spending | None = None) -> None:
        self.limits = limits
        self.parent = parent
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.turns = 0
        self.budgets: tuple[SharedBudget, ...] = ()
        """The budgets that this run shares with others. The runs that it starts add to them, too."""
        self._of_children: tuple[Usage, float | None, int] | None = None

    def add(self, usage: Usage, cost: float | None, turns: int = 0) -> None:
        """Add the usage of one reply, or requests to the model."""
        self.usage = add_usage(self.usage, usage)
        self.cost = add_cost(self.cost, cost)
        self.turns += turns
        for budget in self.budgets:
            budget.add(usage, cost, turns)
        if self.parent is not None:
            self.parent._add_child(usage, cost, turns)

    def share(self, *budgets: SharedBudget | None) -> None:
        """Count what this run uses from now on in these budgets, each of them once."""
        above = self.parent
        known: set[SharedBudget | None] = {None}
        while above is not None:
            known |= {*above.budgets}
            above = above.parent
        self.budgets = tuple(dict.fromkeys(each for each in budgets if each is not None and each not in known))

    def charge(self, turns: int) -> None:
        """Count requests in the budgets that this run has counted before."""
        for budget in self.budgets:
            budget.add(Usage(), 0.0, turns)

    def _add_child(self, usage: Usage, cost: float | None, turns: int) -> None:
        before, spent, asked = self._of_children or (Usage(), 0.0, 0)
        self._of_children = add_usage(before, usage), add_cost(spent, cost), asked + turns
        self.add(usage, cost, turns)

    def take_children(self) -> tuple[Usage, float | None, int] | None:
        """Return the usage, cost and turns of child runs since the last call; None if there is nothing new."""
        taken, self._of_children = self._of_children, None
        return taken

    def exceeded(self) -> tuple[str, str] | None:
        """Return the kind of limit that is reached here or in a parent run, and its message."""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        if self.limits.tokens is not None and tokens >= self.limits.tokens:
            return "token_limit", f"{tokens} tokens are used; the limit is {self.limits.tokens}"
        if self.limits.cost is not None:
            if self.cost is None:
                return "cost_limit", "a cost limit is set, but the price of the model is unknown"
            if self.cost >= self.limits.cost:
                return "cost_limit", f"{self.cost:.4f} dollars are spent; the limit is {self.limits.cost:g}"
        for budget in self.budgets:
            if (used := budget.exceeded()) is not None:
                return used
        return self.parent.exceeded() if self.parent is not None else None

    @property
    def needs_price(self) -> bool:
        """Whether a limit of dollars counts for this run."""
        return self.limits.cost is not None or any(budget.cost is not None for budget in self.budgets)

    def turns_left(self) -> int:
        """Return how many requests the limits of this run and of its parent runs still allow."""
        own = max(0, self.limits.turns - self.turns)
        return own if self.parent is None else min(own, self.parent.turns_left())


def add_cost(one: float | None, other: float | None) -> float | None:
    """The sum of two costs; None if one of them is unknown."""
    return None if one is None or other is None else one + other
