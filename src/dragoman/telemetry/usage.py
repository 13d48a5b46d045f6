"""What runs used, by model: tokens and, where prices are known, dollars."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.agent.events import Asked, RunEnded, RunEvent, TurnEnded
from dragoman.agent.result import add_usage
from dragoman.types import Usage

_MOST_RUNS = 10_000


class Total(Struct, frozen=True):
    """The sum for one model."""

    requests: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In US dollars; None as soon as one of the requests had no known price."""

    def plus(self, usage: Usage, cost: float | None, requests: int = 1) -> Total:
        """This total and one thing more."""
        known = None if self.cost is None or cost is None else self.cost + cost
        return Total(self.requests + requests, add_usage(self.usage, usage), known)


class UsageTotals:
    """A listener that adds up what runs used. Many runs may share it.

    A turn counts for the model that was asked in it, so a run that went on with another model is counted under both.
    """

    def __init__(self) -> None:
        self._totals: dict[str, Total] = {}
        self._models: dict[str, str] = {}
        self._lock = threading.Lock()
        self.runs = 0
        """Runs that ended."""

    def __call__(self, run_id: str, event: RunEvent) -> None:
        if not isinstance(event, Asked | TurnEnded | RunEnded):
            return
        with self._lock:
            if isinstance(event, Asked):
                if len(self._models) >= _MOST_RUNS:
                    self._models.pop(next(iter(self._models)))
                self._models[run_id] = f"{event.provider}:{event.model}" if event.provider else event.model
            elif isinstance(event, TurnEnded):
                model = self._models.get(run_id, "")
                self._totals[model] = self._totals.get(model, Total()).plus(event.usage, event.cost)
            else:
                self._models.pop(run_id, None)
                self.runs += 1

    @property
    def by_model(self) -> dict[str, Total]:
        """The totals so far, the models in the order in which they were first asked."""
        with self._lock:
            return dict(self._totals)

    def as_data(self) -> dict[str, Any]:
        """The totals as JSON, with a sum over all models."""
        return as_data(self.by_model) | {"runs": self.runs}


def as_data(totals: dict[str, Total]) -> dict[str, Any]:
    """Totals as JSON, with a sum over all models."""
    together = Total()
    for total in totals.values():
        together = together.plus(total.usage, total.cost, total.requests)
    return {"total": msgspec.to_builtins(together), "models": msgspec.to_builtins(totals)}
