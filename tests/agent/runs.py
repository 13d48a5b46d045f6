"""Agents with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from dragoman.agent import Agent, Connection, ContextSettings, Safety
from dragoman.agent.events import Noticed, RunEvent
from dragoman.testing import ScriptedModel

T = TypeVar("T")
_VALUES = {"connection": Connection, "safety": Safety, "context": ContextSettings}


def grouped(**settings: Any) -> dict[str, Any]:
    """Return the arguments of `Agent`: `transport=...` becomes a part of `connection=...`, and so on."""
    made = dict(settings)
    for place, kind in _VALUES.items():
        names = [name for name in kind.__struct_fields__ if name in made]
        if names:
            given = made.get(place) or kind()
            made[place] = replace(given, **{name: made.pop(name) for name in names})
    return made


def agent(replies: Any, *tools: Any, native: bool = True, loop: bool = False, **settings: Any) -> Agent:
    """Return an agent whose model sends these replies."""
    model = ScriptedModel(replies, native=native, loop=loop)
    return Agent(model.endpoint(), tools, **grouped(transport=model, **settings))


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, and check that it leaves no task behind."""

    async def watch() -> T:
        value = await asyncio.wait_for(coroutine, 30)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"still running: {left}"
        return value

    return asyncio.run(watch())


def kinds(events: list[RunEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def notices(events: list[RunEvent]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Noticed)]
