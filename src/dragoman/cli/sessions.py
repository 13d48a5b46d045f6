"""`dragoman sessions`: list, show, fork, export and delete the sessions in the journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.agent.protocol import Denied, Replied, Reviewed, Steered, ToolAnswered
from dragoman.agent.records import Ended, Header, decode
from dragoman.cli.context import find_journal, with_journal
from dragoman.cli.screen import Screen, pretty_json, write_json
from dragoman.errors import ConfigError, DragomanError, nearest
from dragoman.journal import Record, RunSummary, UnknownRun, calls, turns
from dragoman.secrets import HumanSink, scrub
from dragoman.types import File, Image, InvalidCall, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from dragoman.journal import SessionSummary, SqliteJournal


# ---- sessions as data ------------------------------------------------------------------------------------------------

MAX_RESULT_CHARS = 600
MAX_TASK_CHARS = 60
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError)


def format_time(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def task_of(first: Record) -> str:
    """The task of a run, without secrets."""
    header = _decode_record(first, Header)
    return scrub(header.task) if isinstance(header, Header) else ""


def run_as_data(run: RunSummary, records: Sequence[Record]) -> dict[str, Any]:
    """One run as JSON. Secrets in it are hidden; an export contains them."""
    header = _decode_record(records[0], Header)
    ended = _decode_record(records[-1], Ended) if records[-1].kind == "ended" else None
    data: dict[str, Any] = msgspec.to_builtins(run)
    data["model"] = header.model if isinstance(header, Header) else ""
    data["task"] = header.task if isinstance(header, Header) else ""
    data["outcome"] = {"kind": ended.kind, "reason": ended.reason} if isinstance(ended, Ended) else None
    data["steps"] = _steps(records)
    hidden: dict[str, Any] = HumanSink().value(data)
    return hidden


def _steps(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The turns in order, and the messages that steered the run between them."""
    inputs = {record.number: _decode(record) for record in records[1:]}
    history = _CallHistory(records, inputs.values())
    numbers = {turn.first: turn.number for turn in turns(records)}
    steps: list[dict[str, Any]] = []
    for number, item in inputs.items():
        if isinstance(item, Steered):
            steps.append({"steered": item.message.text})
        if number not in numbers:
            continue
        step: dict[str, Any] = {"turn": numbers[number], "text": "", "calls": []}
        if isinstance(item, Replied):
            step["text"] = item.found.text or item.reply.text
            step["failure"] = item.reply.failure.kind if item.reply.failure is not None else None
            all_calls: list[ToolCall | InvalidCall] = [*item.found.calls, *item.found.invalid]
            step["calls"] = [history.describe(call) for call in all_calls]
        steps.append(step)
    return steps


class _CallHistory:
    """The stage and the result of every call of a run."""

    def __init__(self, records: Sequence[Record], inputs: Iterable[Any]) -> None:
        self._traces = calls(records)
        ended = _decode_record(records[-1], Ended) if records[-1].kind == "ended" else None
        parts = [part for message in ended.messages for part in message.parts] if isinstance(ended, Ended) else []
        # A call that never ran has no record of its own; its result is in the messages.
        self._results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
        self._reasons: dict[str, str] = {}
        for each in inputs:
            if isinstance(each, ToolAnswered):
                self._results[each.call_id] = each.result
            elif isinstance(each, Denied | Reviewed):
                self._reasons[each.call_id] = each.reason

    def describe(self, call: ToolCall | InvalidCall) -> dict[str, Any]:
        trace, result = self._traces.get(call.id), self._results.get(call.id)
        stage = trace.stage if trace is not None else "planned"
        return {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments if isinstance(call, ToolCall) else call.raw,
            "stage": stage if isinstance(call, ToolCall) else "invalid",
            "result": _result_text(result) if result is not None else self._reasons.get(call.id),
            "is_error": result.is_error if result is not None else None,
        }


def _decode(record: Record) -> Any:
    if record.kind in ("asked", "answered", "started", "delivered", "ended"):
        return None
    try:
        return decode(record.body)
    except _UNREADABLE:
        # Another version or another program wrote it. It is counted, but not shown.
        return None


def _decode_record(record: Record, kind: type[Any]) -> Any:
    try:
        return decode(record.body, kind)
    except _UNREADABLE:
        return None


def _result_text(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(_part_text(part) for part in result.content)


def _part_text(part: Text | Image | File) -> str:
    if isinstance(part, Text):
        return part.text
    return f"[{part.name}]" if isinstance(part, File) else "[an image]"


# ---- printing --------------------------------------------------------------------------------------------------------


def draw_run(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"Run {data['run_id']}")
    for label, content in _detail_lines(data):
        if content:
            screen.line("  ", (f"{label}: ", "yellow"), content)
    if data["task"]:
        screen.block(data["task"], style="bold")
    for step in data["steps"]:
        _draw_step(screen, step)


def _detail_lines(data: dict[str, Any]) -> list[tuple[str, str]]:
    outcome = data["outcome"]
    state = f"held by {data['holder']}" if data["holder"] else "broke off; it can be resumed"
    if outcome is not None:
        state = outcome["kind"] + (f": {outcome['reason']}" if outcome["reason"] else "")
    return [
        ("begun", f"{format_time(data['begun'])}, {data['records']} records"),
        ("model", data["model"]),
        ("forked from", data["copied_from"] or ""),
        ("outcome", state),
    ]


def _draw_step(screen: Screen, step: dict[str, Any]) -> None:
    screen.line()
    if "steered" in step:
        screen.line(("  put in", "cyan"))
        screen.block(step["steered"], indent=4)
        return
    failed = f"  {step['failure']}" if step.get("failure") else ""
    screen.line((f"  turn {step['turn']}", "cyan"), (failed, "red"))
    if step["text"].strip():
        screen.block(step["text"].strip("\n"), indent=4)
    for call in step["calls"]:
        screen.line(
            "    ", (call["name"], "bold green"), f" {pretty_json(call['arguments'])}", (_stage_note(call), "dim")
        )
        if call["result"]:
            screen.block(_shorten(call["result"]), indent=6, style="red" if call["is_error"] else "")


def _stage_note(call: dict[str, Any]) -> str:
    notes = {
        "started": "  was started; its outcome is unknown",
        "planned": "  has not run",
        "approved": "  was approved and has not run",
        "denied": "  was denied",
        "invalid": "  could not be understood",
    }
    return notes.get(call["stage"], "")


def _shorten(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n… {len(text) - MAX_RESULT_CHARS} characters more; --json shows all"


# ---- commands --------------------------------------------------------------------------------------------------------

HELP = """Show, fork, export and delete what runs have left in the journal.

A session is a row of runs that go on from one another; a run without one is a session by itself, named by its id.
NAME is a session or the id of a run.

\b
Examples:
  dragoman sessions list                     every session, the last one first
  dragoman sessions list --unfinished        those with a run that broke off
  dragoman sessions show trip                what was asked, called and answered
  dragoman sessions fork trip other --turn 3 begin again from the end of turn 3
  dragoman sessions export trip > trip.jsonl everything, one record per line
  dragoman sessions delete trip              gone for good
"""

app = typer.Typer(name="sessions", help=HELP, add_completion=False, rich_markup_mode=None)
_GAP = "  "

JournalOption = Annotated[
    str | None,
    typer.Option("--journal", metavar="FILE", help="The journal, if not the usual one.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A session, or the id of a run.", show_default=False)]


@app.callback(invoke_without_command=True)
def _sessions(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", short_help="Every session, the last one first.")
def list_sessions(
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those with a run that broke off.")] = False,
    journal: JournalOption = None,
    as_json: Json = False,
) -> None:
    """List the sessions, the one that was used last first."""

    async def work(store: SqliteJournal) -> list[tuple[SessionSummary, RunSummary, str]]:
        found = []
        for session in await store.sessions():
            if unfinished and not session.unfinished:
                continue
            last = await store.last_run(session.session)
            assert last is not None
            try:
                task = task_of(await store.first(last.run_id))
            except DragomanError:
                # One damaged session must not hide the others. `show` prints what is wrong with it.
                task = "(damaged)"
            found.append((session, last, task))
        return found

    path = find_journal(journal)
    sessions = with_journal(path, work)
    if as_json:
        write_json([msgspec.to_builtins(session) | {"task": task} for session, _, task in sessions])
    else:
        _draw_list(Screen(), sessions, path)


@app.command(short_help="What was asked, called and answered.")
def show(name: Name, journal: JournalOption = None, as_json: Json = False) -> None:
    """Show a session: every run, its turns, its calls and their results."""

    async def work(store: SqliteJournal) -> dict[str, Any]:
        session = await _find(store, name)
        runs = [run_as_data(run, await store.read(run.run_id)) for run in await store.runs(session)]
        return {"session": session, "runs": runs}

    data = with_journal(find_journal(journal), work)
    if as_json:
        write_json(data)
        return
    screen = Screen()
    screen.line((data["session"], "bold green"))
    for run in data["runs"]:
        draw_run(screen, run)


@app.command(short_help="Begin again from the end of a turn.")
def fork(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the copy.", show_default=False)],
    turn: Annotated[
        int | None,
        typer.Option(
            "--turn", "-t", min=0, help="Keep the turns up to this one; all if not given.", show_default=False
        ),
    ] = None,
    journal: JournalOption = None,
    as_json: Json = False,
) -> None:
    """Copy a session up to the end of a turn under a new name. The original stays as it is."""

    async def work(store: SqliteJournal) -> list[RunSummary]:
        await store.fork(await _find(store, name), turn, new)
        return await store.runs(new)

    runs = with_journal(find_journal(journal), work)
    if as_json:
        write_json({"session": new, "runs": msgspec.to_builtins(runs)})
        return
    print(f"{new}: {_count(len(runs), 'run')}, {_count(sum(run.turns for run in runs), 'turn')}")
    if not runs[-1].ended:
        print(f"its last run is open: dragoman run --resume {runs[-1].run_id} goes on with it")


@app.command(short_help="Everything as lines of JSON.")
def export(
    name: Name,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.", show_default=False)
    ] = None,
    journal: JournalOption = None,
) -> None:
    """Write a session as lines of JSON: one for the session, one for each run, one for each record."""

    async def work(store: SqliteJournal) -> int:
        from dragoman.journal.history import write_export

        session = await _find(store, name)
        if output is None or output == "-":
            sys.stdout.flush()
            return await write_export(store, session, sys.stdout.buffer)
        with open(output, "wb") as file:
            return await write_export(store, session, file)

    try:
        with_journal(find_journal(journal), work)
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        raise ConfigError(f"cannot write {output}: {why}", hint="name a file in a folder that you may write") from None


@app.command(short_help="Remove sessions for good.")
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Sessions, or ids of runs.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    journal: JournalOption = None,
    as_json: Json = False,
) -> None:
    """Remove sessions with everything that is recorded of them. They cannot be brought back."""

    async def find_sessions(store: SqliteJournal) -> list[str]:
        return list(dict.fromkeys([await _find(store, name) for name in names]))

    async def work(store: SqliteJournal) -> list[dict[str, Any]]:
        return [{"session": session, "records": await store.delete(session)} for session in sessions]

    path = find_journal(journal)
    sessions = with_journal(path, find_sessions)
    if not yes:
        _confirm(sessions)
    deleted = with_journal(path, work)
    if as_json:
        write_json(deleted)
        return
    for each in deleted:
        print(f"deleted {each['session']}: {_count(each['records'], 'record')}")


def _confirm(sessions: list[str]) -> None:
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked", hint="--yes deletes without asking")
    answer = input(f"delete {', '.join(sessions)} for good? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was deleted", hint="")


# ---- finding a session -----------------------------------------------------------------------------------------------


async def _find(store: SqliteJournal, name: str) -> str:
    """The session of this name, or the one that a run with this id belongs to."""
    sessions = [session.session for session in await store.sessions()]
    if name in sessions:
        return name
    try:
        return (await store.run(name)).session
    except UnknownRun:
        guess = nearest(name, sessions)
        meant = f"; did you mean {guess!r}?" if guess else ""
        raise ConfigError(
            f"the journal has no session and no run {name!r}{meant}", hint="dragoman sessions list shows what there is"
        ) from None


# ---- printing --------------------------------------------------------------------------------------------------------


def _draw_list(screen: Screen, sessions: list[tuple[SessionSummary, RunSummary, str]], path: Path) -> None:
    if not sessions:
        screen.line(f"no sessions in {path}")
        return
    heads = ("session", "last used", "runs", "turns", "state", "task")
    rows = [
        (
            session.session,
            format_time(session.last),
            str(session.runs),
            str(session.turns),
            "running" if last.holder else ("broke off" if session.unfinished else "ended"),
            " ".join(task.split()),
        )
        for session, last, task in sessions
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)]
    screen.line((_align_columns(heads, widths), "bold"))
    for row in rows:
        name, *rest, task = row
        shown = task if len(task) <= MAX_TASK_CHARS else task[: MAX_TASK_CHARS - 1] + "…"
        screen.line((name.ljust(widths[0]), "green"), _GAP, _align_columns((*rest, ""), widths[1:]), (shown, "dim"))


def _align_columns(cells: tuple[str, ...], widths: list[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
