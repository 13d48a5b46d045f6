"""The byte sweep of a whole run: the connection breaks at every byte of the reply that calls tools, on every wire."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.faults.streams import ONCE, WIRES, header, record

import dragoman
from dragoman.client import TransportFault
from dragoman.testing import Answer, ScriptedModel
from dragoman.types import Request, ToolCall, ToolResult

ANSWER = "It is warm."
MADE = [("Paris", 1), ("Zürich", 3)]


# Every fifth byte is enough for every run of the tests; all of them are tried with those that take long.
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("spoken", WIRES)
def test_4_a_run_whose_connection_breaks_at_any_byte_runs_both_calls_or_none(spoken: str, step: int) -> None:
    data = b"".join(record(spoken))
    ran: list[tuple[str, int]] = []
    every = [*range(0, len(data), step), len(data)]
    places = iter(every)

    @dragoman.tool
    def weather(city: str, days: int = 1) -> str:
        """The weather in a city."""
        ran.append((city, days))
        return f"{city}: 21 degrees"

    def answer(request: Request) -> Answer | str:
        """The first request of a run is cut one byte later each time, the second one gets its answer."""
        if len(request.messages) > 1:
            assert ran == MADE
            return ANSWER
        fault = TransportFault("stream_cut", "the connection was reset")
        return Answer(200, header(spoken), pieces=[data[: next(places)]], fault=fault)

    async def run_all() -> Counter[str]:
        seen: Counter[str] = Counter()
        model = ScriptedModel([answer], wire=spoken, loop=True)
        endpoint, tools = model.endpoint(), [weather]
        for place in every:
            ran.clear()
            model.exchanges.clear()
            # An agent for each: one agent leaves an endpoint alone for a while that fails again and again.
            agent = dragoman.Agent(endpoint, tools=tools, connection=dragoman.Connection(transport=model, retries=ONCE))
            result = await agent.start("Is it warm?", streaming=True).result(check=False)
            assert ran in ([], MADE), place
            assert (result.outcome.kind == "answered") is bool(ran), (place, result.outcome)
            parts = [part for message in result.messages for part in message.parts]
            made = [part.id for part in parts if isinstance(part, ToolCall)]
            assert made == [part.call_id for part in parts if isinstance(part, ToolResult)], place
            seen[result.outcome.kind] += 1
        return seen

    seen = asyncio.run(run_all())
    assert set(seen) == {"answered", "provider_failed"}
    assert seen["answered"] < seen["provider_failed"]
