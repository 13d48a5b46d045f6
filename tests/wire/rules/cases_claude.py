"""Changes to valid requests of Anthropic and Bedrock, each with the rule that it breaks."""

from __future__ import annotations

from tests.wire.rules.edits import Row, all_of, drop, insert, keep, put
from tests.wire.rules.samples import EPHEMERAL

M = "messages"
SCHEMA = ("tools", 0, "input_schema")
_RESULT = {"type": "tool_result", "tool_use_id": "toolu_1"}
_UNTHINKING = drop("thinking")

ANTHROPIC: dict[str, Row] = {
    "no max_tokens": (drop("max_tokens"), "$: lacks the required key 'max_tokens'"),
    "unknown key": (put(1, "max_completion_tokens"), "$: has the unknown key 'max_completion_tokens'"),
    "system message": (
        put("system", M, 0, "role"),
        "$.messages[0]: has the role 'system', but only user, assistant may stand here",
    ),
    "assistant first": (
        insert({"role": "assistant", "content": "Hi."}, M, 0),
        "$.messages[0]: the first message must be from the user",
    ),
    "empty content": (put([], M, 4, "content"), "$.messages[4].content: must not be an empty array"),
    "empty string": (put("", M, 4, "content"), "$.messages[4].content: must not be blank text"),
    "empty text": (put("", M, 0, "content", 0, "text"), "$.messages[0].content[0].text: must not be blank text"),
    "blank text in a result": (
        put("\n", M, 2, "content", 1, "content", 0, "text"),
        "$.messages[2].content[1].content[0].text: must not be blank text",
    ),
    "odd id": (
        put("call:1", M, 1, "content", 3, "id"),
        "$.messages[1].content[3].id: must match [a-zA-Z0-9_-]+, not 'call:1'",
    ),
    "dotted name": (
        put("a.b", M, 1, "content", 3, "name"),
        "$.messages[1].content[3].name: must match [a-zA-Z0-9_-]+, not 'a.b'",
    ),
    "long name": (put("x" * 129, "tools", 1, "name"), "$.tools[1].name: must have at most 128 characters, not 129"),
    "string input": (put("{}", M, 1, "content", 3, "input"), "$.messages[1].content[3].input: must be an object"),
    "call by the user": (
        insert({"type": "tool_use", "id": "a", "name": "chart", "input": {}}, M, 0, "content", 0),
        "$.messages[0].content[0]: has the type 'tool_use', but only text, image, document",
    ),
    "result by the assistant": (
        insert(_RESULT, M, 1, "content", 0),
        "$.messages[1].content[0]: has the type 'tool_result', but only text, thinking",
    ),
    "result missing": (
        drop(M, 2, "content", 0),
        "$.messages[2]: must hold the tool_result of 'toolu_2', which the message before it called",
    ),
    "result in the message after next": (
        insert({"role": "user", "content": [_RESULT]}, M, 3),
        "$.messages[3].content[0]: is a tool_result without a tool_use in the message before it",
    ),
    "result twice": (
        insert(_RESULT, M, 2, "content", 0),
        "$.messages[2].content[2]: repeats the answered tool_use id 'toolu_1'",
    ),
    "text before results": (
        insert({"type": "text", "text": "So:"}, M, 2, "content", 0),
        "$.messages[2]: must hold its tool_result blocks before all other blocks",
    ),
    "calls at the end": (
        all_of(drop(M, 1, "content", 4), keep(2, M)),
        "$.messages[1]: the tool_use 'toolu_1' is not answered by a following user message",
    ),
    "id of an earlier turn": (
        all_of(
            put([{"type": "tool_use", "id": "toolu_1", "name": "chart", "input": {}}], M, 3, "content"),
            put([_RESULT], M, 4, "content"),
        ),
        "$.messages[3].content[0]: repeats the tool_use id 'toolu_1'",
    ),
    "unsigned thinking": (
        drop(M, 1, "content", 0, "signature"),
        "$.messages[1].content[0]: lacks the required key 'signature'",
    ),
    "blank signature": (
        put("", M, 1, "content", 0, "signature"),
        "$.messages[1].content[0].signature: must not be empty",
    ),
    "thinking after the call": (
        insert({"type": "thinking", "thinking": "", "signature": "c2ln"}, M, 1, "content", 5),
        "$.messages[1].content[5]: is thinking after a tool_use; it must stand before it",
    ),
    "marked thinking": (
        put(EPHEMERAL, M, 1, "content", 0, "cache_control"),
        "$.messages[1].content[0]: has the unknown key 'cache_control'",
    ),
    "space at the end": (
        put({"role": "assistant", "content": "So "}, M, 4),
        "$.messages[4]: the final assistant text must not end with white space",
    ),
    "space at the end of a block": (
        put({"role": "assistant", "content": [{"type": "text", "text": "So\n"}]}, M, 4),
        "$.messages[4]: the final assistant text must not end with white space",
    ),
    "image of another type": (
        put("image/tiff", M, 0, "content", 1, "source", "media_type"),
        "$.messages[0].content[1].source.media_type: must be one of image/jpeg, image/png, image/gif, image/webp",
    ),
    "image as data URL": (
        put("data:image/png;base64,AAAA", M, 0, "content", 1, "source", "data"),
        "$.messages[0].content[1].source.data: must be base64",
    ),
    "image of OpenAI": (
        put("image_url", M, 0, "content", 1, "type"),
        "$.messages[0].content[1]: has the type 'image_url', but only text, image",
    ),
    "no tools": (
        all_of(drop("tools"), drop("tool_choice")),
        "$: needs tools, for the history holds tool blocks",
    ),
    "choice without tools": (
        all_of(drop("tools"), keep(1, M)),
        "$.tool_choice: is only allowed when tools are offered",
    ),
    "choice as a string": (put("auto", "tool_choice"), "$.tool_choice: must be an object"),
    "choice not offered": (
        all_of(put({"type": "tool", "name": "nothing"}, "tool_choice"), _UNTHINKING),
        "$.tool_choice: names the tool 'nothing', which is not offered",
    ),
    "forced while thinking": (
        put({"type": "any"}, "tool_choice"),
        "$.tool_choice: must not force a tool while thinking is enabled",
    ),
    "parallel flag on none": (
        put({"type": "none", "disable_parallel_tool_use": True}, "tool_choice"),
        "$.tool_choice: has the unknown key 'disable_parallel_tool_use'",
    ),
    "small budget": (
        put(1000, "thinking", "budget_tokens"),
        "$.thinking.budget_tokens: must be at least 1024",
    ),
    "large budget": (put(4096, "thinking", "budget_tokens"), "$.thinking.budget_tokens: must be below max_tokens"),
    "five marks": (
        put(EPHEMERAL, "cache_control"),
        "$: at most 4 cache_control markers are allowed, not 5",
    ),
    "tool of OpenAI": (put("function", "tools", 1, "type"), "$.tools[1].type: must be one of custom, not 'function'"),
    "same name twice": (put("weather", "tools", 1, "name"), "$.tools[1]: repeats the tool name 'weather'"),
    "schema of no object": (
        put({"type": "array"}, "tools", 1, "input_schema"),
        "$.tools[1].input_schema: must have the root type 'object'",
    ),
    "choice at the root": (
        put([{"required": ["city"]}], "tools", 1, "input_schema", "anyOf"),
        "$.tools[1].input_schema: must not have anyOf at its root",
    ),
    "strict and open": (
        drop(*SCHEMA, "additionalProperties"),
        "$.tools[0].input_schema: is strict and so needs additionalProperties: false on every object",
    ),
    "strict limit": (
        put(1, *SCHEMA, "properties", "days", "minimum"),
        "$.tools[0].input_schema.properties.days: is strict and so may not use minimum",
    ),
    "strict format": (
        put("phone", *SCHEMA, "properties", "city", "format"),
        "$.tools[0].input_schema.properties.city.format: 'phone' is not a format that strict schemas may use",
    ),
    "strict length of an array": (
        put({"type": "array", "minItems": 2}, *SCHEMA, "properties", "city"),
        "$.tools[0].input_schema.properties.city.minItems: must be 0 or 1 in a strict schema",
    ),
    "strict and recursive": (
        put({"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, *SCHEMA, "$defs"),
        "$.tools[0].input_schema: is strict and so must not be recursive",
    ),
    "too many strict tools": (
        lambda body: body["tools"].extend({**body["tools"][0], "name": f"w{number}"} for number in range(20)),
        "$.tools: at most 20 tools may be strict, not 21",
    ),
    "temperature": (
        all_of(put("claude-opus-4-8", "model"), put(0.5, "temperature"), _UNTHINKING),
        "$.temperature: is refused by claude-opus-4-8",
    ),
    "thinking of an old kind": (
        put("claude-opus-5", "model"),
        "$.thinking.type: 'enabled' is refused by claude-opus-5",
    ),
    "thinking that cannot be off": (
        all_of(put("claude-sonnet-5-5", "model"), put({"type": "disabled"}, "thinking")),
        "$.thinking.type: 'disabled' is refused by claude-sonnet-5-5",
    ),
    "begun answer": (
        all_of(put("claude-opus-5", "model"), _UNTHINKING, keep(4, M)),
        "$.messages[3]: an answer that is begun by the caller is refused by claude-opus-5",
    ),
}

_USE = {"toolUse": {"toolUseId": "a", "name": "chart", "input": {}}}
_POINT = {"cachePoint": {"type": "default"}}
_ANSWER = {"toolResult": {"toolUseId": "tooluse_1", "content": []}}
_SPEC = ("toolConfig", "tools", 0, "toolSpec")

BEDROCK: dict[str, Row] = {
    "model in the body": (put("m", "modelId"), "$: has the unknown key 'modelId'"),
    "system message": (
        put("system", M, 0, "role"),
        "$.messages[0]: has the role 'system', but only user, assistant may stand here",
    ),
    "string content": (put("Hello", M, 0, "content"), "$.messages[0].content: must be an array"),
    "assistant first": (drop(M, 0), "$.messages[0]: the first message must be from the user"),
    "same role twice": (
        insert({"role": "user", "content": [{"text": "Hi"}]}, M, 0),
        "$.messages[1]: roles must alternate between user and assistant",
    ),
    "blank text": (put(" ", M, 0, "content", 0, "text"), "$.messages[0].content[0].text: must not be blank text"),
    "empty block": (put({}, M, 0, "content", 0), "$.messages[0].content[0]: must hold exactly one of text, image"),
    "two kinds in a block": (
        put("Hi", M, 0, "content", 1, "text"),
        "$.messages[0].content[1]: must hold exactly one of text, image",
    ),
    "block of Anthropic": (
        put({"type": "text", "text": "Hi"}, M, 0, "content", 0),
        "$.messages[0].content[0]: has the unknown key 'type'",
    ),
    "image format": (
        put("image/png", M, 0, "content", 1, "image", "format"),
        "$.messages[0].content[1].image.format: must be one of png, jpeg, gif, webp",
    ),
    "image bytes": (
        put("data:image/png;base64,AA==", M, 0, "content", 1, "image", "source", "bytes"),
        "$.messages[0].content[1].image.source.bytes: must be base64",
    ),
    "odd id": (
        put("a/b", M, 1, "content", 2, "toolUse", "toolUseId"),
        "$.messages[1].content[2].toolUse.toolUseId: must match [a-zA-Z0-9_.:-]+, not 'a/b'",
    ),
    "long id": (
        put("x" * 65, M, 1, "content", 2, "toolUse", "toolUseId"),
        "$.messages[1].content[2].toolUse.toolUseId: must have at most 64 characters, not 65",
    ),
    "dotted name": (
        put("a.b", M, 1, "content", 2, "toolUse", "name"),
        "$.messages[1].content[2].toolUse.name: must match [a-zA-Z0-9_-]+, not 'a.b'",
    ),
    "string input": (
        put("{}", M, 1, "content", 2, "toolUse", "input"),
        "$.messages[1].content[2].toolUse.input: must be an object",
    ),
    "call by the user": (
        insert(_USE, M, 0, "content", 2),
        "$.messages[0].content[2]: must hold exactly one of text, image",
    ),
    "result missing": (
        drop(M, 2, "content", 0),
        "$.messages[2]: must hold the toolResult of 'tooluse_2', which the message before it called",
    ),
    "orphan result": (
        insert(_ANSWER, M, 0, "content", 0),
        "$.messages[0].content[0]: is a toolResult without a toolUse in the message before it",
    ),
    "result twice": (
        insert(_ANSWER, M, 2, "content", 0),
        "$.messages[2].content[2]: repeats the answered toolUseId 'tooluse_1'",
    ),
    "text before results": (
        insert({"text": "So:"}, M, 2, "content", 0),
        "$.messages[2]: must hold its toolResult blocks before all other blocks",
    ),
    "repeated id": (
        all_of(put("tooluse_2", M, 1, "content", 2, "toolUse", "toolUseId"), drop(M, 2, "content", 1)),
        "$.messages[1].content[3]: repeats the toolUseId 'tooluse_2'",
    ),
    "calls at the end": (
        all_of(drop(M, 1, "content", 3), keep(2, M)),
        "$.messages[1]: the toolUse 'tooluse_1' is not answered by a following user message",
    ),
    "reasoning after the call": (
        insert({"reasoningContent": {"redactedContent": "AAAA"}}, M, 1, "content", 4),
        "$.messages[1].content[4]: is reasoning after a toolUse; it must stand before it",
    ),
    "wrong status": (
        put("failed", M, 2, "content", 0, "toolResult", "status"),
        "$.messages[2].content[0].toolResult.status: must be one of success, error, not 'failed'",
    ),
    "string as result": (
        put("rain", M, 2, "content", 0, "toolResult", "content"),
        "$.messages[2].content[0].toolResult.content: must be an array",
    ),
    "json that is no object": (
        put([1], M, 2, "content", 1, "toolResult", "content", 0, "json"),
        "$.messages[2].content[1].toolResult.content[0].json: must be an object",
    ),
    "no toolConfig": (drop("toolConfig"), "$: needs toolConfig, for the history holds tool blocks"),
    "no tools": (
        all_of(put([], "toolConfig", "tools"), drop("toolConfig", "toolChoice")),
        "$.toolConfig.tools: must not be an empty array",
    ),
    "empty description": (
        put("", *_SPEC, "description"),
        "$.toolConfig.tools[0].toolSpec.description: must not be empty",
    ),
    "bare schema": (
        put({}, *_SPEC, "inputSchema"),
        "$.toolConfig.tools[0].toolSpec.inputSchema: lacks the required key 'json'",
    ),
    "schema of no object": (
        put({"type": "string"}, *_SPEC, "inputSchema", "json"),
        "$.toolConfig.tools[0].toolSpec.inputSchema.json: must have the root type 'object'",
    ),
    "same name twice": (
        put("weather", "toolConfig", "tools", 1, "toolSpec", "name"),
        "$.toolConfig.tools[1]: repeats the tool name 'weather'",
    ),
    "choice of Anthropic": (
        put({"type": "auto"}, "toolConfig", "toolChoice"),
        "$.toolConfig.toolChoice: must hold exactly one of auto, any, tool",
    ),
    "choice not offered": (
        put("nothing", "toolConfig", "toolChoice", "tool", "name"),
        "$.toolConfig.toolChoice: names the tool 'nothing', which is not offered",
    ),
    "five marks": (
        all_of(insert(_POINT, M, 0, "content", 1), insert(_POINT, M, 0, "content", 0)),
        "$: at most 4 cachePoint blocks are allowed, not 5",
    ),
}
