"""Run one task from start to end, and find the run to resume."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar

from msgspec import Struct

from dragoman.agent import Agent, Run, RunEvent, RunResult
from dragoman.agent.records import Ended, Header, decode
from dragoman.cli.approval_prompt import Question, TerminalQuestion, ask_in_words
from dragoman.cli.context import Wanted, Workshop
from dragoman.cli.render import JsonView, ScreenView, View
from dragoman.cli.signals import Interrupts
from dragoman.errors import ConfigError
from dragoman.journal import Journal, RunSummary, UnknownSession

# --------------------------------------------------------------------------------------------------------------------
# One run from its start to its end: shown as it happens, ended cleanly by the first interrupt.

T = TypeVar("T")
Start = Callable[[Callable[[RunEvent], object]], Run]
"""Prepares a run whose events go to the given function."""
_THREADS = "dragoman-loop"
_SECONDS_TO_END = 1.0
"""How long a thread that a tool waits for may still take when everything else is done."""


class Followed(Struct, frozen=True):
    """What a run left behind, and the signal that ended it, if one did."""

    result: RunResult
    signal: int | None = None


async def follow(start: Start, view: View) -> Followed:
    """Do a run and show it. Where it cannot be shown any more, it is ended, and the reason is raised."""
    broken: list[Exception] = []

    def tell(event: RunEvent) -> None:
        if not broken:
            try:
                view.show(event)
            except Exception as error:
                broken.append(error)
                run.cancel("its output cannot be written any more")

    def end() -> None:
        if not broken:
            view.note("ending this run; once more ends the program at once")
        run.cancel("interrupted by the user")

    run = start(tell)
    with Interrupts(asyncio.get_running_loop(), end, view.tidy) as interrupts:
        result = await run.result()
    if broken:
        raise broken[0]
    return Followed(result, interrupts.caught)


def open_view(wanted: Wanted, out: IO[str]) -> View:
    """Lines of JSON for programs, or a screen for people."""
    return JsonView(out) if wanted.as_json else ScreenView(out, quiet=wanted.quiet, thinking=wanted.thinking)


class Person(Struct, frozen=True):
    """Whoever sits at the terminal, where somebody does: how he is asked about calls, and asked anything else."""

    question: Question | None = None
    ask_user: Any = None

    @property
    def is_there(self) -> bool:
        return self.question is not None


def is_attended() -> bool:
    """Whether somebody can see a question and type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def find_person(out: IO[str], view: View, workshop: Workshop) -> Person:
    """Whoever sits at the terminal, or nobody."""
    if not is_attended():
        return Person()
    seen = view if isinstance(view, ScreenView) else ScreenView(out, quiet=True)
    question = TerminalQuestion(seen, remember=workshop.guard.remember, parks=workshop.parks)
    return Person(question, ask_in_words(seen))


class Stage:
    """The event loop of a command, kept over several runs so that connections are used again."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._threads = ThreadPoolExecutor(thread_name_prefix=_THREADS)
        self.was_interrupted = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        loop = self._runner.get_loop()
        loop.set_default_executor(self._threads)
        if not os.environ.get("DRAGOMAN_DEBUG"):
            # What a tool left behind on the loop is no news for whoever reads the answer.
            loop.set_exception_handler(lambda loop, context: None)
        return self._runner.run(coroutine)

    def close(self, code: int) -> int:
        """Leave. Nothing is waited for after an interrupt, nor a thread of a tool that may never come back."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self.was_interrupted or _is_any_stuck():
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)
        self._runner.close()
        return code


def _is_any_stuck() -> bool:
    until = time.monotonic() + _SECONDS_TO_END
    ours = [thread for thread in threading.enumerate() if thread.name.startswith(_THREADS)]
    for thread in ours:
        thread.join(max(0.0, until - time.monotonic()))
    return any(thread.is_alive() for thread in ours)


# --------------------------------------------------------------------------------------------------------------------
# Which run a command goes on with, and how: where it broke off, or with another run behind one that ended.

GO_ON = "You were interrupted. Go on with the task where you were."
_LOOKED_AT = 50
"""How many of the last runs are looked at for one that can go on."""


class Found(Struct, frozen=True):
    """A run of the journal."""

    summary: RunSummary
    header: Header
    ended: Ended | None

    @property
    def can_go_on(self) -> bool:
        return self.ended is None or self.ended.category != "success"


async def read_run(journal: Journal, summary: RunSummary) -> Found:
    """A run with what it was begun with, and how it ended."""
    records = await journal.read(summary.run_id)
    last = records[-1]
    ended: Ended | None = decode(last.body, Ended) if last.kind == "ended" else None
    return Found(summary, decode(records[0].body, Header), ended)


async def find_run(journal: Journal, run_id: str | None, session: str | None) -> Found:
    """The run of this id, or the last one that has no answer yet, of a session if one is named."""
    if run_id is not None:
        found = await read_run(journal, await journal.run(run_id))
        if not found.can_go_on:
            name = found.summary.session
            raise ConfigError(
                f"run {run_id} is done: it has its answer",
                hint=f'ask something else in the same session: dragoman run --session {name} "..."',
            )
        return found
    runs = await journal.runs(session)
    if session is not None and not runs:
        raise UnknownSession(session)
    gone_on_from: set[str | None] = set()
    for summary in reversed(runs[-_LOOKED_AT:]):
        # Whatever another run went on from is no longer where its conversation stands.
        if not summary.holder and summary.run_id not in gone_on_from:
            found = await read_run(journal, summary)
            if found.can_go_on:
                return found
        gone_on_from.add(summary.parent)
    where = f"in session {session!r}" if session else "in the journal"
    raise ConfigError(f"there is no unfinished run {where}", hint="`dragoman sessions list` shows what there is")


def go_on(agent: Agent, found: Found, on_event: Callable[[RunEvent], object]) -> Run:
    """The rest of a run. One that was ended in good order is followed by another one in its session."""
    missing = [name for name in found.header.tools if agent.tools.find(name) is None]
    if missing:
        raise ConfigError(
            f"the run had tools that are not there now: {', '.join(missing)}", hint="give the same --tools again"
        )
    if found.ended is None:
        return agent.restart(found.summary.run_id, streaming=True, on_event=on_event)
    return agent.stream(GO_ON, session=found.summary.session, on_event=on_event)
