"""Agents with a scripted model, for tests of what really runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from dragoman.agent import Agent
from dragoman.agent.events import Noticed, RunEvent
from dragoman.testing import ScriptedModel

T = TypeVar("T")


def agent(replies: Any, *tools: Any, native: bool = True, loop: bool = False, **settings: Any) -> Agent:
    """An agent whose model says this."""
    model = ScriptedModel(replies, native=native, loop=loop)
    return Agent(model.endpoint(), tools, transport=model, **settings)


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it, and make sure that nothing of it goes on afterwards."""

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
