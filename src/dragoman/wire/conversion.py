"""Conversion of requests and conversations from one wire to another, and of the histories of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.args.loader import load
from dragoman.errors import ConfigError, did_you_mean
from dragoman.types import Fault, InvalidCall, JsonObject, Message, Part, Request, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.registry import get, names
from dragoman.wire.values import BROKEN, as_dict, as_text, dicts, join_texts, join_thinking, parse, plain_result, write

# --------------------------------------------------------------------------------------------------------------------
# Histories as other programs store them. A style reads and writes one form; the form is never guessed.
#
# `content_json`: every message is a role and a text. Calls are a JSON object inside the text of the assistant, and so
# is the result inside the text of a tool message. A reply that looks like such an object cannot be distinguished from
# calls, which is why our own messages have typed parts. The style is for old stores only.


class Style(Struct, frozen=True):
    """A form of a stored conversation. `read` is the inverse of `write` for everything that the form can hold."""

    name: str
    write: Callable[[Iterable[Message]], list[JsonObject]]
    read: Callable[[Iterable[Mapping[str, Any]]], list[Message]]


def get_style(name: str) -> Style:
    """Return the history style with this name."""
    if name not in _STYLES:
        raise ConfigError(
            f"unknown history style {name!r}{did_you_mean(name, _STYLES)}",
            hint=f"the styles are {', '.join(_STYLES)}",
        )
    return _STYLES[name]


def _write(messages: Iterable[Message]) -> list[JsonObject]:
    written: list[JsonObject] = []
    for message in messages:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        calls = [part for part in message.parts if isinstance(part, ToolCall | InvalidCall)]
        for result in results:
            stored = {"tool_call_id": result.call_id, "content": plain_result(result)}
            written.append({"role": "tool", "content": write(stored)})
        if calls:
            written.append({"role": "assistant", "content": write(_pack(message, calls))})
        elif not results:
            written.append({"role": message.role, "content": join_texts(message.parts)})
    return written


def _pack(message: Message, calls: list[ToolCall | InvalidCall]) -> JsonObject:
    packed: JsonObject = {"content": join_texts(message.parts) or None}
    thinking = join_thinking(message.parts)
    if thinking:
        packed["reasoning_content"] = thinking
    packed["tool_calls"] = [
        {
            "id": call.id,
            "name": call.name,
            "arguments": write(call.arguments) if isinstance(call, ToolCall) else call.raw,
        }
        for call in calls
    ]
    return packed


def _read(stored: Iterable[Mapping[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    names: dict[str, str] = {}
    for entry in stored:
        role, content = entry.get("role"), as_text(entry.get("content"))
        value = parse(content) if role in ("assistant", "tool") and content.startswith("{") else BROKEN
        if role == "tool":
            result = _read_result(as_dict(value), content, names)
            if messages and messages[-1].role == "tool":
                messages[-1].parts.append(result)
            else:
                messages.append(Message("tool", [result]))
        elif role == "assistant" and isinstance(as_dict(value).get("tool_calls"), list):
            messages.append(Message("assistant", _unpack(as_dict(value), names)))
        elif role in ("system", "user", "assistant"):
            messages.append(Message(role, [Text(content)]))
    return messages


def _read_result(value: JsonObject, content: str, names: dict[str, str]) -> ToolResult:
    identity = as_text(value.get("tool_call_id"))
    return ToolResult(identity, names.get(identity, ""), as_text(value.get("content")) if identity else content)


def _unpack(value: JsonObject, names: dict[str, str]) -> list[Part]:
    parts: list[Part] = []
    if as_text(value.get("reasoning_content")):
        parts.append(Thinking(value["reasoning_content"]))
    if as_text(value.get("content")):
        parts.append(Text(value["content"]))
    for number, call in enumerate(dicts(value.get("tool_calls")), 1):
        # Older stores keep the name and the arguments inside `function`.
        body = as_dict(call.get("function")) or call
        parts.append(_read_call(as_text(call.get("id")) or f"call_{number}", body))
        names[parts[-1].id] = parts[-1].name  # type: ignore[union-attr]
    return parts


def _read_call(identity: str, body: JsonObject) -> ToolCall | InvalidCall:
    name, arguments = as_text(body.get("name")), body.get("arguments")
    loaded = load(arguments if isinstance(arguments, str | dict) else None)
    if loaded.value is None or not name:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        return InvalidCall(identity, name, as_text(arguments), faults)
    return ToolCall(identity, name, loaded.value, repairs=loaded.repairs)


_STYLES = {"content_json": Style("content_json", _write, _read)}


# --------------------------------------------------------------------------------------------------------------------
# Conversion of a request, or of a conversation, from one wire to another, with the losses.

_CONVERSATIONS = {"gemini": "contents", "openai_responses": "input"}


def convert(body: Any, source: Codec, target: Codec, *, model: str = "") -> Prepared:
    """Convert the request `body` from the wire `source` to the wire `target`.

    `body` is a whole request, or the list of messages alone. `model` replaces the model of the request.
    """
    request = read(body, source)
    if model:
        request = replace(request, model=model)
    prepared = target.prepare(request)
    if not request.model:
        # A conversation has no model, and an empty name would be rejected.
        prepared = replace(prepared, body={key: value for key, value in prepared.body.items() if key != "model"})
    return prepared


def read(body: Any, source: Codec) -> Request:
    """Read the request in a body or a list of messages. Raises ConfigError if there is none."""
    whole = {_CONVERSATIONS.get(source.name, "messages"): body} if isinstance(body, list) else body
    request = source.decode_request(whole)
    if not request.messages:
        raise ConfigError(f"it contains no conversation of the wire {source.name}", hint=_guess(body, source))
    return request


def _guess(body: Any, source: Codec) -> str:
    found = {name: _count(body, get(name)) for name in names() if name != source.name}
    most = max(found.values())
    if not most:
        return "give the body of a request, or the list of its messages"
    return f"it looks like {' or '.join(name for name, count in found.items() if count == most)}: use --from"


def _count(body: Any, codec: Codec) -> int:
    """Return how many parts of a body a wire can read."""
    whole = {_CONVERSATIONS.get(codec.name, "messages"): body} if isinstance(body, list) else body
    request = codec.decode_request(whole)
    parts = [part for message in request.messages for part in message.parts]
    calls = sum(isinstance(part, ToolCall | ToolResult) for part in parts)
    return len(parts) + 10 * (calls + len(request.tools))
