"""Answers as gemini, ollama, cohere and bedrock give them, written by hand, and what a client should see in them."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.judges.seen import Seen

from dragoman.wire import eventstream, framing

TEXT = "Grüße, 世界 🌍"
PARIS = {"city": "Paris"}
SIGNATURE = "//4gb3BhcXVl"


def to_sse(*events: dict[str, Any]) -> list[bytes]:
    return [framing.encode_sse(None, json.dumps(event)) for event in events]


def to_frame(kind: str, payload: dict[str, Any], family: str = "event") -> bytes:
    headers = {":message-type": family, f":{family}-type": kind, ":content-type": "application/json"}
    return eventstream.encode(headers, json.dumps(payload).encode())


def to_frames(*events: tuple[str, dict[str, Any]]) -> list[bytes]:
    return [to_frame(kind, payload) for kind, payload in events]


# ---- whole answers

GEMINI_PARTS: list[dict[str, Any]] = [
    {"text": "Hm.", "thought": True},
    {"text": TEXT},
    {"functionCall": {"id": "c1", "name": "weather", "args": PARIS}, "thoughtSignature": SIGNATURE},
    {"functionCall": {"name": "ping", "args": {}}},
]
GEMINI_END: dict[str, Any] = {
    "usageMetadata": {
        "promptTokenCount": 11,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "cachedContentTokenCount": 4,
        "totalTokenCount": 23,
    },
    "modelVersion": "gemini-3-flash",
    "responseId": "r1",
}
GEMINI_SEEN = Seen(
    text=TEXT,
    thinking="Hm.",
    calls=(("c1", "weather", PARIS), (None, "ping", {})),
    usage=(11, 7),
    stop="STOP",
    model="gemini-3-flash",
    extra={"signatures": (SIGNATURE,), "signed": ("call",), "thought_tokens": 5, "cached_tokens": 4},
)
OLLAMA_CALLS = [
    {"id": "call_1", "function": {"index": 0, "name": "weather", "arguments": PARIS}},
    {"id": "call_2", "function": {"index": 1, "name": "ping", "arguments": {}}},
]
OLLAMA_BEGIN = {"model": "qwen3:8b", "created_at": "2026-11-15T10:00:00Z"}
OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7, "total_duration": 5}
OLLAMA_SEEN = Seen(
    text=TEXT,
    thinking="Hm.",
    calls=((None, "weather", PARIS), (None, "ping", {})),
    usage=(11, 7),
    stop="stop",
    model="qwen3:8b",
    extra={"done": True},
)
COHERE_USAGE = {
    "billed_units": {"input_tokens": 3, "output_tokens": 7},
    "tokens": {"input_tokens": 11, "output_tokens": 7},
}
COHERE_SEEN = Seen(
    text=TEXT,
    thinking="Hm.",
    calls=(("c1", "weather", PARIS), ("c2", "ping", {})),
    usage=(11, 7),
    stop="TOOL_CALL",
    extra={"tool_plan": "Look.", "id": "r1"},
)
BEDROCK_USAGE = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18, "cacheReadInputTokens": 4}
BEDROCK_END = {"usage": BEDROCK_USAGE, "metrics": {"latencyMs": 1}}
BEDROCK_SEEN = Seen(
    text=TEXT,
    thinking="Hm.",
    calls=(("t1", "weather", PARIS), ("t2", "ping", {})),
    usage=(11, 7),
    stop="tool_use",
    extra={"signatures": ("EqQB",), "redacted": (b"\xff\xfe opaque",), "cache_read": 4},
)

WHOLE: dict[str, tuple[dict[str, Any], Seen]] = {
    "gemini": (
        {
            "candidates": [{"content": {"role": "model", "parts": GEMINI_PARTS}, "finishReason": "STOP", "index": 0}],
            **GEMINI_END,
        },
        GEMINI_SEEN,
    ),
    "ollama": (
        {
            **OLLAMA_BEGIN,
            "message": {"role": "assistant", "content": TEXT, "thinking": "Hm.", "tool_calls": OLLAMA_CALLS},
            **OLLAMA_END,
        },
        OLLAMA_SEEN,
    ),
    "cohere": (
        {
            "id": "r1",
            "finish_reason": "TOOL_CALL",
            "message": {
                "role": "assistant",
                "tool_plan": "Look.",
                "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": TEXT}],
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "ping", "arguments": "{}"}},
                ],
            },
            "usage": COHERE_USAGE,
        },
        COHERE_SEEN,
    ),
    "bedrock": (
        {
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EqQB"}}},
                        {"reasoningContent": {"redactedContent": SIGNATURE}},
                        {"text": TEXT},
                        {"toolUse": {"toolUseId": "t1", "name": "weather", "input": PARIS}},
                        {"toolUse": {"toolUseId": "t2", "name": "ping", "input": {}}},
                    ],
                }
            },
            "stopReason": "tool_use",
            **BEDROCK_END,
        },
        BEDROCK_SEEN,
    ),
}


# ---- streams


def gemini_event(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    named = {"modelVersion": GEMINI_END["modelVersion"], "responseId": GEMINI_END["responseId"]}
    return {"candidates": [{"content": content, "index": 0, **candidate}], **named}


def ollama_line(**message: Any) -> dict[str, Any]:
    return {**OLLAMA_BEGIN, "message": {"role": "assistant", **message}, "done": False}


def cohere_content(index: int, kind: str, text: str) -> list[dict[str, Any]]:
    start = {"type": "content-start", "index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
    deltas = [
        {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: piece}}}} for piece in text
    ]
    return [start, *deltas, {"type": "content-end", "index": index}]


def cohere_call(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    deltas = [
        {
            "type": "tool-call-delta",
            "index": index,
            "delta": {"message": {"tool_calls": {"function": {"arguments": piece}}}},
        }
        for piece in pieces
    ]
    start = {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}
    return [start, *deltas, {"type": "tool-call-end", "index": index}]


def bedrock_block(index: int, *deltas: dict[str, Any], **start: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of one block. Only a call has a start on this wire."""
    begin = [("contentBlockStart", {"contentBlockIndex": index, "start": start})] if start else []
    middle = [("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in deltas]
    return [*begin, *middle, ("contentBlockStop", {"contentBlockIndex": index})]


COHERE_START: dict[str, Any] = {
    "type": "message-start",
    "id": "r1",
    "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}},
}
BEDROCK_START: tuple[str, dict[str, Any]] = ("messageStart", {"role": "assistant"})
STREAMS: dict[str, tuple[list[bytes], Seen]] = {
    "gemini": (
        to_sse(
            *(gemini_event(part) for part in GEMINI_PARTS),
            {**gemini_event({"text": ""}, finishReason="STOP"), **GEMINI_END},
        ),
        GEMINI_SEEN,
    ),
    "ollama": (
        [
            framing.encode_ndjson(line)
            for line in (
                ollama_line(content="", thinking="Hm."),
                *(ollama_line(content=piece) for piece in TEXT),
                *(ollama_line(content="", tool_calls=[call]) for call in OLLAMA_CALLS),
                {**ollama_line(content=""), **OLLAMA_END},
            )
        ],
        OLLAMA_SEEN,
    ),
    "cohere": (
        to_sse(
            COHERE_START,
            *cohere_content(0, "thinking", "Hm."),
            {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Look."}}},
            *cohere_content(1, "text", TEXT),
            *cohere_call(0, "c1", "weather", '{"ci', 'ty":"Par', 'is"}'),
            *cohere_call(1, "c2", "ping", "{}"),
            {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": COHERE_USAGE}},
        ),
        COHERE_SEEN,
    ),
    "bedrock": (
        to_frames(
            BEDROCK_START,
            *bedrock_block(0, {"reasoningContent": {"text": "Hm."}}, {"reasoningContent": {"signature": "EqQB"}}),
            *bedrock_block(1, {"reasoningContent": {"redactedContent": SIGNATURE}}),
            *bedrock_block(2, *({"text": piece} for piece in TEXT)),
            *bedrock_block(
                3,
                {"toolUse": {"input": '{"ci'}},
                {"toolUse": {"input": 'ty":"Paris"}'}},
                toolUse={"toolUseId": "t1", "name": "weather"},
            ),
            *bedrock_block(4, toolUse={"toolUseId": "t2", "name": "ping"}),
            ("messageStop", {"stopReason": "tool_use"}),
            ("metadata", BEDROCK_END),
        ),
        BEDROCK_SEEN,
    ),
}


# ---- streams that end in an error

GEMINI_ERROR = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
BROKEN: dict[str, tuple[list[bytes], Seen]] = {
    "gemini": (
        to_sse(gemini_event({"text": "So"}), GEMINI_ERROR),
        Seen(
            text="So",
            model="gemini-3-flash",
            error=("ClientError", 429, "slow down"),
            extra={"code": "RESOURCE_EXHAUSTED"},
        ),
    ),
    "ollama": (
        [framing.encode_ndjson(ollama_line(content="So")), framing.encode_ndjson({"error": "model runner stopped"})],
        Seen(
            text="So",
            model="qwen3:8b",
            error=("ResponseError", None, "model runner stopped"),
            extra={"done": False},
        ),
    ),
    "cohere": (
        to_sse(
            COHERE_START,
            *cohere_content(0, "text", "So"),
            *cohere_call(0, "c1", "weather", '{"city')[:-1],
            {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "broken"}},
        ),
        Seen(text="So", stop="ERROR", error=("message-end", None, "broken"), extra={"id": "r1"}),
    ),
    "bedrock": (
        [
            *to_frames(
                BEDROCK_START,
                *bedrock_block(0, {"text": "So"}),
                *bedrock_block(1, {"toolUse": {"input": '{"city'}}, toolUse={"toolUseId": "t1", "name": "weather"})[
                    :-1
                ],
            ),
            to_frame("throttlingException", {"message": "slow down"}, "exception"),
        ],
        Seen(text="So", error=("EventStreamError", None, "slow down"), extra={"code": "throttlingException"}),
    ),
}
