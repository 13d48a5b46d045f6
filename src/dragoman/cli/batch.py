"""`dragoman batch`: run the tasks of a file, show the progress, and write the results, each once."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.cli.approval_prompt import CommandApprover
from dragoman.cli.context import AppContext, find_engine
from dragoman.cli.exit_codes import EXIT_CODES, FATAL, SIGNAL_BASE
from dragoman.cli.options import RunOptions, with_options
from dragoman.cli.screen import Screen, print_error, print_line, print_warnings, read_bytes, write_json
from dragoman.cli.signals import InterruptHandler
from dragoman.cli.worker import EngineOption, RateOption, open_engine, read_rate
from dragoman.engine.batch import (
    BatchResult,
    BatchSummary,
    BatchTask,
    ResultFile,
    name_batch,
    read_tasks,
    run_batch,
    summarise_batch,
)
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.agent import Agent
    from dragoman.engine import Engine

HELP = """Run the tasks of a file, many at the same time, and write one line of results for each.

A line of TASKS is JSON: {"id": "a", "task": "What is ...?"}, or only "What is ...?". A line of results has the id, the
outcome, the text, the tokens, the cost and the duration; the lines are in the order in which the runs ended.

If the command is interrupted or killed, or the machine fails, start it again: tasks with a result are not repeated,
runs that had begun are resumed, and each result is written once. The file of results names the batch, so another
--output begins another batch. Its journal is beside it, in RESULTS.db.

With --engine, the runs are in a database instead. The same command on another machine adds a worker to the batch, and
each of them writes all results. With --agent, the workers of that agent execute the tasks.

\b
Examples:
  dragoman batch tasks.jsonl -m ollama:qwen3
  dragoman batch tasks.jsonl -m openai:gpt-5-mini --workers 50 --rate 500/m --cost 0.05
  dragoman batch tasks.jsonl -m ollama:qwen3 -t tools.py --approve '*' -O answers.jsonl
  dragoman batch tasks.jsonl -m ollama:qwen3 --retry      repeat what failed for want of a server
  dragoman batch tasks.jsonl --agent clerk --engine postgres://me@db/agents
  jq -r 'select(.outcome != "answered").id' tasks.results.jsonl

\b
Exit codes:
  0    every task has an answer
  1    a run failed, or ended with another outcome
  2    usage error
  4    the database cannot be reached: try again
  5    a run waits for approval: answer with `dragoman approvals`, then start the batch again
  130  interrupted by Ctrl-C; 143 by SIGTERM
"""

app = typer.Typer(name="batch", add_completion=False, rich_markup_mode=None)
_WORKERS = 10
_UNFIT = {
    "session": "each task of a batch is a run of its own",
    "resume": "start the batch again: that resumes it",
    "no_journal": "a batch resumes from its journal, which is beside its results",
    "thinking": "the results contain the answers only",
    "attach": "name the file in the task, and let the model read it with a tool",
}
"""Options of `dragoman run` that a batch does not take, and what to do or know instead."""
_OF_THE_COMMAND = ("quiet", "as_json", "verbose")
"""Options that count also where the workers of another program execute the tasks."""


@app.command("batch", help=HELP)
@with_options(
    RunOptions,
    as_json="Print the summary as JSON.",
    quiet="Show no progress.",
    hidden=_UNFIT,
)
def batch(
    tasks: Annotated[
        str, typer.Argument(metavar="TASKS", help="The file of tasks; - is standard input.", show_default=False)
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-O", metavar="FILE", help="The results; default: TASKS.results.jsonl.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-w",
            metavar="N",
            min=1,
            help="The runs that are executed at the same time; default: 10.",
            show_default=False,
        ),
    ] = None,
    rate: RateOption = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Repeat runs that failed for the time being, such as those without a network."),
    ] = False,
    engine: EngineOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="NAME", help="With --engine: let the workers of this agent do it.", show_default=False
        ),
    ] = None,
    *,
    options: RunOptions,
) -> int:
    unfit = next((name for name in _UNFIT if getattr(options, name)), None)
    if unfit is not None:
        raise ConfigError(f"a batch takes no --{unfit.replace('_', '-')}", hint=_UNFIT[unfit])
    if agent is not None:
        # The workers have an agent of their own, and a rule of this command would protect nothing.
        fields = [name for name in RunOptions.__struct_fields__ if name not in _OF_THE_COMMAND]
        given = [name for name in fields if getattr(options, name) != getattr(RunOptions(), name)]
        given += [name for name, value in (("workers", workers), ("rate", rate)) if value is not None]
        if given:
            shown = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ConfigError(f"--agent takes no {shown}", hint="the agent of the workers has its own settings")
        engine = engine or find_engine(None)
    path = _results_path(tasks, output)
    found = read_tasks(read_bytes(tasks), tasks, name_batch(path))
    settings: dict[str, Any] = {"concurrency": workers or _WORKERS, "rate": read_rate(rate)}
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(AppContext(options))
        if not options.as_json:
            print_warnings(context.warnings)
        results = stack.enter_context(ResultFile(path, context.human_sink().value, retry=retry))
        opened, place = _open(engine, path, settings)
        made = None if agent is not None else _make_agent(context)
        job = _Job(
            opened, agent or name_batch(path), made, found, results, retry=retry, quiet=options.quiet or options.as_json
        )
        started = time.monotonic()
        signal = asyncio.run(job.execute())
        summary = summarise_batch(found, results, job.states.elements())
        return _report(summary, job, path, place, time.monotonic() - started, signal, as_json=options.as_json)


def _results_path(tasks: str, output: str | None) -> Path:
    if output is not None:
        return Path(output).expanduser()
    if tasks == "-":
        raise ConfigError("the tasks of standard input need --output", hint="for example --output results.jsonl")
    path = Path(tasks).expanduser()
    if not path.name:
        raise ConfigError(f"cannot read {tasks}: it is a folder", hint="name a file of tasks")
    return path.with_suffix(".results.jsonl")


def _open(engine: str | None, results: Path, settings: dict[str, Any]) -> tuple[Engine, str]:
    """The engine of a batch, and the option of `dragoman approvals` that names its journal."""
    if engine is not None:
        # The address may contain a password.
        return open_engine(find_engine(engine), **settings), "--engine ADDRESS"
    from dragoman.engine import EmbeddedEngine

    journal = results.with_name(f"{results.name}.db")
    return EmbeddedEngine(journal, **settings), f"--journal {shlex.quote(str(journal))}"


def _make_agent(context: AppContext) -> Agent[Any]:
    approver = CommandApprover(context.options.approve, None, can_defer=context.defers_approvals)
    return context.agent(context.options.model, approver, attended=False)


# ---- the execution ---------------------------------------------------------------------------------------------------


class _Job:
    """One start of a batch: a worker in this process, unless others work, and the collection of results."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        agent: Agent[Any] | None,
        tasks: list[BatchTask],
        results: ResultFile,
        *,
        retry: bool,
        quiet: bool,
    ) -> None:
        self._engine = engine
        self._name = name
        self._agent = agent
        self._tasks = tasks
        self._results = results
        self._retry = retry
        self._progress = _Progress(len(tasks), silent=quiet)
        self.states: Counter[str] = Counter()
        self.errors: list[str] = []

    async def execute(self) -> int | None:
        """Return the signal that ended it, if one did."""
        stop = asyncio.Event()

        def on_first() -> None:
            self._progress.note("stopping; start the same command again to resume. Interrupt again to end at once")
            stop.set()

        with InterruptHandler(asyncio.get_running_loop(), on_first, lambda: None) as handler:
            work = asyncio.ensure_future(self._work(stop))
            collect = asyncio.ensure_future(self._collect())
            stopped = asyncio.ensure_future(stop.wait())
            try:
                await asyncio.wait((work, collect, stopped), return_when=asyncio.FIRST_COMPLETED)
                if work.done() and not stop.is_set():
                    work.result()
            finally:
                stop.set()
                if not collect.done():
                    collect.cancel()
                await asyncio.gather(work, collect, stopped, return_exceptions=True)
                self._progress.close()
                await self._close()
        if not collect.cancelled():
            collect.result()
        return handler.signal_number

    async def _work(self, stop: asyncio.Event) -> None:
        if self._agent is None:
            await stop.wait()
        else:
            await self._engine.work({self._name: self._agent}, stop)

    async def _collect(self) -> None:
        while self._agent is not None and not getattr(self._engine, "is_working", True):
            await asyncio.sleep(0.05)
        self._progress.begin(
            [each for task in self._tasks if (each := self._results.results.get(task.key)) is not None]
        )
        async for found in run_batch(self._engine, self._name, self._tasks, self._results, retry=self._retry):
            if isinstance(found, BatchResult):
                self._progress.count(found)
            else:
                self.states[found.state] += 1
                if found.state == "failed" and found.why not in self.errors:
                    self.errors.append(found.why)
                self._progress.skip(found.state)

    async def _close(self) -> None:
        await self._engine.close()
        if self._agent is not None:
            await self._agent.aclose()


class _Progress:
    """A line on a terminal that counts the results, or a line for each tenth in a pipe."""

    _STEPS = 10
    _SECONDS = 0.1

    def __init__(self, total: int, *, silent: bool) -> None:
        self._total = total
        self._silent = silent
        self._is_live = sys.stderr.isatty()
        self._outcomes: Counter[str] = Counter()
        self._cost = 0.0
        self._begun = time.monotonic()
        self._before = 0
        self._step = -1
        self._drawn = 0.0

    def begin(self, before: list[BatchResult]) -> None:
        """Count the results of earlier starts."""
        self._outcomes.update(each.outcome for each in before)
        self._cost += sum(each.cost or 0.0 for each in before)
        self._before = len(before)
        if before:
            self._draw()

    def count(self, result: BatchResult) -> None:
        self._outcomes[result.outcome] += 1
        self._cost += result.cost or 0.0
        self._draw()

    def skip(self, state: str) -> None:
        self._outcomes[state] += 1
        self._draw()

    def _draw(self, *, last: bool = False) -> None:
        done, now = self._outcomes.total(), time.monotonic()
        if self._silent:
            return
        if self._is_live:
            if last or now - self._drawn >= self._SECONDS:
                self._drawn = now
                print(f"\r\x1b[K{self._line(done, now)}", end="", file=sys.stderr, flush=True)
        elif done * self._STEPS // self._total > self._step:
            self._step = done * self._STEPS // self._total
            print(self._line(done, now), file=sys.stderr, flush=True)

    def _line(self, done: int, now: float) -> str:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in self._outcomes.most_common())
        rate = (done - self._before) / max(now - self._begun, 0.001)
        left = f", {_duration((self._total - done) / rate)} left" if rate and done < self._total else ""
        cost = f", ${self._cost:.2f}" if self._cost else ""
        return f"{done:,} of {self._total:,}: {kinds}{cost}{left}"

    def note(self, text: str) -> None:
        if self._is_live and not self._silent:
            # The row of the progress is not complete.
            print(file=sys.stderr)
        print_line(text, error=True)

    def close(self) -> None:
        if self._is_live and not self._silent and self._outcomes:
            self._draw(last=True)
            print(file=sys.stderr)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---- the summary -----------------------------------------------------------------------------------------------------


def _report(
    summary: BatchSummary, job: _Job, path: Path, place: str, seconds: float, signal: int | None, *, as_json: bool
) -> int:
    if as_json:
        write_json(msgspec.to_builtins(summary) | {"wall_seconds": round(seconds, 3), "output": str(path)})
    else:
        _draw(Screen(), summary, path, seconds)
    for error in job.errors[:3]:
        print_error(f"a run could not be executed: {error}", "fix it, and start the batch again")
    if signal is not None:
        return SIGNAL_BASE + signal
    if summary.without_result.get("waiting"):
        print_error("runs wait for approval", f"dragoman approvals list {place}, then start the batch again")
        return EXIT_CODES["waiting"]
    return 0 if summary.succeeded == summary.tasks else FATAL


def _draw(screen: Screen, summary: BatchSummary, path: Path, seconds: float) -> None:
    kinds = [
        *summary.outcomes.items(),
        *((f"{state} (no result)", number) for state, number in summary.without_result.items()),
    ]
    missing = summary.tasks - summary.results - sum(summary.without_result.values())
    if missing:
        kinds.append(("not yet run", missing))
    cost = "unknown" if summary.cost is None else f"${summary.cost:.4f}"
    tokens = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in summary.usage.items() if number)
    others = summary.other_results
    times = ", ".join(f"{name} {value:.2f} s" for name, value in summary.seconds.items())
    screen.line((f"{summary.results:,} of {summary.tasks:,} results", "bold"), f" in {path}")
    screen.facts(
        [
            ("outcomes", ", ".join(f"{number:,} {kind}" for kind, number in kinds)),
            ("cost", cost if summary.results else ""),
            ("tokens", tokens),
            ("duration of a run", times),
            ("this start", f"{seconds:.1f} s"),
            ("other results", f"{others:,}, of tasks that were changed or removed since" if others else ""),
        ]
    )
