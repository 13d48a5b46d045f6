"""`dragoman approvals`: pending approvals, and answers to them."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import Approval
from dragoman.agent.broker import ApprovalRefused, PendingApproval, answer_request, list_requests
from dragoman.cli.approval_prompt import reveal, state_of
from dragoman.cli.context import find_journal, with_journal
from dragoman.cli.screen import FATAL, Screen, complain, one_line, pretty_json, write_json
from dragoman.errors import ConfigError
from dragoman.journal import Journal, RunBusy, RunOver
from dragoman.journal.audit import AuditFailed, AuditLog, digest_of
from dragoman.paths import beside
from dragoman.secrets import HumanSink

if TYPE_CHECKING:
    from dragoman.journal import SqliteJournal
    from dragoman.mcp import Pin


# --------------------------------------------------------------------------------------------------------------------
# Giving answers to requests for approval: each is written into the journal and the audit log, or refused.

Answering = Callable[[PendingApproval], Approval]


class Given(Struct, frozen=True):
    """What became of an answer."""

    request: PendingApproval
    verdict: str = ""
    """`approved`, `denied` or `answered`; empty if it was refused."""
    refused: str = ""
    hint: str = ""
    unrecorded: str = ""
    """Why the audit log does not tell of it."""
    waiting: tuple[str, ...] = ()
    """The requests of the same run that have no answer yet."""
    kept: str = ""
    """Where the rule of the answer is kept, or why it holds for this run alone."""


async def give_answers(
    journal: Journal, place: Path, answers: Sequence[tuple[PendingApproval, Approval]], by: str, sink: HumanSink
) -> list[Given]:
    """Give answers one after the other. One that is refused does not keep the others back."""
    audit = AuditLog(beside(place), sink=sink)
    given = [await _give(journal, audit, request, approval, by) for request, approval in answers]
    now = time.time()
    still = [each for each in await list_requests(journal) if state_of(each, now) == "open"]
    return [_with_waiting(each, still) for each in given]


async def _give(journal: Journal, audit: AuditLog, request: PendingApproval, approval: Approval, by: str) -> Given:
    told: dict[str, Any] = {
        "request": request.id,
        "tool": request.tool,
        "digest": request.digest,
        "by": by,
        "user": name_of_user(),
    }
    now = time.time()
    try:
        answered = await answer_request(journal, request.id, approval, now=now, by=by)
    except (ApprovalRefused, RunBusy, RunOver) as error:
        unrecorded = _record(audit, "approval_ignored", request, told | {"reason": str(error)})
        return Given(request, refused=str(error), hint=error.next_step, unrecorded=unrecorded)
    verdict = state_of(answered, now)
    told |= {
        "verdict": verdict,
        "rule": approval.rule or None,
        "arguments": approval.arguments,
        "result": None if approval.result is None else digest_of(approval.result),
    }
    kept = _keep_rule(request, approval.rule) if approval.rule else ""
    return Given(answered, verdict, unrecorded=_record(audit, "approval_given", request, told), kept=kept)


def _keep_rule(request: PendingApproval, text: str) -> str:
    """Keep a rule for the workspace of the run, as `always` at a terminal does; in words, what came of it."""
    from dragoman.config import remember_rule
    from dragoman.errors import ConfigError
    from dragoman.policy import read_rule

    if request.workspace is None:
        return "for the rest of this run"
    try:
        path = remember_rule(os.environ, request.workspace, read_rule(text, "allow"))
    except ConfigError as problem:
        return f"for the rest of this run; it could not be kept: {problem}"
    return f"in {request.workspace} from now on ({path})"


def _record(audit: AuditLog, kind: Any, request: PendingApproval, fields: dict[str, Any]) -> str:
    try:
        audit.append(kind, run=request.run_id, call=request.call.id, **fields)
    except AuditFailed as error:
        return error.explain()
    return ""


def _with_waiting(given: Given, still: Sequence[PendingApproval]) -> Given:
    waiting = tuple(each.id for each in still if each.run_id == given.request.run_id)
    return replace(given, waiting=waiting)


def name_of_user() -> str:
    """Who runs this program, as the system says; the environment could say anything."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        return f"user {os.getuid()}" if hasattr(os, "getuid") else getpass.getuser()


# ---- telling of them -------------------------------------------------------------------------------------------------


def draw_answers(given: Sequence[Given], as_json: bool) -> int:
    """Say what became of each answer, and how the runs go on. The exit code is 1 if one was refused or not recorded."""
    if as_json:
        write_json([_as_data(each) for each in given])
    else:
        _draw(Screen(), given)
    failed = False
    for each in given:
        if each.refused:
            complain(each.refused, each.hint)
        if each.unrecorded:
            complain(f"the audit log does not tell of {each.request.id}: {each.unrecorded}")
        failed = failed or bool(each.refused or each.unrecorded)
    return FATAL if failed else 0


def _draw(screen: Screen, given: Sequence[Given]) -> None:
    done = [each for each in given if each.verdict]
    for each in done:
        request, given_rule = each.request, each.request.answered.rule if each.request.answered is not None else ""
        tool = one_line(reveal(request.tool))
        screen.line((each.verdict, "bold"), f" {request.id} ({tool})  ", (request.digest, "dim"))
        if given_rule:
            screen.line(f"  {reveal(given_rule)} is allowed {reveal(each.kept)}")
    for run_id, waiting in {each.request.run_id: each.waiting for each in done}.items():
        if waiting:
            screen.line(f"{run_id} waits for more: {', '.join(waiting)}")
        else:
            screen.line(f"go on: {resume_command(run_id)}")


def resume_command(run_id: str) -> str:
    """The command that goes on with a run."""
    return shlex.join(["dragoman", "run", "--resume", run_id])


def _as_data(given: Given) -> dict[str, Any]:
    return {
        "id": given.request.id,
        "run_id": given.request.run_id,
        "tool": given.request.tool,
        "digest": given.request.digest,
        "verdict": given.verdict or "refused",
        "reason": given.refused,
        "waiting": list(given.waiting),
        "kept": given.kept,
        "resume": resume_command(given.request.run_id),
    }


# --------------------------------------------------------------------------------------------------------------------
# `dragoman approvals mcp`: the definitions of tools that MCP servers brought, and approving one that changed.

MCP_HELP = """Show the tools of MCP servers as they were first seen, and approve those that changed since.

What a server says of a tool is remembered. If it says something else later, the tool is off until somebody has looked
at the difference and approved it. A tool counts as one that only reads if its server says so and it was approved.

\b
Examples:
  dragoman approvals mcp list
  dragoman approvals mcp show tickets/close       what it says, and what it said before
  dragoman approvals mcp approve tickets/close
  dragoman approvals mcp forget tickets/close     it counts as new when it is seen again
"""

mcp_app = typer.Typer(name="mcp", help=MCP_HELP, rich_markup_mode=None)
Key = Annotated[str, typer.Argument(metavar="SERVER/TOOL", help="A tool, by its server.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@mcp_app.callback(invoke_without_command=True)
def _mcp(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@mcp_app.command("list", short_help="All tools that were seen.")
def list_tools(as_json: Json = False) -> None:
    """List the tools of servers that were seen, and whether they were approved."""
    from dragoman.mcp import list_pins

    pins = list_pins(_place())
    if as_json:
        write_json([_pin_as_data(pin) for pin in pins])
    elif not pins:
        print("no tool of an MCP server was seen so far")
    else:
        screen = Screen()
        width = max(len(_tame(pin.key)) for pin in pins)
        for pin in pins:
            style = "bold yellow" if pin.state == "changed" else ""
            screen.line((_tame(pin.key).ljust(width), "green"), "  ", (pin.state, style))


@mcp_app.command("show", short_help="What a tool says of itself.")
def show_definition(key: Key, as_json: Json = False) -> None:
    """Show the definition that counts; of a tool that changed, the difference."""
    pin = _find_pin(key)
    if as_json:
        write_json(_pin_as_data(pin))
        return
    screen = Screen()
    screen.line((_tame(pin.key), "bold green"), f"  {pin.state}")
    before = pretty_json(pin.held.definition)
    if pin.pending is None:
        screen.block(_tame(before))
        return
    after = pretty_json(pin.pending.definition)
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=9):
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        screen.line("  ", (_tame(line), style))
    screen.line()
    screen.line(f"it is off; approve it with: dragoman approvals mcp approve {_tame(pin.key)}")


@mcp_app.command("approve", short_help="Let a tool be used as it is now.")
def approve_definition(key: Key) -> None:
    """Approve the newest definition of a tool. It is used from the next run on."""
    from dragoman.mcp import approve_pin

    pin = _find_pin(key)
    seen = pin.pending or pin.held
    approve_pin(_place(), pin.key, digest=seen.digest)
    print(f"approved {_tame(pin.key)} ({seen.digest[:12]})")


@mcp_app.command(short_help="Forget a tool.")
def forget(key: Key) -> None:
    """Forget what was seen of a tool: it counts as new when it is seen again."""
    from dragoman.mcp import Pins

    Pins(_place()).forget(key)
    print(f"forgot {_tame(key)}")


def _tame(text: str) -> str:
    from dragoman.cli.screen import tame

    return tame(text)


def _place() -> Path:
    from dragoman.cli.context import pins_file

    path = pins_file(os.environ)
    if path is None:
        raise ConfigError("there is no folder in which tools of servers could be remembered", hint="set HOME")
    return path


def _find_pin(key: str) -> Pin:
    from dragoman.mcp import list_pins

    pins = {pin.key: pin for pin in list_pins(_place())}
    if key not in pins:
        raise ConfigError(f"no tool {key!r} was seen so far", hint="`dragoman approvals mcp list` shows them")
    return pins[key]


def _pin_as_data(pin: Pin) -> dict[str, Any]:
    return {
        "server": pin.server,
        "tool": pin.tool,
        "state": pin.state,
        "digest": pin.held.digest,
        "definition": pin.held.definition,
        "pending": None if pin.pending is None else pin.pending.definition,
    }


# --------------------------------------------------------------------------------------------------------------------
# `dragoman approvals`: calls that wait for somebody's word, and giving it.

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

app = typer.Typer(name="approvals", help=HELP, add_completion=False, rich_markup_mode=None)
app.add_typer(mcp_app, name="mcp", help=MCP_HELP, short_help="Tools of MCP servers that changed.")

Place = Annotated[
    str | None,
    typer.Option("--journal", metavar="FILE", help="The journal, if not the usual one.", show_default=False),
]
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
    from dragoman.cli.approval_prompt import draw_list, request_as_data

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
    from dragoman.cli.approval_prompt import draw_request, request_as_data

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

    def say(request: PendingApproval) -> Approval:
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


async def _list_all(store: SqliteJournal) -> list[PendingApproval]:
    from dragoman.agent.broker import list_requests

    return await list_requests(store)


async def _find(store: SqliteJournal, choice: _Choice, now: float) -> list[PendingApproval]:
    from dragoman.agent.broker import find_request, list_requests
    from dragoman.cli.approval_prompt import state_of

    if not choice.every:
        found = [await find_request(store, each) for each in choice.ids or ()]
        return list({each.id: each for each in found}.values())
    everything = [each for each in await list_requests(store) if state_of(each, now) == "open"]
    return [each for each in everything if choice.run is None or each.run_id == choice.run]


def _confirm(found: Sequence[PendingApproval], sink: HumanSink, now: float, choice: _Choice) -> None:
    """List what an answer to everything is about, each with its digest, and ask."""
    from dragoman.cli.approval_prompt import draw_list, request_as_data

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
