"""Prompts for approvals on a terminal, and how a request is displayed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.agent.approvals import LATER, Approval, ApprovalRequest
from dragoman.agent.broker import PendingApproval, show_arguments
from dragoman.cli.render import ScreenView
from dragoman.cli.screen import Screen, one_line, summarise, write_arguments
from dragoman.cli.signals import forget_typed, type_line
from dragoman.config.tool_sources import matches
from dragoman.errors import ConfigError
from dragoman.secrets import HumanSink
from dragoman.types import Operand

# --------------------------------------------------------------------------------------------------------------------
# Changing the arguments of a call by hand: typed on the line, or in the editor of whoever is asked.


class EditingFailed(Exception):
    """Nothing usable came out of it; it can be tried again."""


async def edit_json(text: str, before: dict[str, Any]) -> dict[str, Any]:
    """Other arguments: those that were typed, or whatever the editor was left with."""
    if not text:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            raise EditingFailed('type the arguments behind it: e {"path": "..."}; or set EDITOR')
        text = await asyncio.to_thread(_in_editor, editor, json.dumps(before, ensure_ascii=False, indent=2))
    try:
        arguments: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise EditingFailed(f"that is no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise EditingFailed("arguments are an object: {...}")
    return arguments


def _in_editor(editor: str, text: str) -> str:
    """The text as somebody left it. It may hold secrets: nobody else can read the file, and it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        file = Path(folder) / "arguments.json"
        file.touch(mode=0o600)
        file.write_text(text + "\n", encoding="utf-8")
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise EditingFailed(f"{editor} cannot be started: {error}") from None
        if ended.returncode:
            raise EditingFailed(f"{editor} ended with {ended.returncode}; nothing was changed")
        return file.read_text(encoding="utf-8", errors="replace")


# --------------------------------------------------------------------------------------------------------------------
# A request for approval as people and programs see it: everything that would run, and where something is hidden.

_ABOUT = 60
_TASK = 100
_DIGEST = 12
_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
_HIDDEN = "something is hidden here, and the call gets what it really is"
_ESCAPED = "characters that cannot be seen are written as \\uXXXX"


def request_as_data(request: PendingApproval, sink: HumanSink, now: float) -> dict[str, Any]:
    """One request for a program, and for drawing. Secrets in it are hidden; `hidden` says where."""
    arguments, hidden = show_arguments(request.call.arguments, sink)
    data: dict[str, Any] = {
        "id": request.id,
        "state": state_of(request, now),
        "run_id": request.run_id,
        "session": request.session,
        "task": sink.text(request.task),
        "tool": request.tool,
        "call": request.call.id,
        "arguments": arguments,
        "hidden": list(hidden),
        "operands": [show_operand(operand, sink) for operand in request.operands],
        "why": sink.text(request.why),
        "digest": request.digest,
        "asked": request.asked,
        "expires": request.expires,
        "rule": request.rule,
        "answered": None,
    }
    if request.answered is not None:
        data["answered"] = sink.value(msgspec.to_builtins(request.answered)) | {"at": request.answered_at}
    return data


def state_of(request: PendingApproval, now: float) -> str:
    """How far a request has come, in a word."""
    given = request.answered
    if given is not None:
        return "answered" if given.result is not None else ("approved" if given.approved else "denied")
    return "expired" if request.expires is not None and now > request.expires else "open"


def say_span(seconds: float) -> str:
    """A time from now on, or before now: `in 23 h`, `5 min ago`."""
    size = abs(seconds)
    unit, name = next((each for each in _UNITS if size >= each[0]), (1, "s"))
    count = int(size // unit)
    words = f"{count} {name}{'s' if name == 'day' and count != 1 else ''}"
    return f"in {words}" if seconds >= 0 else f"{words} ago"


def reveal(text: str) -> str:
    """The text with every character visible: what moves a cursor, turns the writing or takes no room, as \\uXXXX."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else _code(letter) for letter in text)


def _code(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def show_operand(operand: Operand, sink: HumanSink) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(operand)
    return data | {"value": sink.text(operand.value), "real": sink.text(operand.real)}


# ---- drawing a list --------------------------------------------------------------------------------------------------


def draw_list(
    screen: Screen, listed: Sequence[dict[str, Any]], now: float, *, digests: bool = False, rules: bool = False
) -> None:
    """A table of requests; with `digests`, the one of each below it, with `rules`, what would be allowed for good."""
    heads = ("request", "state", "tool", "asked", "expires", "run", "about")
    rows = [
        (
            one_line(data["id"]),
            data["state"],
            one_line(reveal(data["tool"]), 40),
            say_span(data["asked"] - now),
            "never" if data["expires"] is None else say_span(data["expires"] - now),
            one_line(data["run_id"]),
            _about(data),
        )
        for data in listed
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)]
    screen.line((_aligned(heads, widths), "bold"))
    for data, row in zip(listed, rows, strict=True):
        screen.line((row[0].ljust(widths[0]), "green"), "  ", _aligned(row[1:], widths[1:]))
        if digests:
            screen.line("  ", (data["digest"], "dim"))
        if rules and data["rule"]:
            screen.line("  ", ("from now on: ", "yellow"), reveal(data["rule"]).replace("\n", "\\n"))


def _about(data: dict[str, Any]) -> str:
    values = [operand["value"] for operand in data["operands"]]
    return one_line(reveal(", ".join(values) or summarise(data["arguments"])), _ABOUT)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True))


# ---- drawing one -----------------------------------------------------------------------------------------------------


def draw_request(screen: Screen, data: dict[str, Any], now: float) -> None:
    """Everything about one request."""
    screen.line((data["id"], "bold green"))
    for label, content in _facts(data, now):
        if content:
            screen.line("  ", (f"{label}: ", "yellow"), content)
    screen.heading(f"{one_line(reveal(data['tool']))} would be called with")
    draw_arguments(screen, data)
    if data["operands"]:
        screen.heading("and is about")
        for operand in data["operands"]:
            draw_operand(screen, operand)
    if data["state"] == "open":
        screen.heading("to answer")
        for line in _ways_to_answer(data):
            screen.line(f"  {line}")


def _facts(data: dict[str, Any], now: float) -> list[tuple[str, str]]:
    expires = data["expires"]
    until = "" if expires is None else f"{say_span(expires - now)} ({_when(expires)})"
    given = data["answered"]
    state = data["state"]
    if given is not None:
        state += f" by {one_line(given['by'])}, {say_span(given['at'] - now)}"
        state += f": {one_line(reveal(given['reason']))}" if given["reason"] else ""
    return [
        ("state", state),
        ("why", one_line(reveal(data["why"]), 300)),
        ("task", one_line(reveal(data["task"]), _TASK)),
        ("asked", f"{say_span(data['asked'] - now)} ({_when(data['asked'])})"),
        ("expired" if state == "expired" else "expires", until),
        ("session", one_line(reveal(data["session"]))),
        ("run", one_line(reveal(data["run_id"]))),
        ("digest", data["digest"]),
    ]


def draw_arguments(screen: Screen, data: dict[str, Any]) -> None:
    if not data["arguments"]:
        screen.line("  no arguments")
    for name, value in data["arguments"].items():
        label = (f"{one_line(reveal(name))}: ", "yellow")
        if isinstance(value, str) and "\n" in value:
            screen.line("  ", label)
            # Every line of it has a mark, so that none can pose as something else on this page.
            for line in value.split("\n"):
                screen.line("    | ", reveal(line))
        else:
            screen.line("  ", label, reveal(write_arguments(value)))
    for path in data["hidden"]:
        screen.line("  ", (f"{one_line(reveal(path))}: {_HIDDEN}", "bold yellow"))
    texts = "".join(_texts(data["arguments"]))
    if reveal(texts) != texts:
        screen.line("  ", (_ESCAPED, "bold yellow"))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def draw_operand(screen: Screen, operand: dict[str, Any]) -> None:
    screen.line("  ", (f"{operand['access']} ", "cyan"), reveal(operand["value"]).replace("\n", "\\n"))
    notes = []
    if operand["real"] and operand["real"] != operand["value"] and operand["kind"] != "url":
        notes.append(f"really {reveal(operand['real'])}")
    if operand["kind"] == "path":
        notes.append("in the workspace" if operand["inside"] else "OUTSIDE the workspace")
        notes.append(f"file {operand['identity']}" if operand["identity"] else "not there yet")
    elif operand["kind"] == "url" and not operand["inside"]:
        notes.append("NOT a public address")
    if operand["protected"]:
        notes.append("PROTECTED: it decides what is trusted later")
    if operand["digest"]:
        notes.append(f"content {operand['digest'].removeprefix('sha256:')[:_DIGEST]}")
    for note in notes:
        screen.line("      ", (note, "bold yellow" if note[:3].isupper() else "dim"))


def _ways_to_answer(data: dict[str, Any]) -> list[str]:
    name = data["id"]
    always = f"dragoman approvals approve {name} --always  (from now on: {reveal(data['rule'])})"
    return [
        f"dragoman approvals approve {name}",
        *([always] if data["rule"] else []),
        f"dragoman approvals approve {name} --arguments '{{...}}'  (other arguments; they are decided on again)",
        f"dragoman approvals deny {name} --reason '...'",
        f"dragoman approvals answer {name} '...'  (the model is told this instead)",
    ]


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


# --------------------------------------------------------------------------------------------------------------------
# Who approves calls when a command runs: a list of names, somebody at the terminal, or somebody later.

ASK = "ask"
NEVER = "never"
WHEN_ASKED = "later"
WORDS = (ASK, NEVER, WHEN_ASKED)
_SHOWN = 2000
"""Characters of one argument that are shown before somebody asks for all of them."""

Question = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks somebody about a call."""
Remember = Callable[[str], str]
"""Keeps a rule for later runs; gives the words that say where."""


class Approvals:
    """The approver of a command."""

    def __init__(self, rules: Sequence[str], question: Question | None = None, *, parks: bool = False) -> None:
        words = {rule for rule in rules if rule in WORDS}
        if len(words) > 1:
            raise ConfigError(
                f"--approve is both {' and '.join(sorted(words))}", hint="give one of them; names may be added to it"
            )
        self._patterns = [rule for rule in rules if rule not in WORDS]
        self._refuses = NEVER in words
        self._waits = WHEN_ASKED in words
        self._parks = parks
        self.question = question
        """Asks somebody; None where nobody is."""

    async def __call__(self, request: ApprovalRequest) -> Approval:
        name = request.tool.name
        if matches(name, self._patterns) and not _needs_a_person(request):
            return Approval(True, by="--approve")
        if self._refuses:
            return Approval(False, "nothing is approved in this run (--approve never)", by="--approve")
        if self.question is not None and not self._waits:
            return await self.question(request)
        if self._parks:
            return LATER
        reason = (
            "nobody is there to approve it; whoever starts the run can allow it with "
            f"--allow '{request.suggestion or name}' or --approve {name}"
        )
        return Approval(False, reason, by="the settings of this run")


def _needs_a_person(request: ApprovalRequest) -> bool:
    """What no rule lifts is not lifted by a name either: protected paths, and calls of doubtful origin."""
    provenance = request.call.provenance
    doubtful = provenance is not None and provenance.verdict not in (None, "allow")
    return doubtful or any(operand.protected and operand.access == "write" for operand in request.operands)


# ---- at a terminal ---------------------------------------------------------------------------------------------------

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


class Typed(Struct, frozen=True):
    """What somebody typed."""

    choice: Choice
    rest: str = ""


def read_typed(line: str) -> Typed:
    """What a typed line means. Whatever is none of the choices is a no, and its words are the reason."""
    word, _, rest = line.strip().partition(" ")
    choice = _CHOICES.get(word.lower())
    if choice is None:
        return Typed("no", line.strip())
    # `yes, but only once` is no yes: a choice stands alone, unless something can follow it.
    if rest.strip() and choice not in ("no", "edit"):
        return Typed("no", line.strip())
    return Typed(choice, rest.strip())


class TerminalQuestion:
    """Asks at the terminal: what would be called, with what, why it is asked about, and what it is about."""

    def __init__(
        self,
        view: ScreenView,
        *,
        remember: Remember | None = None,
        parks: bool = False,
        sink: HumanSink | None = None,
        read: Callable[[], Awaitable[str | None]] = type_line,
    ) -> None:
        self._view = view
        self._remember = remember
        self._parks = parks
        self._sink = sink or HumanSink()
        self._read = read

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self._view.tidy()
        forget_typed()
        screen = Screen(self._view.console.file)
        cut = self._draw(screen, request, most=_SHOWN)
        while True:
            self._view.console.print(self._menu(request, cut=cut), end="")
            try:
                line = await self._read()
            except BaseException:
                self._view.console.print()
                raise
            if line is None:
                self._view.console.print()
                return Approval(False, "the terminal was closed", by="default")
            typed = read_typed(line)
            if typed.choice == "show":
                cut = self._draw(screen, request, most=None)
                continue
            answer = await self._answer(typed, request)
            if answer is not None:
                return answer

    def _draw(self, screen: Screen, request: ApprovalRequest, most: int | None) -> bool:
        """Show everything that would run; whether something was left out because it is long."""
        screen.line()
        name = one_line(request.call.name, 80)
        screen.line(("approve ", "bold yellow"), (name, "bold"), f"?  {one_line(request.why, 300)}")
        arguments, cut = _shorten(request.arguments, most)
        draw_arguments(screen, {"arguments": arguments, "hidden": list(request.hidden)})
        for operand in request.operands:
            if operand.kind != "command":
                draw_operand(screen, show_operand(operand, self._sink))
        return cut

    def _menu(self, request: ApprovalRequest, *, cut: bool) -> str:
        choices = ["y = yes", "n = no (a reason may follow)"]
        if request.suggestion:
            rule = one_line(request.suggestion, 60)
            choices.append(f"r = {rule} in this run")
            choices += [f"a = {rule} always"] if self._remember is not None else []
        choices.append("e = edit")
        choices += ["l = later"] if self._parks else []
        choices += ["s = show all"] if cut else []
        return f"{', '.join(choices)}: "

    async def _answer(self, typed: Typed, request: ApprovalRequest) -> Approval | None:
        if typed.choice == "no":
            return Approval(False, typed.rest or "the user said no")
        if typed.choice == "later":
            return LATER if self._parks else Approval(False, "the user wants to decide later")
        if typed.choice == "edit":
            return await self._edit(typed.rest, request)
        if typed.choice == "yes" or not request.suggestion:
            if typed.choice != "yes":
                self._view.note("no rule describes calls like this one; it is approved once")
            return Approval(True)
        if typed.choice == "always" and self._remember is not None:
            self._view.note(self._remember(request.suggestion))
        return Approval(True, rule=request.suggestion)

    async def _edit(self, text: str, request: ApprovalRequest) -> Approval | None:
        try:
            arguments = await edit_json(text, request.call.arguments)
        except EditingFailed as problem:
            self._view.note(str(problem))
            return None
        return Approval(True) if arguments == request.call.arguments else Approval(True, arguments=arguments)


def _shorten(arguments: dict[str, Any], most: int | None) -> tuple[dict[str, Any], bool]:
    """The arguments, long texts in them cut; whether any was."""
    if most is None:
        return arguments, False
    cut = {
        name: f"{value[:most]}… (+{len(value) - most} characters)"
        for name, value in arguments.items()
        if isinstance(value, str) and len(value) > most
    }
    return {**arguments, **cut}, bool(cut)


def ask_in_words(view: ScreenView, read: Callable[[], Awaitable[str | None]] = type_line) -> Any:
    """How the model asks the person at the terminal something."""

    async def ask(question: str, choices: Sequence[str] = ()) -> str:
        view.tidy()
        forget_typed()
        view.force_line("question ", "bold yellow", (question, ""))
        for number, choice in enumerate(choices, 1):
            view.force_line(f"  {number}. {choice}")
        view.console.print("> ", end="")
        line = await read()
        if line is None:
            view.console.print()
            return ""
        text = line.strip()
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
        return text

    return ask
