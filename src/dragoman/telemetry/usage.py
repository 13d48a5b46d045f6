"""Usage totals of runs, by model: tokens and, if prices are known, cost."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.agent.events import Asked, RunEnded, RunEvent, TurnEnded
from dragoman.replies import add_usage
from dragoman.types import Usage

_MOST_RUNS = 10_000


class Total(Struct, frozen=True):
    """The sum for one model."""

    requests: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In US dollars; None if the price of any request is unknown."""

    def plus(self, usage: Usage, cost: float | None, requests: int = 1) -> Total:
        """Return this total plus one usage."""
        known = None if self.cost is None or cost is None else self.cost + cost
        return Total(self.requests + requests, add_usage(self.usage, usage), known)


class UsageTotals:
    """A listener that adds up the usage of runs. Several runs may share it.

    A turn counts for the model of its request, so a run that switched to another model is counted under both.
    """

    def __init__(self) -> None:
        self._totals: dict[str, Total] = {}
        self._models: dict[str, str] = {}
        self._lock = threading.Lock()
        self.runs = 0
        """The number of finished runs."""

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
        """Return the totals so far, with the models in the order of their first request."""
        with self._lock:
            return dict(self._totals)

    def as_data(self) -> dict[str, Any]:
        """Return the totals as JSON, with a sum over all models."""
        return as_data(self.by_model) | {"runs": self.runs}


def as_data(totals: dict[str, Total]) -> dict[str, Any]:
    """Return totals as JSON, with a sum over all models."""
    together = Total()
    for total in totals.values():
        together = together.plus(total.usage, total.cost, total.requests)
    return {"total": msgspec.to_builtins(together), "models": msgspec.to_builtins(totals)}
