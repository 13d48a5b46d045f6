"""The conversation so far, as it is needed to judge a reply: content of others, ids in use, and what was told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.toolset import Toolset
from dragoman.trust.echo_conversation import EchoReader
from dragoman.trust.echo_index import EchoIndex
from dragoman.types import InvalidCall, Message, Text, ToolCall, ToolResult
from dragoman.wire import get


class Background:
    """What a reply is judged against: it grows with the conversation, and reads nothing twice.

    Nothing is read before it is needed: most replies hold native calls alone, and those are judged by no echo.
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
        self._indexed = 0
        if not isinstance(conversation, EchoIndex):
            self._messages = read_messages(conversation or ())

    def extend(self, messages: Iterable[Message]) -> None:
        """Go on: these messages came next."""
        self._messages += messages

    @property
    def echoes(self) -> EchoIndex:
        """The content of others, as far as the conversation has come."""
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
        parts = (part for message in self._messages for part in message.parts)
        return frozenset(part.id for part in parts if isinstance(part, ToolCall | InvalidCall))

    @property
    def told(self) -> str:
        """All words so far."""
        return "\n".join(_words(part) for message in self._messages for part in message.parts)


def read_messages(conversation: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Messages from messages, or from dicts as the chat and Anthropic wires write them."""
    messages: list[Message] = []
    for entry in conversation:
        if isinstance(entry, Message):
            messages.append(entry)
        elif isinstance(entry, Mapping):
            wire = "anthropic" if _has_blocks(entry) else "openai_chat"
            messages += get(wire).decode_request({"messages": [dict(entry)]}).messages
    return messages


def _has_blocks(entry: Mapping[str, Any]) -> bool:
    content = entry.get("content")
    kinds = (
        {block.get("type") for block in content if isinstance(block, Mapping)} if isinstance(content, list) else set()
    )
    return bool(kinds & {"tool_use", "tool_result", "thinking"})


def _words(part: Any) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, ToolResult):
        inner = part.content
        return inner if isinstance(inner, str) else "\n".join(each.text for each in inner if isinstance(each, Text))
    return ""
