"""Structured answers while they arrive: growing partial objects, without a guess about what is still missing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec
from msgspec import Struct

from dragoman.agent.events import Asked
from dragoman.agent.result import AnswerT, RunResult, check_result
from dragoman.args import repair
from dragoman.client import portal
from dragoman.errors import ConfigError
from dragoman.events import ArgumentsDelta, CallStarted, TextDelta
from dragoman.types import Tool, ToolCall

if TYPE_CHECKING:
    from dragoman.agent.events import RunEvent
    from dragoman.agent.handle import Run

# --------------------------------------------------------------------------------------------------------------------
# The beginning of a JSON text as a value. Text is read once. A value is only shown if it cannot change any more; the
# exception is a string, which grows, and whose path is reported. So `2` of `21`, and `tru`, are not shown.

_blanks = re.compile(r"[ \t\r\n]*").match
_atom = re.compile(r"[-+.0-9A-Za-z]*").match
_string_stop = re.compile(r'["\\]').search
_high_half = re.compile(r"\\u[dD][89abAB]").match
_PAIRS = {"{": "}", "[": "]"}
_DEEPEST = 100


class JsonPrefix:
    """JSON that arrives in pieces. `read` returns the value so far."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._kinds: list[str] = []
        self._places: list[str | int] = []
        self._keys: list[set[str]] = []
        self._state: Literal["value", "key", "colon", "next", "string", "atom", "over"] = "value"
        self._is_key = False
        self._began = 0
        self._kept = 0
        """The text before this position is complete, apart from the brackets that are still open."""

    @property
    def size(self) -> int:
        return len(self._text)

    def feed(self, piece: str) -> None:
        self._text += piece
        while self._at < len(self._text) and self._state != "over":
            before = self._at
            if self._state == "string":
                self._read_string()
            elif self._state == "atom":
                self._read_atom()
            else:
                self._at = _blanks(self._text, self._at).end()  # type: ignore[union-attr]
                if self._at < len(self._text):
                    self._read_token(self._text[self._at])
            if self._at == before and self._state in ("string", "atom"):
                return  # an escape, or a number, may go on in the next piece

    def read(self) -> tuple[Any, str] | None:
        """Return the value so far, and the path of the string that still grows; None if nothing can be shown yet."""
        is_growing = self._state == "string" and not self._is_key
        end = self._at if is_growing else self._kept
        if not end:
            return None
        closers = "".join(_PAIRS[kind] for kind in reversed(self._kinds))
        try:
            value = msgspec.json.decode(self._text[:end] + ('"' if is_growing else "") + closers)
        except (msgspec.DecodeError, UnicodeError):
            self._state, self._kept = "over", 0
            return None
        return value, self._path() if is_growing else ""

    def _path(self) -> str:
        return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in self._places)

    def _read_string(self) -> None:
        stop = _string_stop(self._text, self._at)
        if stop is None:
            self._at = len(self._text)
        elif stop[0] == '"':
            self._at = stop.end()
            if self._is_key:
                self._read_key(self._text[self._began : stop.start()])
            else:
                self._end_value()
        else:
            self._at = stop.start()
            # A character outside the first plane is written as two escapes, which count only together.
            wanted = (
                12 if _high_half(self._text, self._at) else 6 if self._text[self._at + 1 : self._at + 2] == "u" else 2
            )
            if self._at + wanted <= len(self._text):
                self._at += wanted

    def _read_key(self, written: str) -> None:
        try:
            key = msgspec.json.decode(f'"{written}"', type=str) if "\\" in written else written
        except (msgspec.DecodeError, UnicodeError):
            key = written
        self._places[-1] = key
        self._state = "colon"
        if key in self._keys[-1]:
            # A second value of a key would change what was shown as final.
            self._state, self._kept = "over", 0
        self._keys[-1].add(key)

    def _read_atom(self) -> None:
        end = _atom(self._text, self._at).end()  # type: ignore[union-attr]
        if end < len(self._text):
            self._at = end
            self._end_value()

    def _end_value(self) -> None:
        self._kept = self._at
        self._state = "next" if self._kinds else "over"

    def _read_token(self, character: str) -> None:
        """Read one character outside of strings and numbers. What is no JSON ends the reading, not the answer."""
        self._at += 1
        is_object = bool(self._kinds) and self._kinds[-1] == "{"
        if self._kinds and character == _PAIRS[self._kinds[-1]] and self._state in ("next", "value", "key"):
            self._kinds.pop()
            self._places.pop()
            self._keys.pop()
            self._end_value()
        elif character == '"' and self._state in ("value", "key"):
            self._is_key, self._began, self._state = self._state == "key", self._at, "string"
        elif self._state == "colon" and character == ":":
            self._state = "value"
        elif self._state == "next" and character == ",":
            self._state = "key" if is_object else "value"
            if not is_object:
                self._places[-1] = int(self._places[-1]) + 1
        elif self._state == "value" and character in _PAIRS and len(self._kinds) < _DEEPEST:
            self._kinds.append(character)
            self._places.append("" if character == "{" else 0)
            self._keys.append(set())
            self._state, self._kept = ("key" if character == "{" else "value"), self._at
        elif self._state == "value" and character not in _PAIRS and _atom(character).end():  # type: ignore[union-attr]
            self._state = "atom"
        else:
            self._state = "over"


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
        return self.data is not None


class AnswerStream(Generic[AnswerT]):
    """The partial answers of a run: `async for`, or `for` in blocking code."""

    def __init__(self, run: Run[AnswerT], check: bool) -> None:
        self._run = run
        self._check = check
        self._text = ""
        self._index: int | None = None
        self._prefix: JsonPrefix | None = None
        self._shown = 0
        self._last: tuple[Any, str] | None = None
        self._attempt = 0

    async def __aiter__(self) -> AsyncIterator[PartialAnswer[AnswerT]]:
        # The answer is for the program, as that of the result is: unlike an event, it is not redacted.
        self._run.tap = self._tap
        async for event in self._run:
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
            self._text, self._index, self._prefix, self._shown, self._last = "", None, None, 0, None
        elif isinstance(event, CallStarted) and event.name == tool.name and self._index is None:
            self._index, self._prefix = event.index, JsonPrefix()
        elif isinstance(event, ArgumentsDelta) and event.index == self._index and self._prefix is not None:
            self._prefix.feed(event.text)
            return self._show(self._prefix, tool)
        elif isinstance(event, TextDelta) and self._index is None:
            return self._take_text(event.text, tool)
        return None

    def _take_text(self, piece: str, tool: Tool) -> PartialAnswer[AnswerT] | None:
        if self._prefix is None:
            self._text += piece
            start = _FENCE(self._text)
            if start is None:
                return None
            self._prefix, piece = JsonPrefix(), self._text[start.end() :]
        self._prefix.feed(piece)
        return self._show(self._prefix, tool)

    def _show(self, prefix: JsonPrefix, tool: Tool) -> PartialAnswer[AnswerT] | None:
        if prefix.size - self._shown < prefix.size // _STEP:
            return None
        read = prefix.read()
        found = _unwrap(*read, tool, is_call=self._index is not None) if read is not None else None
        if found is None or found == self._last:
            return None
        self._attempt += self._last is None
        self._last, self._shown = found, prefix.size
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
