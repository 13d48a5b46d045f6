"""What type checkers infer, and what they refuse. `test_typing.py` runs mypy and pyright over this file.

`assert_type` states an inference. A line that ends in `# error` has to be reported by both checkers, and no other line
may be.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, assert_type

import dragoman
from dragoman import (
    Agent,
    Budget,
    Connection,
    Context,
    ContextSettings,
    Limits,
    Message,
    Reply,
    RunResult,
    Safety,
    Text,
)
from dragoman.agent import PartialAnswer, Run, RunEvent
from dragoman.events import Event
from dragoman.testing import ScriptedModel


@dataclass
class Forecast:
    city: str
    degrees: float


@dataclass
class Database:
    url: str


@dragoman.tool
def look_up(city: str, context: Context[Database]) -> str:
    """Look a city up."""
    assert_type(context.data, Database)
    return context.data.url + city


@dragoman.tool
def weather(city: str, context: Context) -> str:
    """The weather in a city."""
    assert_type(context.data, Any)
    return city


# ---- runs ------------------------------------------------------------------------------------------------------------

plain = Agent("ollama:qwen3", [weather])
assert_type(plain, Agent[Any])
assert_type(plain.run("Is it warm?"), RunResult[Any])
assert_type(plain.run("Is it warm?").text, str)
assert_type(plain.run("Is it warm?", answer=Forecast), RunResult[Forecast])
for made in plain.run("Is it warm?").calls:
    assert_type((made.name, made.repairs), tuple[str, tuple[str, ...]])
    assert_type(made.arguments, dict[str, Any] | None)
assert_type(plain.run("Is it warm?", answer=Forecast).data, Forecast)
assert_type(plain.run("Is it warm?", answer={"type": "object"}), RunResult[Any])
assert_type(plain.resume("run_1", answer=Forecast).data, Forecast)


def check(forecast: Forecast) -> dragoman.Retry | None:
    return dragoman.Retry("too warm") if forecast.degrees > 60 else None


assert_type(plain.run("Is it warm?", answer=Forecast, validate=check).data, Forecast)
assert_type(Agent(ScriptedModel(["Yes."]), limits=Limits(budget=Budget("nightly", cost=1.0))), Agent[Any])
assert_type(plain.start("Is it warm?", answer=Forecast), Run[Forecast])
assert_type(plain.start("Is it warm?", answer=Forecast).wait().data, Forecast)
assert_type(plain.run([Message.user("Is it warm?"), {"role": "user", "content": "In Paris."}]), RunResult[Any])

with_data: Agent[Database] = Agent(
    "ollama:qwen3",
    [look_up],
    limits=Limits(turns=3),
    connection=Connection(environment={}),
    safety=Safety(trust="strict"),
    context=ContextSettings(window=8192),
)
with_data.run("Is it warm?", data=Database("sqlite://"))


async def asynchronously() -> None:
    assert_type(await plain.arun("Is it warm?", answer=Forecast), RunResult[Forecast])
    assert_type(await plain.stream("Is it warm?", answer=Forecast).result(), RunResult[Forecast])
    async for event in plain.stream("Is it warm?"):
        assert_type(event, RunEvent)
    async with aclosing(aiter(plain.stream("Is it warm?"))) as events:
        assert_type(await anext(events), RunEvent)
    async for piece in plain.stream("Is it warm?").text_stream():
        assert_type(piece, str)
    async for partial in plain.stream("Is it warm?", answer=Forecast).answer_stream():
        assert_type(partial, PartialAnswer[Forecast])
        assert_type(partial.data, Forecast | None)
    assert_type(await dragoman.aask("ollama:qwen3", "Hello"), Reply)
    assert_type(dragoman.astream("ollama:qwen3", "Hello"), AsyncIterator[Event])


# ---- one question ----------------------------------------------------------------------------------------------------

assert_type(dragoman.ask("ollama:qwen3", "Hello", temperature=0.2, anthropic={"service_tier": "auto"}), Reply)
assert_type(dragoman.stream("ollama:qwen3", "Hello", max_tokens=100), Iterator[Event])

# ---- messages --------------------------------------------------------------------------------------------------------

assert_type(Message.user("Hello", Text("again")), Message)

# ---- mistakes --------------------------------------------------------------------------------------------------------

Agent("ollama:qwen3", sytem="You are kind.")  # error
Agent("ollama:qwen3", trust="strict")  # error
Agent(42)  # error
plain.run("Is it warm?", anser=Forecast)  # error
plain.run("Is it warm?", temperature=0.2)  # error
plain.stream("Is it warm?", sesion="desk")  # error
plain.resume("run_1", sesion="desk")  # error
plain.start("Is it warm?", run="run_1")  # error
with_data.run("Is it warm?", data="sqlite://")  # error
print(plain.run("Is it warm?", answer=Forecast).data.degree)  # error
dragoman.ask("ollama:qwen3", "Hello", temperatur=0.2)  # error
dragoman.ask("ollama:qwen3", "Hello", max_token=10)  # error
dragoman.stream("ollama:qwen3", "Hello", answer=Forecast)  # error
Safety(trusts="strict")  # error
Connection(retry=None)  # error
