"""`dragoman submit`, `status`, `logs` and `cancel`: the runs of workers, from anywhere that reaches their database."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.agent.approvals import ApprovalRequest, list_requests
from dragoman.agent.protocol import Cancelled, Denied, Replied, Steered, ToolAnswered
from dragoman.agent.records import Ended, Header, decode, hide_noted
from dragoman.characters import escape_json, escape_text, quote_value
from dragoman.cli.context import JournalPlace, find_engine, find_journal
from dragoman.cli.exit_codes import EXIT_CODES, SIGNAL_BASE
from dragoman.cli.options import JournalPath, Json
from dragoman.cli.run import read_task
from dragoman.cli.screen import (
    Screen,
    Table,
    count,
    one_line,
    print_error,
    print_line,
    result_text,
    write_arguments,
    write_json,
)
from dragoman.cli.worker import EngineOption, open_engine, with_engine
from dragoman.journal import Journal, Record, UnknownRun, open_journal
from dragoman.secrets import HumanSink

if TYPE_CHECKING:
    from dragoman.engine import PostgresEngine, RunStatus
    from dragoman.engine.workers import WorkerStatus

RunIds = Annotated[list[str], typer.Argument(metavar="RUN...", help="The ids of runs.", show_default=False)]

# ---- `dragoman submit` -----------------------------------------------------------------------------------------------

SUBMIT_HELP = """Submit a task to the workers of an agent, and print the id of its run.

A TASK of -, or no TASK, reads standard input. A second submission with the same --id changes nothing, so a program may
repeat it after a failure.

\b
Examples:
  dragoman submit clerk "Where is order 7?"
  dragoman submit clerk "Where is order 7?" --id order-7 --wait     print the answer
  dragoman submit clerk "And order 8?" --session monday             continue a session
  dragoman logs --follow "$(dragoman submit clerk 'Count the stock')"

\b
Exit codes with --wait: those of `dragoman run`. 0: the model answered. 1: permanent failure. 3: a limit was reached.
4: temporary failure, or the run was cancelled. 5: the run waits for approval; answer with `dragoman approvals`.
"""

submit_app = typer.Typer(name="submit", add_completion=False, rich_markup_mode=None)


@submit_app.command("submit", help=SUBMIT_HELP)
def submit(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The name of the agent.", show_default=False)],
    task: Annotated[
        list[str] | None, typer.Argument(metavar="TASK", help="The task; - is standard input.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", metavar="NAME", help="Continue this session, or create it.", show_default=False
        ),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the run.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the end, and print the answer.")] = False,
    as_json: Json = False,
) -> int:
    text = read_task(tuple(task or ()))

    async def work(opened: PostgresEngine) -> int:
        submitted = await opened.submit(agent, text, session=session, run_id=run_id)
        if not wait:
            write_json({"run_id": submitted, "agent": agent}) if as_json else print_line(submitted)
            return 0
        try:
            status = await opened.wait(submitted)
        except BaseException:
            # Interrupted, or without the database.
            print_line(f"the workers continue the run: dragoman status {submitted}", error=True)
            raise
        return await _print_answer(opened.journal, status, as_json=as_json)

    return with_engine(find_engine(engine), work)


async def _print_answer(journal: Journal, status: RunStatus, *, as_json: bool) -> int:
    """Print the answer of a run that is over or waits. Return the exit code."""
    ended = await read_end(journal, status.run_id)
    if as_json:
        write_json(msgspec.to_builtins(status) | (HumanSink().value(describe_end(ended)) if ended is not None else {}))
    elif ended is not None and ended.category == "success":
        print(escape_text(ended.text) if sys.stdout.isatty() else ended.text)
    if ended is None:
        code = EXIT_CODES["waiting" if status.state == "waiting" else "retryable"]
        hint = "dragoman approvals list" if status.state == "waiting" else ""
        print_error(f"run {status.run_id}: {status.state}" + (f" ({status.why})" if status.why else ""), hint)
        return code
    if ended.category != "success":
        print_error(f"run {status.run_id}: {ended.kind}" + (f": {ended.reason}" if ended.reason else ""))
    return EXIT_CODES[ended.category]  # type: ignore[index]


async def read_end(journal: Journal, run_id: str) -> Ended | None:
    """The last record of a run that has ended."""
    try:
        last = (await journal.read(run_id))[-1]
    except UnknownRun:
        return None
    ended: Ended | None = decode(last.body, Ended) if last.kind == "ended" else None
    return ended


def describe_end(ended: Ended) -> dict[str, Any]:
    """The end of a run as data."""
    return {
        "outcome": ended.kind,
        "reason": ended.reason,
        "text": ended.text,
        "turns": ended.turns,
        "usage": ended.usage,
        "cost": ended.cost,
    }


# ---- `dragoman status` -----------------------------------------------------------------------------------------------

STATUS_HELP = """Show the live workers and the runs that were submitted last, or the status of some runs.

\b
The states of a run:
  queued      no worker has begun it, or its worker died and no other has taken it yet
  running     a worker executes it
  waiting     it waits for an approval: `dragoman approvals list` shows it
  ended       it has an outcome
  failed      it could not be executed
  cancelled   somebody cancelled it

\b
Examples:
  dragoman status
  dragoman status -n 100 --json
  dragoman status run_4f2a...
"""

status_app = typer.Typer(name="status", add_completion=False, rich_markup_mode=None)


@status_app.command("status", help=STATUS_HELP)
def status(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="The ids of runs.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="The runs to list.")] = 20,
    as_json: Json = False,
) -> int:
    async def work(opened: PostgresEngine) -> tuple[list[WorkerStatus], list[RunStatus], list[ApprovalRequest]]:
        found = [await opened.status(each) for each in runs] if runs else await opened.recent(number)
        waiting = {each.run_id for each in found if each.state == "waiting"}
        requests = await list_requests(opened.journal) if waiting and runs else []
        return await opened.workers(), found, [each for each in requests if each.run_id in waiting]

    workers, found, requests = with_engine(find_engine(engine), work)
    if as_json:
        waits = [{"id": each.id, "run_id": each.run_id, "tool": each.tool} for each in requests]
        write_json({"workers": msgspec.to_builtins(workers), "runs": msgspec.to_builtins(found), "approvals": waits})
        return 0
    screen = Screen()
    if not runs:
        _draw_workers(screen, workers)
    _draw_runs(screen, found)
    for each in requests:
        screen.line(f"{each.run_id} waits for: dragoman approvals show {each.id} ({quote_value(each.tool)})")
    return 0


def _draw_workers(screen: Screen, workers: list[WorkerStatus]) -> None:
    screen.line((count(len(workers), "worker"), "bold"))
    for each in workers:
        served = ", ".join(f"{quote_value(name)} ({digest})" for name, digest in sorted(each.agents.items()))
        screen.line("  ", (each.worker, "green"), f"  {served}")
    screen.line()


def _draw_runs(screen: Screen, runs: list[RunStatus]) -> None:
    if not runs:
        screen.line("no runs were submitted")
        return
    styles = {"running": "green", "waiting": "bold yellow", "failed": "red"}
    rows = [(quote_value(run.run_id), quote_value(run.agent), run.state, run.worker, run.why) for run in runs]
    table = Table(screen, ("run", "agent", "state", "worker", ""), rows, ["worker"])
    table.heads()
    for row in rows:
        table.row(row, "", "", styles.get(row[2], ""), "dim", "dim")


# ---- `dragoman logs` -------------------------------------------------------------------------------------------------

LOGS_HELP = """Show what a run did, one line for each record of the journal. Secrets are hidden.

\b
Examples:
  dragoman logs run_4f2a...
  dragoman logs --follow run_4f2a...        until the run has ended
  dragoman logs run_4f2a... --json | jq -r 'select(.kind == "finished").text'
  dragoman logs run_4f2a... --journal ~/.local/state/dragoman/journal.db     a run of your own journal
"""

logs_app = typer.Typer(name="logs", add_completion=False, rich_markup_mode=None)
_POLL_SECONDS = 0.3
_LINE_CHARS = 200


@logs_app.command("logs", help=LOGS_HELP)
def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.", show_default=False)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until the run has ended.")] = False,
    journal: JournalPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per record.")] = False,
) -> int:
    place = find_journal(journal, of_engine=True)
    try:
        asyncio.run(_follow(place, run, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        return SIGNAL_BASE + 2
    return 0


async def _follow(place: JournalPlace, run_id: str, *, follow: bool, as_json: bool) -> None:
    engine = open_engine(place) if follow and isinstance(place, str) else None
    store = engine.journal if engine is not None else open_journal(place)
    assert store is not None
    printed, sink, screen = 0, HumanSink(), Screen()
    try:
        while True:
            # The status first: what happens after it is read in the next round.
            status = await _find_status(engine, run_id) if engine is not None else None
            records = await _read(store, run_id, is_known=status is not None)
            for record in records[printed:]:
                _print_record(screen, sink, record, as_json=as_json)
            printed = len(records)
            has_ended = bool(records) and records[-1].kind == "ended"
            if not follow or has_ended or (status is not None and status.is_over):
                if status is not None and not has_ended and not as_json:
                    screen.line(f"{status.state} {status.why}".rstrip())
                return
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        store.close()
        if engine is not None:
            await engine.close()


async def _find_status(engine: PostgresEngine, run_id: str) -> RunStatus | None:
    """The status of a submitted run; None for a run of `dragoman run`, which only the journal knows."""
    try:
        return await engine.status(run_id)
    except UnknownRun:
        return None


async def _read(store: Journal, run_id: str, *, is_known: bool) -> list[Record]:
    try:
        return await store.read(run_id)
    except UnknownRun:
        if not is_known:
            raise
        return []


def describe_record(record: Record, sink: HumanSink) -> dict[str, Any]:
    """A record as data: its kind, its call, and a text."""
    told: Any = None
    if record.kind not in ("asked", "answered", "started", "delivered"):
        kinds: dict[str, Any] = {"run": Header, "ended": Ended}
        body = hide_noted(record.body)
        try:
            told = decode(body, kinds[record.kind]) if record.kind in kinds else decode(body)
        except (msgspec.MsgspecError, ValueError, TypeError):
            # Another version wrote this record.
            told = None
    calls = told.found.calls if isinstance(told, Replied) else []
    data = {
        "number": record.number,
        "at": record.at,
        "kind": record.kind,
        "call": record.call_id,
        "text": _text_of(told),
        "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
    }
    shown: dict[str, Any] = sink.value(data)
    return shown


def _text_of(told: Any) -> str:
    match told:
        case Header():
            return told.task
        case Replied():
            return told.found.text or told.reply.text
        case ToolAnswered():
            return result_text(told.result)
        case Denied() | Cancelled():
            return told.reason
        case Steered():
            return told.message.text
        case Ended():
            return f"{told.kind}: {told.reason or told.text}" if told.reason or told.text else told.kind
    return ""


def _print_record(screen: Screen, sink: HumanSink, record: Record, *, as_json: bool) -> None:
    data = describe_record(record, sink)
    if as_json:
        print(escape_json(msgspec.json.encode(data).decode()), flush=True)
        return
    at = time.strftime("%H:%M:%S", time.localtime(record.at))
    style = {"ended": "bold", "asked": "bold yellow", "denied": "red"}.get(record.kind, "cyan")
    calls = "; ".join(f"{quote_value(call['name'])} {write_arguments(call['arguments'])}" for call in data["calls"])
    words = "  ".join(one_line(part, _LINE_CHARS) for part in (data["call"], data["text"], calls) if part.strip())
    screen.line((at, "dim"), "  ", (record.kind.ljust(9), style), f"  {words}")
    sys.stdout.flush()


# ---- `dragoman cancel` -----------------------------------------------------------------------------------------------

CANCEL_HELP = """Cancel submitted runs. A tool that is running is cancelled; what it has done stays done.

\b
Examples:
  dragoman cancel run_4f2a...
  dragoman status --json | jq -r '.runs[] | select(.state == "queued").run_id' | xargs dragoman cancel
"""

cancel_app = typer.Typer(name="cancel", add_completion=False, rich_markup_mode=None)


@cancel_app.command("cancel", help=CANCEL_HELP)
def cancel(runs: RunIds, engine: EngineOption = None, as_json: Json = False) -> int:
    async def work(opened: PostgresEngine) -> list[RunStatus]:
        # All of them have to exist before the first is cancelled.
        before = [await opened.status(run_id) for run_id in runs]
        for status in before:
            if not status.is_over:
                await opened.cancel(status.run_id)
        return [status if status.is_over else await opened.status(status.run_id) for status in before]

    found = with_engine(find_engine(engine), work)
    if as_json:
        write_json(msgspec.to_builtins(found))
    else:
        for status in found:
            print_line(f"{status.run_id}: {status.state}" + (f" ({status.why})" if status.why else ""))
    return 0
