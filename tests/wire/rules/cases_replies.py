"""Changes to valid replies, each with the rule that it breaks."""

from __future__ import annotations

from tests.wire.rules.edits import Row, all_of, drop, keep, put

CHAT_CALL = ("choices", 0, "message", "tool_calls")
REPLIES: dict[str, dict[str, Row]] = {
    "openai_chat": {
        "no id": (drop("id"), "$: lacks the required key 'id'"),
        "reason": (put("stop", "choices", 0, "finish_reason"), "$.choices[0].finish_reason: must be 'tool_calls'"),
        "no calls": (drop(*CHAT_CALL), "$.choices[0].finish_reason: is 'tool_calls', but there are no calls"),
        "object": (
            put({}, *CHAT_CALL, 0, "function", "arguments"),
            "$.choices[0].message.tool_calls[0].function.arguments: must be a string",
        ),
        "cut arguments": (
            put("{", *CHAT_CALL, 0, "function", "arguments"),
            "$.choices[0].message.tool_calls[0].function.arguments: must be a string of valid JSON",
        ),
        "repeated id": (
            put("call_1", *CHAT_CALL, 1, "id"),
            "$.choices[0].message.tool_calls[1]: repeats the call id 'call_1'",
        ),
        "total": (put(13, "usage", "total_tokens"), "$.usage.total_tokens: must be the sum of"),
        "index": (put(1, "choices", 0, "index"), "$.choices: the indexes of choices must count from 0, not [1]"),
        "error": (all_of(put({}, "error")), "$.error: lacks the required key 'message'"),
    },
    "openai_responses": {
        "no tools": (drop("tools"), "$: lacks the required key 'tools'"),
        "no usage": (drop("usage"), "$: needs usage, for its status is 'completed'"),
        "no reason": (put("incomplete", "status"), "$: needs incomplete_details, for its status is 'incomplete'"),
        "total": (put(13, "usage", "total_tokens"), "$.usage.total_tokens: must be the sum of"),
        "repeated call": (put("call_1", "output", 3, "call_id"), "$.output[3]: repeats the call id 'call_1'"),
        "repeated item": (put("fc_1", "output", 3, "id"), "$.output[3]: repeats the item id 'fc_1'"),
        "cut arguments": (put("{", "output", 2, "arguments"), "$.output[2].arguments: must be a string of valid JSON"),
        "no annotations": (
            drop("output", 1, "content", 0, "annotations"),
            "$.output[1].content[0]: lacks the required key 'annotations'",
        ),
    },
    "anthropic": {
        "no cache counts": (
            drop("usage", "cache_read_input_tokens"),
            "$.usage: lacks the required key 'cache_read_input_tokens'",
        ),
        "reason": (put("end_turn", "stop_reason"), "$.stop_reason: must be 'tool_use', for there are calls"),
        "no calls": (keep(2, "content"), "$.stop_reason: is 'tool_use', but there are no calls"),
        "string input": (put("{}", "content", 2, "input"), "$.content[2].input: must be an object"),
        "no stop_sequence": (drop("stop_sequence"), "$: lacks the required key 'stop_sequence'"),
        "repeated id": (put("toolu_1", "content", 3, "id"), "$.content[3]: repeats the tool_use id 'toolu_1'"),
        "error": (
            all_of(put("error", "type"), put({"type": "oops", "message": ""}, "error")),
            "$.error.type: must be one of invalid_request_error",
        ),
    },
    "gemini": {
        "no candidates": (drop("candidates"), "$: has neither candidates nor a reason for blocking"),
        "no usage": (drop("usageMetadata"), "$: lacks the required key 'usageMetadata'"),
        "no reason": (drop("candidates", 0, "finishReason"), "$.candidates[0]: lacks the required key 'finishReason'"),
        "no content": (drop("candidates", 0, "content"), "$.candidates[0]: lacks the required key 'content'"),
        "total": (put(13, "usageMetadata", "totalTokenCount"), "$.usageMetadata.totalTokenCount: must be the sum of"),
        "repeated id": (
            put("a", "candidates", 0, "content", "parts", 3, "functionCall", "id"),
            "$: repeats the call id 'a'",
        ),
        "error": (put({"message": "", "code": 400}, "error"), "$.error: lacks the required key 'status'"),
    },
    "ollama": {
        "not done": (put(False, "done"), "$.done: must be true in a whole reply"),
        "reason": (put("tool_calls", "done_reason"), "$.done_reason: must be one of stop, length, load, unload"),
        "string arguments": (
            put("{}", "message", "tool_calls", 0, "function", "arguments"),
            "$.message.tool_calls[0].function.arguments: must be an object",
        ),
        "index": (
            put(0, "message", "tool_calls", 1, "function", "index"),
            "$.message.tool_calls: the indexes of calls must count from 0, not [0, 0]",
        ),
        "no counts": (drop("eval_count"), "$: lacks the required key 'eval_count'"),
        "time": (put("now", "created_at"), "$.created_at: must match a time such as"),
        "error": (put({}, "error"), "$.error: must be a string"),
    },
    "bedrock": {
        "no metrics": (drop("metrics"), "$: lacks the required key 'metrics'"),
        "reason": (put("end_turn", "stopReason"), "$.stopReason: must be 'tool_use', for there are calls"),
        "total": (put(1, "usage", "totalTokens"), "$.usage.totalTokens: must not be below the sum of"),
        "repeated id": (
            put("tooluse_1", "output", "message", "content", 3, "toolUse", "toolUseId"),
            "$.output.message.content: repeats the toolUseId 'tooluse_1'",
        ),
    },
    "mistral": {
        "id": (
            put("call_1", *CHAT_CALL, 0, "id"),
            "$.choices[0].message.tool_calls[0].id: must match 9 letters and digits, not 'call_1'",
        ),
        "reason": (
            put("content_filter", "choices", 0, "finish_reason"),
            "$.choices[0].finish_reason: must be one of stop, length, model_length, error, tool_calls",
        ),
    },
    "cohere": {
        "reason": (put("COMPLETE", "finish_reason"), "$.finish_reason: must be 'TOOL_CALL', for there are calls"),
        "usage": (drop("usage", "tokens"), "$.usage: lacks the required key 'tokens'"),
        "cut arguments": (
            put("{", "message", "tool_calls", 0, "function", "arguments"),
            "$.message.tool_calls[0]: must be a string of valid JSON",
        ),
        "repeated id": (
            put("weather_1", "message", "tool_calls", 1, "id"),
            "$.message.tool_calls[1]: repeats the call id 'weather_1'",
        ),
    },
}
