"""One valid reply and one valid stream for each API: reasoning, text and two calls."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.rules.replies import DONE, Frame
from tests.wire.rules.samples import SIGNED

_CHAT_USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
_CHAT_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}
_ARGUMENTS = '{"city": "Oslo"}'


def _chat_call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _chat_reply(first: str, second: str) -> dict[str, Any]:
    calls = [_chat_call(first, "weather", _ARGUMENTS), _chat_call(second, "chart", "{}")]
    message = {"role": "assistant", "content": "I look.", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    return {**_CHAT_HEAD, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE}


def _chunk(delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> Frame:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return None, {**_CHAT_HEAD, "object": "chat.completion.chunk", "choices": choices, **more}


def _pieces(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(calls)}


CHAT_STREAM: list[Frame] = [
    _chunk({"role": "assistant", "content": ""}, usage=None),
    _chunk({"content": "I look."}, usage=None),
    _chunk(_pieces({"index": 0, **_chat_call("call_1", "weather", "")}), usage=None),
    _chunk(_pieces({"index": 0, "function": {"arguments": '{"city": '}}), usage=None),
    _chunk(_pieces({"index": 0, "function": {"arguments": '"Oslo"}'}}), usage=None),
    _chunk(_pieces({"index": 1, **_chat_call("call_2", "chart", "{}")}), usage=None),
    _chunk({}, "tool_calls", usage=None),
    _chunk(None, usage=_CHAT_USAGE),
    (None, DONE),
]
MISTRAL_STREAM: list[Frame] = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Ask."}]}]}),
    _chunk(
        _pieces(
            {"index": 0, **_chat_call("abc123DEF", "weather", _ARGUMENTS)},
            {"index": 1, **_chat_call("abc123DEG", "chart", "{}")},
        ),
        "tool_calls",
        usage=_CHAT_USAGE,
    ),
    (None, DONE),
]

_ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ask."}]},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "weather",
        "arguments": _ARGUMENTS,
        "status": "completed",
    },
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "call_2",
        "name": "chart",
        "arguments": "{}",
        "status": "completed",
    },
]
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": _ITEMS,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "usage": {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 12,
    },
}


_EMPTY: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}


def _responses_stream() -> list[Frame]:
    begun = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "created", "response": begun},
        {"type": "in_progress", "response": begun},
    ]
    for index, item in enumerate(_ITEMS):
        inside = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = (
            {"content": []} if "content" in item else {"summary": []} if "summary" in item else {"arguments": ""}
        )
        started = {"status": "in_progress"} if "status" in item else {}
        events.append({"type": "output_item.added", "output_index": index, "item": {**item, **empty, **started}})
        events.extend(_inner_events(item, inside))
        events.append({"type": "output_item.done", "output_index": index, "item": item})
    events.append({"type": "completed", "response": RESPONSE})
    return [
        (f"response.{event['type']}", {**event, "type": f"response.{event['type']}", "sequence_number": number})
        for number, event in enumerate(events)
    ]


def _inner_events(item: dict[str, Any], inside: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "function_call":
        return [
            {"type": "function_call_arguments.delta", **inside, "delta": item["arguments"]},
            {"type": "function_call_arguments.done", **inside, "arguments": item["arguments"], "name": item["name"]},
        ]
    key, kind, place = (
        ("summary", "reasoning_summary", "summary_index")
        if item["type"] == "reasoning"
        else ("content", "content", "content_index")
    )
    part, where = item[key][0], {**inside, place: 0}
    text = "output_text" if kind == "content" else "reasoning_summary_text"
    more: dict[str, Any] = {"logprobs": []} if kind == "content" else {}
    return [
        {"type": f"{kind}_part.added", **where, "part": {**part, "text": ""}},
        {"type": f"{text}.delta", **where, "delta": part["text"], **more},
        {"type": f"{text}.done", **where, "text": part["text"], **more},
        {"type": f"{kind}_part.done", **where, "part": part},
    ]


_CLAUDE_USAGE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "Ask.", "signature": SIGNED},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "toolu_2", "name": "chart", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": _CLAUDE_USAGE,
}


def _block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[Frame]:
    return [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": start}),
        *(("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]


_START = {**MESSAGE, "content": [], "stop_reason": None, "usage": {**_CLAUDE_USAGE, "output_tokens": 1}}
CLAUDE_STREAM: list[Frame] = [
    ("message_start", {"type": "message_start", "message": _START}),
    ("ping", {"type": "ping"}),
    *_block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Ask."},
        {"type": "signature_delta", "signature": SIGNED},
    ),
    *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."}),
    *_block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"city": '},
        {"type": "input_json_delta", "partial_json": '"Oslo"}'},
    ),
    *_block(
        3,
        {"type": "tool_use", "id": "toolu_2", "name": "chart", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
    ),
    (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
    ),
    ("message_stop", {"type": "message_stop"}),
]

_GEMINI_USAGE = {
    "promptTokenCount": 5,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 12,
}


def _candidate(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **more}], "modelVersion": "m", "responseId": "r"}


_GEMINI_PARTS: list[dict[str, Any]] = [
    {"text": "Ask.", "thought": True},
    {"text": "I look."},
    {"functionCall": {"id": "a", "name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": SIGNED},
    {"functionCall": {"id": "b", "name": "chart", "args": {}}},
]
GEMINI_REPLY = {**_candidate(*_GEMINI_PARTS, finishReason="STOP"), "usageMetadata": _GEMINI_USAGE}
GEMINI_STREAM: list[Frame] = [
    *((None, _candidate(part)) for part in _GEMINI_PARTS),
    (None, {**_candidate({"text": ""}, finishReason="STOP"), "usageMetadata": _GEMINI_USAGE}),
]


def _line(message: dict[str, Any], *, done: bool = False, **more: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "", **message}
    return {"model": "m", "created_at": "2026-01-31T12:00:00Z", "message": said, "done": done, **more}


_OLLAMA_CALLS = [
    {"id": "call_1", "function": {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}},
    {"id": "call_2", "function": {"index": 1, "name": "chart", "arguments": {}}},
]
_OLLAMA_END: dict[str, Any] = {"done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 7}
OLLAMA_REPLY = _line({"content": "I look.", "thinking": "Ask.", "tool_calls": _OLLAMA_CALLS}, **_OLLAMA_END)
OLLAMA_STREAM: list[Frame] = [
    (None, _line({"thinking": "Ask."})),
    (None, _line({"content": "I look."})),
    (None, _line({"tool_calls": _OLLAMA_CALLS[:1]})),
    (None, _line({"tool_calls": _OLLAMA_CALLS[1:]})),
    (None, _line({}, **_OLLAMA_END)),
]

_AWS_USAGE = {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}
CONVERSE: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Ask.", "signature": SIGNED}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Oslo"}}},
                {"toolUse": {"toolUseId": "tooluse_2", "name": "chart", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": _AWS_USAGE,
    "metrics": {"latencyMs": 1},
}


def _delta(index: int, delta: dict[str, Any]) -> Frame:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}


def _use(index: int, identity: str, name: str) -> Frame:
    start = {"toolUse": {"toolUseId": identity, "name": name}}
    return "contentBlockStart", {"contentBlockIndex": index, "start": start}


CONVERSE_STREAM: list[Frame] = [
    ("messageStart", {"role": "assistant"}),
    _delta(0, {"reasoningContent": {"text": "Ask."}}),
    _delta(0, {"reasoningContent": {"signature": SIGNED}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    _delta(1, {"text": "I look."}),
    ("contentBlockStop", {"contentBlockIndex": 1}),
    _use(2, "tooluse_1", "weather"),
    _delta(2, {"toolUse": {"input": '{"city": '}}),
    _delta(2, {"toolUse": {"input": '"Oslo"}'}}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    _use(3, "tooluse_2", "chart"),
    _delta(3, {"toolUse": {"input": "{}"}}),
    ("contentBlockStop", {"contentBlockIndex": 3}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": _AWS_USAGE, "metrics": {"latencyMs": 1}}),
]

_COHERE_COUNTS = {"input_tokens": 5, "output_tokens": 7}
_COHERE_USAGE = {"billed_units": _COHERE_COUNTS, "tokens": _COHERE_COUNTS}
COHERE_REPLY: dict[str, Any] = {
    "id": "c",
    "finish_reason": "TOOL_CALL",
    "message": {
        "role": "assistant",
        "tool_plan": "I look.",
        "content": [{"type": "thinking", "thinking": "Ask."}],
        "tool_calls": [_chat_call("weather_1", "weather", _ARGUMENTS), _chat_call("chart_2", "chart", "{}")],
    },
    "usage": _COHERE_USAGE,
}


def _cohere(kind: str, message: dict[str, Any] | None = None, **more: Any) -> Frame:
    delta = {"delta": {"message": message}} if message else {}
    return kind, {"type": kind, **delta, **more}


COHERE_STREAM: list[Frame] = [
    _cohere("message-start", {"role": "assistant"}, id="c"),
    _cohere("content-start", {"content": {"type": "thinking", "thinking": ""}}, index=0),
    _cohere("content-delta", {"content": {"thinking": "Ask."}}, index=0),
    _cohere("content-end", index=0),
    _cohere("tool-plan-delta", {"tool_plan": "I look."}),
    _cohere("tool-call-start", {"tool_calls": _chat_call("weather_1", "weather", "")}, index=0),
    _cohere("tool-call-delta", {"tool_calls": {"function": {"arguments": _ARGUMENTS}}}, index=0),
    _cohere("tool-call-end", index=0),
    _cohere("tool-call-start", {"tool_calls": _chat_call("chart_2", "chart", "{}")}, index=1),
    _cohere("tool-call-end", index=1),
    ("message-end", {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": _COHERE_USAGE}}),
]

_REPLIES: dict[str, dict[str, Any]] = {
    "openai_chat": _chat_reply("call_1", "call_2"),
    "openai_responses": RESPONSE,
    "anthropic": MESSAGE,
    "gemini": GEMINI_REPLY,
    "ollama": OLLAMA_REPLY,
    "bedrock": CONVERSE,
    "mistral": _chat_reply("abc123DEF", "abc123DEG"),
    "cohere": COHERE_REPLY,
}
_STREAMS: dict[str, list[Frame]] = {
    "openai_chat": CHAT_STREAM,
    "openai_responses": _responses_stream(),
    "anthropic": CLAUDE_STREAM,
    "gemini": GEMINI_STREAM,
    "ollama": OLLAMA_STREAM,
    "bedrock": CONVERSE_STREAM,
    "mistral": MISTRAL_STREAM,
    "cohere": COHERE_STREAM,
}


def valid_reply(wire: str) -> dict[str, Any]:
    """A fresh copy of the valid reply of a wire, to be changed at will."""
    body: dict[str, Any] = json.loads(json.dumps(_REPLIES[wire]))
    return body


def valid_stream(wire: str) -> list[Any]:
    """A fresh copy of the valid stream of a wire, each frame an array of its event and its data."""
    frames: list[Any] = json.loads(json.dumps(_STREAMS[wire]))
    return frames
