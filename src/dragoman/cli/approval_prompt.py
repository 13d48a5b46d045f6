"""Approvals: how a request is printed, the prompt at a terminal, and the approver of `run` and `chat`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.agent.approvals import LATER, Approval, ApprovalRequest
from dragoman.agent.changes import Change, find_change
from dragoman.agent.redaction import redact_command
from dragoman.agent.review import show_operand, shown_operands
from dragoman.characters import escape_lines, quote_value
from dragoman.cli.render import ScreenView
from dragoman.cli.screen import (
    Screen,
    Table,
    count,
    cut,
    format_time,
    one_line,
    print_row,
    summarise,
    write_arguments,
)
from dragoman.cli.signals import discard_typed_input, has_typed_more, read_line, shown_keys
from dragoman.config.tool_sources import matches
from dragoman.errors import ConfigError
from dragoman.own_code import find_program
from dragoman.secrets import HumanSink

# ---- editing arguments -----------------------------------------------------------------------------------------------


class EditError(Exception):
    """The edited arguments cannot be used. The user may try again."""


async def edit_json(text: str, before: dict[str, Any]) -> dict[str, Any]:
    """Edited arguments: the JSON that was typed, or the content that the user saved in the editor."""
    if not text:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            raise EditError('type the arguments after it: e {"path": "..."}; or set EDITOR')
        text = await asyncio.to_thread(_run_editor, editor, json.dumps(before, ensure_ascii=False, indent=2))
    try:
        arguments: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise EditError(f"not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise EditError("the arguments must be an object: {...}")
    return arguments


def _run_editor(editor: str, text: str) -> str:
    """The text as the user saved it. It may hold secrets: only the user can read the file, and it is deleted."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        file = Path(folder) / "arguments.json"
        file.touch(mode=0o600)
        file.write_text(text + "\n", encoding="utf-8")
        try:
            name, *words = shlex.split(editor)
            # A tool may have created a program of this name in the workspace. A full path is the choice of the user.
            program = os.path.abspath(name) if "/" in name else find_program(name, os.getcwd())
            if program is None:
                raise FileNotFoundError("no such program on PATH, outside the current folder")
            done = subprocess.run([program, *words, str(file)], cwd=folder, check=False)
        except (OSError, ValueError) as error:
            raise EditError(f"cannot start {editor}: {error}") from None
        if done.returncode:
            raise EditError(f"{editor} exited with {done.returncode}; the arguments are unchanged")
        return file.read_text(encoding="utf-8", errors="replace")


# ---- printing a time -------------------------------------------------------------------------------------------------

_MAX_SUMMARY_CHARS = 60
_MAX_TASK_CHARS = 100
_DIGEST_CHARS = 12
_MAX_DIFF_CHARS = 200
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
_HIDDEN_NOTE = "a secret is hidden here; the call receives the real value"
_ESCAPED_NOTE = "invisible characters are written as \\uXXXX, and then a backslash as \\\\"


def format_span(seconds: float) -> str:
    """A time relative to now: `in 23 h`, `5 min ago`."""
    size = abs(seconds)
    unit, name = next((each for each in _UNITS if size >= each[0]), (1, "s"))
    count = int(size // unit)
    words = f"{count} {name}{'s' if name == 'day' and count != 1 else ''}"
    return f"in {words}" if seconds >= 0 else f"{words} ago"


# ---- printing a list of requests -------------------------------------------------------------------------------------


def draw_list(
    screen: Screen, listed: Sequence[dict[str, Any]], now: float, *, digests: bool = False, rules: bool = False
) -> None:
    """Print a table of requests; with `digests` and `rules`, the digest and the suggested rule of each."""
    heads = ("request", "state", "tool", "asked", "expires", "run", "about")
    rows = [
        (
            one_line(data["id"]),
            data["state"],
            cut(quote_value(data["tool"]), 40),
            format_span(data["asked"] - now),
            "never" if data["expires"] is None else format_span(data["expires"] - now),
            cut(quote_value(data["run_id"]), 80),
            _summary(data),
        )
        for data in listed
    ]
    table = Table(screen, heads, rows, ["asked", "expires"])
    table.heads()
    for data, row in zip(listed, rows, strict=True):
        table.row(row, "green")
        if digests:
            screen.line("  ", (data["digest"], "dim"))
        if rules and data["rule"]:
            screen.line("  ", ("from now on: ", "yellow"), quote_value(data["rule"]))


def _summary(data: dict[str, Any]) -> str:
    values = [operand["value"] for operand in data["operands"]]
    return cut(", ".join(map(quote_value, values)) or summarise(data["arguments"]), _MAX_SUMMARY_CHARS)


# ---- printing one request --------------------------------------------------------------------------------------------


def draw_request(screen: Screen, data: dict[str, Any], now: float) -> None:
    screen.line((data["id"], "bold green"))
    screen.facts(_detail_lines(data, now))
    screen.heading(f"{cut(quote_value(data['tool']), 80)} would be called with")
    draw_arguments(screen, data)
    if data["change"] is not None:
        screen.heading("so this would happen")
        draw_change(screen, msgspec.convert(data["change"], Change), None)
    if data["operands"]:
        screen.heading("operands")
        for operand in data["operands"]:
            draw_operand(screen, operand)
    if data["state"] == "open":
        screen.heading("to answer")
        for line in _ways_to_answer(data):
            screen.line(f"  {line}")


def _detail_lines(data: dict[str, Any], now: float) -> list[tuple[str, str]]:
    expires = data["expires"]
    until = "" if expires is None else f"{format_span(expires - now)} ({format_time(expires)})"
    given = data["answered"]
    state = data["state"]
    if given is not None:
        state += f" by {one_line(given['by'])}, {format_span(given['at'] - now)}"
        state += f": {one_line(given['reason'])}" if given["reason"] else ""
    return [
        ("state", state),
        ("why", one_line(data["why"], 300)),
        ("task", one_line(data["task"], _MAX_TASK_CHARS)),
        ("asked", f"{format_span(data['asked'] - now)} ({format_time(data['asked'])})"),
        ("expired" if state == "expired" else "expires", until),
        ("session", cut(quote_value(data["session"]), 160) if data["session"] else ""),
        ("run", cut(quote_value(data["run_id"]), 160)),
        ("digest", data["digest"]),
    ]


def draw_arguments(screen: Screen, data: dict[str, Any]) -> None:
    if not data["arguments"]:
        screen.line("  no arguments")
    for name, value in data["arguments"].items():
        label = (f"{cut(quote_value(name), 160)}: ", "yellow")
        if isinstance(value, str) and "\n" in value:
            screen.line("  ", label)
            # Every line is marked, so that none can look like another part of this output.
            screen.rows("    | ", escape_lines(value))
        else:
            screen.line("  ", label, write_arguments(value))
    for path in data["hidden"]:
        screen.line("  ", (f"{cut(quote_value(path), 160)}: {_HIDDEN_NOTE}", "bold yellow"))
    texts = "".join(_strings_in(data["arguments"]))
    if escape_lines(texts) != texts:
        screen.line("  ", (_ESCAPED_NOTE, "bold yellow"))


def _strings_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _strings_in(each)]
    if isinstance(value, list):
        return [text for each in value for text in _strings_in(each)]
    return [value] if isinstance(value, str) else []


def draw_operand(screen: Screen, operand: dict[str, Any], *, is_shown: bool = False) -> None:
    """Print an operand. If its content `is_shown` as a diff, nobody needs the numbers that identify it."""
    screen.line("  ", (f"{operand['access']} ", "cyan"), quote_value(operand["value"]))
    notes = []
    if operand["real"] and operand["real"] != operand["value"] and operand["kind"] != "url":
        notes.append(f"really {quote_value(operand['real'])}")
    if operand["kind"] == "path":
        notes.append("in the workspace" if operand["inside"] else "OUTSIDE the workspace")
        if not operand["identity"]:
            notes.append("does not exist yet")
        elif not is_shown:
            notes.append(f"file {operand['identity']}")
    elif operand["kind"] == "url" and not operand["inside"]:
        notes.append("NOT a public address")
    if operand["protected"]:
        notes.append("PROTECTED: it affects what is trusted later")
    if operand["digest"] and not is_shown:
        notes.append(f"content {operand['digest'].removeprefix('sha256:')[:_DIGEST_CHARS]}")
    for note in notes:
        screen.line("      ", (note, "bold yellow" if note[:3].isupper() else "dim"))


def draw_change(screen: Screen, change: Change, limit: int | None) -> bool:
    """Print a diff of at most `limit` lines, and return whether some were left out."""
    added = sum(line.startswith("+") for line in change.lines)
    removed = sum(line.startswith("-") for line in change.lines)
    counts = f"  +{added} -{removed}" if change.lines else ""
    screen.line("  ", ("change of ", "yellow"), (quote_value(change.path), "bold"), (counts, "dim"))
    if change.note:
        screen.line("    ", (change.note, "dim"))
    shown = change.lines[:limit] if limit is not None else change.lines
    was_cut = len(shown) < len(change.lines)
    for line in shown:
        text = escape_lines(line) if limit is None else cut(escape_lines(line), _MAX_DIFF_CHARS)
        was_cut = was_cut or (limit is not None and len(line) > _MAX_DIFF_CHARS)
        # Every line is marked, so that none can look like another part of this output.
        screen.rows("    | ", text, _DIFF_STYLES.get(line[:1], ""))
    if len(shown) < len(change.lines):
        screen.line("    ", (f"… {count(len(change.lines) - len(shown), 'more line')} of the diff", "dim"))
    return was_cut


def _ways_to_answer(data: dict[str, Any]) -> list[str]:
    name = data["id"]
    always = f"dragoman approvals approve {name} --always  (from now on: {quote_value(data['rule'])})"
    return [
        f"dragoman approvals approve {name}",
        *([always] if data["rule"] else []),
        f"dragoman approvals approve {name} --arguments '{{...}}'  (other arguments; the policy checks them again)",
        f"dragoman approvals deny {name} --reason '...'",
        f"dragoman approvals answer {name} '...'  (the model receives this as the result; nothing runs)",
    ]


# ---- deciding by options ---------------------------------------------------------------------------------------------

ASK = "ask"
NEVER = "never"
DEFER = "later"
APPROVE_KEYWORDS = (ASK, NEVER, DEFER)
_MAX_DIFF_LINES = 60
_MAX_ARGUMENT_CHARS = 2000
"""Characters of one argument that are printed before the user asks for all of them."""

AskApproval = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user to approve a call."""
RememberRule = Callable[[str], str]
"""Saves a rule for later runs, and returns a message that says where."""


class CommandApprover:
    """Approves calls by --approve, asks the user, or defers the request."""

    def __init__(self, rules: Sequence[str], ask: AskApproval | None = None, *, can_defer: bool = False) -> None:
        keywords = {rule for rule in rules if rule in APPROVE_KEYWORDS}
        if len(keywords) > 1:
            raise ConfigError(
                f"--approve is both {' and '.join(sorted(keywords))}",
                hint="give one of them; names of tools may be added",
            )
        self._patterns = [rule for rule in rules if rule not in APPROVE_KEYWORDS]
        self._denies_all = NEVER in keywords
        self._defers_all = DEFER in keywords
        self._can_defer = can_defer
        self.ask = ask
        """Asks the user; None if there is no user at the terminal."""

    async def __call__(self, request: ApprovalRequest) -> Approval:
        name = request.tool
        if matches(name, self._patterns) and not _needs_confirmation(request):
            return Approval(True, by="--approve")
        if self._denies_all:
            return Approval(False, "nothing is approved in this run (--approve never)", by="--approve")
        if self.ask is not None and not self._defers_all:
            return await self.ask(request)
        if self._can_defer:
            return LATER
        reason = (
            "no user is present to approve it; the person who starts the run can allow it with "
            f"--allow '{request.suggestion or name}' or --approve {name}"
        )
        return Approval(False, reason, by="the settings of this run")


def _needs_confirmation(request: ApprovalRequest) -> bool:
    """Whether only the user can approve it, no rule and no option: a write to a protected path, a suspicious call."""
    return bool(request.doubt) or any(operand.protected and operand.access == "write" for operand in request.operands)


# ---- asking at a terminal --------------------------------------------------------------------------------------------

Choice = Literal["yes", "always", "run", "edit", "later", "show", "no"]
_CHOICES: dict[str, Choice] = {
    "y": "yes",
    "yes": "yes",
    "a": "always",
    "always": "always",
    "r": "run",
    "e": "edit",
    "edit": "edit",
    "l": "later",
    "later": "later",
    "s": "show",
    "show": "show",
    "n": "no",
    "no": "no",
}


_HELP_WORDS = frozenset({"?", "h", "help"})


class TypedAnswer(Struct, frozen=True):
    """A typed answer: the choice, and the text after it."""

    choice: Choice
    rest: str = ""


def parse_answer(line: str) -> TypedAnswer:
    """The answer in a typed line. A line that is not a choice denies the call and becomes the reason."""
    word, _, rest = line.strip().partition(" ")
    choice = _CHOICES.get(word.lower())
    if choice is None:
        return TypedAnswer("no", line.strip())
    # `yes, but only once` does not approve: only `no` and `edit` may be followed by text.
    if rest.strip() and choice not in ("no", "edit"):
        return TypedAnswer("no", line.strip())
    return TypedAnswer(choice, rest.strip())


class TerminalApprover:
    """Asks the user at the terminal to approve a call, and shows its arguments, its operands and why it asks."""

    def __init__(
        self,
        view: ScreenView,
        *,
        remember_rule: RememberRule | None = None,
        can_defer: bool = False,
        sink: HumanSink | None = None,
        read_line: Callable[[], Awaitable[str | None]] = read_line,
    ) -> None:
        self._view = view
        self._remember_rule = remember_rule
        self._can_defer = can_defer
        self._sink = sink or HumanSink()
        self._read_line = read_line

    async def __call__(self, request: ApprovalRequest) -> Approval:
        async with self._view.questions:
            self._view.restore()
            with shown_keys():
                return await self._ask(request)

    async def _ask(self, request: ApprovalRequest) -> Approval:
        discard_typed_input()
        screen = Screen(self._view.console.file)
        was_cut = self._draw(screen, request, limit=_MAX_ARGUMENT_CHARS)
        while True:
            self._draw_menu(request, was_cut=was_cut)
            line = await self._view.read_answer(self._read_line)
            if line is None:
                return Approval(False, "the terminal was closed", by="default")
            if has_typed_more():
                discard_typed_input()
                self._view.force_line("several lines came at once, so they do not count; type the answer", "yellow")
                continue
            if line.strip().lower() in _HELP_WORDS:
                self._view.note(
                    "type one of the letters; any other text denies the call, and the model is told the text"
                )
                continue
            typed = parse_answer(line)
            if typed.choice == "show":
                was_cut = self._draw(screen, request, limit=None)
                continue
            answer = await self._answer(typed, request)
            if answer is not None:
                return answer

    def _draw(self, screen: Screen, request: ApprovalRequest, limit: int | None) -> bool:
        """Print what would run, and return whether a long argument was cut."""
        screen.line()
        name = cut(quote_value(request.call.name), 80)
        screen.line(("approve ", "bold yellow"), (name, "bold"), f"?  {one_line(request.why, 300)}")
        change = find_change(request, self._sink)
        # A diff says the same as the new text, and shows what it replaces. `s` shows both.
        left_out = change.arguments if change is not None and limit is not None else frozenset()
        kept = {name: value for name, value in request.arguments.items() if name not in left_out}
        arguments, was_cut = _shorten(kept, limit)
        draw_arguments(screen, {"arguments": arguments, "hidden": list(request.hidden)})
        if change is not None:
            was_cut = draw_change(screen, change, None if limit is None else _MAX_DIFF_LINES) or was_cut
        for operand in shown_operands(request):
            is_shown = change is not None and bool(change.lines)
            draw_operand(screen, show_operand(operand, self._sink), is_shown=is_shown)
        return was_cut or bool(left_out)

    def _draw_menu(self, request: ApprovalRequest, *, was_cut: bool) -> None:
        console = self._view.console
        *rows, last = _pack(self._choices(request, was_cut=was_cut), console.width if console.is_terminal else None)
        for row in rows:
            print_row(console, [(f"{row},", "")])
        print_row(console, [(f"{last}: ", "")], end="")

    def _choices(self, request: ApprovalRequest, *, was_cut: bool) -> list[str]:
        choices = ["y = yes", "n = no (a reason may follow)"]
        if request.suggestion:
            rule = cut(quote_value(redact_command(self._sink, request.suggestion)), 60)
            choices.append(f"r = {rule} in this run")
            choices += [f"a = {rule} always"] if self._remember_rule is not None else []
        choices.append("e = edit")
        choices += ["l = later"] if self._can_defer else []
        choices += ["s = show all"] if was_cut else []
        return choices

    async def _answer(self, typed: TypedAnswer, request: ApprovalRequest) -> Approval | None:
        if typed.choice == "no":
            return Approval(False, typed.rest or "the user said no")
        if typed.choice == "later":
            return LATER if self._can_defer else Approval(False, "the user wants to decide later")
        if typed.choice == "edit":
            return await self._edit(typed.rest, request)
        if typed.choice == "yes" or not request.suggestion:
            if typed.choice != "yes":
                self._view.note("no rule matches exactly calls like this one; it is approved once")
            return Approval(True)
        if typed.choice == "always" and self._remember_rule is not None:
            self._view.note(self._remember_rule(request.suggestion))
        return Approval(True, rule=request.suggestion)

    async def _edit(self, text: str, request: ApprovalRequest) -> Approval | None:
        try:
            arguments = await edit_json(text, request.call.arguments)
        except EditError as problem:
            self._view.note(str(problem))
            return None
        return Approval(True) if arguments == request.call.arguments else Approval(True, arguments=arguments)


def _pack(words: Sequence[str], width: int | None) -> list[str]:
    """The words in as few rows as fit the width."""
    rows = [words[0]]
    for word in words[1:]:
        if width is None or len(rows[-1]) + len(word) + 4 <= width:
            rows[-1] += f", {word}"
        else:
            rows.append(word)
    return rows


def _shorten(arguments: dict[str, Any], limit: int | None) -> tuple[dict[str, Any], bool]:
    """The arguments with long texts shortened, and whether any was."""
    if limit is None:
        return arguments, False
    shortened = {
        name: f"{value[:limit]}… (+{len(value) - limit} characters)"
        for name, value in arguments.items()
        if isinstance(value, str) and len(value) > limit
    }
    return {**arguments, **shortened}, bool(shortened)


def make_ask_user(view: ScreenView, read_line: Callable[[], Awaitable[str | None]] = read_line) -> Any:
    """A function that asks the user at the terminal a question of the model, and returns the answer."""

    async def ask_user(question: str, choices: Sequence[str] = ()) -> str:
        async with view.questions:
            return await ask(question, choices)

    async def ask(question: str, choices: Sequence[str]) -> str:
        view.restore()
        discard_typed_input()
        view.force_line("question", "bold yellow")
        view.block(question, mark="  | ")
        for number, choice in enumerate(choices, 1):
            view.force_line(f"  {number}. {choice}")
        view.console.print("answer> ", end="")
        with shown_keys():
            line = await view.read_answer(read_line)
        if line is None:
            return ""
        text = line.strip()
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
        return text

    return ask_user
