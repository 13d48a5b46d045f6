"""Run one task on an event loop and show it; find the run to resume in the journal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar

from msgspec import Struct

from dragoman.agent import Agent, Run, RunEvent, RunResult
from dragoman.agent.approvals import read_requests
from dragoman.agent.records import Ended, Header, decode
from dragoman.cli.approval_prompt import AskApproval, TerminalApprover, make_ask_user
from dragoman.cli.context import AppContext
from dragoman.cli.options import RunOptions
from dragoman.cli.render import JsonView, ScreenView, View
from dragoman.cli.signals import InterruptHandler, hidden_keys
from dragoman.cli.signals import is_attended as is_attended
from dragoman.errors import ConfigError
from dragoman.journal import Journal, RunSummary, UnknownSession

# ---- running one task ------------------------------------------------------------------------------------------------

T = TypeVar("T")
StartRun = Callable[[Callable[[RunEvent], object]], Run]
"""Starts a run that passes its events to the given function."""
_THREAD_PREFIX = "dragoman-loop"
_SECONDS_FOR_THREADS = 1.0
"""How long the threads of tools may take to end when everything else is done."""


class FinishedRun(Struct, frozen=True):
    """The result of a run, and the signal that ended it, if one did."""

    result: RunResult
    signal: int | None = None


async def show_run(start: StartRun, view: View) -> FinishedRun:
    """Run to the end and show the events. If an event cannot be shown, cancel the run and raise the error."""
    errors: list[Exception] = []

    def on_event(event: RunEvent) -> None:
        if not errors:
            try:
                view.show(event)
            except Exception as error:
                errors.append(error)
                run.cancel("its output can no longer be written")

    def on_interrupt() -> None:
        run.cancel("interrupted by the user")
        # After SIGHUP the terminal may be gone.
        with contextlib.suppress(OSError):
            if not errors:
                view.end()

    run = start(on_event)
    keys = hidden_keys() if isinstance(view, ScreenView) else contextlib.nullcontext()
    with keys, InterruptHandler(asyncio.get_running_loop(), on_interrupt, view.restore) as handler:
        result = await run.result(check=False)
    if errors:
        raise errors[0]
    return FinishedRun(result, handler.signal_number)


def open_view(options: RunOptions, out: IO[str], *, can_resume: bool = False) -> View:
    """The view that the options ask for: lines of JSON, or text."""
    if options.as_json:
        return JsonView(out)
    return ScreenView(
        out, quiet=options.quiet, verbose=options.verbose, thinking=options.thinking, can_resume=can_resume
    )


class TerminalUser(Struct, frozen=True):
    """The functions that ask the user at the terminal: for an approval, and other questions. None without a user."""

    ask_approval: AskApproval | None = None
    ask_user: Any = None

    @property
    def is_present(self) -> bool:
        return self.ask_approval is not None


def find_terminal_user(out: IO[str], view: View, context: AppContext) -> TerminalUser:
    """The user at the terminal. There is no user if standard input or standard error is not a terminal."""
    if not is_attended():
        return TerminalUser()
    screen_view = view if isinstance(view, ScreenView) else ScreenView(out, quiet=True)
    approver = TerminalApprover(
        screen_view,
        remember_rule=context.safety.remember_rule,
        can_defer=context.defers_approvals,
        sink=context.human_sink(),
    )
    return TerminalUser(approver, make_ask_user(screen_view))


class LoopRunner:
    """The event loop of a command. Several runs share it, so that they can share connections."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._threads = ThreadPoolExecutor(thread_name_prefix=_THREAD_PREFIX)
        self.was_interrupted = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        loop = self._runner.get_loop()
        loop.set_default_executor(self._threads)
        if not os.environ.get("DRAGOMAN_DEBUG"):
            # A task that a tool left on the loop may fail; the user does not need to see that error.
            loop.set_exception_handler(lambda loop, context: None)
        return self._runner.run(coroutine)

    def close(self, code: int) -> int:
        """Close the loop and return the exit code. After an interrupt, or if a thread does not end, exit at once."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self.was_interrupted or _has_running_thread():
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):
                    stream.flush()
            os._exit(code)
        self._runner.close()
        return code


def _has_running_thread() -> bool:
    deadline = time.monotonic() + _SECONDS_FOR_THREADS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(_THREAD_PREFIX)]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return any(thread.is_alive() for thread in threads)


# ---- resuming --------------------------------------------------------------------------------------------------------

CONTINUE_TASK = "You were interrupted. Go on with the task where you were."
_RUNS_SEARCHED = 50
"""How many of the last runs are searched for one that can continue."""


class StoredRun(Struct, frozen=True):
    """A run in the journal: its summary, its first record, and its last one if it ended."""

    summary: RunSummary
    header: Header
    ended: Ended | None
    is_waiting: bool = False
    """Whether an approval request of the run has no answer yet, so that it would only wait again."""

    @property
    def can_continue(self) -> bool:
        return self.ended is None or self.ended.category != "success"


async def read_run(journal: Journal, summary: RunSummary) -> StoredRun:
    records = await journal.read(summary.run_id)
    last = records[-1]
    ended: Ended | None = decode(last.body, Ended) if last.kind == "ended" else None
    waits = ended is None and any(request.answer is None for request in read_requests(records).values())
    return StoredRun(summary, decode(records[0].body, Header), ended, waits)


async def find_run(journal: Journal, run_id: str | None, session: str | None) -> StoredRun:
    """The run with this id; without one, the last run that has no answer yet, in the session if one is named.

    A run whose approval requests are answered goes before a later one that would only wait again.
    """
    if run_id is not None:
        found = await read_run(journal, await journal.run(run_id))
        if not found.can_continue:
            name = found.summary.session
            raise ConfigError(
                f"run {run_id} is finished and has an answer",
                hint=f'ask something else in the same session: dragoman run --session {name} "..."',
            )
        return found
    runs = await journal.runs(session)
    if session is not None and not runs:
        raise UnknownSession(session)
    continued_runs: set[str | None] = set()
    waiting: StoredRun | None = None
    for summary in reversed(runs[-_RUNS_SEARCHED:]):
        # A run that another run continued is not the end of its conversation.
        if not summary.holder and summary.run_id not in continued_runs:
            found = await read_run(journal, summary)
            if found.can_continue and not found.is_waiting:
                return found
            waiting = waiting or (found if found.can_continue else None)
        continued_runs.add(summary.parent)
    if waiting is not None:
        return waiting
    where = f"in session {session!r}" if session else "in the journal"
    raise ConfigError(f"there is no unfinished run {where}", hint="`dragoman sessions list` shows the sessions")


def continue_run(agent: Agent, stored: StoredRun, on_event: Callable[[RunEvent], object]) -> Run:
    """Continue a run: resume it if it was interrupted, or start another run in its session if it ended."""
    missing = [name for name in stored.header.tools if agent.tools.find(name) is None]
    if missing:
        raise ConfigError(
            f"tools of the run are missing: {', '.join(missing)}", hint="give the same --tools and --builtin again"
        )
    if stored.ended is None:
        return agent.restart(stored.summary.run_id, streaming=True, on_event=on_event)
    return agent.stream(CONTINUE_TASK, session=stored.summary.session, on_event=on_event)
