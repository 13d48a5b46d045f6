"""`dragoman sessions`: what the journal holds, and what can be done with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.cli.journals import find_journal, with_journal
from dragoman.cli.screen import Screen, write_json
from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from dragoman.journal import RunSummary, SessionSummary, SqliteJournal

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

app = typer.Typer(name="sessions", help=HELP, rich_markup_mode=None)
_GAP = "  "

Place = Annotated[
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
    journal: Place = None,
    as_json: Json = False,
) -> None:
    """List the sessions, the one that was used last first."""

    async def work(store: SqliteJournal) -> list[tuple[SessionSummary, RunSummary, str]]:
        from dragoman.cli.session_view import task_of

        found = []
        for session in await store.sessions():
            if unfinished and not session.unfinished:
                continue
            last = await store.last_run(session.session)
            assert last is not None
            try:
                task = task_of(await store.first(last.run_id))
            except DragomanError:
                # One damaged session must not hide the others; `show` says what is wrong with it.
                task = "(damaged)"
            found.append((session, last, task))
        return found

    place = find_journal(journal)
    listed = with_journal(place, work)
    if as_json:
        write_json([msgspec.to_builtins(session) | {"task": task} for session, _, task in listed])
    else:
        _draw_list(Screen(), listed, place)


@app.command(short_help="What was asked, called and answered.")
def show(name: Name, journal: Place = None, as_json: Json = False) -> None:
    """Show a session: every run, its turns, its calls and their results."""

    async def work(store: SqliteJournal) -> dict[str, Any]:
        from dragoman.cli.session_view import run_as_data

        session = await _find(store, name)
        runs = [run_as_data(run, await store.read(run.run_id)) for run in await store.runs(session)]
        return {"session": session, "runs": runs}

    data = with_journal(find_journal(journal), work)
    if as_json:
        write_json(data)
        return
    from dragoman.cli.session_view import draw_run

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
    journal: Place = None,
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
    journal: Place = None,
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
    journal: Place = None,
    as_json: Json = False,
) -> None:
    """Remove sessions with everything that is recorded of them. They cannot be brought back."""

    async def look(store: SqliteJournal) -> list[str]:
        return list(dict.fromkeys([await _find(store, name) for name in names]))

    async def work(store: SqliteJournal) -> list[dict[str, Any]]:
        return [{"session": session, "records": await store.delete(session)} for session in sessions]

    place = find_journal(journal)
    sessions = with_journal(place, look)
    if not yes:
        _confirm(sessions)
    deleted = with_journal(place, work)
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


# ---- the journal ---------------------------------------------------------------------------------------------------


async def _find(store: SqliteJournal, name: str) -> str:
    """The session of this name, or the one that a run with this id belongs to."""
    from dragoman.errors import nearest
    from dragoman.journal import UnknownRun

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


# ---- drawing -------------------------------------------------------------------------------------------------------


def _draw_list(screen: Screen, listed: list[tuple[SessionSummary, RunSummary, str]], place: Path) -> None:
    from dragoman.cli.session_view import MOST_OF_A_TASK, when

    if not listed:
        screen.line(f"no sessions in {place}")
        return
    heads = ("session", "last used", "runs", "turns", "state", "task")
    rows = [
        (
            session.session,
            when(session.last),
            str(session.runs),
            str(session.turns),
            "running" if last.holder else ("broke off" if session.unfinished else "ended"),
            " ".join(task.split()),
        )
        for session, last, task in listed
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)]
    screen.line((_aligned(heads, widths), "bold"))
    for row in rows:
        name, *rest, task = row
        shown = task if len(task) <= MOST_OF_A_TASK else task[: MOST_OF_A_TASK - 1] + "…"
        screen.line((name.ljust(widths[0]), "green"), _GAP, _aligned((*rest, ""), widths[1:]), (shown, "dim"))


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
