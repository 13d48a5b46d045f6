"""A run is cancelled at every step of the event loop: its journal, its conversation and its session stay usable."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, wait

import dragoman
from dragoman.agent import Agent
from dragoman.agent.events import RunEnded, RunEvent
from dragoman.agent.handle import Run
from dragoman.journal import MemoryJournal, UnknownRun, order_faults
from dragoman.testing import call, calls
from dragoman.types import Request, ToolResult


class WaitingJournal(MemoryJournal):
    """A journal that writes even if the task is cancelled while it waits, as the journal in a file does."""

    async def append(self, run_id: str, entries: Any, *, token: int) -> None:
        await super().append(run_id, entries, token=token)
        await asyncio.sleep(0)


class Effects:
    """An agent whose tools record their side effects."""

    def __init__(self) -> None:
        self.journal = WaitingJournal()
        self.done: list[str] = []
        self.ends: list[RunEnded] = []

    async def _act(self, name: str) -> str:
        await asyncio.sleep(0)
        self.done.append(name)
        await asyncio.sleep(0)
        return f"did {name}"

    def make_agent(self) -> Agent[Any]:
        @dragoman.tool
        async def pay(name: str) -> str:
            return await self._act(name)

        @dragoman.tool(parallel_safe=True)
        async def note(name: str) -> str:
            return await self._act(name)

        @dragoman.tool(requires_approval=True)
        async def send(name: str) -> str:
            return await self._act(name)

        replies = {
            0: call("pay", name="a"),
            1: calls(call("note", name="b"), call("note", name="c")),
            3: call("send", name="d"),
        }

        def reply(request: Request) -> Any:
            parts = [part for message in request.messages for part in message.parts]
            return replies.get(sum(isinstance(part, ToolResult) for part in parts), "done")

        async def approve(_: Any) -> bool:
            await asyncio.sleep(0)
            return True

        return agent(reply, pay, note, send, loop=True, journal=self.journal, approve=approve)

    def start(self) -> Run[Any]:
        def note_end(event: RunEvent) -> None:
            self.ends += [event] if isinstance(event, RunEnded) else []

        return self.make_agent().start("hi", session="s", run_id="run_a", on_event=note_end)


async def cancel_after(steps: int, how: str) -> bool:
    """Cancel a run after a number of steps, check it, resume it, and continue its session. Return whether it ended."""
    effects = Effects()
    run = effects.start()
    task = asyncio.ensure_future(run.result(check=False))
    for _ in range(steps):
        await asyncio.sleep(0)
    has_ended = task.done()
    if how == "the run":
        run.cancel("enough")
    elif not has_ended:
        task.cancel()
        if how == "the task of an engine":
            run.abandon()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    try:
        records = await effects.journal.read("run_a")
    except UnknownRun:
        return False
    assert order_faults(records) == []
    assert (await effects.journal.run("run_a")).holder == ""
    assert len(effects.ends) == (records[-1].kind == "ended")
    if isinstance(ended, dragoman.RunResult):
        names = {each.id: each.arguments["name"] for each in ended.calls}
        skipped = [names[each.call_id] for each in ended.results if str(each.content).startswith("Not run")]
        assert not set(skipped) & set(effects.done)
    for result in (
        await effects.make_agent().aresume("run_a", check=False),
        await effects.make_agent().arun("again", session="s", check=False),
    ):
        check_conversation(result.messages)
    assert order_faults(await effects.journal.read("run_a")) == []
    assert len(effects.done) == len(set(effects.done)), "no side effect happened twice"
    return has_ended


@pytest.mark.parametrize("how", ["the run", "the task", "the task of an engine"])
def test_a_run_can_be_cancelled_at_every_step(how: str) -> None:
    async def script() -> int:
        steps = 0
        while not await cancel_after(steps, how):
            steps += 1
        return steps

    logging.disable(logging.WARNING)
    try:
        assert wait(script()) > 20
    finally:
        logging.disable(logging.NOTSET)
