"""Who approves calls when a command runs: a list of names, somebody at the terminal, or somebody later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from dragoman.agent.approvals import LATER, Approval, ApprovalRequest
from dragoman.cli.approvals_view import draw_arguments, draw_operand, show_operand
from dragoman.cli.editing import EditingFailed, edit_json
from dragoman.cli.excerpts import one_line
from dragoman.cli.screen import Screen
from dragoman.cli.showing import ScreenView
from dragoman.cli.streams import forget_typed, type_line
from dragoman.config.tool_sources import matches
from dragoman.errors import ConfigError
from dragoman.secrets import HumanSink

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
