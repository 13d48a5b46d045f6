"""Sessions of an agent: they continue, they are forked, and two processes never resume one run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest

import dragoman
from dragoman.agent import Connection
from dragoman.agent.agent import Agent
from dragoman.journal import Entry, Journal, RunBusy, order_faults
from dragoman.testing import ScriptedModel, call
from dragoman.types import ToolResult


class SingleToolAgent:
    """An agent with one tool that must not run twice, and a scripted model."""

    def __init__(self, journal: Any, *replies: Any) -> None:
        self.done: list[str] = []

        @dragoman.tool
        async def do(what: str) -> str:
            """Do something."""
            self.done.append(what)
            return f"did {what}"

        self.model = ScriptedModel(list(replies))
        self.agent = Agent(self.model.endpoint(), [do], journal=journal, connection=Connection(transport=self.model))

    def texts(self) -> list[str]:
        """Return the texts of the user and the model in the last request."""
        messages = self.model.requests[-1].messages
        return [message.text for message in messages if message.role in ("user", "assistant") and message.text]

    def results(self) -> list[str]:
        """Return the results in the last request."""
        parts = [part for message in self.model.requests[-1].messages for part in message.parts]
        return [str(part.content) for part in parts if isinstance(part, ToolResult)]


def test_a_session_continues_its_conversation(journal: Journal) -> None:
    async def scenario() -> None:
        first = SingleToolAgent(journal, call("do", what="one"), "Done.")
        await first.agent.arun("Do one.", session="s")
        later = SingleToolAgent(journal, "It was one.")
        result = await later.agent.arun("What was it?", session="s")
        assert result.text == "It was one."
        assert later.texts() == ["Do one.", "Done.", "What was it?"]
        assert later.results() == ["did one"]
        runs = await journal.runs("s")
        assert [run.parent for run in runs] == [None, runs[0].run_id]

    asyncio.run(scenario())


def test_a_fork_continues_from_its_turn_and_repeats_nothing(journal: Journal) -> None:
    async def scenario() -> None:
        first = SingleToolAgent(journal, call("do", what="one"), call("do", what="two"), "Both are done.")
        await first.agent.arun("Do both.", session="s")
        fork = await journal.fork("s", 1, "t")
        other = SingleToolAgent(journal, "One is enough.")
        result = await other.agent.aresume(fork.run_id)
        assert result.text == "One is enough."
        assert (other.done, other.results()) == ([], ["did one"])
        records = await journal.read(fork.run_id)
        assert order_faults(records) == []
        assert records[-1].kind == "ended"
        assert [run.turns for run in await journal.runs("s")] == [3], "the original stays as it is"

    asyncio.run(scenario())


def test_a_fork_may_be_asked_something_else(journal: Journal) -> None:
    async def scenario() -> None:
        first = SingleToolAgent(journal, call("do", what="one"), call("do", what="two"), "Both are done.")
        await first.agent.arun("Do both.", session="s")
        await journal.fork("s", 1, "t")
        other = SingleToolAgent(journal, "Only one.")
        await other.agent.arun("What is done?", session="t")
        assert other.results() == ["did one"]
        assert other.texts()[-1] == "What is done?"

    asyncio.run(scenario())


class InterposedJournal:
    """A journal that calls a function directly before the first claim."""

    def __init__(self, journal: Journal, happens: Callable[[], Any]) -> None:
        self._journal = journal
        self._happens: Callable[[], Any] | None = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def claim(self, run_id: str, owner: str = "") -> int:
        if self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return await self._journal.claim(run_id, owner)


async def interrupt_run(journal: Journal) -> None:
    """Record a run whose process ended after a call was planned and before it started."""
    is_blocked = asyncio.Event()

    class BlockingJournal:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        async def append(self, run_id: str, entries: list[Entry], *, token: int) -> None:
            before = list(takewhile(lambda entry: entry.kind != "started", entries))
            if not is_blocked.is_set():
                await journal.append(run_id, before, token=token)
            if len(before) < len(entries):
                is_blocked.set()
                await asyncio.Event().wait()

    task = asyncio.ensure_future(
        SingleToolAgent(BlockingJournal(), call("do", what="one")).agent.arun("Do one.", run_id="r")
    )
    await is_blocked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.kind for record in await journal.read("r")] == ["run", "reply"]


def test_a_run_that_another_process_resumed_meanwhile_is_not_run_again(journal: Journal) -> None:
    """Fault 46: what is claimed has to be read after the claim, or its calls run twice."""

    async def scenario() -> None:
        await interrupt_run(journal)
        winner, late = SingleToolAgent(journal, "Done."), SingleToolAgent(None, "Done as well.")
        late.agent._journal = late.agent._given_journal = InterposedJournal(journal, lambda: winner.agent.aresume("r"))
        result = await late.agent.aresume("r")
        assert (winner.done, late.done) == (["one"], [])
        assert result.text == "Done."

    asyncio.run(scenario())


def test_of_two_that_resume_a_run_at_once_one_is_refused(journal: Journal) -> None:
    async def scenario() -> None:
        await interrupt_run(journal)
        agents = [SingleToolAgent(journal, "Done.") for _ in range(2)]
        results = await asyncio.gather(*(each.agent.aresume("r") for each in agents), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["RunBusy", "RunResult"]
        assert agents[0].done + agents[1].done == ["one"]
        busy = next(result for result in results if isinstance(result, RunBusy))
        assert busy.next_step

    asyncio.run(scenario())
