"""The body of a request, as a client sent it, read into a request."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, Message, Part, Text, Tool
from dragoman.wire.anthropic.blocks import read_call, read_contents, read_plain, read_result, read_thinking
from dragoman.wire.anthropic.words import without, wrap
from dragoman.wire.values import as_dict, as_list, as_text, dicts


def read_system(system: Any) -> list[Message]:
    """The instructions at the top of a body, a text or a list of blocks."""
    texts: list[Part] = [part for part in read_contents(system) if isinstance(part, Text) and part.text]
    return [Message("system", texts)] if texts else []


class ConversationReader:
    """Reads the messages of one body: ids made where there are none, results apart from the user's words."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._made = 0
        self._waiting: dict[str, None] = {}  # the calls of the last assistant message that have no result yet

    def read(self, messages: Any) -> list[Message]:
        entries = list(dicts(messages))
        self._taken = {
            as_text(block.get("id")) for entry in entries for block in dicts(entry.get("content")) if "id" in block
        }
        for entry in entries:
            role, content = entry.get("role"), entry.get("content")
            blocks = [content] if isinstance(content, str) else as_list(content)
            if role == "assistant":
                self._read_assistant(blocks)
            elif role == "system":
                self._messages += read_system(content)
            else:
                self._read_user(blocks)
        return self._messages

    def _read_assistant(self, blocks: list[Any]) -> None:
        parts: list[Part] = []
        self._waiting = {}
        for block in blocks:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_use":
                call = read_call(block, self._make_id(block))
                self._names[call.id] = call.name
                self._waiting[call.id] = None
                parts.append(call)
            elif kind in ("thinking", "redacted_thinking"):
                thought = read_thinking(block)
                parts += [thought] if thought is not None else []
            elif isinstance(block, dict | str):
                parts.append(read_plain(block))
        self._messages.append(Message("assistant", _without_empty(parts)))

    def _make_id(self, block: JsonObject) -> str:
        if as_text(block.get("id")):
            return ""
        self._made += 1
        while f"call_{self._made}" in self._taken:
            self._made += 1
        return f"call_{self._made}"

    def _read_user(self, blocks: list[Any]) -> None:
        words: list[Part] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._add_user(words)
                words = []
                self._add_result(block)
            elif isinstance(block, dict | str):
                words.append(read_plain(block))
        self._add_user(words)

    def _add_user(self, words: list[Part]) -> None:
        parts = _without_empty(words)
        if parts:
            self._messages.append(Message("user", parts))

    def _add_result(self, block: JsonObject) -> None:
        identity = as_text(block.get("tool_use_id")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        result = read_result(block, identity, self._names.get(identity, ""))
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _without_empty(parts: list[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, Text) or part.text or part.extra]


def read_tools(tools: Any) -> tuple[list[Tool], list[JsonObject]]:
    """The tools that a caller runs, and those of the provider as they are."""
    ours: list[Tool] = []
    others: list[JsonObject] = []
    for entry in dicts(tools):
        name = as_text(entry.get("name"))
        if name and entry.get("type") in (None, "custom"):
            description = as_text(entry.get("description"))
            schema = as_dict(entry.get("input_schema"))
            rest = without(entry, "name", "description", "input_schema")
            ours.append(Tool(name, description, schema, metadata=wrap(rest)))
        elif entry:
            others.append(entry)
    return ours, others
