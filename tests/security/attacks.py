"""Attacks on a whole agent: a model that sends what the attacker wants, and the resulting run."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from tests.agent.runs import grouped

from dragoman.agent import Agent
from dragoman.agent.events import ApprovalNeeded, CallDecided, RunEvent, ToolStarted
from dragoman.agent.result import RunResult
from dragoman.testing import Answer, ScriptedModel, sse
from dragoman.types import Request, ToolResult

REGISTERED = "tr0ub4dor-and-3-horses"
"""A registered secret."""
TOKEN = "ghp_" + "R4nd0mR4nd0mR4nd0mR4nd0mR4nd0m" + "1Yl9Xz"
"""A secret with a known form."""


class AgentRun(NamedTuple):
    """A run under attack: its result, its events and its model."""

    result: RunResult
    events: list[RunEvent]
    model: ScriptedModel

    @property
    def told(self) -> list[str]:
        """The result of each call, as the model received it."""
        return [str(result.content) for result in self.result.results]

    @property
    def ran(self) -> list[str]:
        """The tools that were started."""
        return [event.call.name for event in self.events if isinstance(event, ToolStarted)]

    @property
    def verdicts(self) -> list[str]:
        return [event.verdict for event in self.events if isinstance(event, CallDecided)]

    @property
    def questions(self) -> list[ApprovalNeeded]:
        return [event for event in self.events if isinstance(event, ApprovalNeeded)]

    @property
    def sent(self) -> str:
        """All requests to the model, as JSON."""
        return json.dumps(self.model.bodies, ensure_ascii=False)


def run_agent(replies: Any, *tools: Any, native: bool = True, task: Any = "Do it.", **settings: Any) -> AgentRun:
    """Run an agent with these tools, whose model sends these replies."""
    return asyncio.run(arun_agent(replies, *tools, native=native, task=task, **settings))


async def arun_agent(replies: Any, *tools: Any, native: bool = True, task: Any = "Do it.", **settings: Any) -> AgentRun:
    model = ScriptedModel(replies, native=native)
    run = {name: settings.pop(name) for name in ("session", "run_id") if name in settings}
    agent = Agent(model.endpoint(), tools, **grouped(transport=model, **settings))
    events: list[RunEvent] = []
    result = await asyncio.wait_for(agent.arun(task, on_event=events.append, **run), 60)
    return AgentRun(result, events, model)


def raw_call(name: str, arguments: str, call_id: str | None = "c1") -> Answer:
    """Return a streamed reply with one call whose arguments are this text."""
    return raw_calls((name, arguments, call_id))


def raw_calls(*written: tuple[str, str, str | None]) -> Answer:
    """A streamed reply with calls as they are written: name, arguments, id."""
    entries = []
    for index, (name, arguments, call_id) in enumerate(written):
        function = {"name": name, "arguments": arguments}
        entry: dict[str, Any] = {"index": index, "type": "function", "function": function}
        entries.append(entry if call_id is None else {**entry, "id": call_id})
    delta = {"role": "assistant", "tool_calls": entries}
    return sse(
        [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ]
    )


def results_in(request: Request) -> list[ToolResult]:
    """The results that a request carries."""
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
