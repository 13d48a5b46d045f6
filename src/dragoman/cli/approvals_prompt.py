"""Who approves calls when a command runs: a list of names, somebody at the terminal, or nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dragoman.agent.approving import Approval
from dragoman.cli.excerpts import cut, one_line, tame, write_arguments
from dragoman.cli.showing import ScreenView
from dragoman.cli.streams import forget_typed, type_line
from dragoman.config.toolboxes import matches
from dragoman.errors import ConfigError
from dragoman.types import Tool, ToolCall

ASK = "ask"
NEVER = "never"
_SHOWN = 2000
"""Characters of the arguments that are shown before somebody asks for all of them."""

Question = Callable[[ToolCall, str], Awaitable[Approval | str]]
"""Asks somebody about a call; a text is the word `always`."""
ALWAYS = "always"


class Approvals:
    """The approver of a command. What was approved once for always stays so as long as the command runs."""

    def __init__(self, rules: Sequence[str], question: Question | None = None) -> None:
        words = [rule for rule in rules if rule in (ASK, NEVER)]
        if len(set(words)) > 1:
            raise ConfigError("--approve is both ask and never", hint="give one of them; names may be added to it")
        self._patterns = [rule for rule in rules if rule not in (ASK, NEVER)]
        self._refuses = NEVER in words
        self.question = question
        """Asks somebody; None where nobody is."""

    async def __call__(self, call: ToolCall, tool: Tool, why: str) -> Approval:
        if matches(tool.name, self._patterns):
            return Approval(True, by="--approve")
        if self._refuses:
            return Approval(False, "nothing is approved in this run (--approve never)", by="--approve")
        if self.question is None:
            reason = f"nobody is there to approve it; whoever starts the run can allow it with --approve {tool.name}"
            return Approval(False, reason, by="the settings of this run")
        answer = await self.question(call, why)
        if isinstance(answer, Approval):
            return answer
        self._patterns.append(_literally(tool.name))
        return Approval(True)


def _literally(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def ask_at_terminal(view: ScreenView) -> Question:
    """A question on the terminal: what is called, with which arguments, and why it is asked about."""

    async def ask(call: ToolCall, why: str) -> Approval | str:
        written = write_arguments(call.arguments, indent=2)
        view.tidy()
        forget_typed()
        view.force_line("approve ", "bold yellow", (one_line(call.name, 80), "bold"), (f"?  {one_line(why, 300)}", ""))
        _show(view, cut(written, _SHOWN))
        while True:
            more = ", s = show all" if len(written) > _SHOWN else ""
            view.console.print(f"y = yes, n = no (a reason may follow), a = always for this tool{more}: ", end="")
            try:
                line = await type_line()
            except BaseException:
                view.console.print()
                raise
            if line is None:
                view.console.print()
                return Approval(False, "the terminal was closed")
            word, _, rest = line.strip().partition(" ")
            answer = _read(word.lower(), rest.strip())
            if answer is not None:
                return answer
            if word.lower() in ("s", "show") and more:
                _show(view, written)

    return ask


def _show(view: ScreenView, written: str) -> None:
    for line in tame(written).split("\n"):
        view.force_line(f"  {line}")


def _read(word: str, rest: str) -> Approval | str | None:
    if word in ("y", "yes"):
        return Approval(True)
    if word in ("a", "always"):
        return ALWAYS
    if word in ("n", "no"):
        return Approval(False, rest or "the user said no")
    return None
