"""26 unusual answers of OpenAI-compatible servers, over real sockets, whole and streamed.

Repaired and run, or the model asked again with a clear message. Never a crash, never a silent end, and a call that was
cut off never runs.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.faults.odd_replies import ROWS, Row, streamed, whole

import dragoman
from dragoman.agent.result import RunResult
from dragoman.client import Retries
from dragoman.testing import Fault, Upstream
from dragoman.types import ToolCall, ToolResult

ANSWER = "It is warm in Paris."


def run(row: Row, *, streaming: bool) -> tuple[RunResult, list[str], Upstream]:
    """Let an agent work against a server that sends this row, and then an answer in words."""
    cities: list[str] = []

    @dragoman.tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f"{city}: 21 degrees"

    refused = (
        [Fault("status", status=row.status, body='{"error": {"message": "not now"}}')] if row.status != 200 else []
    )
    script: list[Any] = [*refused, (streamed if streaming else whole)(row), ANSWER]
    with Upstream(script) as upstream:
        agent = dragoman.Agent(
            upstream.endpoint(), tools=[get_weather], connection=dragoman.Connection(retries=Retries(base=0.0))
        )
        started = agent.start("Is it warm in Paris?", streaming=streaming)
        result = started.wait(check=False)
    return result, cities, upstream


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ROWS)
def test_an_odd_answer_is_repaired_and_run_or_the_model_is_asked_again(name: str, streaming: bool) -> None:
    row = ROWS[name]
    result, cities, upstream = run(row, streaming=streaming)
    assert (result.outcome.kind, result.text) == ("answered", ANSWER), result.outcome
    assert cities == list(row.ran)
    assert len(upstream.requests) == 2
    second = upstream.requests[1].messages
    parts = [part for message in second for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    called = [part.id for part in parts if isinstance(part, ToolCall)]
    # Every call has exactly one result, under an id of its own.
    assert [part.call_id for part in results] == called and len(set(called)) == len(called)
    if row.ran:
        assert [part.content for part in results] == [f"{city}: 21 degrees" for city in row.ran]
        assert not any(part.is_error for part in results)
    else:
        assert row.told in str(second[-1]), second[-1]


def test_all_rows_are_there() -> None:
    assert len(ROWS) == 26


@pytest.mark.parametrize("name", ["cut JSON, finish=length", "valid JSON but finish=length"])
def test_a_call_that_was_cut_off_never_runs_however_often_it_comes(name: str) -> None:
    ran: list[str] = []

    @dragoman.tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return "never"

    with Upstream([whole(ROWS[name])], loop=True) as upstream:
        agent = dragoman.Agent(upstream.endpoint(), tools=[get_weather])
        result = agent.run("Is it warm in Paris?", check=False)
    assert ran == []
    assert result.outcome.kind in ("truncated", "mistake_limit")
    assert 1 <= len(upstream.requests) <= 4


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_empty_answers_end_the_run_with_a_name_and_not_in_silence(streaming: bool) -> None:
    row = ROWS["empty answer, no call"]
    with Upstream([(streamed if streaming else whole)(row)], loop=True) as upstream:
        agent = dragoman.Agent(upstream.endpoint())
        result = agent.start("Is it warm?", streaming=streaming).wait(check=False)
    assert (result.outcome.kind, result.outcome.category) == ("blank", "retryable")
    assert len(upstream.requests) == 2
