"""Conversion of responses of any shape to a reply, and the context of the earlier conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dragoman.errors import ConfigError
from dragoman.extraction.echo import EchoIndex
from dragoman.extraction.echo_reader import EchoReader
from dragoman.extraction.suspects import is_own_words, marks_in
from dragoman.formats.envelope import NoCall, read_envelope
from dragoman.formats.thinking import THINKING_FIELDS
from dragoman.replies import fold
from dragoman.toolset import Toolset
from dragoman.types import InvalidCall, Message, Reply, Text, Thinking, ToolCall, ToolResult
from dragoman.wire import get
from dragoman.wire.aliases import Aliases
from dragoman.wire.builder import ReplyBuilder
from dragoman.wire.codec import Prepared
from dragoman.wire.values import as_plain

# --------------------------------------------------------------------------------------------------------------------
# The conversation so far, as the judge needs it: untrusted content, used ids, and earlier messages to the model.


class ConversationContext:
    """The conversation before a reply. It grows with the conversation, and reads each message once.

    It reads nothing before it is needed: most replies contain only native calls, which need no echo guard.
    """

    def __init__(
        self,
        conversation: Iterable[Message | Mapping[str, Any]] | EchoIndex | None = None,
        tools: Toolset | None = None,
        *,
        include_user: bool = False,
    ) -> None:
        self._given = conversation if isinstance(conversation, EchoIndex) else None
        self._reader: EchoReader | None = None
        self._tools = tools
        self._include_user = include_user
        self._messages: list[Message] = []
        self._indexed = self._identified = 0
        self._ids: set[str] = set()
        if not isinstance(conversation, EchoIndex):
            self._messages = read_messages(conversation or ())

    def extend(self, messages: Iterable[Message]) -> None:
        """Add the next messages."""
        self._messages += messages

    @property
    def echoes(self) -> EchoIndex:
        """The index of the untrusted content so far."""
        if self._given is not None:
            return self._given
        if self._reader is None:
            self._reader = EchoReader(self._tools, include_user=self._include_user)
        for message in self._messages[self._indexed :]:
            self._reader.read(message)
        self._indexed = len(self._messages)
        return self._reader.index

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all calls so far."""
        new = self._messages[self._identified :]
        self._ids.update(
            [
                part.id
                for message in new
                for part in message.parts
                if type(part) is ToolCall or type(part) is InvalidCall
            ]
        )
        self._identified = len(self._messages)
        return frozenset(self._ids)

    @property
    def noticed(self) -> frozenset[str]:
        """The digests of the suspects that the model was told about. Results, summaries and foreign tasks tell none."""
        said = (message.parts for message in self._messages if is_own_words(message))
        return frozenset(
            mark for parts in said for part in parts if isinstance(part, Text) for mark in marks_in(part.text)
        )

    @property
    def told(self) -> str:
        """All text so far."""
        return "\n".join(_words(part) for message in self._messages for part in message.parts)


def read_messages(conversation: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Return messages from messages, from dicts in the form of any wire, or from objects of the official clients."""
    given = list(conversation)
    if set(map(type, given)) <= {Message}:
        return given  # type: ignore[return-value]
    messages: list[Message] = []
    for entry in given:
        dump = getattr(entry, "model_dump", None)
        plain = dump() if callable(dump) else entry
        if isinstance(plain, Message):
            messages.append(plain)
        elif isinstance(plain, Mapping):
            wire = _find_dialect(plain)
            name = {"openai_responses": "input", "gemini": "contents"}.get(wire, "messages")
            messages += get(wire).decode_request({name: [dict(plain)]}).messages
    return messages


def _find_dialect(entry: Mapping[str, Any]) -> str:
    """Return the wire whose messages have this form. The values may have any type."""
    if "type" in entry and "role" not in entry:
        return "openai_responses"
    if isinstance(entry.get("parts"), list):
        return "gemini"
    content = entry.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if any(block.get("type") in ("tool_use", "tool_result", "thinking") for block in blocks):
        return "anthropic"
    if any("toolResult" in block or "toolUse" in block for block in blocks):
        return "bedrock"
    return "ollama" if "tool_name" in entry else "openai_chat"


def _words(part: Any) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, ToolResult):
        inner = part.content
        return inner if isinstance(inner, str) else "\n".join(each.text for each in inner if isinstance(each, Text))
    return ""


# --------------------------------------------------------------------------------------------------------------------
# Responses in one form: a body of any wire, a reply, a mapping of text and calls, or text.

_ARGUMENTS = ("arguments", "input", "args", "parameters")


class ParsedResponse(msgspec.Struct, frozen=True):
    """The content of a response, before its text is searched for calls."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    invalid: tuple[InvalidCall, ...] = ()
    is_cut: bool = False
    """The reply failed or reached a limit, so its text may end in the middle of a call."""


def receive(response: Any, tools: Toolset | None, taken: frozenset[str] = frozenset()) -> ParsedResponse:
    """Read any response. `taken` are ids that the conversation already uses."""
    if response is None:
        return ParsedResponse()
    if isinstance(response, str):
        return ParsedResponse(response)
    if isinstance(response, Reply):
        return _from_reply(response)
    if isinstance(response, Message):
        return _from_reply(Reply(response))
    if isinstance(response, bytes | bytearray):
        raise ConfigError("a response is text or a body, not bytes", hint="decode it: response.decode(), or json.loads")
    sent = Prepared({}, aliases=Aliases(ids={name: name for name in taken}), tools=tools)
    response = as_plain(response)
    if isinstance(response, list):
        is_content = any(isinstance(block, Mapping) and block.get("type") in _BLOCKS for block in response)
        response = {"content": response} if is_content else {"tool_calls": response}
    wire = find_wire(response)
    if wire is not None:
        return _from_reply(get(wire).decode_reply(response, sent))
    if not isinstance(response, Mapping):
        return ParsedResponse()
    if response and _FIELDS.isdisjoint(response):
        # An empty result would hide the mistake.
        raise ConfigError(
            f"a mapping with the keys {', '.join(map(repr, list(response)[:5]))} is not a reply",
            hint="pass the text, the whole body of the answer, or a mapping of `text` and `tool_calls`",
        )
    return _from_mapping(response, sent)


_BLOCKS = ("text", "tool_use", "thinking")
_FIELDS = frozenset({"role", "text", "content", "tool_calls", "function_call", *THINKING_FIELDS})
"""A mapping with one of these is a message, or a part of one."""


def find_wire(response: Any) -> str | None:
    """Return the wire of a body, by the fields that only this wire has; None for anything else."""
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


def _from_reply(reply: Reply) -> ParsedResponse:
    parts = reply.message.parts
    return ParsedResponse(
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        tuple(part for part in parts if isinstance(part, ToolCall) and part.complete),
        tuple(part for part in parts if isinstance(part, InvalidCall)),
        reply.failure is not None or reply.stop == "length",
    )


def _from_mapping(response: Mapping[str, Any], sent: Prepared) -> ParsedResponse:
    """Read a mapping of `text` (or `content`) and `tool_calls` (or `function_call`). Each may be missing."""
    builder = ReplyBuilder("native", sent)
    for entry in _entries(response.get("tool_calls") or response.get("function_call")):
        builder.whole_call(*_read_entry(entry, sent.tools))
    builder.terminate()
    builder.end()
    found = _from_reply(fold(builder.take()))
    texts = {key: value for key, value in response.items() if isinstance(value, str)}
    text = texts.get("text", texts.get("content", ""))
    thinking = next((texts[key] for key in THINKING_FIELDS if key in texts), "")
    return ParsedResponse(text, thinking, found.calls, found.invalid)


def _entries(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given] if isinstance(given, Mapping) else []


def _read_entry(entry: Any, tools: Toolset | None) -> tuple[Any, Any, Any]:
    """Return id, name and arguments of one call in the form of OpenAI, Anthropic, Gemini, Bedrock, Ollama, or flat."""
    if not isinstance(entry, Mapping):
        return None, None, None
    inner = next(
        (entry[key] for key in ("function", "functionCall", "toolUse") if isinstance(entry.get(key), Mapping)), entry
    )
    identity = entry.get("id") or entry.get("call_id") or inner.get("id") or inner.get("toolUseId")
    if not any(key in inner for key in _ARGUMENTS):
        return identity, inner.get("name"), _read_others(inner, tools)
    arguments = next((inner[key] for key in _ARGUMENTS if key in inner), None)
    return identity, inner.get("name"), dict(arguments) if isinstance(arguments, Mapping) else arguments


def _read_others(entry: Mapping[str, Any], tools: Toolset | None) -> Any:
    """Return the arguments under an unusual key; a list, which no tool accepts, if they are not understood."""
    try:
        (call,) = read_envelope(dict(entry), tools).calls
    except (NoCall, ValueError) as error:
        return [str(error)] if isinstance(entry.get("name"), str) else None
    return call.arguments
