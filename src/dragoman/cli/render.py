"""Views of a run: lines of JSON for programs, or text for people.

The text of the model goes to standard output, everything else to standard error. On a terminal the text is printed as
it arrives, as Markdown unless the terminal has no colours. In a pipe only the answer is printed, at the end: text
before a tool call is not part of the answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
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
from dragoman.characters import TextEscaper, escape_json, escape_line, escape_text
from dragoman.cli.screen import (
    OUTCOME_HINTS,
    Spinner,
    can_draw,
    count,
    describe_part,
    first_lines,
    one_line,
    print_row,
    result_text,
    write_arguments,
)
from dragoman.client.retry import RequestRetried
from dragoman.events import (
    CallBroken,
    CallRefused,
    CallStarted,
    PartReceived,
    RefusalDelta,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.types import InvalidCall, ToolCall
from dragoman.wire.media import LEFT_OUT

if TYPE_CHECKING:
    from rich.console import Console

    from dragoman.cli.markdown import MarkdownWriter

_SECONDS_BETWEEN_LINES = 1.0
_SLOW_CALL_SECONDS = 1.0
"""The duration of a call is printed if it is at least this long."""


class View(Protocol):
    """Shows the events of a run."""

    def show(self, event: RunEvent) -> None: ...

    def note(self, message: str) -> None:
        """Print a message that is not an event of the run."""
        ...

    def end(self) -> None:
        """Say that the run is ending. The rest of its text is not shown: it would stand behind this message."""
        ...

    def restore(self) -> None:
        """Restore the terminal: no spinner, and the cursor at the beginning of a line."""
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

    def end(self) -> None:
        pass

    def restore(self) -> None:
        pass


class ScreenView:
    """Text for people, with colours and a spinner on a terminal."""

    def __init__(
        self,
        out: IO[str],
        *,
        quiet: bool = False,
        verbose: bool = False,
        thinking: bool = False,
        can_resume: bool = True,
    ) -> None:
        self._out = out
        self._is_verbose = verbose
        self._can_resume = can_resume
        self._streams = out.isatty()
        self._quiet = quiet
        self._shows_thinking = thinking
        self._spinner = Spinner(lambda: self.console, shown=not quiet)
        self._reply_text: list[str] = []
        self._unfinished_line: IO[str] | None = None
        self._is_ending = False
        self._escaper = TextEscaper()
        self._running: dict[str, str] = {}
        self._last_line: dict[str, float] = {}
        self._started_at = time.monotonic()
        self.questions = asyncio.Lock()
        """Held while the user is asked: two questions at once would read the answer of one another."""
        self._table: dict[type, Callable[[Any], None]] = {
            RunStarted: self._started,
            Asked: self._asked,
            RequestRetried: self._retried,
            TextDelta: lambda event: self._write_text(event.text),
            RefusalDelta: lambda event: self._write_text(event.text),
            ThinkingDelta: self._write_thinking,
            CallStarted: lambda event: self._show_waiting(f"writing a call of {event.name}"),
            CallBroken: lambda event: self.note(f"broken call: {event.why}"),
            CallRefused: lambda event: self.note(f"{event.name} is not called: {event.why}"),
            PartReceived: lambda event: self.line(describe_part(event.part), "dim"),
            ReplyEnded: lambda event: self._spinner.hide(),
            ApprovalNeeded: lambda event: self._spinner.hide(),
            ToolStarted: self._tool_started,
            ToolProgressed: self._tool_progressed,
            ToolEnded: self._tool_ended,
            Noticed: lambda event: self.note(event.message),
            RunEnded: lambda event: self._ended(event.result),
        }

    @cached_property
    def console(self) -> Console:
        """Standard error, opened when the first line is printed."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @cached_property
    def _markdown(self) -> MarkdownWriter | None:
        """Prints the text of the model on a terminal with colours."""
        if os.environ.get("NO_COLOR") or not can_draw(self._out):
            return None
        from dragoman.cli.markdown import MarkdownWriter

        return MarkdownWriter(self._out)

    def show(self, event: RunEvent) -> None:
        handle = self._table.get(type(event))
        if handle is not None:
            handle(event)

    # ---- lines -------------------------------------------------------------------------------------------------------

    def line(self, words: str, style: str = "", *more: tuple[str, str]) -> None:
        """Print a line on standard error, unless the view is quiet. Control characters in it are replaced."""
        if self._quiet:
            return
        self.force_line(words, style, *more)

    def force_line(self, words: str, style: str = "", *more: tuple[str, str]) -> None:
        """Print a line on standard error, even if the view is quiet."""
        with self._spinner.paused():
            self._end_line()
            print_row(self.console, [(escape_line(content), kind) for content, kind in ((words, style), *more)])

    def block(self, text: str, style: str = "", *, mark: str = "") -> None:
        """Print the lines of a text on standard error, each behind a mark, even if the view is quiet."""
        with self._spinner.paused():
            self._end_line()
            for line in escape_text(text).split("\n"):
                print_row(self.console, [(mark, ""), (line, style)])

    def note(self, message: str) -> None:
        self.line("note: ", "yellow", (one_line(message, 400), ""))

    def end(self) -> None:
        self._is_ending = True
        self.note("ending this run; interrupt again to end the program at once")

    def restore(self) -> None:
        self._spinner.hide()
        self._end_line()

    async def read_answer(self, read_line: Callable[[], Awaitable[str | None]]) -> str | None:
        """Read what the user types behind a question. Until Enter, the row of the question is not complete."""
        self._unfinished_line = self.console.file
        line = await read_line()
        if line is not None and line.endswith("\n"):
            self._unfinished_line = None
        return line

    def _end_line(self) -> None:
        stream, self._unfinished_line = self._unfinished_line, None
        if stream is self._out and self._markdown is not None:
            self._markdown.feed(self._escaper.close())
            self._markdown.close()
        elif stream is not None:
            stream.write(self._escaper.close() + "\n")
            stream.flush()

    def _show_waiting(self, words: str) -> None:
        if self._spinner.is_live:
            self._end_line()
            self._spinner.show(words)

    # ---- model output ------------------------------------------------------------------------------------------------

    def _started(self, event: RunStarted) -> None:
        self._started_at = time.monotonic()
        self._reply_text = []
        if event.resumed:
            self.line(f"resuming {event.run_id}", "dim")

    def _asked(self, event: Asked) -> None:
        self._print_text_before_call()
        self._show_waiting(f"waiting for {event.model}")

    def _retried(self, event: RequestRetried) -> None:
        why = event.failure.message or event.failure.kind
        self.line("retry: ", "yellow", (f"again in {event.wait:.1f} s: {one_line(why, 300)}", ""))

    def _write_text(self, text: str) -> None:
        if not text:
            return
        self._reply_text.append(text)
        if not self._streams or self._is_ending:
            return
        self._spinner.hide()
        if self._unfinished_line is self.console.file:
            self._end_line()
        shown = self._escaper.feed(text)
        if self._markdown is not None:
            self._unfinished_line = self._out
            self._markdown.feed(shown)
            return
        self._out.write(shown)
        self._out.flush()
        self._unfinished_line = None if text.endswith("\n") else self._out

    def _write_thinking(self, event: ThinkingDelta) -> None:
        if not self._shows_thinking or self._quiet or not event.text:
            if self._unfinished_line is None:
                self._spinner.show("thinking")
            return
        from rich.text import Text

        self._spinner.hide()
        if self._unfinished_line is not None and self._unfinished_line is not self.console.file:
            self._end_line()
        self.console.print(Text(self._escaper.feed(event.text), "dim"), end="")
        self._unfinished_line = None if event.text.endswith("\n") else self.console.file

    def _print_text_before_call(self) -> None:
        """In a pipe, print the text before a call on standard error: it is not part of the answer."""
        reply_text, self._reply_text = "".join(self._reply_text), []
        if not self._streams and not self._quiet and reply_text.strip():
            self.block(reply_text.strip("\n"), "dim")

    # ---- tool calls --------------------------------------------------------------------------------------------------

    def _show_call(self, call: ToolCall | InvalidCall) -> None:
        self._print_text_before_call()
        arguments = write_arguments(call.arguments) if isinstance(call, ToolCall) else call.raw
        self.line("> ", "cyan", (one_line(call.name, 80), "bold cyan"), (f" {one_line(arguments)}", ""))

    def _tool_started(self, event: ToolStarted) -> None:
        self._show_call(event.call)
        self._running[event.call.id] = event.call.name
        self._show_waiting(self._running_text())

    def _running_text(self) -> str:
        return f"running {', '.join(dict.fromkeys(self._running.values()))}" if self._running else ""

    def _tool_progressed(self, event: ToolProgressed) -> None:
        part = "" if event.fraction is None else f" {min(max(event.fraction, 0.0), 1.0):.0%}"
        words = f"{event.name}:{part} {one_line(event.message)}"
        if self._spinner.is_live:
            self._show_waiting(words)
            return
        now = time.monotonic()
        if now - self._last_line.get(event.call_id, -_SECONDS_BETWEEN_LINES) >= _SECONDS_BETWEEN_LINES:
            self._last_line[event.call_id] = now
            self.line(f"  {words}", "dim")

    def _tool_ended(self, event: ToolEnded) -> None:
        self._running.pop(event.call.id, None)
        self._last_line.pop(event.call.id, None)
        self._spinner.hide()
        if not event.ran:
            self._show_call(event.call)
        # While other calls run, a result needs the name of its call.
        prefix = f"{event.call.name}: " if event.ran and self._running else ""
        duration = f" ({event.seconds:.1f} s)" if event.seconds >= _SLOW_CALL_SECONDS else ""
        lines = first_lines(result_text(event.result)) or [""]
        mark = "error: " if event.result.is_error else ""
        if event.result.is_error and lines[0].lower().startswith("error: "):
            mark = ""
        style = "red" if event.result.is_error else "dim"
        self.line("< ", style, (prefix, "cyan"), (f"{mark}{lines[0] or '(nothing)'}", style), (duration, "dim"))
        for each in lines[1:]:
            self.line(f"  {each}", style)
        if event.error and not self._quiet:
            self._show_traceback(event.error)
        if self._running:
            self._show_waiting(self._running_text())

    def _show_traceback(self, traceback: str) -> None:
        """Show where a tool failed; the model has the message, and the traceback is for its author."""
        if self._is_verbose:
            self.block(traceback.rstrip("\n"), "dim", mark="  ")
            return
        place = next((line for line in reversed(traceback.splitlines()) if line.startswith('  File "')), "")
        words = f"{one_line(place.strip())}; " if place else ""
        self.line(f"  {words}-v shows the traceback", "dim")

    # ---- end of a run ------------------------------------------------------------------------------------------------

    def _ended(self, result: RunResult) -> None:
        self._spinner.hide()
        outcome = result.outcome
        is_answer = outcome.is_success or outcome.kind == "truncated"
        text = result.text
        if result.data is not None:
            # A structured answer is the arguments of a call, which no event of the text contains.
            text = escape_json(json.dumps(result.data, ensure_ascii=False, indent=2, default=repr))
        if self._streams and result.data is None:
            self._end_line()
        elif is_answer:
            self._end_line()
            self._out.write(text + ("" if text.endswith("\n") or not text else "\n"))
            self._out.flush()
        else:
            self._print_text_before_call()
        self._print_changes(result)
        if outcome.kind != "answered" and outcome.kind != "cancelled":
            self._print_outcome(result)
        self.line(_summary(result, time.monotonic() - self._started_at), "dim")

    def _print_changes(self, result: RunResult) -> None:
        """Name the images and files that the model did not get; with -v, everything that a wire changed."""
        for problem in result.problems:
            if problem.kind == "request_changed" and (self._is_verbose or LEFT_OUT in problem.message):
                self.note(problem.message.removeprefix("history: "))

    def _print_outcome(self, result: RunResult) -> None:
        outcome = result.outcome
        words = f"{outcome.kind}: {one_line(outcome.reason, 1000)}" if outcome.reason else outcome.kind
        if outcome.is_success:
            self.line(words, "yellow")
            return
        if outcome.category == "waiting":
            self.force_line("waiting: ", "yellow", (one_line(outcome.reason, 1000), ""))
        else:
            self.force_line("error: ", "red", (words, ""))
        # The hint of a failed endpoint is that of its error, and says nothing about Python.
        hint = OUTCOME_HINTS.get(outcome.kind, outcome.hint if outcome.kind == "provider_failed" else "")
        if outcome.category == "retryable" and self._can_resume:
            # A run that has done nothing yet can as well be started again.
            hint = f"{hint}, then use --resume" if hint and result.calls else hint or "try again with --resume"
        if hint:
            self.force_line(f"hint: {hint}", "")


def _summary(result: RunResult, seconds: float) -> str:
    usage = result.usage
    parts = [count(result.turns, "turn")]
    ran = sum(isinstance(call, ToolCall) for call in result.calls)
    if ran:
        parts.append(count(ran, "call"))
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if result.cost:
        parts.append(f"${result.cost:.4f}")
    return ", ".join([*parts, f"{seconds:.1f} s"])
