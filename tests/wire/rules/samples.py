"""One valid request for each API with everything in it: parallel calls, an error result, an image, reasoning."""

from __future__ import annotations

import json
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SIGNED = "RXJyb3JzIGFyZSBzaWduZWQgdG9v"
DATA_URL = f"data:image/png;base64,{PIXEL}"
EPHEMERAL = {"type": "ephemeral"}

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
UPPER: dict[str, Any] = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "enum": ["Oslo", "Rome"]},
        "days": {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}},
        "place": {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}, "required": ["name"]},
    },
    "required": ["city"],
}


def _chat_tools(schema: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    weather = {"name": "weather", "description": "The weather", "parameters": schema, **more}
    return [
        {"type": "function", "function": weather},
        {"type": "function", "function": {"name": "chart", "parameters": PLAIN}},
    ]


def _chat_call(identity: str, name: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": '{"city": "Oslo"}'}}


_CHAT_IMAGE = [{"type": "text", "text": "Like this?"}, {"type": "image_url", "image_url": {"url": DATA_URL}}]

OPENAI_CHAT: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": _CHAT_IMAGE},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [_chat_call("call_1", "weather"), _chat_call("call_2", "chart")],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "error: no such city"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]},
        {"role": "assistant", "content": "Rain, it seems."},
        {"role": "user", "content": "Thanks"},
    ],
    "tools": _chat_tools(STRICT, strict=True),
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 100,
}

OPENAI_RESPONSES: dict[str, Any] = {
    "model": "gpt-5.6",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Like this?"},
                {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Ask both."}],
            "encrypted_content": "gAAAA",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"},
        {"type": "function_call", "call_id": "call_2", "name": "chart", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "call_2", "output": "error: no such city"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "rain"}, {"type": "input_image", "image_url": DATA_URL}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Rain.", "annotations": []}],
        },
        {"role": "assistant", "content": "Or not."},
        {"role": "user", "content": "Thanks"},
    ],
    "tools": [
        {"type": "function", "name": "weather", "parameters": STRICT, "strict": True, "description": "The weather"},
        {"type": "function", "name": "chart", "parameters": PLAIN, "strict": False},
    ],
    "tool_choice": {"type": "function", "name": "weather"},
    "parallel_tool_calls": False,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
}

ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 2048,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Like this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Ask both.", "signature": SIGNED},
                {"type": "redacted_thinking", "data": "c2VjcmV0"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "toolu_2", "name": "chart", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such city", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "rain"},
                        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                    ],
                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                },
                {"type": "text", "text": "Well?", "cache_control": EPHEMERAL},
            ],
        },
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "Thanks"},
    ],
    "tools": [
        {"name": "weather", "description": "The weather", "input_schema": STRICT, "strict": True},
        {"name": "chart", "input_schema": PLAIN, "cache_control": EPHEMERAL},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}

GEMINI: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"text": "Hi."}]},
        {
            "role": "user",
            "parts": [{"text": "Like this?"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Ask both.", "thought": True},
                {
                    "functionCall": {"id": "a", "name": "weather", "args": {"city": "Oslo"}},
                    "thoughtSignature": SIGNED,
                },
                {"functionCall": {"name": "chart", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "a",
                        "name": "weather",
                        "response": {"output": "rain"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
                    }
                },
                {"functionResponse": {"name": "chart", "response": {"error": "no such city"}}},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "weather", "description": "The weather", "parameters": UPPER},
                {"name": "chart", "parametersJsonSchema": PLAIN},
                {"name": "now"},
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather", "chart"]}},
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "generationConfig": {
        "maxOutputTokens": 100,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
    },
}

OLLAMA: dict[str, Any] = {
    "model": "qwen3",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Like this?", "images": [PIXEL]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Ask both.",
            "tool_calls": [
                {"id": "call_1", "function": {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}},
                {"id": "call_2", "function": {"index": 1, "name": "chart", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "rain", "tool_name": "weather", "tool_call_id": "call_1", "images": [PIXEL]},
        {"role": "tool", "content": "error: no such city", "tool_name": "chart"},
    ],
    "tools": _chat_tools(PLAIN),
    "stream": False,
    "think": "low",
    "options": {"num_ctx": 8192},
}

BEDROCK: dict[str, Any] = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {
            "role": "user",
            "content": [{"text": "Like this?"}, {"image": {"format": "png", "source": {"bytes": PIXEL}}}],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Ask both.", "signature": SIGNED}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Oslo"}}},
                {"toolUse": {"toolUseId": "tooluse_2", "name": "chart", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "no"}], "status": "error"}},
                {
                    "toolResult": {
                        "toolUseId": "tooluse_1",
                        "content": [
                            {"json": {"sky": "rain"}},
                            {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                        ],
                    }
                },
                {"text": "Well?"},
                {"cachePoint": {"type": "default"}},
            ],
        },
    ],
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "weather", "description": "The weather", "inputSchema": {"json": PLAIN}}},
            {"toolSpec": {"name": "chart", "inputSchema": {"json": PLAIN}}},
            {"cachePoint": {"type": "default"}},
        ],
        "toolChoice": {"tool": {"name": "weather"}},
    },
    "inferenceConfig": {"maxTokens": 100, "stopSequences": ["END"]},
}

MISTRAL: dict[str, Any] = {
    "model": "magistral-medium-latest",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": _CHAT_IMAGE},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Ask both."}]}],
            "tool_calls": [_chat_call("abc123DEF", "weather"), _chat_call("abc123DEG", "chart")],
        },
        {"role": "tool", "tool_call_id": "abc123DEF", "name": "weather", "content": "rain"},
        {"role": "tool", "tool_call_id": "abc123DEG", "name": "chart", "content": "error: no such city"},
        {"role": "assistant", "content": "OK"},
        {"role": "user", "content": [{"type": "image_url", "image_url": DATA_URL}]},
    ],
    "tools": _chat_tools(PLAIN, strict=False),
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "max_tokens": 100,
}

COHERE: dict[str, Any] = {
    "model": "command-a-reasoning",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": _CHAT_IMAGE},
        {
            "role": "assistant",
            "tool_plan": "I ask both.",
            "content": [{"type": "thinking", "thinking": "Ask both."}],
            "tool_calls": [_chat_call("weather_1", "weather"), _chat_call("chart_2", "chart")],
        },
        {
            "role": "tool",
            "tool_call_id": "weather_1",
            "content": [{"type": "document", "document": {"id": "1", "data": {"sky": "rain"}}}],
        },
        {"role": "tool", "tool_call_id": "chart_2", "content": "error: no such city"},
        {"role": "user", "content": "Well?"},
    ],
    "tools": _chat_tools(PLAIN),
    "tool_choice": "REQUIRED",
    "thinking": {"type": "enabled", "token_budget": 100},
    "stream": False,
}

_VALID = {
    "openai_chat": OPENAI_CHAT,
    "openai_responses": OPENAI_RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "ollama": OLLAMA,
    "bedrock": BEDROCK,
    "mistral": MISTRAL,
    "cohere": COHERE,
}


def valid(wire: str) -> dict[str, Any]:
    """A fresh copy of the valid request of a wire, to be changed at will."""
    body: dict[str, Any] = json.loads(json.dumps(_VALID[wire]))
    return body
