"""`dragoman sessions`: list, show, fork, export and delete the sessions in the journal."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.agent.protocol import Denied, Replied, Reviewed, Steered, ToolAnswered
from dragoman.agent.records import Ended, Header, decode, hide_noted
from dragoman.characters import escape_json, quote_value
from dragoman.cli.context import JournalPlace, describe_journal, find_journal, with_journal
from dragoman.cli.options import JournalPath, Json, command_group
from dragoman.cli.screen import (
    GAP,
    Screen,
    Table,
    count,
    ellipsis,
    format_time,
    pretty_json,
    print_line,
    result_text,
    write_arguments,
    write_json,
)
from dragoman.errors import ConfigError, DragomanError, did_you_mean
from dragoman.journal import Record, RunSummary, UnknownRun, calls
from dragoman.secrets import HumanSink, scrub
from dragoman.types import InvalidCall, ToolCall, ToolResult

if TYPE_CHECKING:
    from dragoman.engine import PostgresEngine
    from dragoman.journal import Journal, SessionSummary


# ---- sessions as data ------------------------------------------------------------------------------------------------

MAX_RESULT_CHARS = 600
MAX_TASK_CHARS = 60
_MOST_LISTED = 20
_AROUND = 50
"""Characters of an excerpt before and after a match."""


def run_as_data(run: RunSummary, records: Sequence[Record]) -> dict[str, Any]:
    """One run as JSON. Secrets in it are hidden; an export contains them."""
    header = _decode_record(records[0], Header)
    ended = _decode_record(records[-1], Ended) if records[-1].kind == "ended" else None
    data: dict[str, Any] = msgspec.to_builtins(run)
    data["model"] = header.model if header is not None else ""
    data["task"] = header.task if header is not None else ""
    data["outcome"] = {"kind": ended.kind, "reason": ended.reason} if ended is not None else None
    data["steps"] = _steps(records)
    return HumanSink().value(data)  # type: ignore[no-any-return]


def _steps(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The turns in order, and the messages that steered the run between them."""
    inputs = {record.number: _decode(record) for record in records[1:]}
    history = _CallHistory(records, inputs.values())
    replies = [record.number for record in records if record.kind == "reply"]
    numbers = {number: turn for turn, number in enumerate(replies, 1)}
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
        parts = [part for message in ended.messages for part in message.parts] if ended is not None else []
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
            "result": result_text(result) if result is not None else self._reasons.get(call.id),
            "is_error": result.is_error if result is not None else None,
        }


def _decode(record: Record) -> Any:
    if record.kind in ("asked", "answered", "started", "delivered", "ended"):
        return None
    return _unless_unreadable(decode, hide_noted(record.body))


def _decode_record(record: Record, kind: type[Any]) -> Any:
    return _unless_unreadable(decode, hide_noted(record.body), kind)


def _unless_unreadable(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except (msgspec.MsgspecError, ValueError, TypeError):
        # Another version or another program wrote this record. It is counted, but not shown.
        return None


# ---- printing --------------------------------------------------------------------------------------------------------


_STAGE_NOTES = {
    "started": "  started; its outcome is unknown",
    "planned": "  has not run",
    "approved": "  was approved and has not run",
    "denied": "  was denied",
    "invalid": "  is not valid",
}


def draw_run(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"Run {quote_value(data['run_id'])}")
    outcome = data["outcome"]
    state = f"held by {quote_value(data['holder'])}" if data["holder"] else "interrupted; it can be resumed"
    if outcome is not None:
        state = outcome["kind"] + (f": {outcome['reason']}" if outcome["reason"] else "")
    screen.facts(
        [
            ("started", f"{format_time(data['begun'])}, {data['records']} records"),
            ("model", quote_value(data["model"]) if data["model"] else ""),
            ("forked from", quote_value(data["copied_from"]) if data["copied_from"] else ""),
            ("outcome", state),
        ]
    )
    if data["task"]:
        screen.block(data["task"], style="bold")
    for step in data["steps"]:
        _draw_step(screen, step)


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
        note = _STAGE_NOTES.get(call["stage"], "")
        name, arguments = (quote_value(call["name"]), "bold green"), pretty_json(call["arguments"])
        if "\n" in arguments:
            screen.line("    ", name, (note, "dim"))
            screen.block(arguments, indent=6)
        else:
            screen.line("    ", name, f" {arguments}", (note, "dim"))
        if call["result"]:
            screen.block(_shorten(call["result"]), indent=6, style="red" if call["is_error"] else "")


def _shorten(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n… {len(text) - MAX_RESULT_CHARS} characters more; --json shows all"


# ---- commands --------------------------------------------------------------------------------------------------------

HELP = """Search, show, fork, export and delete the sessions in the journal.

A session is a sequence of runs that share a conversation. A run without a session is its own session, with its id as
the name. NAME is a session or the id of a run.

\b
Examples:
  dragoman sessions list                     list the sessions, the newest first
  dragoman sessions list --unfinished        list the sessions with an interrupted run
  dragoman sessions search "train to Rome"   find a text in tasks, answers, calls and results
  dragoman sessions show trip                show the questions, calls and answers
  dragoman sessions fork trip other --turn 3 copy the session up to the end of turn 3
  dragoman sessions export trip > trip.jsonl write all records, one per line
  dragoman sessions delete trip              delete permanently
  dragoman sessions delete --older-than 90d --yes
"""

app = command_group("sessions", HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A session, or the id of a run.", show_default=False)]


@app.command("list", short_help="List the sessions, the newest first.")
def list_sessions(
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only sessions with an interrupted run.")] = False,
    journal: JournalPath = None,
    as_json: Json = False,
) -> None:
    """List the sessions, the most recently used first."""

    async def work(store: Journal) -> list[tuple[SessionSummary, RunSummary, str]]:
        found = []
        for session in await store.sessions():
            if unfinished and not session.unfinished:
                continue
            last = await store.last_run(session.session)
            assert last is not None
            try:
                header = _decode_record(await store.first(last.run_id), Header)
                task = scrub(header.task) if header is not None else ""
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


@app.command(short_help="Find a text in the sessions.")
def search(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The text to find; case does not matter.", show_default=False)
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The matches to show.")] = 20,
    journal: JournalPath = None,
    as_json: Json = False,
) -> int:
    """Find a text in the tasks, the model's texts, the calls and their results. The newest sessions come first.

    Secrets are hidden before the search. The exit code is 1 if nothing is found.

    \b
    Examples:
      dragoman sessions search "train to Rome"
      dragoman sessions search read_file --json | jq -r '.[].run'
    """

    async def work(store: Journal) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for session in await store.sessions():
            for run in reversed(await store.runs(session.session)):
                try:
                    data = run_as_data(run, await store.read(run.run_id))
                except DragomanError:
                    continue  # One damaged run must not hide the others.
                found += _matches(session.session, data, text)
                if len(found) > limit:
                    return found[: limit + 1]
        return found

    matches = with_journal(find_journal(journal), work)
    if as_json:
        write_json(matches[:limit])
        return 0 if matches else 1
    screen = Screen()
    for match in matches[:limit]:
        place = f"turn {match['turn']}" if match["turn"] else "task"
        run = "" if match["run"] == match["session"] else f"{quote_value(match['run'])}, "
        screen.line((quote_value(match["session"]), "green"), GAP, (f"{run}{place}: {match['in']}", "dim"))
        screen.line(GAP * 2, match["excerpt"])
    if len(matches) > limit:
        screen.line(f"... and more; --limit N shows them, now {limit}")
    elif not matches:
        screen.line(f"no session contains {quote_value(text)}")
    return 0 if matches else 1


def _matches(session: str, data: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The places of a run that contain a text, each with an excerpt."""
    places: list[tuple[int, str, str]] = [(0, "task", data["task"])]
    for step in data["steps"]:
        turn = step.get("turn", 0)
        places.append((turn, "put in" if "steered" in step else "text", step.get("steered") or step.get("text") or ""))
        for call in step.get("calls", ()):
            places.append((turn, "call", f"{call['name']} {write_arguments(call['arguments'])}"))
            places.append((turn, f"result of {call['name']}", call["result"] or ""))
    wanted = text.casefold()
    return [
        {"session": session, "run": data["run_id"], "turn": turn, "in": kind, "excerpt": _excerpt(content, wanted)}
        for turn, kind, content in places
        if wanted in content.casefold()
    ]


def _excerpt(content: str, wanted: str) -> str:
    """The text around a match, on one line."""
    place = max(0, content.casefold().find(wanted) - _AROUND)
    part = " ".join(content[place : place + len(wanted) + 2 * _AROUND].split())
    more = place + len(wanted) + 2 * _AROUND < len(content)
    return f"{'… ' if place else ''}{part}{' …' if more else ''}"


@app.command(short_help="Show a session.")
def show(name: Name, journal: JournalPath = None, as_json: Json = False) -> None:
    """Show a session: every run, its turns, its calls and their results."""

    async def work(store: Journal) -> dict[str, Any]:
        session = await _find(store, name)
        runs = [run_as_data(run, await store.read(run.run_id)) for run in await store.runs(session)]
        return {"session": session, "runs": runs}

    data = with_journal(find_journal(journal), work)
    if as_json:
        write_json(data)
        return
    screen = Screen()
    screen.line((quote_value(data["session"]), "bold green"))
    for run in data["runs"]:
        draw_run(screen, run)


@app.command(short_help="Copy a session up to a turn.")
def fork(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the copy.", show_default=False)],
    turn: Annotated[
        int | None,
        typer.Option("--turn", min=0, help="The last turn to copy; default: all turns.", show_default=False),
    ] = None,
    journal: JournalPath = None,
    as_json: Json = False,
) -> None:
    """Copy a session up to the end of a turn under a new name. The original does not change."""

    async def work(store: Journal) -> list[RunSummary]:
        await store.fork(await _find(store, name), turn, new)
        return await store.runs(new)

    runs = with_journal(find_journal(journal), work)
    if as_json:
        write_json({"session": new, "runs": msgspec.to_builtins(runs)})
        return
    print_line(f"{quote_value(new)}: {count(len(runs), 'run')}, {count(sum(run.turns for run in runs), 'turn')}")
    if not runs[-1].ended:
        print_line(f"its last run is unfinished; resume it with: dragoman run --resume {quote_value(runs[-1].run_id)}")


@app.command(short_help="Write a session as lines of JSON.")
def export(
    name: Name,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file to write; default: standard output.", show_default=False
        ),
    ] = None,
    journal: JournalPath = None,
) -> None:
    """Write a session as lines of JSON: one for the session, one for each run, one for each record."""

    async def work(store: Journal) -> int:
        from dragoman.journal.history import write_export

        session = await _find(store, name)
        if (output is None or output == "-") and sys.stdout.isatty():
            written = io.BytesIO()
            lines = await write_export(store, session, written)
            print(escape_json(written.getvalue().decode()), end="")
            return lines
        if output is None or output == "-":
            sys.stdout.flush()
            return await write_export(store, session, sys.stdout.buffer)
        with open(output, "wb") as file:
            return await write_export(store, session, file)

    try:
        with_journal(find_journal(journal), work)
    except OSError as error:
        if output is None or output == "-":
            raise
        why = (error.strerror or "it failed").lower()
        raise ConfigError(
            f"cannot write {output}: {why}", hint="name a file in a folder with write permission"
        ) from None


@app.command(short_help="Delete sessions permanently.")
def delete(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Sessions, or ids of runs.", show_default=False)
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="30d",
            help="All sessions that were not used for this time: 12h, 30d, 8w. One with an unfinished run remains.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    journal: JournalPath = None,
    as_json: Json = False,
) -> None:
    """Delete sessions and all their records. They cannot be restored.

    In the database of workers, what the engine stores about their runs is deleted too. A run has to have ended there,
    or to wait for an approval.
    """
    if bool(names) == (older_than is not None):
        raise ConfigError("name sessions, or give --older-than", hint="dragoman sessions list shows the sessions")
    before = max(0.0, time.time() - _read_period(older_than)) if older_than is not None else None
    place = find_journal(journal)
    sessions = with_journal(place, lambda store: _find_all(store, names or [], before))
    if sessions and not yes:
        _confirm(sessions)
    if isinstance(place, str):
        # The engine first: a worker would begin a queued run anew whose records are gone.
        _forget(place, sessions, before)
    deleted = with_journal(place, lambda store: _delete(store, sessions))
    if as_json:
        write_json(deleted)
        return
    for each in deleted if names else ():
        print_line(f"deleted {quote_value(each['session'])}: {count(each['records'], 'record')}")
    if not names:
        print_line(
            f"deleted {count(len(deleted), 'session')}: {count(sum(each['records'] for each in deleted), 'record')}"
        )


async def _find_all(store: Journal, names: list[str], before: float | None) -> list[str]:
    if before is None:
        return list(dict.fromkeys([await _find(store, name) for name in names]))
    return [each.session for each in await store.sessions() if each.last < before and not each.unfinished]


async def _delete(store: Journal, sessions: list[str]) -> list[dict[str, Any]]:
    return [{"session": session, "records": await store.delete(session)} for session in sessions]


def _forget(address: str, sessions: list[str], before: float | None) -> None:
    from dragoman.cli.worker import with_engine

    async def work(engine: PostgresEngine) -> None:
        if before is None:
            runs = [run.run_id for session in sessions for run in await engine.journal.runs(session)]
            await engine.forget(runs)
        else:
            await engine.forget_before(before)

    with_engine(address, work)


_UNITS = {"h": 3600.0, "d": 86400.0, "w": 604800.0}


def _read_period(text: str) -> float:
    """The seconds of a period such as 30d."""
    found = re.fullmatch(r"([0-9]{1,6})([hdw])", text.strip())
    if found is None:
        raise ConfigError(f"--older-than {text!r} is not a period", hint="write 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]]


def _confirm(sessions: list[str]) -> None:
    if not sys.stdin.isatty():
        raise ConfigError("standard input is not a terminal", hint="--yes deletes without confirmation")
    listed = ", ".join(map(quote_value, sessions[:_MOST_LISTED]))
    more = f" and {len(sessions) - _MOST_LISTED:,} others" if len(sessions) > _MOST_LISTED else ""
    answer = input(f"delete {listed}{more} permanently? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was deleted", hint="")


# ---- finding a session -----------------------------------------------------------------------------------------------


async def _find(store: Journal, name: str) -> str:
    """The session of this name, or the one that a run with this id belongs to."""
    sessions = [session.session for session in await store.sessions()]
    if name in sessions:
        return name
    try:
        return (await store.run(name)).session
    except (UnknownRun, UnicodeEncodeError):  # an argument that is not UTF-8 names nothing
        meant = did_you_mean(name, sessions)
        raise ConfigError(
            f"the journal has no session and no run {name!r}{meant}", hint="dragoman sessions list shows the sessions"
        ) from None


# ---- printing --------------------------------------------------------------------------------------------------------


def _draw_list(screen: Screen, sessions: list[tuple[SessionSummary, RunSummary, str]], place: JournalPlace) -> None:
    if not sessions:
        screen.line(f"no sessions in {describe_journal(place)}")
        return
    rows = [
        (
            quote_value(session.session),
            format_time(session.last),
            str(session.runs),
            str(session.turns),
            "running" if last.holder else ("interrupted" if session.unfinished else "ended"),
            ellipsis(" ".join(task.split()), MAX_TASK_CHARS),
        )
        for session, last, task in sessions
    ]
    table = Table(screen, ("session", "last used", "runs", "turns", "state", "task"), rows, ["turns", "runs"])
    table.heads()
    for row in rows:
        table.row(row, "green", "", "", "", "", "dim")
