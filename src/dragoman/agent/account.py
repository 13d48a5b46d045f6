"""The account of a run: what was spent, what was called, what went wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.agent.limits import add_usage
from dragoman.agent.outcomes import Outcome, Problem, RunResult
from dragoman.agent.setup import Setup
from dragoman.types import InvalidCall, Message, ToolCall, ToolResult, Usage


class Account:
    """Keeps everything that the result of a run tells, but for the conversation."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.last_usage = Usage()
        self.last_cost: float | None = None
        self._model = ""
        self._calls: list[ToolCall | InvalidCall] = []
        self._results: list[ToolResult] = []
        self._problems: list[Problem] = []
        self._turn = 0

    def spend(self, usage: Usage, cost: float | None, model: str) -> None:
        """Take in one reply."""
        self._turn += 1
        self._model = model
        self.last_usage, self.last_cost = usage, cost
        self.usage = add_usage(self.usage, usage)
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def answer(self, calls: Iterable[ToolCall | InvalidCall], results: Iterable[ToolResult]) -> None:
        """Take in the calls of a turn, each with its result."""
        self._calls += calls
        self._results += results

    def note(self, kind: str, message: str) -> None:
        """Keep what went wrong, or was done about it."""
        self._problems.append(Problem(kind, message, self._turn))

    def conclude(
        self, outcome: Outcome, text: str, data: Any, messages: list[Message], turns: int, model: str
    ) -> RunResult:
        """The result of the run."""
        return RunResult(
            outcome,
            text,
            data,
            messages,
            list(self._results),
            list(self._calls),
            self.usage,
            self.cost,
            turns,
            list(self._problems),
            self._setup.run_id,
            self._setup.session,
            self._model or model,
        )
