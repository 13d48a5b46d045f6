"""From a conversation to an index: which of its words others wrote, and which calls were the model's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dragoman import formats
from dragoman.toolset import Toolset
from dragoman.trust.echo_index import EchoIndex
from dragoman.types import File, Message, Text, ToolCall, ToolResult

_DEEPEST = 20
# Results that go back to a text model stand in a message of the user.
_holds_results = re.compile(
    r"<<result\b|<tool_result\b|<tool_response>|<function_results?>|<\|tool_response\|?>|<tool_results>"
)
_may_hold_calls = re.compile(r"[{(<\[]")
# Tuples: whatever stands in a message may be compared with them.
_RESULT_TYPES = ("tool_result", "function_call_output", "tool-result", "mcp_call", "custom_tool_call_output")


def index_conversation(
    conversation: Iterable[Message | Mapping[str, Any]] | None,
    *,
    tools: Toolset | Iterable[object] | None = None,
    include_user: bool = False,
) -> EchoIndex:
    """An index of what others wrote in a conversation: results of tools, and descriptions of untrusted tools.

    The words of the user count with `include_user`. The calls of the assistant are noted, so that a result which
    repeats the request that it answers is not held against the model.
    """
    reader = EchoReader(Toolset.of(tools), include_user=include_user)
    for message in conversation or ():
        reader.read(message)
    return reader.index


class EchoReader:
    """Goes through the messages of a growing conversation in order, and remembers what each result answers."""

    def __init__(self, tools: Toolset | None, *, include_user: bool = False) -> None:
        self.index = self._index = EchoIndex(tools=tools)
        self._tools = tools
        self._include_user = include_user
        self._names: dict[str, str] = {}
        for tool in tools or ():
            if tool.metadata.get("untrusted") is True:
                words = "\n".join((tool.description, *_strings(tool.parameters)))
                self._index.add(words, f"description of {tool.name}")

    def read(self, message: Message | Mapping[str, Any]) -> None:
        """Take in the next message, in whatever form it comes."""
        if isinstance(message, Message):
            self.read_message(message)
            return
        plain = _as_mapping(message)
        if plain is not None:
            self.read_mapping(plain)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def read_message(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._note(part)
            elif isinstance(part, ToolResult):
                inner = part.content
                texts = [inner] if isinstance(inner, str) else [each.text for each in inner if isinstance(each, Text)]
                self._add_result("\n".join(texts), part.name, part.call_id)
            elif isinstance(part, Text):
                self._read_text(part.text, message.role)
            elif isinstance(part, File) and self._include_user:
                self._index.add(part.name, "file of the user")

    def _read_text(self, text: str, role: str) -> None:
        if role == "tool":
            self._add_result(text, "", "")
        elif role == "assistant":
            self._read_own(text)
        elif role == "user" and (self._include_user or _holds_results.search(text)):
            self._index.add(text, "message of the user" if self._include_user else "results in a message")

    def _read_own(self, text: str) -> None:
        if _may_hold_calls.search(text):
            for call in formats.parse(text, tools=self._tools, loose=self._tools is not None).calls:
                self._note(call)

    def _note(self, call: ToolCall) -> None:
        self._names[call.wire_id or call.id] = self._names[call.id] = call.name
        self._index.add_own(call)

    def _add_result(self, text: str, name: str, identity: str) -> None:
        name = name or self._names.get(identity, "")
        source = f"result of {name}" if name else "result of a tool"
        self._index.add(text, f"{source} ({identity})" if identity else source)

    # ---- dicts -------------------------------------------------------------------------------------------------------

    def read_mapping(self, message: Mapping[str, Any]) -> None:
        """A message as some API writes it: OpenAI's chat and responses, Anthropic's blocks, Ollama's."""
        role = message.get("role")
        if message.get("type") in _RESULT_TYPES or role in ("tool", "function", "toolResult"):
            self._read_result(message)
            return
        if message.get("type") == "function_call" or "tool_calls" in message or "function_call" in message:
            self._read_calls(message)
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        for block in blocks:
            if isinstance(block, str):
                self._read_text(block, str(role))
            elif isinstance(block, Mapping):
                self._read_block(block, str(role))

    def _read_block(self, block: Mapping[str, Any], role: str) -> None:
        kind = block.get("type")
        if kind in _RESULT_TYPES or (isinstance(kind, str) and kind.endswith("_tool_result")):
            self._read_result(block)
        elif kind in ("tool_use", "server_tool_use"):
            self._note_written(block.get("id"), block.get("name"), block.get("input"))
        elif isinstance(block.get("text"), str):
            self._read_text(block["text"], role)

    def _read_result(self, message: Mapping[str, Any]) -> None:
        identity = message.get("tool_call_id") or message.get("tool_use_id") or message.get("call_id") or ""
        name = message.get("name") or message.get("tool_name") or ""
        content = message.get("content", message.get("output"))
        self._add_result("\n".join(_strings(content)), str(name), str(identity))

    def _read_calls(self, message: Mapping[str, Any]) -> None:
        given = message.get("tool_calls")
        calls = list(given) if isinstance(given, list) else []
        calls.append(message.get("function_call") if isinstance(message.get("function_call"), Mapping) else message)
        for call in calls:
            plain = _as_mapping(call)
            if plain is None:
                continue
            function = plain.get("function")
            body = function if isinstance(function, Mapping) else plain
            arguments = body.get("arguments", body.get("input", body.get("args")))
            self._note_written(plain.get("call_id") or plain.get("id"), body.get("name"), arguments)

    def _note_written(self, identity: object, name: object, arguments: object) -> None:
        if isinstance(arguments, str):
            try:
                arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                return
        if isinstance(name, str) and name and isinstance(arguments, dict | None):
            self._note(ToolCall(str(identity or ""), name, arguments or {}))


def _as_mapping(value: object) -> Mapping[str, Any] | None:
    """A dict, or the object of an official client, which knows how to become one."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        made = dump()
        return made if isinstance(made, Mapping) else None
    return None


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    """Every text in a value, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, each in value.items():
            # The data of pictures holds no words.
            if key not in ("data", "image_url", "url") or not isinstance(each, str) or len(each) < 2000:
                yield from _strings(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each, depth + 1)
