"""Changes to valid requests of OpenAI's two APIs, each with the rule that it breaks."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.edits import Row, all_of, drop, insert, keep, put
from tests.wire.rules.samples import DATA_URL

M = "messages"
SCHEMA = ("tools", 0, "function", "parameters")
LONG = "x" * 65


def _deep(levels: int) -> dict[str, Any]:
    return {"type": "array", "items": _deep(levels - 1)} if levels else {"type": "string"}


def _wide(count: int) -> dict[str, Any]:
    names = [f"p{number}" for number in range(count)]
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


OPENAI_CHAT: dict[str, Row] = {
    "no model": (drop("model"), "$: lacks the required key 'model'"),
    "unknown key": (put(1, "max_output_tokens"), "$: has the unknown key 'max_output_tokens'"),
    "no messages": (put([], M), "$.messages: must not be an empty array"),
    "unknown role": (
        put("model", M, 0, "role"),
        "$.messages[0]: has the role 'model', but only system, developer, user, assistant, tool may stand here",
    ),
    "reasoning": (put("Ask.", M, 2, "reasoning_content"), "$.messages[2]: has the unknown key 'reasoning_content'"),
    "neither text nor calls": (put(None, M, 6, "content"), "$.messages[6]: needs content, for it makes no calls"),
    "no calls in the array": (put([], M, 6, "tool_calls"), "$.messages[6].tool_calls: must not be an empty array"),
    "long id": (
        all_of(put(LONG, M, 2, "tool_calls", 0, "id"), put("call_1", M, 4, "tool_call_id")),
        "$.messages[2].tool_calls[0].id: must have at most 64 characters, not 65",
    ),
    "dotted name": (
        put("a.b", M, 2, "tool_calls", 0, "function", "name"),
        "$.messages[2].tool_calls[0].function.name: must match [a-zA-Z0-9_-]+, not 'a.b'",
    ),
    "object arguments": (
        put({}, M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be a string of JSON",
    ),
    "cut arguments": (
        put('{"a', M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be a string of valid JSON",
    ),
    "array arguments": (
        put("[]", M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be the JSON text of an object",
    ),
    "image in a result": (
        put([{"type": "image_url", "image_url": {"url": DATA_URL}}], M, 4, "content"),
        "$.messages[4].content[0]: has the type 'image_url', but only text may stand here",
    ),
    "image without media type": (
        put("data:image/png,raw", M, 1, "content", 1, "image_url", "url"),
        "$.messages[1].content[1].image_url.url: must be an http(s) address or a data URL with a media type and base64",
    ),
    "image that is no base64": (
        put("data:image/png;base64,??", M, 1, "content", 1, "image_url", "url"),
        "$.messages[1].content[1].image_url.url: must be base64",
    ),
    "unanswered call": (
        drop(M, 4),
        "$.messages[2].tool_calls[0]: the call 'call_1' is not answered by a tool message right after this message",
    ),
    "unanswered at the end": (
        keep(4, M),
        "$.messages[2].tool_calls[0]: the call 'call_1' is not answered by a tool message right after this message",
    ),
    "orphan result": (
        insert({"role": "tool", "tool_call_id": "x", "content": ""}, M, 6),
        "$.messages[6]: answers the call 'x', which the preceding assistant message does not make",
    ),
    "second result": (
        insert({"role": "tool", "tool_call_id": "call_1", "content": ""}, M, 5),
        "$.messages[5]: answers the call 'call_1' a second time",
    ),
    "repeated id": (
        all_of(put("call_2", M, 2, "tool_calls", 0, "id"), drop(M, 4)),
        "$.messages[2].tool_calls[1]: repeats the call id 'call_2'",
    ),
    "no tools in the array": (
        all_of(put([], "tools"), drop("tool_choice"), drop("parallel_tool_calls")),
        "$.tools: must not be an empty array",
    ),
    "same name twice": (put("weather", "tools", 1, "function", "name"), "$.tools[1]: repeats the tool name 'weather'"),
    "choice without tools": (
        all_of(drop("tools"), drop("parallel_tool_calls")),
        "$.tool_choice: is only allowed when tools are offered",
    ),
    "choice of Anthropic": (
        put({"type": "any"}, "tool_choice"),
        "$.tool_choice: has the type 'any', but only function, custom, allowed_tools may stand here",
    ),
    "unknown choice": (
        put("any", "tool_choice"),
        "$.tool_choice: must be one of none, auto, required, not 'any'",
    ),
    "choice not offered": (
        put("nothing", "tool_choice", "function", "name"),
        "$.tool_choice: names the tool 'nothing', which is not offered",
    ),
    "stream options alone": (put(False, "stream"), "$.stream_options: is only allowed when stream is true"),
    "max_tokens": (
        all_of(put("o3", "model"), put(9, "max_tokens")),
        "$.max_tokens: is refused by reasoning models, which want max_completion_tokens",
    ),
    "late model": (
        put("gpt-5.6", "model"),
        "$: gpt-5.4 and later take function tools here only with reasoning_effort 'none'",
    ),
    "five marks": (
        put([{"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}] * 5, M, 7, "content"),
        "$.messages: at most 4 cache breakpoints are allowed, not 5",
    ),
    "no flag": (put("no", "parallel_tool_calls"), "$.parallel_tool_calls: must be a boolean"),
    "no number": (put("1", "temperature"), "$.temperature: must be a number"),
    "no integer": (put(1.5, "n"), "$.n: must be an integer"),
    "five stops": (put(["a"] * 5, "stop"), "$.stop: must hold at most 4 entries, not 5"),
    "no object": (put("x", "stream_options"), "$.stream_options: must be an object"),
    "address that is no string": (
        put(1, M, 1, "content", 1, "image_url", "url"),
        "$.messages[1].content[1].image_url.url: must be a string",
    ),
    "empty image": (
        put("data:image/png;base64,", M, 1, "content", 1, "image_url", "url"),
        "$.messages[1].content[1].image_url.url: must be base64, not empty",
    ),
    "part that is no object": (put("Hi", M, 1, "content", 0), "$.messages[1].content[0]: must be an object"),
    "schema that is no schema": (
        put({"city": 1}, "tools", 1, *SCHEMA[2:], "properties"),
        "$.tools[1].function.parameters.properties.city: must be a schema: an object or a boolean",
    ),
    "properties in an array": (
        put([], "tools", 1, *SCHEMA[2:], "properties"),
        "$.tools[1].function.parameters.properties: must be an object",
    ),
    "empty choice in a schema": (
        put([], "tools", 1, *SCHEMA[2:], "anyOf"),
        "$.tools[1].function.parameters.anyOf: must be an array that is not empty",
    ),
    "empty enum": (
        put({"enum": []}, "tools", 1, *SCHEMA[2:], "properties", "city"),
        "$.tools[1].function.parameters.properties.city.enum: must be an array that is not empty",
    ),
    "strict and deep": (
        put(_deep(11), *SCHEMA, "properties", "city"),
        "$.tools[0].function.parameters: is strict and so must have at most 10 levels",
    ),
    "strict and wide": (
        put(_wide(5001), *SCHEMA),
        "$.tools[0].function.parameters: is strict and so must have at most 5000 properties",
    ),
    "strict and many words": (
        put({"type": "integer", "enum": list(range(1001))}, *SCHEMA, "properties", "city"),
        "$.tools[0].function.parameters: is strict and so must have at most 1000 enum values",
    ),
    "schema of no object": (
        put({"type": "string"}, "tools", 1, *SCHEMA[2:]),
        "$.tools[1].function.parameters: must have the root type 'object'",
    ),
    "upper-case type": (
        put("STRING", *SCHEMA, "properties", "city", "type"),
        "$.tools[0].function.parameters.properties.city.type: 'STRING' is no type of JSON Schema",
    ),
    "strict and open": (
        drop(*SCHEMA, "additionalProperties"),
        "$.tools[0].function.parameters: is strict and so needs additionalProperties: false on every object",
    ),
    "strict and optional": (
        put(["city"], *SCHEMA, "required"),
        "$.tools[0].function.parameters: is strict and so must require every property, 'days' too",
    ),
    "strict root choice": (
        put([{"type": "null"}], *SCHEMA, "anyOf"),
        "$.tools[0].function.parameters: is strict and so must not have anyOf at its root",
    ),
    "strict reference": (
        put({"$ref": "#/$defs/a", "description": "d"}, *SCHEMA, "properties", "city"),
        "$.tools[0].function.parameters.properties.city: has keys beside $ref, which strict schemas may not have",
    ),
    "strict far reference": (
        put({"$ref": "other.json"}, *SCHEMA, "properties", "city"),
        "$.tools[0].function.parameters.properties.city.$ref: may only point to # or #/$defs/name",
    ),
    **{
        f"strict {key}": (
            put({"type": "string", key: value}, *SCHEMA, "properties", "city"),
            f"$.tools[0].function.parameters.properties.city: is strict and so may not use {key}",
        )
        for key, value in {
            "default": "a",
            "const": "a",
            "minLength": 1,
            "oneOf": [{}],
            "allOf": [{}],
            "not": {},
        }.items()
    },
}

OPENAI_RESPONSES: dict[str, Row] = {
    "messages": (put([], M), "$: has the unknown key 'messages'"),
    "nested function": (
        put(
            {"type": "function", "function": {"name": "weather"}, "name": "w", "parameters": None, "strict": None},
            "tools",
            1,
        ),
        "$.tools[1]: has the unknown key 'function'",
    ),
    "no strict": (drop("tools", 1, "strict"), "$.tools[1]: lacks the required key 'strict'"),
    "same name twice": (put("weather", "tools", 1, "name"), "$.tools[1]: repeats the tool name 'weather'"),
    "strict and optional": (
        put(["city"], "tools", 0, "parameters", "required"),
        "$.tools[0].parameters: is strict and so must require every property, 'days' too",
    ),
    "choice of chat": (
        put({"type": "function", "function": {"name": "weather"}, "name": "weather"}, "tool_choice"),
        "$.tool_choice: has the unknown key 'function'",
    ),
    "choice not offered": (
        put("nothing", "tool_choice", "name"),
        "$.tool_choice: names the tool 'nothing', which is not offered",
    ),
    "long call id": (put(LONG, "input", 2, "call_id"), "$.input[2].call_id: must have at most 64 characters, not 65"),
    "id of the call": (
        put("call_1", "input", 2, "id"),
        "$.input[2].id: must match an id that begins with fc_, not 'call_1'",
    ),
    "object arguments": (put({}, "input", 2, "arguments"), "$.input[2].arguments: must be a string of JSON"),
    "no output": (drop("input", 5), "$.input[2]: the call 'call_1' has no output in the input"),
    "no call": (drop("input", 3), "$.input[3]: answers the call 'call_2', which does not stand before it"),
    "repeated call": (
        insert({"type": "function_call", "call_id": "call_1", "name": "chart", "arguments": "{}"}, "input", 9),
        "$.input[9]: repeats the call id 'call_1'",
    ),
    "second output": (
        insert({"type": "function_call_output", "call_id": "call_1", "output": ""}, "input", 6),
        "$.input[6]: answers the call 'call_1' a second time",
    ),
    "output of the wrong kind": (
        put("custom_tool_call_output", "input", 4, "type"),
        "$.input[4]: answers a function_call and so must be a function_call_output",
    ),
    "caller lost": (put({"type": "direct"}, "input", 2, "caller"), "$.input[5]: must echo the caller of its call"),
    "reasoning at the end": (
        insert({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "g"}, "input", 9),
        "$.input[9]: is reasoning without the item that has to follow it",
    ),
    "reasoning after its call": (
        insert({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "g"}, "input", 4),
        "$.input[4]: is reasoning without the item that has to follow it",
    ),
    "reasoning before the user": (
        insert({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "g"}, "input", 0),
        "$.input[0]: is reasoning without the item that has to follow it",
    ),
    "reasoning twice": (
        insert({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"}, "input", 1),
        "$.input[2]: repeats the reasoning id 'rs_1'",
    ),
    "reasoning that is nowhere": (
        drop("input", 1, "encrypted_content"),
        "$.input[1]: needs encrypted_content, for nothing is stored (store: false)",
    ),
    "reasoning without summary": (drop("input", 1, "summary"), "$.input[1]: lacks the required key 'summary'"),
    "input text of the assistant": (
        put("input_text", "input", 6, "content", 0, "type"),
        "$.input[6].content[0]: has the type 'input_text', but only output_text, refusal may stand here",
    ),
    "text part of chat": (
        put("text", "input", 0, "content", 0, "type"),
        "$.input[0].content[0]: has the type 'text', but only input_text, input_image, input_file",
    ),
    "image without source": (
        drop("input", 0, "content", 1, "image_url"),
        "$.input[0].content[1]: must hold exactly one of image_url, file_id",
    ),
    "tool message": (
        put("tool", "input", 8, "role"),
        "$.input[8]: has the role 'tool', but only user, system, developer, assistant may stand here",
    ),
    "unknown item": (
        put("tool_use", "input", 8, "type"),
        "$.input[8]: has the type 'tool_use'",
    ),
}
