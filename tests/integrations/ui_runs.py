"""Runs of every kind, as streams for web front ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import dragoman
from dragoman.agent import Deny
from dragoman.agent.events import Asked, RunEvent, RunStarted, ToolEnded
from dragoman.events import ArgumentsDelta, CallBroken, CallEnded, CallStarted, TextDelta, ThinkingDelta
from dragoman.integrations import UiStream
from dragoman.integrations.ui_stream import Protocol
from dragoman.journal import MemoryJournal
from dragoman.testing import Fault, Upstream, call, calls
from dragoman.types import Text, Thinking, ToolCall, ToolResult

SPOKEN = 'I will look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris",}}\n</tool_call>'
ANSWER = "It is warm in Zürich \u2028☃."


@dragoman.tool(name="weather")
def weather(city: str) -> str:
    """The weather in a city."""
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"sunny in {city}"


@dragoman.tool(name="transfer", requires_approval=True)
def transfer(amount: int) -> str:
    """Send money."""
    return f"{amount} sent"


def _run(*script: Any, approve: Any = None, **settings: Any) -> Callable[[UiStream], list[bytes]]:
    def run(stream: UiStream) -> list[bytes]:
        async def main() -> list[bytes]:
            with Upstream(script) as upstream:
                agent = dragoman.Agent(upstream.endpoint(), tools=[weather, transfer], approve=approve, **settings)
                return [frame async for frame in stream.write(agent.stream("Is it warm?"))]

        return asyncio.run(main())

    return run


def _cancelled(stream: UiStream) -> list[bytes]:
    async def main() -> list[bytes]:
        with Upstream([SPOKEN, "never"]) as upstream:
            run = dragoman.Agent(upstream.endpoint(), tools=[weather]).stream("Is it warm?")

            async def events() -> AsyncIterator[RunEvent]:
                async for event in run:
                    if isinstance(event, ToolEnded):
                        run.cancel("the user said so")
                    yield event

            return [frame async for frame in stream.write(events())]

    return asyncio.run(main())


def _fed(*events: RunEvent) -> Callable[[UiStream], list[bytes]]:
    return lambda stream: [frame for event in events for frame in stream.feed(event)] + stream.close()


_OSLO = ToolCall("call_1", "weather", {"city": "Oslo"})
_SAID = ToolResult("call_1", "weather", "sunny")

RUNS: dict[str, Callable[[UiStream], list[bytes]]] = {
    "an answer": _run(ANSWER),
    "thinking": _run([Thinking("Let me think."), Text(ANSWER)]),
    "a call in text": _run(SPOKEN, ANSWER),
    "calls": _run(calls(call("weather", city="Oslo"), call("weather", city="Rome"), say="Both."), ANSWER),
    "a call that does not fit": _run(call("weather", town=3), ANSWER),
    "an unknown tool": _run(call("flights", to="Oslo"), ANSWER),
    "a tool that fails": _run(call("weather", city="Atlantis"), ANSWER),
    "a failure of the endpoint": _run(Fault("status", status=400, body='{"error": {"message": "no"}}')),
    "a cut stream": _run(Fault("end", at=400), SPOKEN * 9, limits=dragoman.Limits(turns=1)),
    "a limit": _run(call("weather", city="Oslo"), limits=dragoman.Limits(turns=1)),
    "a cancelled run": _cancelled,
    "an approved call": _run(call("transfer", amount=5), ANSWER, approve=lambda request: True),
    "a denied call": _run(call("transfer", amount=5), ANSWER, approve=lambda request: Deny("no money")),
    "a run that waits": _run(
        call("transfer", amount=5), journal=MemoryJournal(), safety=dragoman.Safety(defer_approvals=True)
    ),
    "the same ids in every turn": _fed(
        RunStarted("run_1", "m"),
        Asked(1, "m"),
        CallEnded(0, _OSLO),
        ToolEnded(_OSLO, _SAID),
        Asked(2, "m"),
        CallStarted(0, "weather", "call_1"),
        ArgumentsDelta(0, '{"city": '),
        CallEnded(0, _OSLO),
        ToolEnded(_OSLO, _SAID),
    ),
    "a call that never ends": _fed(
        RunStarted("run_1", "m"),
        Asked(1, "m"),
        ThinkingDelta("Well"),
        TextDelta("a"),
        CallStarted(0, "weather", "call_1"),
        ArgumentsDelta(0, '{"ci'),
        TextDelta("b"),
        CallBroken("x", "cut", (0, 1), index=0),
    ),
    "a result without a call": _fed(RunStarted("run_1", "m"), Asked(1, "m"), ToolEnded(_OSLO, _SAID)),
    "no event at all": _fed(),
}


def write(name: str, protocol: Protocol) -> list[bytes]:
    """Return the frames of a run."""
    return RUNS[name](UiStream(protocol, thread_id="thread_1", run_id="run_1"))


def read(frames: list[bytes]) -> list[dict[str, Any]]:
    """Return the objects in the frames of a stream."""
    lines = b"".join(frames).decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
