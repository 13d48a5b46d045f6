"""Responses as they come, made into one shape: a body of any wire, a reply, a mapping of text and calls, or text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.replies import fold
from dragoman.toolset import Toolset
from dragoman.types import InvalidCall, Message, Reply, Text, Thinking, ToolCall
from dragoman.wire import get
from dragoman.wire.aliases import Aliases
from dragoman.wire.builder import ReplyBuilder
from dragoman.wire.codec import Prepared

_ARGUMENTS = ("arguments", "input", "args", "parameters")


class Received(msgspec.Struct, frozen=True):
    """What a response says, before anybody looks for calls in its text."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    invalid: tuple[InvalidCall, ...] = ()
    is_cut: bool = False
    """The reply failed or was cut off by a limit: what its text ends in may be half of something."""


def receive(response: Any, tools: Toolset | None, taken: frozenset[str] = frozenset()) -> Received:
    """Read any response; `taken` are ids that the conversation already uses."""
    if response is None:
        return Received()
    if isinstance(response, str):
        return Received(response)
    if isinstance(response, Reply):
        return _from_reply(response)
    if isinstance(response, Message):
        return _from_reply(Reply(response))
    sent = Prepared({}, aliases=Aliases(ids={name: name for name in taken}), tools=tools)
    wire = find_wire(response)
    if wire is not None:
        return _from_reply(get(wire).decode_reply(response, sent))
    if isinstance(response, list | tuple):
        response = {"tool_calls": list(response)}
    if not isinstance(response, Mapping):
        return Received()
    return _from_mapping(response, sent)


def find_wire(response: Any) -> str | None:
    """The wire that a body is from, by the fields that only it has; None for anything else."""
    if not isinstance(response, dict):
        return None
    if isinstance(response.get("choices"), list):
        return "openai_chat"
    if isinstance(response.get("candidates"), list) or "promptFeedback" in response:
        return "gemini"
    output = response.get("output")
    if isinstance(output, list) and (response.get("object") == "response" or "status" in response):
        return "openai_responses"
    if isinstance(output, dict) and isinstance(output.get("message"), dict):
        return "bedrock"
    message = response.get("message")
    if isinstance(message, dict):
        return "cohere" if "finish_reason" in response or isinstance(message.get("content"), list) else "ollama"
    if isinstance(response.get("content"), list) and "tool_calls" not in response:
        return "anthropic"
    return None


def _from_reply(reply: Reply) -> Received:
    parts = reply.message.parts
    return Received(
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        tuple(part for part in parts if isinstance(part, ToolCall) and part.complete),
        tuple(part for part in parts if isinstance(part, InvalidCall)),
        reply.failure is not None or reply.stop == "length",
    )


def _from_mapping(response: Mapping[str, Any], sent: Prepared) -> Received:
    """A mapping of `text` (or `content`) and `tool_calls`, each of which may be missing."""
    builder = ReplyBuilder("native", sent)
    for entry in _entries(response.get("tool_calls")):
        builder.whole_call(*_read_entry(entry))
    builder.terminate()
    builder.end()
    found = _from_reply(fold(builder.take()))
    text = next((response[key] for key in ("text", "content") if isinstance(response.get(key), str)), "")
    thinking = next(
        (response[key] for key in ("thinking", "reasoning_content") if isinstance(response.get(key), str)), ""
    )
    return Received(text, thinking, found.calls, found.invalid)


def _entries(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given] if isinstance(given, Mapping) else []


def _read_entry(entry: Any) -> tuple[Any, Any, Any]:
    """Id, name and arguments of one call: as OpenAI, Anthropic, Gemini, Bedrock, Ollama write it, or flat."""
    if not isinstance(entry, Mapping):
        return None, None, None
    inner = next(
        (entry[key] for key in ("function", "functionCall", "toolUse") if isinstance(entry.get(key), Mapping)), entry
    )
    identity = entry.get("id") or entry.get("call_id") or inner.get("id") or inner.get("toolUseId")
    arguments = next((inner[key] for key in _ARGUMENTS if key in inner), None)
    return identity, inner.get("name"), dict(arguments) if isinstance(arguments, Mapping) else arguments
