"""Usage is counted by model."""

from __future__ import annotations

import json

from tests.telemetry.conftest import ended, send, whole_run

from dragoman.agent.events import Asked, TurnEnded
from dragoman.telemetry import Total, UsageTotals
from dragoman.types import Usage


def test_turns_count_for_the_model_that_was_asked() -> None:
    totals = UsageTotals()
    send(totals, [Asked(1, "a:1"), Asked(1, "b:2"), TurnEnded(1, Usage(10, 5, 3), 0.5)], "one")
    send(totals, [Asked(1, "a:1"), TurnEnded(1, Usage(1, 1), 0.25), TurnEnded(2, Usage(1, 1), 0.25), ended()], "two")
    assert totals.by_model == {
        "b:2": Total(1, Usage(10, 5, 3), 0.5),
        "a:1": Total(2, Usage(2, 2), 0.5),
    }
    assert totals.runs == 1


def test_an_unknown_price_makes_the_sum_unknown_and_not_smaller() -> None:
    totals = UsageTotals()
    send(totals, [Asked(1, "a:1"), TurnEnded(1, Usage(1, 1), 0.25), TurnEnded(2, Usage(1, 1), None)])
    assert totals.by_model["a:1"].cost is None
    assert totals.as_data()["total"]["cost"] is None


def test_totals_as_json() -> None:
    totals = UsageTotals()
    send(totals, whole_run())
    data = totals.as_data()
    assert (data["runs"], data["total"]["requests"], data["total"]["usage"]["input_tokens"]) == (1, 2, 20)
    assert list(data["models"]) == ["ollama:qwen3"]
    assert json.loads(json.dumps(data)) == data
