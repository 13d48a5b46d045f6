"""`dragoman worker`, `submit`, `status`, `logs`, `cancel` and `approvals`, with a real worker and a real database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from unittest.mock import AsyncMock

import psycopg
import pytest
from tests.cli.commands import COMMAND, Desk
from tests.cli.conftest import Command
from tests.postgres import PostgresServer
from tests.postgres import postgres as postgres

from dragoman.engine import PostgresEngine

SHOP = """
import asyncio
import dragoman
from dragoman.agent import Connection
from dragoman.testing import ScriptedModel
from dragoman.types import ToolCall, ToolResult


def say(request):
    parts = [part for message in request.messages for part in message.parts]
    if any(isinstance(part, ToolResult) for part in parts):
        return "Done."
    words = next(message.text for message in request.messages if message.role == "user")
    tool, _, name = words.partition(" ")
    return [ToolCall("call_1", tool, {"name": name})]


@dragoman.tool
async def note(name: str) -> str:
    "Write a note."
    return "noted " + name


@dragoman.tool
async def stall(name: str) -> str:
    "Take for ever."
    await asyncio.Event().wait()
    return name


@dragoman.tool(requires_approval=True)
async def pay(name: str) -> str:
    "Pay a bill."
    return "paid " + name


def make(*tools):
    model = ScriptedModel(say, loop=True)
    return dragoman.Agent(model.endpoint(), tools, connection=Connection(transport=model))


clerk = make(note, stall, pay)


def later():
    return make(note)


other = make(note)
other.name = "clerk"
unnameable = make(note)
unnameable.name = "nul \\0"
nothing = 7
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    made.write("shop.py", SHOP)
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.environment[name])
    return made


@pytest.fixture
def engine(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    # The server trusts everybody, so the password only shows whether it is printed.
    address = postgres.new_database().replace("tester@", "tester:hunter2hunter2@")
    monkeypatch.setenv("DRAGOMAN_ENGINE", address)
    return address


class Shop:
    """A worker in a process of its own."""

    def __init__(self, desk: Desk, address: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "worker", *words, "--json"],
            cwd=desk.folder,
            env=desk.environment | {"DRAGOMAN_ENGINE": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.start = json.loads(self.process.stdout.readline())
        self.errors: IO[str] = self.process.stderr

    def stop(self) -> str:
        """SIGTERM, and what the worker has said."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return errors


@pytest.fixture
def shop(desk: Desk, engine: str) -> Iterator[Shop]:
    made = Shop(desk, engine, "shop.py:clerk")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


def until_served(dragoman: Command) -> None:
    while not dragoman("status", "--json").data["workers"]:
        pass


def test_a_run_from_its_submission_to_its_end(dragoman: Command, shop: Shop, engine: str) -> None:
    until_served(dragoman)
    assert shop.start["agents"]["clerk"]["tools"] == ["note", "stall", "pay"]
    done = dragoman("submit", "clerk", "note", "a", "--wait", "--id", "run-a")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    # The same id again changes nothing.
    again = dragoman("submit", "clerk", "note a", "--wait", "--id", "run-a", "--json")
    assert (again.data["state"], again.data["outcome"], again.data["text"]) == ("ended", "answered", "Done.")
    logs = dragoman("logs", "run-a", "--follow")
    assert logs.code == 0 and "note" in logs.out and "noted a" in logs.out
    kinds = [line.split()[1] for line in logs.out.splitlines()]
    assert kinds[0] == "run" and "started" in kinds and kinds[-1] == "ended"
    records = [json.loads(line) for line in dragoman("logs", "run-a", "--json").out.splitlines()]
    assert [record["kind"] for record in records] == kinds

    waits = dragoman("submit", "clerk", "pay rent", "--wait", "--id", "run-b")
    assert waits.code == 5 and "dragoman approvals list" in waits.err
    shown = dragoman("status", "run-b")
    assert "waiting" in shown.out and "dragoman approvals show apr_" in shown.out
    approved = dragoman("approvals", "approve", "--all", "--yes")
    assert approved.code == 0 and "a worker continues run-b" in approved.out
    assert dragoman("logs", "run-b", "--follow").out.rstrip().endswith("answered: Done.")

    stalled = dragoman("submit", "clerk", "stall now").out.strip()
    while dragoman("status", stalled, "--json").data["runs"][0]["state"] != "running":
        pass
    cancelled = dragoman("cancel", stalled)
    assert cancelled.out == f"{stalled}: cancelled\n"
    assert dragoman("submit", "clerk", "stall now", "--id", stalled).err == "", "nothing is wrong with it"
    assert dragoman("logs", stalled, "--follow").code == 0
    with pytest.MonkeyPatch.context() as patch:
        # Whoever is interrupted, or loses the database, has to know which run it was.
        patch.setattr(PostgresEngine, "wait", AsyncMock(side_effect=KeyboardInterrupt))
        left = dragoman("submit", "clerk", "note z", "--wait", "--id", "run-z")
    assert "the workers continue the run: dragoman status run-z" in left.err
    listed = dragoman("status")
    assert "1 worker" in listed.out and listed.out.count("clerk") >= 3
    deleted = dragoman("sessions", "delete", "run-a", "--yes", "--journal", engine)
    assert deleted.out.startswith("deleted run-a: "), deleted.err
    assert "no run 'run-a' was submitted" in dragoman("status", "run-a").err
    said = shop.stop()
    assert "stopping; other workers continue the runs" in said and "stopped" in said
    everything = [done, again, logs, waits, shown, approved, cancelled, listed, deleted]
    assert "hunter2" not in "".join(each.out + each.err for each in everything) + said + json.dumps(shop.start)


def test_a_worker_with_other_tools_leaves_the_run_to_others_and_says_so(
    desk: Desk, dragoman: Command, shop: Shop, engine: str
) -> None:
    until_served(dragoman)
    # The only worker with the tools of the run goes away, and one with other tools comes.
    waiting = dragoman("submit", "clerk", "stall now").out.strip()
    os.kill(shop.process.pid, signal.SIGKILL)
    shop.process.communicate()
    other = Shop(desk, engine, "shop.py:other")
    try:
        line = other.errors.readline()
        while "need other tools" not in line:
            assert line, "the worker says nothing"
            line = other.errors.readline()
        assert "runs of clerk need other tools than this worker has" in line and "left to other workers" in line
        for _ in range(50):
            # The killed worker counts as alive until its heartbeat is too old.
            status = dragoman("status", waiting, "--json").data["runs"][0]
            if "no worker serves clerk" in status["why"]:
                break
        assert (status["state"], "no worker serves clerk" in status["why"]) == ("queued", True)
    finally:
        other.stop()


def test_misuse_of_workers_is_told(desk: Desk, dragoman: Command, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row: the words, and what the message says."""
    rows = [
        (["worker", "nobody"], "no installed package has an agent named 'nobody'"),
        (["worker", "shop.py:nobody"], "there is no 'nobody'"),
        (["worker", "shop.py:nothing"], "is no agent, but int"),
        (["worker", "missing.py:clerk"], "there is no file missing.py"),
        (["worker", "shop.py:clerk", "shop.py:other"], "two agents are named 'clerk'"),
        (["worker", "shop.py:later", "--rate", "x"], "--rate 'x'"),
        (["worker", "shop.py:later", "--name", "half \ud83c"], "cannot be the name of a worker"),
        (["worker", "shop.py:unnameable"], "cannot be the name of a served agent"),
        (["worker", "no_such_module:clerk"], "No module named"),
        (["submit", "clerk", "note a"], "no worker serves an agent named 'clerk'"),
        (["status", "run-x"], "no run 'run-x' was submitted to the database 127.0.0.1"),
        (["cancel", "run-x"], "no run 'run-x' was submitted to the database 127.0.0.1"),
        (["logs", "run-x"], "the journal has no run 'run-x'"),
        (["logs", "run-x", "--follow"], "the journal has no run 'run-x'"),
        (["status", "--engine", "elsewhere"], "--engine is not the address of a database"),
    ]
    for words, message in rows:
        done = dragoman(*words)
        assert (done.code, message in done.err) == (2, True), (words, done.err)
    unreachable = dragoman("status", "--engine", "postgres://me:hunter2hunter2@127.0.0.1:9/none")
    assert unreachable.code == 4 and "127.0.0.1:9/none" in unreachable.err, "a script may try again"
    absent = dragoman("status", "--engine", engine.replace("tester@", "tester:hunter2hunter2@") + "-absent")
    assert (absent.code, "hint: create it: createdb NAME" in absent.err) == (2, True), absent.err
    with psycopg.connect(engine, autocommit=True) as connection:
        connection.execute("UPDATE dragoman.version SET number = 99")
    newer = dragoman("worker", "shop.py:later")
    assert (newer.code, "written by a newer dragoman" in newer.err) == (2, True), newer.err
    monkeypatch.setenv("DRAGOMAN_ENGINE", "mysql://me:hunter2hunter2@db/none")
    wrong = dragoman("status")
    assert wrong.code == 2 and "an address such as postgres://user@host/name" in wrong.err
    shown = dragoman("config", "show", "--set") if wrong.code == 0 else wrong
    assert "hunter2" not in unreachable.err + absent.err + wrong.err + shown.out


def test_a_journal_in_a_database_is_named_like_a_file(dragoman: Command, desk: Desk, engine: str) -> None:
    assert dragoman("sessions", "list", "--journal", engine).out.startswith("no sessions in the database 127.0.0.1:")
    assert dragoman("approvals", "list", "--engine", engine).out == "nothing waits for approval\n"
    assert dragoman("approvals", "list").out == "nothing waits for approval\n"
    shown = dragoman("config", "show", "--set")
    assert "engine" in shown.out and "hunter2" not in shown.out
