"""The body of `/api/chat`, as a client sent it, read into a request."""

from __future__ import annotations

from typing import Any

from dragoman.types import Image, InvalidCall, JsonObject, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.ollama.words import OPTIONS
from dragoman.wire.openai_chat.parts import read_call
from dragoman.wire.options import keep_unknown
from dragoman.wire.values import as_dict, as_list, as_text, dicts

WIRE = "ollama"
_KNOWN = frozenset({"model", "messages", "tools", "stream", "format", "options", "think"})


class MessageReader:
    """Reads the messages of one body; calls without ids get one, and results find their call by name and order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._open: list[ToolCall | InvalidCall] = []
        self._made = 0
        self._taken: set[str] = set()

    def read(self, entries: Any) -> list[Message]:
        given = list(dicts(entries))
        self._taken = {as_text(call.get("id")) for entry in given for call in dicts(entry.get("tool_calls"))}
        for entry in given:
            if entry.get("role") == "tool":
                self._add_result(entry)
            elif entry.get("role") == "assistant":
                self._messages.append(Message("assistant", self._read_assistant(entry)))
            else:
                system = entry.get("role") == "system"
                self._messages.append(Message("system" if system else "user", _read_parts(entry)))
        return self._messages

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts: list[Part] = []
        if as_text(entry.get("thinking")):
            parts.append(Thinking(entry["thinking"], {WIRE: {"field": "thinking"}}))
        parts += [part for part in _read_parts(entry) if not isinstance(part, Text) or part.text]
        self._open = [read_call(call, WIRE, self._make_id()) for call in dicts(entry.get("tool_calls"))]
        return [*parts, *self._open]

    def _make_id(self) -> str:
        self._made += 1
        while f"call_{self._made}" in self._taken:
            self._made += 1
        return f"call_{self._made}"

    def _add_result(self, entry: JsonObject) -> None:
        identity = as_text(entry.get("tool_call_id"))
        name = as_text(entry.get("tool_name")) or as_text(entry.get("name"))
        call = next((call for call in self._open if _answers(call, identity, name)), None)
        if call is not None:
            self._open.remove(call)
            identity, name = call.id, call.name
        parts = _read_parts(entry)
        images = any(isinstance(part, Image) for part in parts)
        content: Any = parts if images else as_text(entry.get("content"))
        result = ToolResult(identity, name, content)
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _answers(call: ToolCall | InvalidCall, identity: str, name: str) -> bool:
    return call.id == identity if identity else not name or call.name == name


def _read_parts(entry: JsonObject) -> list[Part]:
    text = Text(as_text(entry.get("content")))
    images = [_read_image(data) for data in as_list(entry.get("images")) if isinstance(data, str)]
    return [text, *images] if text.text or not images else [*images]


def _read_image(data: str) -> Image:
    """The kind of an image from the first bytes of its data: the wire does not say it."""
    kinds = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp"}
    return Image(None, data, next((kind for start, kind in kinds.items() if data.startswith(start)), None))


def read_options(body: JsonObject, others: list[JsonObject]) -> dict[str, Any]:
    given = as_dict(body.get("options"))
    names = {wire: ours for ours, wire in OPTIONS.items()}
    options = {names[name]: value for name, value in given.items() if name in names and value is not None}
    stop = options.get("stop")
    if isinstance(stop, str):
        options["stop"] = [stop]
    if body.get("stream", True) is not False:
        options["stream"] = True
    think = body.get("think")
    if think is not None:
        options["reasoning"] = {"effort": think} if isinstance(think, str) else {"enabled": bool(think)}
    wanted = body.get("format")
    if wanted == "json":
        options["response_format"] = {"type": "json"}
    elif isinstance(wanted, dict) and wanted:
        options["response_format"] = {"type": "json_schema", "schema": wanted}
    own = keep_unknown(body, _KNOWN)
    rest = {name: value for name, value in given.items() if name not in names}
    own.update({"options": rest} if rest else {})
    own.update({"tools": others} if others else {})
    return {**options, WIRE: own} if own else options
