"""The conversation so far, as it is needed to judge a reply: content of others, ids in use, and what was told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.toolset import Toolset
from dragoman.trust.echo import EchoIndex, index_conversation
from dragoman.types import InvalidCall, Message, Text, ToolCall, ToolResult
from dragoman.wire import get


class Background:
    """What a reply is judged against. Made once per reply; with an `EchoIndex` that grows, nothing is read again."""

    def __init__(
        self,
        conversation: Iterable[Message | Mapping[str, Any]] | EchoIndex | None,
        tools: Toolset | None,
        *,
        include_user: bool = False,
    ) -> None:
        self.ids: frozenset[str] = frozenset()
        self.told = ""
        if isinstance(conversation, EchoIndex):
            self.echoes = conversation
            return
        messages = read_messages(conversation or ())
        self.echoes = index_conversation(messages, tools=tools, include_user=include_user)
        parts = [part for message in messages for part in message.parts]
        self.ids = frozenset(part.id for part in parts if isinstance(part, ToolCall | InvalidCall))
        self.told = "\n".join(_words(part) for part in parts)


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
