"""The body of generateContent, as a client sent it, read into a request: the conversation."""

from __future__ import annotations

from collections import deque
from typing import Any

from msgspec.structs import replace

from dragoman.types import JsonObject, Message, Part, Text, ToolResult
from dragoman.wire.gemini.parts import kind_of, read_call, read_part
from dragoman.wire.gemini.results import read_result
from dragoman.wire.gemini.words import camel
from dragoman.wire.values import as_dict, as_text


def read_system(given: Any) -> list[Message]:
    """The system instruction: a content, a list of parts, or mere text."""
    texts: list[Part] = [part for entry in _parts(given) if isinstance(part := read_part(entry), Text)]
    return [Message("system", texts)] if texts else []


def _parts(content: Any) -> list[JsonObject]:
    """The parts of a content, in all the forms that clients give it."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, list):
        return [{"text": entry} if isinstance(entry, str) else entry for entry in content if _is_part(entry)]
    parts = as_dict(content).get("parts")
    if parts is None and isinstance(as_dict(content).get("text"), str):
        return [{"text": content["text"]}]
    return _parts([parts] if isinstance(parts, dict) else parts) if parts is not None else []


def _is_part(entry: Any) -> bool:
    return isinstance(entry, str | dict)


class ContentReader:
    """Reads the contents of one body: ids made where there are none, results in one message, in order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}  # the id of every call so far -> the name of its tool
        self._waiting: dict[str, deque[str]] = {}  # a name -> the ids of the calls in this turn; all of them under ""
        self._answered: set[str] = set()
        self._taken: set[str] = set()
        self._made = 0

    def read(self, contents: Any) -> list[Message]:
        entries = contents if isinstance(contents, list) else [contents]
        turns = [(entry, [camel(part) for part in _parts(entry)]) for entry in entries if _is_part(entry)]
        for _, parts in turns:
            self._taken.update(as_text(camel(as_dict(part.get("functionCall"))).get("id")) for part in parts)
        for entry, parts in turns:
            role = entry.get("role") if isinstance(entry, dict) else "user"
            if role in ("model", "assistant"):
                self._add_answer(parts)
            else:
                self._add_user(parts)
        return self._messages

    def _add_answer(self, parts: list[JsonObject]) -> None:
        if not self._messages or self._messages[-1].role != "assistant":
            # A new turn: what was not answered before will not be answered any more.
            self._waiting = {}
        self._messages.append(Message("assistant", [self._read_answer(part) for part in parts]))

    def _read_answer(self, part: JsonObject) -> Part:
        if kind_of(part) != "functionCall":
            return read_part(part)
        call = read_call(part)
        if not call.id:
            call = replace(call, id=self._make_id())
        self._names.setdefault(call.id, call.name)
        self._waiting.setdefault("", deque()).append(call.id)
        if call.name:
            self._waiting.setdefault(call.name, deque()).append(call.id)
        return call

    def _make_id(self) -> str:
        while True:
            self._made += 1
            identity = f"call_{self._made}"
            if identity not in self._taken:
                return identity

    def _add_user(self, parts: list[JsonObject]) -> None:
        results: list[Part] = []
        words: list[Part] = []
        for part in parts:
            if kind_of(part) == "functionResponse":
                results.append(self._match(read_result(part)))
            else:
                words.append(read_part(part))
        if results and self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.extend(results)
        elif results:
            self._messages.append(Message("tool", results))
        if words or not results:
            self._messages.append(Message("user", words))

    def _match(self, result: ToolResult) -> ToolResult:
        """The result with the id of its call: the one it names, else the next one of its name."""
        identity = result.call_id
        if identity not in self._names:
            identity = self._next(result.name) or identity
        self._answered.add(identity)
        return replace(result, call_id=identity, name=result.name or self._names.get(identity, ""))

    def _next(self, name: str) -> str:
        """The first call of this turn and name that has no result; without a name, the first of any."""
        waiting = self._waiting.get(name, deque())
        while waiting:
            identity = waiting.popleft()
            if identity not in self._answered:
                return identity
        return ""


def read_contents(body: JsonObject) -> list[Message]:
    """The whole conversation of a body."""
    contents = body.get("contents")
    spoken = ContentReader().read(contents) if contents is not None else []
    return [*read_system(body.get("systemInstruction")), *spoken]
