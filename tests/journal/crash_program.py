"""A program that is killed at a write of its journal, and goes on in a new process. Run by test_crash_sweep.

Every case is a chain of processes over the same files: the first does a task, each later one resumes it; all but the
last are killed at the write that the case names. The processes are forks of this one, which has no threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dragoman
from dragoman.agent import Connection
from dragoman.agent.agent import Agent
from dragoman.agent.approvals import ApprovalRequest
from dragoman.agent.result import RunResult
from dragoman.journal import Entry, Journal, MemoryJournal, PostgresJournal, SqliteJournal, UnknownRun
from dragoman.testing import ScriptedModel
from dragoman.types import Request, ToolCall, ToolResult

NO_KILL = 0
MOST_WRITES = 60


class KillingJournal:
    """A journal whose process is killed at the n-th write: directly before it, or directly after it."""

    def __init__(self, journal: Journal, number: int, moment: str) -> None:
        self._journal = journal
        self._left = number
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def begin(self, *arguments: Any, **named: Any) -> int:
        return await self._write(self._journal.begin(*arguments, **named))

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        await self._write(self._journal.append(run_id, entries, token=token))

    async def claim(self, run_id: str, owner: str = "") -> int:
        return await self._write(self._journal.claim(run_id, owner))

    async def release(self, run_id: str, *, token: int) -> None:
        await self._write(self._journal.release(run_id, token=token))

    async def _write(self, writing: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        written = await writing
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def say(request: Request) -> Any:
    """The model. Its reply depends only on the results in the request, so it can be asked again after a crash."""
    results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    if not results:
        return ["Looking.", ToolCall("call_look", "look", {}), ToolCall("call_note", "note", {"line": "noted"})]
    if len(results) == 2:
        return [ToolCall("call_send", "send", {"line": "sent"})]
    return "Done."


def make_agent(folder: Path, journal: Any) -> Agent:
    def write(name: str, line: str) -> None:
        with open(folder / name, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    @dragoman.tool(read_only=True)
    async def look() -> str:
        """Look around."""
        write("looks", "looked")
        return "a desk"

    @dragoman.tool
    def note(line: str) -> str:
        """Write a line down."""
        write("effects", line)
        return "written"

    @dragoman.tool(requires_approval=True)
    async def send(line: str) -> str:
        """Send a line."""
        write("effects", line)
        return "on its way"

    def approve(request: ApprovalRequest) -> bool:
        write("approvals", request.call.id)
        return True

    model = ScriptedModel(say, loop=True)
    return Agent(
        model.endpoint(), [look, note, send], approve=approve, journal=journal, connection=Connection(transport=model)
    )


def open_store(folder: Path, database: str = "") -> SqliteJournal | PostgresJournal:
    """The journal of a case: a file of its own, or a run of its own in the database."""
    return PostgresJournal(database) if database else SqliteJournal(folder / "journal.db")


async def work(folder: Path, number: int, moment: str, database: str) -> RunResult:
    """Begin the run, or go on with it if it is there."""
    with open_store(folder, database) as store:
        agent = make_agent(folder, KillingJournal(store, number, moment))
        try:
            await store.run(folder.name)
        except UnknownRun:
            return await agent.arun("Tidy up.", run_id=folder.name, session=f"desk of {folder.name}")
        return await agent.aresume(folder.name)


def warm_up(folder: Path) -> None:
    """Load what the processes need once, here, and without starting a thread."""
    model = ScriptedModel([[ToolCall("call_look", "look", {})], "Done."])
    looking = [tool for tool in make_agent(folder, MemoryJournal()).tools if tool.name == "look"]
    agent = Agent(model.endpoint(), looking, journal=MemoryJournal(), connection=Connection(transport=model))
    assert asyncio.run(agent.arun("Look.")).outcome.kind == "answered"
    assert threading.active_count() == 1, "a process with threads is not to be forked"


def in_a_process(folder: Path, number: int, moment: str, database: str) -> bool:
    """Do the work in a new process; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            result = asyncio.run(work(folder, number, moment, database))
            (folder / "outcome").write_text(result.outcome.kind, encoding="utf-8")
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the process of {folder.name} failed")
    return killed


def sweep(folder: Path, moment: str, stride: int, database: str = "") -> None:
    """Kill at every write; then, from each of those, at every `stride`-th write of the resumed run as well."""
    for first in range(1, MOST_WRITES):
        case = folder / f"{moment}-{first}"
        case.mkdir()
        killed = in_a_process(case, first, moment, database)
        print(json.dumps({"case": case.name, "killed": killed}), flush=True)
        if not killed:
            return
        in_a_process(case, NO_KILL, moment, database)
        if not stride:
            continue
        for second in range(1 + first % stride, MOST_WRITES, stride):
            again = folder / f"{moment}-{first}-{second}"
            again.mkdir()
            assert in_a_process(again, first, moment, database)
            killed = in_a_process(again, second, moment, database)
            in_a_process(again, NO_KILL, moment, database)
            print(json.dumps({"case": again.name, "killed": killed}), flush=True)
            if not killed:
                break


if __name__ == "__main__":
    warm_up(Path(sys.argv[1]))
    if sys.argv[4:]:
        import psycopg  # noqa: F401
    sweep(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
