"""`dragoman approvals`: calls that wait for somebody's word, and giving it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.cli import approvals_mcp
from dragoman.cli.journals import find_journal, with_journal
from dragoman.cli.screen import Screen, write_json
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.agent.approvals import Approval
    from dragoman.agent.broker import Parked
    from dragoman.cli.approvals_answering import Answering
    from dragoman.journal import SqliteJournal
    from dragoman.secrets import HumanSink

HELP = """Show the calls that wait for approval, and approve or deny them.

A run that needs approval and has nobody to ask is left as it is, and the question stands in the journal. An answer
holds once, for exactly what is shown: if the arguments, a file or the rules have changed when the run goes on, it asks
again. Secrets are hidden in what is shown, and it says where.

\b
Examples:
  dragoman approvals list                         what waits
  dragoman approvals show apr_4f2a                everything that would run
  dragoman approvals approve apr_4f2a             once
  dragoman approvals approve apr_4f2a --always    and from now on, by the rule that `show` names
  dragoman approvals approve --all --run run_1b   everything that a run waits for, after listing it
  dragoman approvals deny apr_4f2a --reason "use the test account"
  dragoman approvals answer apr_4f2a "it is 7"    the model is told this, and nothing runs
  dragoman run --resume run_1b                    then the run goes on

The beginning of an ID is enough.
"""

app = typer.Typer(name="approvals", help=HELP, rich_markup_mode=None)
app.add_typer(approvals_mcp.app, name="mcp", help=approvals_mcp.HELP, short_help="Tools of MCP servers that changed.")

Place = Annotated[
    str | None,
    typer.Option("--journal", metavar="FILE", help="The journal, if not the usual one.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="A request, or the beginning of its id.", show_default=False)]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Requests, or the beginnings of their ids.", show_default=False),
]
Every = Annotated[bool, typer.Option("--all", help="All that are open; they are listed, and you are asked.")]
Run = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="With --all: only of this run.", show_default=False)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask.")]
By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="NAME", help="Who answers, as the model is told; else `the user`.", show_default=False
    ),
]


@app.callback(invoke_without_command=True)
def _approvals(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", short_help="What waits.")
def list_approvals(
    every: Annotated[bool, typer.Option("--all", help="Those that are answered and not used yet as well.")] = False,
    journal: Place = None,
    as_json: Json = False,
) -> None:
    """List the requests that wait for an answer, the oldest first."""
    from dragoman.cli.approvals_view import draw_list, request_as_data

    place, now, sink = find_journal(journal), time.time(), make_sink()
    found = with_journal(place, _list_all) if place.exists() else []
    listed = [request_as_data(each, sink, now) for each in found if every or each.answered is None]
    if as_json:
        write_json(listed)
    elif not listed:
        print("nothing waits for approval")
    else:
        screen = Screen()
        draw_list(screen, listed, now)
        screen.line()
        screen.line("dragoman approvals show ID shows all that would run")


@app.command(short_help="Everything that would run.")
def show(request: Id, journal: Place = None, as_json: Json = False) -> None:
    """Show a request: the call with its arguments, what it is about, why it is asked, and how to answer.

    Secrets are hidden, and it says where; characters that cannot be seen are written out.
    """
    from dragoman.agent.broker import find_request
    from dragoman.cli.approvals_view import draw_request, request_as_data

    now = time.time()
    found = with_journal(find_journal(journal), lambda store: find_request(store, request))
    data = request_as_data(found, make_sink(), now)
    if as_json:
        write_json(data)
    else:
        draw_request(Screen(), data, now)


@app.command(short_help="Let calls run.")
def approve(
    requests: Ids = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", metavar="RULE", help="Allow this from now on as well.", show_default=False),
    ] = None,
    always: Annotated[bool, typer.Option("--always", help="The same with the rule that `show` names.")] = False,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--arguments",
            metavar="JSON|@FILE",
            help="Run it with these instead; they are checked and decided on anew.",
            show_default=False,
        ),
    ] = None,
    every: Every = False,
    run: Run = None,
    yes: Yes = False,
    by: By = None,
    journal: Place = None,
    as_json: Json = False,
) -> int:
    """Approve calls. Each approval holds once, for exactly what `show` shows, until it expires.

    The run does not go on by itself: the command for that is printed.
    """
    from dragoman.agent.approvals import Approval

    if rule is not None and always:
        raise ConfigError("--rule and --always cannot be given together", hint="--always takes the rule of the request")
    if arguments is not None and (always or every or len(requests or ()) != 1):
        raise ConfigError(
            "--arguments is for one request, and not with --always", hint="name one ID; a rule goes with --rule"
        )
    read = read_arguments(arguments) if arguments is not None else None
    allowed = _check_rule(rule) if rule is not None else ""

    def say(request: Parked) -> Approval:
        if always and not request.rule:
            raise ConfigError(
                f"there is no rule that would allow just calls like {request.id}",
                hint="approve it once, or write one with --rule",
            )
        return Approval(True, arguments=read, rule=request.rule if always else allowed)

    chosen = _Choice(requests, every, run, yes, "approve", keeps=always)
    return _answer(chosen, say, by, journal, as_json)


@app.command(short_help="Do not let calls run.")
def deny(
    requests: Ids = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; the model is told.", show_default=False)
    ] = "",
    every: Every = False,
    run: Run = None,
    yes: Yes = False,
    by: By = None,
    journal: Place = None,
    as_json: Json = False,
) -> int:
    """Deny calls. The model is told so, with your reason, when the run goes on."""
    from dragoman.agent.approvals import Approval

    chosen = _Choice(requests, every, run, yes, "deny")
    return _answer(chosen, lambda _: Approval(False, reason), by, journal, as_json)


@app.command(short_help="Give the result yourself.")
def answer(
    request: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The result; - is standard input.", show_default=False)],
    by: By = None,
    journal: Place = None,
    as_json: Json = False,
) -> int:
    """Answer a call in place of its tool: nothing runs, and the model is told your text as the result."""
    from dragoman.agent.approvals import Approval

    result = sys.stdin.read() if text == "-" else text
    chosen = _Choice([request], False, None, True, "answer")
    return _answer(chosen, lambda _: Approval(True, result=result), by, journal, as_json)


# ---- which requests --------------------------------------------------------------------------------------------------


class _Choice(msgspec.Struct, frozen=True):
    """The requests that a command is about."""

    ids: list[str] | None
    every: bool
    run: str | None
    yes: bool
    verb: str
    keeps: bool = False
    """Whether the rule of each request is kept as well."""

    def check(self) -> None:
        if bool(self.ids) == self.every:
            raise ConfigError(
                "name requests, or give --all" if not self.ids else "--all and requests cannot be given together",
                hint="dragoman approvals list shows what waits",
            )
        if self.run is not None and not self.every:
            raise ConfigError("--run goes with --all", hint=f"dragoman approvals {self.verb} --all --run {self.run}")


async def _list_all(store: SqliteJournal) -> list[Parked]:
    from dragoman.agent.broker import list_requests

    return await list_requests(store)


async def _find(store: SqliteJournal, choice: _Choice, now: float) -> list[Parked]:
    from dragoman.agent.broker import find_request, list_requests
    from dragoman.cli.approvals_view import state_of

    if not choice.every:
        found = [await find_request(store, each) for each in choice.ids or ()]
        return list({each.id: each for each in found}.values())
    everything = [each for each in await list_requests(store) if state_of(each, now) == "open"]
    return [each for each in everything if choice.run is None or each.run_id == choice.run]


def _confirm(found: Sequence[Parked], sink: HumanSink, now: float, choice: _Choice) -> None:
    """List what an answer to everything is about, each with its digest, and ask."""
    from dragoman.cli.approvals_view import draw_list, request_as_data

    listed = [request_as_data(each, sink, now) for each in found]
    draw_list(Screen(sys.stderr), listed, now, digests=True, rules=choice.keeps)
    if choice.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked", hint=f"--yes will {choice.verb} without asking")
    print(f"{choice.verb} {len(found)} of {len(found)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if _type_line().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was answered", hint="")


def _type_line() -> str:
    return sys.stdin.readline()


def _answer(choice: _Choice, say: Answering, by: str | None, journal: str | None, as_json: bool) -> int:
    from dragoman.cli.approvals_answering import draw_answers, give_answers

    choice.check()
    place, sink, now = find_journal(journal), make_sink(), time.time()
    found = with_journal(place, lambda store: _find(store, choice, now)) if place.exists() or choice.ids else []
    if choice.every:
        if not found:
            print("nothing waits for approval")
            return 0
        _confirm(found, sink, now, choice)
    # Whatever is wrong with one of the answers is said before any of them is given.
    answers = [(each, say(each)) for each in found]
    given = with_journal(place, lambda store: give_answers(store, place, answers, by or "the user", sink))
    return draw_answers(given, as_json)


# ---- what stands on the command line ---------------------------------------------------------------------------------


def make_sink() -> HumanSink:
    """What hides secrets from whoever reads: known keys, and what looks like one."""
    from dragoman.agent.safety import Safety
    from dragoman.config import load
    from dragoman.config.loader import read_keys

    return Safety(secrets=read_keys(load())).human_sink()


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments that are given as JSON, or as @ and the name of a file."""
    hint = 'for example --arguments \'{"command": "git status"}\', or --arguments @arguments.json'
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or "it is no text").lower()
            raise ConfigError(f"--arguments cannot be read: {why}", hint=hint) from None
    try:
        read = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"--arguments is no JSON: {error}", hint=hint) from None
    if not isinstance(read, dict):
        raise ConfigError("--arguments is no JSON object", hint=hint)
    return read


def _check_rule(text: str) -> str:
    from dragoman.policy import read_rule, write_rule

    return write_rule(read_rule(text, "allow"))
