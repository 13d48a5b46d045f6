"""The protocol `Journal`, with every implementation."""

from __future__ import annotations

import asyncio

import pytest
from tests.journal.support import record_run, turn

from dragoman.errors import ConfigError
from dragoman.journal import (
    CannotFork,
    Entry,
    Journal,
    JournalFailed,
    RunExists,
    RunOver,
    SessionExists,
    UnknownRun,
    UnknownSession,
    open_calls,
    order_faults,
)


def test_what_was_appended_is_read_back_in_order(journal: Journal) -> None:
    async def scenario() -> None:
        token = await journal.begin("r", "s", b'{"model":"m"}')
        await journal.append("r", [Entry("reply", b"{}", calls=("a", "b"))], token=token)
        await journal.append("r", [Entry("started", b'{"digest":1}', "a"), Entry("finished", b"7", "a")], token=token)
        records = await journal.read("r")
        assert [(each.number, each.kind, each.body, each.call_id, each.calls) for each in records] == [
            (0, "run", b'{"model":"m"}', "", ()),
            (1, "reply", b"{}", "", ("a", "b")),
            (2, "started", b'{"digest":1}', "a", ()),
            (3, "finished", b"7", "a", ()),
        ]
        assert [each.at for each in records] == sorted(each.at for each in records)
        assert await journal.first("r") == records[0]

    asyncio.run(scenario())


def test_a_run_without_a_session_is_one_by_itself(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "alone", None, [])
        assert (await journal.run("alone")).session == "alone"
        assert [each.session for each in await journal.sessions()] == ["alone"]

    asyncio.run(scenario())


def test_an_empty_journal_has_nothing(journal: Journal) -> None:
    async def scenario() -> None:
        assert await journal.runs() == []
        assert await journal.sessions() == []
        assert await journal.last_run("s") is None
        for ask in (
            journal.read("r"),
            journal.first("r"),
            journal.run("r"),
            journal.claim("r"),
            journal.renew("r", token=1),
        ):
            with pytest.raises(UnknownRun):
                await ask
        for change in (journal.fork("s", None, "t"), journal.delete("s"), anext(aiter(journal.export("s")))):
            with pytest.raises(UnknownSession):
                await change

    asyncio.run(scenario())


def test_runs_of_a_session_and_those_without_an_end(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "one", "s", [*turn("a"), Entry("ended")])
        await record_run(journal, "other", "t", [])
        await record_run(journal, "two", "s", turn("b"), parent="one")
        assert [run.run_id for run in await journal.runs("s")] == ["one", "two"]
        assert [run.run_id for run in await journal.runs(unfinished=True)] == ["other", "two"]
        last = await journal.last_run("s")
        assert last is not None
        assert (last.run_id, last.parent, last.turns, last.records, last.ended) == ("two", "one", 1, 6, False)
        sessions = {each.session: each for each in await journal.sessions()}
        assert (sessions["s"].runs, sessions["s"].turns, sessions["s"].unfinished) == (2, 2, 1)

    asyncio.run(scenario())


def test_an_ended_run_takes_nothing_more(journal: Journal) -> None:
    async def scenario() -> None:
        token = await journal.begin("r", None, b"{}")
        await journal.append("r", [Entry("ended")], token=token)
        with pytest.raises(RunOver):
            await journal.append("r", [Entry("input")], token=token)
        assert (await journal.run("r")).ended

    asyncio.run(scenario())


def test_nobody_holds_a_run_after_its_end(journal: Journal) -> None:
    async def scenario() -> None:
        token = await journal.begin("r", None, b"{}")
        await journal.append("r", [Entry("ended")], token=token)
        await journal.release("r", token=token)
        assert (await journal.run("r")).holder == ""
        # Somebody looks whether it can continue, and lets it go.
        again = await journal.claim("r")
        assert (await journal.run("r")).holder != ""
        await journal.release("r", token=token)
        assert (await journal.run("r")).holder != ""
        await journal.release("r", token=again)
        assert (await journal.run("r")).holder == ""

    asyncio.run(scenario())


def test_a_run_begins_once(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", "s", [])
        with pytest.raises(RunExists):
            await journal.begin("r", "t", b"{}")
        assert await journal.runs("t") == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "entries",
    [
        [Entry("banana")],  # type: ignore[arg-type]
        [Entry("run")],
        [Entry("ended"), Entry("input")],
        [Entry("started", call_id="\ud800")],
    ],
    ids=["unknown kind", "second beginning", "behind the end", "no text"],
)
def test_entries_that_make_no_sense_are_refused(journal: Journal, entries: list[Entry]) -> None:
    async def scenario() -> None:
        token = await journal.begin("r", None, b"{}")
        with pytest.raises(ConfigError) as caught:
            await journal.append("r", [Entry("input"), *entries], token=token)
        assert caught.value.next_step
        assert len(await journal.read("r")) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", " x", "a\nb", "\x1b[2J", "x" * 201], ids=repr)
def test_names_that_cannot_be_typed_are_refused(journal: Journal, name: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError):
            await journal.begin(name, None, b"{}")
        await record_run(journal, "r", "s", [])
        with pytest.raises(ConfigError):
            await journal.fork("s", None, name)

    asyncio.run(scenario())


def test_a_fork_keeps_whole_turns_and_leaves_the_original_alone(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "one", "s", [*turn("a"), *turn("b"), *turn(), Entry("ended")])
        await record_run(journal, "two", "s", [*turn("c"), *turn(), Entry("ended")], parent="one")
        before = [await journal.read(name) for name in ("one", "two")]

        async def kinds(turn: int | None, name: str) -> list[list[str]]:
            last = await journal.fork("s", turn, name)
            runs = await journal.runs(name)
            assert last == runs[-1]
            assert [run.copied_from for run in runs] == ["one", "two"][: len(runs)]
            assert [run.parent for run in runs] == [None, runs[0].run_id][: len(runs)]
            records = [await journal.read(run.run_id) for run in runs]
            assert all(not order_faults(each) and not open_calls(each) for each in records)
            return [[record.kind for record in each] for each in records]

        ran = ["reply", "approved", "started", "finished"]
        assert await kinds(0, "f0") == [["run"]]
        assert await kinds(1, "f1") == [["run", *ran, "delivered"]]
        assert await kinds(2, "f2") == [["run", *ran, "delivered", *ran, "delivered"]]
        first = ["run", *ran, "delivered", *ran, "delivered", "reply", "ended"]
        assert await kinds(3, "f3") == [first]
        assert await kinds(4, "f4") == [first, ["run", *ran, "delivered"]]
        assert await kinds(None, "f5") == [first, ["run", *ran, "delivered", "reply", "ended"]]
        assert [await journal.read(name) for name in ("one", "two")] == before
        forked = {each.session: each.forked_from for each in await journal.sessions()}
        assert forked == {"s": None} | {f"f{number}": "s" for number in range(6)}

    asyncio.run(scenario())


@pytest.mark.parametrize("turn_number", [-1, 3])
def test_there_is_no_fork_from_a_turn_that_is_not_there(journal: Journal, turn_number: int) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", "s", [*turn("a"), *turn()])
        with pytest.raises(CannotFork, match="has 2 turns"):
            await journal.fork("s", turn_number, "t")
        assert await journal.runs("t") == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "rest",
    [[], [Entry("approved", call_id="b")], [Entry("started", call_id="b")]],
    ids=["planned", "approved", "started"],
)
def test_an_open_call_is_not_forked(journal: Journal, rest: list[Entry]) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", "s", [*turn("a"), Entry("reply", calls=("b",)), *rest])
        with pytest.raises(CannotFork, match=r"turn 2 .* b has no result"):
            await journal.fork("s", 2, "t")
        assert (await journal.fork("s", 1, "t")).turns == 1

    asyncio.run(scenario())


def test_calls_that_were_answered_without_a_record_do_not_hinder_a_fork(journal: Journal) -> None:
    """An unknown tool or a duplicate is answered at once: that is known from the model having spoken again."""

    async def scenario() -> None:
        unknown = [Entry("reply", calls=("x",)), Entry("delivered", calls=("x",))]
        await record_run(journal, "r", "s", [*unknown, *turn("a"), Entry("ended")])
        assert (await journal.fork("s", 1, "t")).turns == 1
        assert (await journal.fork("t", 1, "u")).turns == 1, "and again from the fork"

    asyncio.run(scenario())


def test_a_fork_needs_a_new_name(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", "s", [])
        with pytest.raises(SessionExists):
            await journal.fork("s", None, "s")

    asyncio.run(scenario())


def test_a_forked_run_is_independent_of_its_original(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", "s", [*turn("a"), *turn("b"), Entry("ended")])
        fork = await journal.fork("s", 1, "t")
        token = await journal.claim(fork.run_id)
        await journal.append(fork.run_id, [Entry("delivered", calls=("a",)), *turn("c"), Entry("ended")], token=token)
        assert order_faults(await journal.read(fork.run_id)) == []
        assert len(await journal.read("r")) == 12

    asyncio.run(scenario())


def test_a_session_is_deleted_with_everything(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "one", "s", turn("a"))
        await record_run(journal, "two", "s", [Entry("ended")])
        await record_run(journal, "other", "t", turn("a"))
        assert await journal.delete("s") == 8
        assert [each.session for each in await journal.sessions()] == ["t"]
        with pytest.raises(UnknownRun):
            await journal.read("one")
        assert len(await journal.read("other")) == 6

    asyncio.run(scenario())


def test_an_export_tells_everything(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(
            journal, "r", "s", [Entry("reply", b'{"text":"\xc3\xa9"}', calls=("a",)), Entry("input", b"\xff")]
        )
        lines = [line async for line in journal.export("s")]
        assert [line["type"] for line in lines] == ["session", "run", "record", "record", "record"]
        assert lines[0] == {"type": "session", "version": 1, "session": "s", "runs": 1}
        assert lines[1]["run_id"] == "r"
        assert lines[3] | {"at": 0} == {
            "type": "record",
            "run_id": "r",
            "number": 1,
            "kind": "reply",
            "at": 0,
            "calls": ["a"],
            "body": {"text": "é"},
        }
        assert lines[4]["body_base64"] == "/w=="

    asyncio.run(scenario())


def test_a_closed_journal_says_so(journal: Journal) -> None:
    async def scenario() -> None:
        token = await journal.begin("r", None, b"{}")
        journal.close()
        journal.close()
        for ask in (
            journal.append("r", [Entry("input")], token=token),
            journal.begin("x", None, b"{}"),
            journal.read("r"),
            journal.runs(),
            journal.release("r", token=token),
        ):
            with pytest.raises(JournalFailed, match="closed"):
                await ask

    asyncio.run(scenario())
