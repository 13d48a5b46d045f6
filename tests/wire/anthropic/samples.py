"""Replies and requests of the Messages API, as a server and a client would send them."""

from __future__ import annotations

import json
from typing import Any

from dragoman.types import Tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WEATHER = Tool(
    "get_weather",
    "Forecast for a city",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
)
PING = Tool("ping", "Answer at once", {"type": "object", "properties": {}})
TOOLS = [WEATHER, PING]


def frame(kind: str, **fields: Any) -> bytes:
    """One event as the server writes it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n".encode()


def started(**message: Any) -> bytes:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1}
    whole = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": []}
    return frame(
        "message_start", message={**whole, "stop_reason": None, "stop_sequence": None, "usage": usage} | message
    )


def block(index: int | None, content: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    """A block from its start to its stop; without an index where the server leaves it out."""
    place = {} if index is None else {"index": index}
    pieces = [frame("content_block_start", **place, content_block=content)]
    pieces += [frame("content_block_delta", **place, delta=delta) for delta in deltas]
    return b"".join([*pieces, frame("content_block_stop", **place)])


def text_block(index: int | None, *pieces: str) -> bytes:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def call_block(index: int | None, id: str | None, name: str, *pieces: str) -> bytes:
    named = {"type": "tool_use", **({} if id is None else {"id": id}), "name": name, "input": {}}
    return block(index, named, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def ended(reason: str | None = "tool_use", **delta: Any) -> bytes:
    stopped = {"stop_reason": reason, "stop_sequence": None, **delta}
    return frame("message_delta", delta=stopped, usage={"output_tokens": 42}) + frame("message_stop")


THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Both cities, "},
    {"type": "thinking_delta", "thinking": "at once."},
    {"type": "signature_delta", "signature": "EqQBsigned"},
)
HIDDEN = block(1, {"type": "redacted_thinking", "data": "EmwKsecret"})
RICH = b"".join(
    [
        started(),
        frame("ping"),
        THINKING,
        HIDDEN,
        text_block(2, "Grüße, ", "世界 🌍."),
        call_block(3, "toolu_1", "get_weather", "", '{"city": "Par', 'is", "days"', ": 2}"),
        call_block(4, "toolu_2", "ping", ""),
        ended(),
    ]
)
RICH_BODY: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [
        {"type": "thinking", "thinking": "Both cities, at once.", "signature": "EqQBsigned"},
        {"type": "redacted_thinking", "data": "EmwKsecret"},
        {"type": "text", "text": "Grüße, 世界 🌍."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris", "days": 2}},
        {"type": "tool_use", "id": "toolu_2", "name": "ping", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": 42,
    },
}

# A request with everything that Claude Code and its kin send, in the form in which we write it too.
RICH_REQUEST: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 32000,
    "stream": True,
    "temperature": 1,
    "stop_sequences": ["END"],
    "metadata": {"user_id": "user_8f"},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "service_tier": "auto",
    "system": [
        {"type": "text", "text": "You help with code."},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is on these?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                    "title": "report.pdf",
                    "context": "Last year's",
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Zeile, 行"},
                    "title": "notes",
                    "citations": {"enabled": True},
                },
                {
                    "type": "search_result",
                    "source": "kb://1",
                    "title": "Cats",
                    "content": [{"type": "text", "text": "Cats purr."}],
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look first.", "signature": "EqQBsigned"},
                {"type": "redacted_thinking", "data": "EmwKsecret"},
                {"type": "text", "text": "I shall look."},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cat"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Ørsta"}},
                {"type": "tool_use", "id": "toolu_2", "name": "ping", "input": {}, "caller": {"type": "direct"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no route", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [
                        {"type": "text", "text": "a map"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                    ],
                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                },
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [
        {
            "name": "get_weather",
            "description": "Forecast for a city",
            "input_schema": WEATHER.parameters,
            "eager_input_streaming": True,
        },
        {
            "name": "ping",
            "description": "Answer at once",
            "input_schema": PING.parameters,
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 8},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
}
