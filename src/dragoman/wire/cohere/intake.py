"""The messages of a body of Cohere's chat, as a client sent them, read into ours."""

from __future__ import annotations

from typing import Any

from dragoman.types import InvalidCall, JsonObject, Message, Part, ToolCall, ToolResult
from dragoman.wire.cohere.parts import read_answer, read_content, read_result_content
from dragoman.wire.cohere.words import PLAN, WIRE
from dragoman.wire.openai_chat.parts import read_call
from dragoman.wire.values import as_text, dicts

_KNOWN = frozenset({"role", "content", PLAN, "tool_calls", "tool_call_id"})


class MessageReader:
    """Reads the messages of one body: ids made where there are none, results in one message, in order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._taken: set[str] = set()
        self._made = 0
        self._names: dict[str, str] = {}
        self._waiting: dict[str, None] = {}  # the ids of calls without a result, in order

    def read(self, entries: Any) -> list[Message]:
        found = list(dicts(entries))
        self._taken = {_identity(call) for entry in found for call in dicts(entry.get("tool_calls"))}
        for entry in found:
            role = entry.get("role")
            if role == "tool":
                self._add_result(entry)
            elif role == "assistant":
                self._messages.append(Message("assistant", self._read_assistant(entry), _own(entry)))
            else:
                parts = read_content(entry.get("content"))
                known = "system" if role in ("system", "developer") else "user"
                self._messages.append(Message("system" if known == "system" else "user", parts, _own(entry)))
        return self._messages

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts = read_answer(entry)
        self._waiting = {}
        for call in dicts(entry.get("tool_calls")):
            parts.append(self._read_call(call))
        return parts

    def _read_call(self, entry: JsonObject) -> ToolCall | InvalidCall:
        call = read_call(entry, WIRE, "" if _identity(entry) else self._make_id())
        self._names[call.id] = call.name
        self._waiting[call.id] = None
        return call

    def _make_id(self) -> str:
        while True:
            self._made += 1
            if f"call_{self._made}" not in self._taken:
                return f"call_{self._made}"

    def _add_result(self, entry: JsonObject) -> None:
        identity = as_text(entry.get("tool_call_id")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        result = ToolResult(identity, self._names.get(identity, ""), read_result_content(entry.get("content")))
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _identity(call: JsonObject) -> str:
    return as_text(call.get("id") or call.get("call_id"))


def _own(entry: JsonObject) -> dict[str, Any]:
    """What only this wire understands of a message: citations, above all."""
    own = {name: value for name, value in entry.items() if name not in _KNOWN and value is not None}
    return {WIRE: own} if own else {}
