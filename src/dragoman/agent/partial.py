"""Structured answers while they arrive: growing partial objects, without a guess about what is still missing."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct

from dragoman.agent.events import Asked
from dragoman.agent.result import AnswerT, RunResult, check_result
from dragoman.args import PartialObject, repair
from dragoman.client import portal
from dragoman.errors import ConfigError
from dragoman.events import ArgumentsDelta, CallStarted, TextDelta
from dragoman.types import Tool, ToolCall

if TYPE_CHECKING:
    from dragoman.agent.events import RunEvent
    from dragoman.agent.handle import Run


class AnswerReader:
    """An answer that arrives in pieces. `read` returns the JSON value so far.

    A value is only shown if it cannot change any more; the exception is a string, whose path is reported.
    """

    def __init__(self, *, is_call: bool = False) -> None:
        self._object = PartialObject()
        self._is_call = is_call
        self._is_over = False
        self.size = 0
        if not is_call:
            # A text may be any value, and the reader takes an object.
            self._object.feed('{"answer":')

    def feed(self, piece: str) -> None:
        self.size += len(piece)
        for update in self._object.feed(piece):
            # What follows the value of a text, such as the end of a fence, is no part of it.
            self._is_over = self._is_over or (update.complete and update.path == ("answer",) and not self._is_call)

    def read(self) -> tuple[Any, str] | None:
        """Return the value so far, and the path of the string that still grows; None if nothing can be shown."""
        found, growing = self._object.value, self._object.growing
        if self._object.failed is not None and not self._is_over:
            return None
        if self._is_call:
            return msgspec.to_builtins(found), _write_path(growing)
        if "answer" not in found:
            return None
        return msgspec.to_builtins(found["answer"]), _write_path(growing and growing[1:])


def _write_path(path: Sequence[str | int] | None) -> str:
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in path) if path is not None else ""


# --------------------------------------------------------------------------------------------------------------------
# The stream of partial answers of a run.

_STEP = 64
"""A long answer is shown again when it has grown by this part of itself, so that the cost stays linear."""
_FENCE = re.compile(r"\s*(?:```(?:json)?[ \t]*\n\s*)?(?=[{\[])").match


class PartialAnswer(Struct, Generic[AnswerT], frozen=True):
    """A structured answer so far. The last one of a stream has `data`."""

    value: Any
    """The JSON value so far: objects lack the members that have not arrived yet."""
    growing: str = ""
    """The JSON path of the string that is not complete yet; every other value is final."""
    attempt: int = 1
    """The number of the answer: the model answers again if its answer does not fit or is rejected."""
    data: AnswerT | None = None
    """The answer in its type, when it is complete and accepted; it is `data` of the result."""

    @property
    def is_final(self) -> bool:
        """Whether the answer is complete and valid."""
        return self.data is not None


class AnswerStream(Generic[AnswerT]):
    """The partial answers of a run: `async for`, or `for` in blocking code."""

    def __init__(self, run: Run[AnswerT], check: bool) -> None:
        self._run = run
        self._check = check
        self._text = ""
        self._index: int | None = None
        self._reader: AnswerReader | None = None
        self._shown = 0
        self._last: tuple[Any, str] | None = None
        self._attempt = 0

    async def __aiter__(self) -> AsyncGenerator[PartialAnswer[AnswerT], None]:
        # The answer is for the program, as that of the result is: unlike an event, it is not redacted.
        self._run.tap = self._tap
        async with aclosing(aiter(self._run)) as events:
            async for event in events:
                if self._run.answer_tool is None:
                    raise ConfigError("no structured answer was asked for", hint="agent.stream(task, answer=...)")
                if isinstance(event, PartialAnswer):
                    yield event
        result = self._run.outcome
        if result is None:
            return
        if self._check:
            check_result(result)
        if result.outcome.kind == "answered" and self._run.answer_tool is not None:
            value = _final_value(result, self._run.answer_tool)
            yield PartialAnswer(value, attempt=max(self._attempt, 1), data=result.data)

    def __iter__(self) -> Iterator[PartialAnswer[AnswerT]]:
        return portal.iterate(self.__aiter__())

    def _tap(self, event: RunEvent) -> None:
        tool = self._run.answer_tool
        partial = self._take(event, tool) if tool is not None else None
        if partial is not None:
            self._run.put(partial)

    def _take(self, event: RunEvent, tool: Tool) -> PartialAnswer[AnswerT] | None:
        if isinstance(event, Asked):
            self._text, self._index, self._reader, self._shown, self._last = "", None, None, 0, None
        elif isinstance(event, CallStarted) and event.name == tool.name and self._index is None:
            self._index, self._reader = event.index, AnswerReader(is_call=True)
        elif isinstance(event, ArgumentsDelta) and event.index == self._index and self._reader is not None:
            self._reader.feed(event.text)
            return self._show(self._reader, tool)
        elif isinstance(event, TextDelta) and self._index is None:
            return self._take_text(event.text, tool)
        return None

    def _take_text(self, piece: str, tool: Tool) -> PartialAnswer[AnswerT] | None:
        if self._reader is None:
            self._text += piece
            start = _FENCE(self._text)
            if start is None:
                return None
            self._reader, piece = AnswerReader(), self._text[start.end() :]
        self._reader.feed(piece)
        return self._show(self._reader, tool)

    def _show(self, reader: AnswerReader, tool: Tool) -> PartialAnswer[AnswerT] | None:
        if reader.size - self._shown < reader.size // _STEP:
            return None
        read = reader.read()
        found = _unwrap(*read, tool, is_call=self._index is not None) if read is not None else None
        if found is None or found == self._last:
            return None
        self._attempt += self._last is None
        self._last, self._shown = found, reader.size
        return PartialAnswer(*found, attempt=self._attempt)


def _unwrap(value: Any, growing: str, tool: Tool, *, is_call: bool) -> tuple[Any, str] | None:
    """Return the answer without the argument `answer` of the tool, which a text may leave out."""
    form = tool.parameters.get("properties", {}).get("answer", {})
    own = isinstance(form, dict) and "answer" in form.get("properties", {})
    if isinstance(value, dict) and next(iter(value), None) == "answer" and (is_call or not own):
        return value["answer"], f"${growing.removeprefix('$.answer')}" if growing else ""
    return None if is_call or (isinstance(value, dict) and not value) else (value, growing)


def _final_value(result: RunResult[Any], tool: Tool) -> Any:
    calls = [call for call in result.calls if isinstance(call, ToolCall) and call.name == tool.name]
    if calls and result.results and result.results[-1].name == tool.name:
        return calls[-1].arguments.get("answer")
    read = repair(result.text)
    unwrapped = _unwrap(read.value, "", tool, is_call=False) if read.error is None else None
    return unwrapped[0] if unwrapped is not None else result.text
