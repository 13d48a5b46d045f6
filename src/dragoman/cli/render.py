"""A run on a screen as it happens: the model's words on standard output, everything else on standard error.

On a terminal the words come as they are written. Into a pipe goes the answer alone, when it is there: what a model says
before it calls a tool is no part of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Protocol

from dragoman.agent.events import (
    ApprovalNeeded,
    Asked,
    Noticed,
    RunEnded,
    RunEvent,
    RunStarted,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
)
from dragoman.agent.result import RunResult
from dragoman.cli.screen import WHAT_HELPS, Waiting, first_lines, name_part, one_line, result_text, tame, write_call
from dragoman.client.retry import RequestRetried
from dragoman.events import CallBroken, CallRefused, CallStarted, PartReceived, ReplyEnded, TextDelta, ThinkingDelta
from dragoman.types import ToolCall

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 1.0
_WORTH_TELLING = 1.0
"""Seconds from which on the time of a call is shown."""


class View(Protocol):
    """Whoever shows a run."""

    def show(self, event: RunEvent) -> None: ...

    def note(self, message: str) -> None:
        """Say something that is no event of the run."""
        ...

    def tidy(self) -> None:
        """Leave the terminal as it was: the cursor shown, and at the beginning of a line."""
        ...


class JsonView:
    """One line of JSON for every event, and nothing else."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._run_id = ""

    def show(self, event: RunEvent) -> None:
        from dragoman.telemetry import as_record

        if isinstance(event, RunStarted):
            self._run_id = event.run_id
        record = as_record(event)
        line = json.dumps({"type": record.pop("type"), "run": self._run_id, **record}, ensure_ascii=True)
        self._out.write(line + "\n")
        self._out.flush()

    def note(self, message: str) -> None:
        pass

    def tidy(self) -> None:
        pass


class ScreenView:
    """A run for people."""

    def __init__(self, out: IO[str], *, quiet: bool = False, thinking: bool = False) -> None:
        self._out = out
        self._streams = out.isatty()
        self._quiet = quiet
        self._thinks = thinking
        self._waiting = Waiting(lambda: self.console, shown=not quiet)
        self._said: list[str] = []
        self._half_line: IO[str] | None = None
        self._return_held = False
        self._running: dict[str, str] = {}
        self._last_line: dict[str, float] = {}
        self._began = time.monotonic()
        self._table: dict[type, Callable[[Any], None]] = {
            RunStarted: self._started,
            Asked: self._asked,
            RequestRetried: self._retried,
            TextDelta: lambda event: self._say(event.text),
            ThinkingDelta: self._think,
            CallStarted: lambda event: self._wait(f"writing a call of {event.name}"),
            CallBroken: lambda event: self.note(f"broken call: {event.why}"),
            CallRefused: lambda event: self.note(f"{event.name} is not called: {event.why}"),
            PartReceived: lambda event: self.line(name_part(event.part), "dim"),
            ReplyEnded: lambda event: self._waiting.hide(),
            ApprovalNeeded: lambda event: self._waiting.hide(),
            ToolStarted: self._tool_started,
            ToolProgressed: self._tool_progressed,
            ToolEnded: self._tool_ended,
            Noticed: lambda event: self.note(event.message),
            RunEnded: lambda event: self._ended(event.result),
        }

    @cached_property
    def console(self) -> Console:
        """Standard error, opened when the first line is drawn."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def show(self, event: RunEvent) -> None:
        handle = self._table.get(type(event))
        if handle is not None:
            handle(event)

    # ---- lines -------------------------------------------------------------------------------------------------------

    def line(self, words: str, style: str = "", *more: tuple[str, str]) -> None:
        """A line on standard error; what a model or a tool said in it is made harmless."""
        if self._quiet:
            return
        self.force_line(words, style, *more)

    def force_line(self, words: str, style: str = "", *more: tuple[str, str]) -> None:
        """The same, also when only the answer is wanted."""
        from rich.text import Text

        with self._waiting.paused():
            self._end_line()
            text = Text()
            for content, kind in ((words, style), *more):
                text.append(tame(content), kind)
            self.console.print(text)

    def note(self, message: str) -> None:
        self.line("note: ", "yellow", (one_line(message, 400), ""))

    def tidy(self) -> None:
        self._waiting.hide()
        self._end_line()

    def _end_line(self) -> None:
        if self._half_line is not None:
            self._half_line.write("\n")
            self._half_line.flush()
            self._half_line = None

    def _wait(self, words: str) -> None:
        if self._waiting.is_live:
            self._end_line()
            self._waiting.show(words)

    # ---- the model ---------------------------------------------------------------------------------------------------

    def _started(self, event: RunStarted) -> None:
        self._began = time.monotonic()
        self._said = []
        if event.resumed:
            self.line(f"going on with {event.run_id}", "dim")

    def _asked(self, event: Asked) -> None:
        self._tell_said()
        self._wait(f"waiting for {event.model}")

    def _retried(self, event: RequestRetried) -> None:
        why = event.failure.message or event.failure.kind
        self.line("retry: ", "yellow", (f"again in {event.wait:.1f} s: {one_line(why, 300)}", ""))

    def _say(self, text: str) -> None:
        if not text:
            return
        self._said.append(text)
        if not self._streams:
            return
        self._waiting.hide()
        if self._half_line is self.console.file:
            self._end_line()
        # A line may end with both characters, and they may come apart.
        shown = ("\r" if self._return_held else "") + text
        self._return_held = shown.endswith("\r")
        self._out.write(tame(shown[:-1] if self._return_held else shown))
        self._out.flush()
        self._half_line = None if text.endswith("\n") else self._out

    def _think(self, event: ThinkingDelta) -> None:
        if not self._thinks or self._quiet or not event.text:
            if self._half_line is None:
                self._waiting.show("thinking")
            return
        from rich.text import Text

        self._waiting.hide()
        if self._half_line is not None and self._half_line is not self.console.file:
            self._end_line()
        self.console.print(Text(tame(event.text), "dim"), end="")
        self._half_line = None if event.text.endswith("\n") else self.console.file

    def _tell_said(self) -> None:
        """What the model said before it called something; in a pipe it is not part of the answer."""
        said, self._said = "".join(self._said), []
        if not self._streams and said.strip():
            self.line(said.strip("\n"), "dim")

    # ---- tools -------------------------------------------------------------------------------------------------------

    def _show_call(self, name: str, arguments: str) -> None:
        self._tell_said()
        self.line("> ", "cyan", (one_line(name, 80), "bold cyan"), (f" {arguments}", ""))

    def _tool_started(self, event: ToolStarted) -> None:
        self._show_call(event.call.name, write_call(event.call))
        self._running[event.call.id] = event.call.name
        self._wait(self._at_work())

    def _at_work(self) -> str:
        return f"running {', '.join(dict.fromkeys(self._running.values()))}" if self._running else ""

    def _tool_progressed(self, event: ToolProgressed) -> None:
        part = "" if event.fraction is None else f" {min(max(event.fraction, 0.0), 1.0):.0%}"
        words = f"{event.name}:{part} {one_line(event.message)}"
        if self._waiting.is_live:
            self._wait(words)
            return
        now = time.monotonic()
        if now - self._last_line.get(event.call_id, -_SECONDS_BETWEEN_LINES) >= _SECONDS_BETWEEN_LINES:
            self._last_line[event.call_id] = now
            self.line(f"  {words}", "dim")

    def _tool_ended(self, event: ToolEnded) -> None:
        self._running.pop(event.call.id, None)
        self._last_line.pop(event.call.id, None)
        self._waiting.hide()
        if not event.ran:
            self._show_call(event.call.name, write_call(event.call))
        # Of calls that ran beside each other, a result says whose it is.
        whose = f"{event.call.name}: " if event.ran and self._running else ""
        took = f" ({event.seconds:.1f} s)" if event.seconds >= _WORTH_TELLING else ""
        lines = first_lines(result_text(event.result)) or [""]
        mark = "error: " if event.result.is_error else ""
        if event.result.is_error and lines[0].lower().startswith("error: "):
            mark = ""
        style = "red" if event.result.is_error else "dim"
        self.line("< ", style, (whose, "cyan"), (f"{mark}{lines[0] or '(nothing)'}", style), (took, "dim"))
        for each in lines[1:]:
            self.line(f"  {each}", style)
        if self._running:
            self._wait(self._at_work())

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _ended(self, result: RunResult) -> None:
        self._waiting.hide()
        outcome = result.outcome
        is_answer = outcome.is_success or outcome.kind == "truncated"
        if self._streams:
            self._end_line()
        elif is_answer:
            self._end_line()
            self._out.write(result.text + ("" if result.text.endswith("\n") or not result.text else "\n"))
            self._out.flush()
        else:
            self._tell_said()
        if outcome.kind != "answered" and outcome.kind != "cancelled":
            self._tell_outcome(result)
        self.line(_sum_up(result, time.monotonic() - self._began), "dim")

    def _tell_outcome(self, result: RunResult) -> None:
        outcome = result.outcome
        words = f"{outcome.kind}: {one_line(outcome.reason, 1000)}" if outcome.reason else outcome.kind
        if outcome.is_success:
            self.line(words, "yellow")
            return
        if outcome.category == "waiting":
            self.force_line("waiting: ", "yellow", (one_line(outcome.reason, 1000), ""))
        else:
            self.force_line("error: ", "red", (words, ""))
        hint = WHAT_HELPS.get(outcome.kind, "try again with --resume" if outcome.category == "retryable" else "")
        if hint:
            self.force_line(f"hint: {hint}", "")


def _sum_up(result: RunResult, seconds: float) -> str:
    usage = result.usage
    parts = [f"{result.turns} turn{'' if result.turns == 1 else 's'}"]
    ran = sum(isinstance(call, ToolCall) for call in result.calls)
    if ran:
        parts.append(f"{ran} call{'' if ran == 1 else 's'}")
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if result.cost:
        parts.append(f"${result.cost:.4f}")
    return ", ".join([*parts, f"{seconds:.1f} s"])
