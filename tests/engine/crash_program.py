"""Workers that are killed at a write of the journal, or at a step of the engine. Run by test_crashes.

python crash_program.py ADDRESS FOLDER KIND MOMENT STRIDE

Each case is a run of three tools in a folder of its own, with a worker in a process of its own: a fork of this one,
which has no threads. The worker dies at the n-th write or step, just before it or just after it. The sweep ends with
the first worker that does all of its run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import dbos  # noqa: F401
import psycopg  # noqa: F401
from tests.journal.crash_program import KillingJournal, make_agent, warm_up

from dragoman.engine import PostgresEngine
from dragoman.engine.execution import Executor, Progress, Submission

MOST_CASES = 60


def kill_at_step(number: int, moment: str) -> None:
    """Die at the n-th step: before it does anything, or after it is done and before the engine has recorded it."""
    advance, left = Executor.advance, number

    async def counted(self: Executor, submission: Submission) -> Progress:
        nonlocal left
        left -= 1
        if left == 0 and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        progress = await advance(self, submission)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return progress

    Executor.advance = counted  # type: ignore[method-assign]


async def work(url: str, case: Path, kind: str, number: int, moment: str) -> None:
    engine: Any = PostgresEngine(url)
    if kind == "write":
        engine._journal = KillingJournal(engine.journal, number, moment)
    else:
        kill_at_step(number, moment)
    working = asyncio.create_task(engine.work({case.name: make_agent(case, None)}, asyncio.Event()))
    while not engine.is_working:
        await asyncio.sleep(0.01)
    await engine.submit(case.name, "Tidy up.", run_id=case.name)
    await engine.wait(case.name)
    working.cancel()


def was_killed(url: str, case: Path, kind: str, number: int, moment: str) -> bool:
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(work(url, case, kind, number, moment))
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"the worker of {case.name} failed")
    return code != 0


def sweep(url: str, folder: Path, kind: str, moment: str, stride: int) -> None:
    first = 1 + ("before", "after").index(moment) * (stride // 2)
    for number in range(first, MOST_CASES, stride):
        case = folder / f"{kind}-{moment}-{number}"
        case.mkdir()
        killed = was_killed(url, case, kind, number, moment)
        print(json.dumps({"case": case.name, "killed": killed}), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    url, folder, kind, moment, stride = sys.argv[1:]
    warm_up(Path(folder))
    assert threading.active_count() == 1
    sweep(url, Path(folder), kind, moment, int(stride))
