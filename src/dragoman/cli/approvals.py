"""`dragoman approvals`: list, show and answer pending approvals, and approve changed tools of MCP servers."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.agent.approvals import Approval, ApprovalRequest, find_request, list_requests
from dragoman.agent.review import SubmittedAnswer, request_as_data, state_of, submit_answers
from dragoman.characters import quote_value
from dragoman.cli.approval_prompt import draw_list, draw_request
from dragoman.cli.approvals_server import KEYS_HELP, keys_app, serve
from dragoman.cli.context import find_audit_log, find_journal, has_journal, make_sink, with_journal
from dragoman.cli.exit_codes import FATAL
from dragoman.cli.options import JournalPath, Json, command_group
from dragoman.cli.screen import Screen, pretty_json, print_error, print_line, write_json
from dragoman.cli.server_login import pins_file
from dragoman.config import remember_rule
from dragoman.errors import ConfigError
from dragoman.journal import Journal
from dragoman.journal.audit import AuditLog
from dragoman.policy import read_rule, write_rule
from dragoman.secrets import HumanSink

if TYPE_CHECKING:
    from dragoman.mcp import Pin


# ---- submitting answers ----------------------------------------------------------------------------------------------

MakeAnswer = Callable[[ApprovalRequest], Approval]


def save_rule(request: ApprovalRequest, text: str) -> str:
    """Save a rule for the workspace of the run, as `always` at a terminal does. Returns where it applies, as text."""
    if request.workspace is None:
        return "for the rest of this run"
    try:
        path = remember_rule(os.environ, request.workspace, read_rule(text, "allow"))
    except ConfigError as problem:
        return f"for the rest of this run; it could not be saved: {problem}"
    return f"in {request.workspace} from now on ({path})"


# ---- reporting answers -----------------------------------------------------------------------------------------------


def report_answers(answers: Sequence[SubmittedAnswer], as_json: bool, *, has_workers: bool = False) -> int:
    """Print the answers and how the runs go on. Returns exit code 1 if an answer was refused or not recorded."""
    if as_json:
        write_json([_as_data(each) for each in answers])
    else:
        _draw(Screen(), answers, has_workers=has_workers)
    failed = False
    for each in answers:
        if each.refusal:
            print_error(each.refusal, each.hint)
        if each.audit_error:
            print_error(f"the audit log has no record of {each.request.id}: {each.audit_error}")
        failed = failed or bool(each.refusal or each.audit_error)
    return FATAL if failed else 0


def _draw(screen: Screen, answers: Sequence[SubmittedAnswer], *, has_workers: bool) -> None:
    done = [each for each in answers if each.verdict]
    for each in done:
        request, rule = each.request, each.request.answer.rule if each.request.answer is not None else ""
        tool = quote_value(request.tool)
        screen.line((each.verdict, "bold"), f" {request.id} ({tool})  ", (request.digest, "dim"))
        if rule:
            screen.line(f"  {quote_value(rule)} is allowed {each.rule_scope}")
    for run_id, pending_ids in {each.request.run_id: each.pending_ids for each in done}.items():
        if pending_ids:
            screen.line(f"{run_id} still waits for: {', '.join(pending_ids)}")
        else:
            lead = f"a worker continues {run_id}; if `dragoman run` began it, " if has_workers else ""
            screen.line(f"{lead}resume with: {resume_command(run_id)}")
            screen.line("  with the same options as before, such as --tools and --base-url; the journal has the model")


def resume_command(run_id: str) -> str:
    return shlex.join(["dragoman", "run", "--resume", run_id])


def _as_data(answer: SubmittedAnswer) -> dict[str, Any]:
    return {
        "id": answer.request.id,
        "run_id": answer.request.run_id,
        "tool": answer.request.tool,
        "digest": answer.request.digest,
        "verdict": answer.verdict or "refused",
        "reason": answer.refusal,
        "waiting": list(answer.pending_ids),
        "kept": answer.rule_scope,
        "resume": resume_command(answer.request.run_id),
    }


# ---- `dragoman approvals mcp` ----------------------------------------------------------------------------------------

MCP_HELP = """Show the pinned tool definitions of MCP servers, and approve definitions that changed.

dragoman saves the definition of every tool that a server offers. If the definition changes later, the tool is disabled
until you review the difference and approve it. A tool counts as read-only if its server says so and you approved it.

\b
Examples:
  dragoman approvals mcp list
  dragoman approvals mcp show tickets/close       the definition, and what changed in it
  dragoman approvals mcp approve tickets/close
  dragoman approvals mcp forget tickets/close     remove the saved definition
"""

mcp_app = command_group("mcp", MCP_HELP)
Key = Annotated[str, typer.Argument(metavar="SERVER/TOOL", help="The tool and its server.", show_default=False)]


@mcp_app.command("list", short_help="List the known tools.")
def list_tools(as_json: Json = False) -> None:
    """List the known tools of MCP servers, and whether they are approved."""
    from dragoman.mcp import list_pins

    pins = list_pins(_pins_path())
    if as_json:
        write_json([_pin_as_data(pin) for pin in pins])
    elif not pins:
        print("no tools of MCP servers are known yet")
    else:
        screen = Screen()
        width = max(len(quote_value(pin.key)) for pin in pins)
        for pin in pins:
            style = "bold yellow" if pin.state == "changed" else ""
            screen.line((quote_value(pin.key).ljust(width), "green"), "  ", (pin.state, style))


@mcp_app.command("show", short_help="Show the definition of a tool.")
def show_definition(key: Key, as_json: Json = False) -> None:
    """Show the approved definition of a tool, or the difference if it changed."""
    pin = _find_pin(key)
    if as_json:
        write_json(_pin_as_data(pin))
        return
    screen = Screen()
    screen.line((quote_value(pin.key), "bold green"), f"  {pin.state}")
    before = pretty_json(pin.held.definition)
    if pin.pending is None:
        screen.block(before)
        return
    after = pretty_json(pin.pending.definition)
    for line in difflib.unified_diff(before.split("\n"), after.split("\n"), "before", "now", lineterm="", n=9):
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        screen.line("  ", (line, style))
    screen.line()
    screen.line(f"the tool is disabled; approve it with: dragoman approvals mcp approve {quote_value(pin.key)}")


@mcp_app.command("approve", short_help="Approve the current definition.")
def approve_definition(key: Key) -> None:
    """Approve the newest definition of a tool. The next run uses it."""
    from dragoman.mcp import approve_pin

    pin = _find_pin(key)
    seen = pin.pending or pin.held
    approve_pin(_pins_path(), pin.key, digest=seen.digest)
    print_line(f"approved {quote_value(pin.key)} ({seen.digest[:12]})")


@mcp_app.command(short_help="Remove a saved definition.")
def forget(key: Key) -> None:
    """Remove the saved definition of a tool. The tool counts as new when a server offers it again."""
    from dragoman.mcp import Pins

    Pins(_pins_path()).forget(key)
    print_line(f"forgot {quote_value(key)}")


def _pins_path() -> Path:
    path = pins_file(os.environ)
    if path is None:
        raise ConfigError("there is no configuration folder for the tools of MCP servers", hint="set HOME")
    return path


def _find_pin(key: str) -> Pin:
    from dragoman.mcp import list_pins

    pins = {pin.key: pin for pin in list_pins(_pins_path())}
    if key not in pins:
        raise ConfigError(f"unknown tool {key!r}", hint="`dragoman approvals mcp list` shows the known tools")
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


# ---- `dragoman approvals` --------------------------------------------------------------------------------------------

HELP = """Show the calls that wait for approval, and approve or deny them.

If a run needs an approval and no user is present, the run stops and the request waits in the journal. An approval is
valid once, for exactly the call that is shown: if the arguments, a file or the rules have changed when you resume the
run, it asks again. The output hides secrets and marks their places. If DRAGOMAN_ENGINE names a database, its runs are
listed instead of those of your own journal.

\b
Examples:
  dragoman approvals list                         list the pending requests
  dragoman approvals show apr_4f2a                show one request completely
  dragoman approvals approve apr_4f2a             approve it once
  dragoman approvals approve apr_4f2a --always    also save the rule that `show` suggests
  dragoman approvals approve --all --run run_1b   approve all requests of a run, after confirmation
  dragoman approvals deny apr_4f2a --reason "use the test account"
  dragoman approvals answer apr_4f2a "it is 7"    send this to the model as the result; nothing runs
  dragoman run --resume run_1b                    resume the run
  dragoman approvals list --engine postgres://me@db/agents    the runs of workers, which continue by themselves
  dragoman approvals serve                        see and answer the requests in a browser

The beginning of an ID is sufficient.
"""

app = command_group("approvals", HELP)
app.add_typer(keys_app, name="keys", help=KEYS_HELP, short_help="Manage the keys of people who answer over HTTP.")
app.command(short_help="Answer in a browser, or over HTTP.")(serve)
app.add_typer(mcp_app, name="mcp", help=MCP_HELP, short_help="Manage changed tools of MCP servers.")

Id = Annotated[str, typer.Argument(metavar="ID", help="A request, or the beginning of its id.", show_default=False)]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Requests, or the beginnings of their ids.", show_default=False),
]
Every = Annotated[bool, typer.Option("--all", help="All open requests, after a list and a confirmation.")]
Run = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="With --all: only the requests of this run.", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask for confirmation.")]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="The name that the model sees; default `the user`.", show_default=False),
]


@app.command("list", short_help="What waits.")
def list_approvals(
    include_answered: Annotated[
        bool, typer.Option("--all", help="Include answered requests that are not used yet.")
    ] = False,
    journal: JournalPath = None,
    as_json: Json = False,
) -> None:
    """List the pending requests, the oldest first."""
    place, now, sink = find_journal(journal, of_engine=True), time.time(), make_sink()
    found = with_journal(place, partial(list_requests, shown=True)) if has_journal(place) else []
    listed = [request_as_data(each, sink, now) for each in found if include_answered or each.answer is None]
    if as_json:
        write_json(listed)
    elif not listed:
        print("nothing waits for approval")
    else:
        screen = Screen()
        draw_list(screen, listed, now)
        screen.line()
        screen.line("dragoman approvals show ID shows the whole call")


@app.command(short_help="Show a request completely.")
def show(request: Id, journal: JournalPath = None, as_json: Json = False) -> None:
    """Show a request: the call with its arguments and operands, the reason for the request, and how to answer.

    Secrets are hidden and their places marked. Invisible characters are printed as escapes.
    """
    now = time.time()
    found = with_journal(find_journal(journal, of_engine=True), lambda store: find_request(store, request, shown=True))
    data = request_as_data(found, make_sink(), now)
    if as_json:
        write_json(data)
    else:
        draw_request(Screen(), data, now)


@app.command(short_help="Approve calls.")
def approve(
    requests: Ids = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="RULE", help="Also save this rule.", show_default=False)
    ] = None,
    always: Annotated[bool, typer.Option("--always", help="Also save the rule that `show` suggests.")] = False,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--arguments",
            metavar="JSON|@FILE",
            help="Run the call with these arguments instead; they are validated and checked by the policy again.",
            show_default=False,
        ),
    ] = None,
    select_all: Every = False,
    run: Run = None,
    yes: Yes = False,
    by: By = None,
    journal: JournalPath = None,
    as_json: Json = False,
) -> int:
    """Approve calls. Each approval is valid once, for exactly the call that `show` prints, until it expires.

    A run of `dragoman run` does not resume by itself. The output contains the command that resumes it.
    """
    if rule is not None and always:
        raise ConfigError("--rule and --always cannot be given together", hint="--always uses the suggested rule")
    if arguments is not None and (always or select_all or len(requests or ()) != 1):
        raise ConfigError(
            "--arguments needs one request, and excludes --always", hint="name one ID; use --rule for a rule"
        )
    new_arguments = read_arguments(arguments) if arguments is not None else None
    allowed = write_rule(read_rule(rule, "allow")) if rule is not None else ""

    def make_answer(request: ApprovalRequest) -> Approval:
        if always and not request.suggestion:
            raise ConfigError(
                f"no rule matches exactly calls like {request.id}",
                hint="approve it once, or give a rule with --rule",
            )
        return Approval(True, arguments=new_arguments, rule=request.suggestion if always else allowed)

    chosen = _Selection(requests, select_all, run, yes, "approve", saves_rules=always)
    return _answer(chosen, make_answer, by, journal, as_json)


@app.command(short_help="Deny calls.")
def deny(
    requests: Ids = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason, for the model.", show_default=False)
    ] = "",
    select_all: Every = False,
    run: Run = None,
    yes: Yes = False,
    by: By = None,
    journal: JournalPath = None,
    as_json: Json = False,
) -> int:
    """Deny calls. The model receives the denial and your reason when the run resumes."""
    chosen = _Selection(requests, select_all, run, yes, "deny")
    return _answer(chosen, lambda _: Approval(False, reason), by, journal, as_json)


@app.command(short_help="Answer in place of the tool.")
def answer(
    request: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The result; - is standard input.", show_default=False)],
    by: By = None,
    journal: JournalPath = None,
    as_json: Json = False,
) -> int:
    """Answer a call in place of its tool. Nothing runs, and the model receives your text as the result."""
    result = sys.stdin.read() if text == "-" else text
    chosen = _Selection([request], False, None, True, "answer")
    return _answer(chosen, lambda _: Approval(True, result=result), by, journal, as_json)


# ---- selecting requests ----------------------------------------------------------------------------------------------


class _Selection(msgspec.Struct, frozen=True):
    """The requests that a command selects."""

    ids: list[str] | None
    select_all: bool
    run: str | None
    yes: bool
    verb: str
    saves_rules: bool = False
    """Whether the rule of each request is saved as well."""

    def check(self) -> None:
        if bool(self.ids) == self.select_all:
            raise ConfigError(
                "name requests, or give --all" if not self.ids else "--all and requests cannot be given together",
                hint="dragoman approvals list shows the pending requests",
            )
        if self.run is not None and not self.select_all:
            raise ConfigError("--run needs --all", hint=f"dragoman approvals {self.verb} --all --run {self.run}")


async def _find(store: Journal, selection: _Selection, now: float) -> list[ApprovalRequest]:
    if not selection.select_all:
        found = [await find_request(store, each) for each in selection.ids or ()]
        return list({each.id: each for each in found}.values())
    everything = [each for each in await list_requests(store) if state_of(each, now) == "open"]
    return [each for each in everything if selection.run is None or each.run_id == selection.run]


def _confirm(found: Sequence[ApprovalRequest], sink: HumanSink, now: float, selection: _Selection) -> None:
    """List the selected requests with their digests, and ask for confirmation."""
    listed = [request_as_data(each, sink, now) for each in found]
    draw_list(Screen(sys.stderr), listed, now, digests=True, rules=selection.saves_rules)
    if selection.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("standard input is not a terminal", hint=f"--yes will {selection.verb} without confirmation")
    print(f"{selection.verb} {len(found)} of {len(found)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if _read_line().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was answered", hint="")


def _read_line() -> str:
    return sys.stdin.readline()


def _answer(selection: _Selection, make_answer: MakeAnswer, by: str | None, journal: str | None, as_json: bool) -> int:
    selection.check()
    place, sink, now = find_journal(journal, of_engine=True), make_sink(), time.time()
    found = (
        with_journal(place, lambda store: _find(store, selection, now)) if has_journal(place) or selection.ids else []
    )
    if selection.select_all:
        if not found:
            print("nothing waits for approval")
            return 0
        shown = with_journal(place, partial(list_requests, shown=True))
        chosen = {each.id for each in found}
        _confirm([each for each in shown if each.id in chosen], sink, now, selection)
    # All answers are made before the first is submitted, so that an error in one submits none.
    answers = [(each, make_answer(each)) for each in found]
    audit = AuditLog(find_audit_log(place), sink=sink)
    submitted = with_journal(place, lambda store: submit_answers(store, audit, answers, by or "the user", save_rule))
    return report_answers(submitted, as_json, has_workers=isinstance(place, str))


# ---- reading options -------------------------------------------------------------------------------------------------


def read_arguments(text: str) -> dict[str, Any]:
    """The value of --arguments: JSON, or @ and the name of a file."""
    hint = 'for example --arguments \'{"command": "git status"}\', or --arguments @arguments.json'
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or "it is not text").lower()
            raise ConfigError(f"cannot read --arguments: {why}", hint=hint) from None
    try:
        read = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"--arguments is not JSON: {error}", hint=hint) from None
    if not isinstance(read, dict):
        raise ConfigError("--arguments is not a JSON object", hint=hint)
    return read
