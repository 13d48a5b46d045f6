"""Runs in a journal: sessions that continue, runs that are resumed, and side effects that happen once."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, wait

import dragoman
from dragoman.agent import Agent, Connection, Limits
from dragoman.agent.journal import RunJournal
from dragoman.agent.records import encode
from dragoman.agent.resume import read_header
from dragoman.errors import ConfigError
from dragoman.journal import MemoryJournal, SqliteJournal
from dragoman.journal.journal import Entry, JournalUnreachable
from dragoman.testing import Answer, ScriptedModel, call, calls
from dragoman.types import Message, ToolResult


class ProcessKilled(BaseException):
    """Ends the process."""


class DyingJournal(MemoryJournal):
    """A journal whose process ends after this number of writes. The next process reads what was written."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    async def append(self, run_id: str, entries: Any, *, token: int) -> None:
        if self.left == 0:
            raise ProcessKilled
        self.left -= 1
        await super().append(run_id, entries, token=token)

    def restart(self) -> None:
        self.left = -1
        for run in self._runs.values():
            run.holder = None


class Counter:
    """Tools that record each side effect."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.tools = [self._write(), self._read()]

    def _write(self) -> Any:
        @dragoman.tool
        def write(name: str) -> str:
            self.did.append(f"write {name}")
            return f"wrote {name}"

        return write

    def _read(self) -> Any:
        @dragoman.tool(read_only=True, parallel_safe=True)
        def read(name: str) -> str:
            self.did.append(f"read {name}")
            return f"content of {name}"

        return read


def choose_reply(request: Any) -> Any:
    """A model whose reply depends only on the request, so that it can be asked again after a crash."""
    heard = sum(message.role == "tool" for message in request.messages)
    script: list[Any] = [
        calls(call("write", name="a"), call("read", name="b"), call("read", name="c")),
        call("write", name="d"),
        "done",
    ]
    return script[heard]


def test_a_run_that_broke_off_at_any_write_is_taken_up_without_doing_anything_twice() -> None:
    for writes in range(40):
        counter = Counter()
        journal = DyingJournal(writes)
        model = ScriptedModel(choose_reply, loop=True)
        made = Agent(model.endpoint(), counter.tools, connection=Connection(transport=model), journal=journal)
        try:
            first = wait(made.arun("hi", run_id="run_a"))
        except ProcessKilled:
            journal.restart()
        else:
            assert first.outcome.kind == "answered"
            assert writes > 8, "there are more writes than that"
            return
        result = wait(made.aresume("run_a"))
        assert result.outcome.kind == "answered", writes
        assert result.text == "done"
        check_conversation(result.messages)
        for name in ("write a", "write d"):
            did = counter.did.count(name)
            unknown = [each for each in result.results if "outcome is unknown" in str(each.content)]
            assert did == 1 or (did == 0 and unknown), f"after {writes} writes {name} was done {did} times"
    pytest.fail("the run never came to its end")


def test_a_run_that_is_over_only_gives_its_result_again() -> None:
    counter = Counter()
    journal = MemoryJournal()
    model = ScriptedModel(choose_reply, loop=True)
    made = Agent(model.endpoint(), counter.tools, connection=Connection(transport=model), journal=journal)
    first = wait(made.arun("hi", run_id="run_a"))
    asked = len(model.requests)
    again = wait(made.aresume("run_a"))
    assert (again.text, again.outcome, again.messages) == (first.text, first.outcome, first.messages)
    assert len(model.requests) == asked


def test_a_session_continues_its_conversation() -> None:
    model = ScriptedModel(["Hello Ann.", "You are Ann."])
    made = Agent(model.endpoint(), connection=Connection(transport=model), journal=MemoryJournal(), system="Be brief.")
    wait(made.arun("I am Ann.", session="one"))
    second = wait(made.arun("Who am I?", session="one"))
    assert [message.text for message in second.messages] == [
        "Be brief.",
        "I am Ann.",
        "Hello Ann.",
        "Who am I?",
        "You are Ann.",
    ]
    assert second.session == "one"


def test_sessions_do_not_mix() -> None:
    model = ScriptedModel(["Hello Ann.", "Hello Bob."])
    made = Agent(model.endpoint(), connection=Connection(transport=model), journal=MemoryJournal())
    wait(made.arun("I am Ann.", session="one"))
    assert len(wait(made.arun("I am Bob.", session="two")).messages) == 2


def test_a_session_with_an_interrupted_run_continues_with_a_result_for_every_call() -> None:
    journal = DyingJournal(1)
    counter = Counter()
    model = ScriptedModel([call("write", name="a"), "done"])
    made = Agent(model.endpoint(), counter.tools, connection=Connection(transport=model), journal=journal)
    with pytest.raises(ProcessKilled):
        wait(made.arun("hi", session="one"))
    journal.restart()
    result = wait(made.arun("go on", session="one"))
    check_conversation(result.messages)
    answers = [part for message in result.messages for part in message.parts if isinstance(part, ToolResult)]
    assert "outcome is unknown" in str(answers[0].content)


def test_a_session_needs_a_journal() -> None:
    with pytest.raises(ConfigError, match="a session needs a journal"):
        agent([]).run("hi", session="one")
    with pytest.raises(ConfigError, match="a resumed run needs a journal"):
        wait(agent([]).aresume("run_a"))


def test_a_cancelled_run_is_over_in_the_journal_too() -> None:
    async def script() -> tuple[Any, Any]:
        begun = asyncio.Event()

        @dragoman.tool
        async def work() -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

        journal = MemoryJournal()
        run = agent([call("work")], work, journal=journal).start("hi", run_id="run_a")
        task = asyncio.create_task(run.result(check=False))
        await begun.wait()
        run.cancel()
        return await task, await journal.run("run_a")

    result, summary = wait(script())
    assert result.outcome.kind == "cancelled"
    assert summary.ended and not summary.holder


def test_a_run_that_learned_of_its_endpoint_can_be_taken_up() -> None:
    rejected = Answer(400, {"content-type": "application/json"}, {"error": {"message": "tools? functions? no"}})
    written = '<tool_call>\n{"name": "write", "arguments": {"name": "a"}}\n</tool_call>'
    for writes in range(2, 5):
        counter = Counter()
        journal = DyingJournal(writes)
        model = ScriptedModel([rejected, written, "done", "done"])
        made = Agent(model.endpoint(), counter.tools, connection=Connection(transport=model), journal=journal)
        with pytest.raises(ProcessKilled):
            wait(made.arun("hi", run_id="run_a"))
        journal.restart()
        result = wait(made.aresume("run_a"))
        assert result.outcome.kind == "answered", (writes, result.outcome)
        assert counter.did.count("write a") <= 1


def test_time_in_which_nobody_ran_it_does_not_count() -> None:
    counter = Counter()
    journal = DyingJournal(3)
    model = ScriptedModel(choose_reply, loop=True)
    made = Agent(
        model.endpoint(),
        counter.tools,
        connection=Connection(transport=model),
        journal=journal,
        limits=Limits(seconds=60.0),
    )
    with pytest.raises(ProcessKilled):
        wait(made.arun("hi", run_id="run_a"))
    journal.restart()
    assert wait(made.aresume("run_a")).outcome.kind == "answered"


def test_results_that_the_model_received_are_marked_as_delivered() -> None:
    journal = MemoryJournal()
    counter = Counter()
    model = ScriptedModel(choose_reply, loop=True)
    wait(
        Agent(model.endpoint(), counter.tools, connection=Connection(transport=model), journal=journal).arun(
            "hi", run_id="run_a"
        )
    )

    async def read() -> list[Any]:
        return await journal.read("run_a")

    records = wait(read())
    order = [record.kind for record in records]
    assert order[0] == "run" and order[-1] == "ended"
    delivered = [name for record in records if record.kind == "delivered" for name in record.calls]
    finished = [record.call_id for record in records if record.kind == "finished"]
    started = [record.call_id for record in records if record.kind == "started"]
    assert sorted(delivered) == sorted(finished) == sorted(started)
    for name in started:
        steps = [record.kind for record in records if record.call_id == name or name in record.calls]
        assert steps == ["reply", "started", "finished", "delivered"]


def test_the_journal_of_a_run_writes_records_in_order() -> None:
    async def script() -> list[str]:
        journal = MemoryJournal()
        token = await journal.begin("run_a", None, b"{}")
        ledger = RunJournal(journal, "run_a", token, [])
        from dragoman.agent.protocol import Steered

        await ledger.record(Steered(Message("user")))
        await journal.append("run_a", [Entry("input")], token=token)
        await ledger.close()
        return [record.kind for record in await journal.read("run_a")]

    assert wait(script()) == ["run", "input", "input"]


class JournalObserver:
    """Code of the developer that reads the journal when it is called."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.seen: dict[str, list[str]] = {}

    def look(self, who: str) -> None:
        records = self.journal._runs["run_a"].records
        self.seen.setdefault(who, [record.kind for record in records])

    def before_tool(self, call: Any, tool: Any) -> None:
        self.look("a hook")


@pytest.mark.parametrize(
    ("who", "kinds"),
    [
        ("a tool", ["run", "reply", "started"]),
        ("one of two tools", ["run", "reply", "started"]),
        ("an approver", ["run", "reply"]),
        ("a hook", ["run", "reply"]),
        ("the next request", ["run", "reply"]),
    ],
)
def test_a_reply_is_stored_before_anything_follows_from_it(who: str, kinds: list[str]) -> None:
    """It shares a commit with the start of its tool. A command that does not begin with a record stores it first."""
    observer = JournalObserver()

    @dragoman.tool(parallel_safe=True, requires_approval=who == "an approver")
    async def write(name: str) -> str:
        """Write."""
        observer.look("one of two tools" if who == "one of two tools" else "a tool")
        return "written"

    def approve(request: Any) -> bool:
        observer.look("an approver")
        return True

    def go_on(request: Any) -> str:
        observer.look("the next request")
        return "done"

    planned = {
        "one of two tools": calls(call("write", name="a"), call("write", name="b")),
        "the next request": call("write", nme=["a"]),
    }
    model = ScriptedModel([planned.get(who, call("write", name="a")), go_on])
    made = Agent(
        model.endpoint(),
        [write],
        approve=approve,
        hooks=[observer] if who == "a hook" else [],
        journal=observer.journal,
        connection=Connection(transport=model),
    )
    wait(made.arun("hi", run_id="run_a"))
    assert observer.seen[who][: len(kinds)] == kinds


@dataclass
class Refusing:
    """A type that rejects every value."""

    name: str

    def __post_init__(self) -> None:
        raise ValueError("refused")


def test_a_reply_is_stored_before_a_hook_sees_the_result_of_a_call_that_did_not_start() -> None:
    class AfterTool:
        def after_tool(self, made: Any, result: Any) -> None:
            observer.look("a hook")

    @dragoman.tool
    def write(item: Refusing) -> str:
        """Write."""
        return "written"

    observer = JournalObserver()
    made = agent([call("write", item={"name": "a"}), "done"], write, hooks=[AfterTool()], journal=observer.journal)
    wait(made.arun("hi", run_id="run_a"))
    assert observer.seen["a hook"] == ["run", "reply"]


def test_a_run_that_is_left_between_two_commands_has_its_last_reply(caplog: pytest.LogCaptureFixture) -> None:
    async def script(is_lost: bool) -> list[str]:
        journal = MemoryJournal()
        run = agent([call("look"), "done"], look, journal=journal).start("hi", run_id="run_a")
        assert await run.advance()
        assert [record.kind for record in await journal.read("run_a")] == ["run"]
        if is_lost:
            journal._runs["run_a"].holder = None
            await journal.claim("run_a", "another worker")
        await run.leave()
        return [record.kind for record in await journal.read("run_a")]

    assert wait(script(is_lost=False)) == ["run", "reply"]
    assert caplog.messages == []
    assert wait(script(is_lost=True)) == ["run"]
    assert "its last records are not stored" in caplog.text


class GatedJournal(MemoryJournal):
    """A journal that stores a result only after the gate was opened, or refuses it."""

    def __init__(self, refusal: Exception | None = None) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.refusal = refusal

    async def append(self, run_id: str, entries: Any, *, token: int) -> None:
        if any(entry.kind == "finished" for entry in entries):
            await self.gate.wait()
            if self.refusal is not None:
                raise self.refusal
        await super().append(run_id, entries, token=token)


@pytest.mark.parametrize("refusal", [None, JournalUnreachable("the database is away")])
def test_a_command_ends_before_its_result_is_stored_and_the_model_gets_it_afterwards(refusal: Exception | None) -> None:
    async def script() -> None:
        journal = GatedJournal(refusal)
        model = ScriptedModel([call("look"), "done"])
        made = Agent(model.endpoint(), [look], journal=journal, connection=Connection(transport=model))
        run = made.start("hi", run_id="run_a")
        assert await run.advance()
        assert await run.advance()
        assert [record.kind for record in await journal.read("run_a")] == ["run", "reply", "started"]
        asking = asyncio.create_task(run.advance())
        await asyncio.wait([asking], timeout=0)
        assert len(model.requests) == 1
        journal.gate.set()
        if refusal is None:
            assert await asking
            assert [record.kind for record in await journal.read("run_a")][3:] == ["finished"]
            assert len(model.requests) == 2
        else:
            with pytest.raises(JournalUnreachable):
                await asking
            assert len(model.requests) == 1

    wait(script())


def test_the_results_of_calls_at_the_same_time_are_stored_before_the_next_request() -> None:
    @dragoman.tool(parallel_safe=True)
    def peek(name: str) -> str:
        """Look at one thing."""
        return name

    async def script() -> None:
        journal = GatedJournal()
        model = ScriptedModel([calls(call("peek", name="a"), call("peek", name="b")), "done"])
        made = Agent(model.endpoint(), [peek], journal=journal, connection=Connection(transport=model))
        run = made.start("hi", run_id="run_a")
        assert await run.advance()
        assert await run.advance()
        journal.gate.set()
        assert await run.advance()
        kinds = [record.kind for record in await journal.read("run_a")]
        assert kinds == ["run", "reply", "started", "started", "finished", "finished"]

    wait(script())


class BrokenBudget:
    """A budget of the developer whose service fails when it is asked for the `count`-th time."""

    cost = None

    def __init__(self, count: int) -> None:
        self.left = count

    def add(self, usage: Any, cost: float | None, turns: int = 0) -> None:
        self._count()

    def exceeded(self) -> None:
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise OSError("the service of the budget is down")


def test_a_run_that_cannot_start_does_not_keep_its_session() -> None:
    """The run was in the journal, and its process held it: the session was busy until the process ended."""

    async def script() -> None:
        journal = MemoryJournal()
        made = agent(["done", "done"], look, journal=journal)
        with pytest.raises(OSError):
            await made.arun("hi", session="s", run_id="run_a", limits=Limits(budget=BrokenBudget(1)))
        assert [(run.run_id, run.holder) for run in await journal.runs("s")] == [("run_a", "")]
        with pytest.raises(OSError):
            made.limits = Limits(budget=BrokenBudget(1))
            await made.aresume("run_a")
        made.limits = Limits()
        assert (await made.arun("hi", session="s")).text == "done"

    wait(script())


@dragoman.tool
def look() -> str:
    """Look."""
    return "seen"


# ---- the size of a session -------------------------------------------------------------------------------------------


def bytes_per_run(path: Path, runs: int) -> float:
    """Return the size of the runs of one session on the disk, per run."""
    model = ScriptedModel(lambda request: f"Answer {len(request.messages)}: " + "x" * 400, loop=True)
    with SqliteJournal(path) as journal:
        made = Agent(model.endpoint(), connection=Connection(transport=model), journal=journal, system="Be brief.")
        for number in range(runs):
            made.run(f"Question {number}: " + "y" * 200, session="desk")
    return path.stat().st_size / runs


def test_the_space_of_a_run_does_not_grow_with_its_session(tmp_path: Path) -> None:
    short, long = bytes_per_run(tmp_path / "short.db", 20), bytes_per_run(tmp_path / "long.db", 100)
    assert long <= 1.5 * short


def test_a_long_session_keeps_every_word(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: f"answer {len(request.messages)}", loop=True)
    with SqliteJournal(tmp_path / "journal.db") as journal:
        for number in range(12):
            # Every run is of another agent, with another system prompt: the older one gives way.
            made = Agent(
                model.endpoint(), connection=Connection(transport=model), journal=journal, system=f"Prompt {number}."
            )
            result = made.run(f"question {number}", session="desk")
    told = [message.text for message in result.messages]
    assert told[0] == "Prompt 11."
    assert told[1::2] == [f"question {number}" for number in range(12)]
    assert told[2::2] == [f"answer {2 * number + 2}" for number in range(12)]


def test_a_run_is_resumed_with_the_conversation_before_it() -> None:
    journal = MemoryJournal()
    agent(["first answer"], journal=journal).run("first", session="desk")
    waiting = agent([call("look")], look, journal=journal, ask=["look"], defer_approvals=True)
    assert waiting.run("second", session="desk", run_id="run_b").outcome.kind == "awaiting_approval"
    result = agent(["second answer"], look, journal=journal, ask=["look"], approve=lambda request: True).resume("run_b")
    assert [message.text for message in result.messages if message.role != "tool" and message.text] == [
        "first",
        "first answer",
        "second",
        "second answer",
    ]


def test_a_run_after_an_interrupted_one_has_its_own_copy_of_the_conversation() -> None:
    journal = MemoryJournal()
    waiting = agent([call("look")], look, journal=journal, ask=["look"], defer_approvals=True)
    waiting.run("first", session="desk", run_id="run_a")
    then = agent(["never mind"], look, journal=journal).run("second", session="desk", run_id="run_b")
    agent(["seen"], look, journal=journal, ask=["look"], approve=lambda request: True).resume("run_a")
    again = agent(["done"], look, journal=journal).run("third", session="desk")
    assert again.messages[: len(then.messages)] == then.messages


def test_a_session_of_the_first_format_is_continued() -> None:
    journal = MemoryJournal()
    question, answer = Message.user("first"), Message.assistant("first answer")

    async def write() -> None:
        header = {"seed": "00", "messages": [question], "version": 1}
        ended = {"kind": "answered", "category": "success", "reason": "", "text": "", "messages": [question, answer]}
        token = await journal.begin("run_a", "desk", encode(header))
        await journal.append("run_a", [Entry("ended", encode(ended))], token=token)
        await journal.release("run_a", token=token)

    wait(write())
    result = agent(["second answer"], journal=journal).run("second", session="desk")
    assert [message.text for message in result.messages] == ["first", "first answer", "second", "second answer"]


def test_a_journal_of_the_first_format_is_stamped_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    agent(["an answer"], journal=path).run("hi", session="desk")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    made = agent(["another"], journal=path)
    assert made.run("and now?", session="desk").messages[0].text == "hi"
    made.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_the_texts_of_a_task_are_kept_apart_in_the_header() -> None:
    journal = MemoryJournal()
    result = Agent(ScriptedModel(["fine"]), journal=journal).run(["Compare", "File a.txt:", "some words"])
    assert read_header(asyncio.run(journal.read(result.run_id))).task == "Compare\nFile a.txt:\nsome words"
