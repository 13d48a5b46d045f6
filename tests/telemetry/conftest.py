"""Events of runs in the order of a driver, for tests of listeners."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.agent.events import Asked, RunEnded, RunEvent, RunStarted, ToolEnded, ToolStarted, TurnEnded
from dragoman.agent.result import OutcomeKind, RunResult, end
from dragoman.events import CallEnded, ReplyEnded, ReplyStarted, TextDelta, UsageReported
from dragoman.telemetry import Listener
from dragoman.types import ToolCall, ToolResult, Usage

MODEL = "ollama:qwen3"


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"call_{name}_{number}", name, arguments)


def started(run_id: str = "run-1", session: str | None = None) -> RunStarted:
    return RunStarted(run_id, MODEL, session)


def reply(turn: int, text: str = "", calls: Iterable[ToolCall] = ()) -> list[RunEvent]:
    """A request and its reply."""
    asked = list(calls)
    return [
        Asked(turn, MODEL, 2, 1, "native"),
        ReplyStarted("qwen3:8b", f"reply-{turn}"),
        *(TextDelta(letter) for letter in text),
        *(CallEnded(index, each) for index, each in enumerate(asked)),
        UsageReported(Usage(10, 5)),
        ReplyEnded("tool_calls" if asked else "end"),
    ]


def tool_ended(done: ToolCall, content: str = "fine", *, is_error: bool = False, ran: bool = True) -> ToolEnded:
    return ToolEnded(done, ToolResult(done.id, done.name, content, is_error), 0.5, ran)


def ended(kind: OutcomeKind = "answered", text: str = "") -> RunEnded:
    usage = Usage(20, 10)
    return RunEnded(RunResult(end(kind), text, usage=usage, cost=0.25, turns=2, run_id="run-1", model=MODEL))


def whole_run(run_id: str = "run-1", session: str | None = None) -> list[RunEvent]:
    """A run with one request for a tool and one for the answer."""
    weather = call("weather", city="Paris")
    return [
        started(run_id, session),
        *reply(1, calls=[weather]),
        ToolStarted(weather, 1),
        tool_ended(weather, "12 degrees"),
        TurnEnded(1, Usage(10, 5), 0.1),
        *reply(2, "It is cold."),
        TurnEnded(2, Usage(10, 5), 0.15),
        ended(text="It is cold."),
    ]


def send(listener: Listener, events: Iterable[RunEvent], run_id: str = "run-1") -> None:
    for event in events:
        listener(run_id, event)
