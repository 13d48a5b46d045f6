"""Changes to valid streams, each with the rule that it breaks; a path begins with the number of a frame."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.edits import Edit, Row, all_of, drop, insert, put
from tests.wire.rules.replies import DONE


def _renumbered(key: str, old: int, new: int) -> Edit:
    """Give the frames of one index another one."""

    def edit(frames: Any) -> None:
        for _, data in frames:
            if data.get(key) == old:
                data[key] = new

    return edit


def _again(source: int, place: int) -> Edit:
    """Send a frame once more, at another place, and count the frames anew."""

    def edit(frames: Any) -> None:
        event, data = frames[source]
        frames.insert(place, [event, dict(data)])
        for number, (_, one) in enumerate(frames):
            one["sequence_number"] = number

    return edit


STREAMS: dict[str, dict[str, Row]] = {
    "openai_chat": {
        "no role": (drop(0, 1, "choices", 0, "delta", "role"), "$[0]: the first chunk must carry the role"),
        "another id": (put("x", 3, 1, "id"), "$[3]: must have the id, model and time of the chunks before it"),
        "late id": (
            put("call_1", 3, 1, "choices", 0, "delta", "tool_calls", 0, "id"),
            "$[3]: a later piece of a call must have nothing but arguments",
        ),
        "no name": (
            drop(2, 1, "choices", 0, "delta", "tool_calls", 0, "function", "name"),
            "$[2]: the first piece of a call must have its name",
        ),
        "no type": (
            drop(2, 1, "choices", 0, "delta", "tool_calls", 0, "type"),
            "$[2]: the first piece of a call must have the type 'function'",
        ),
        "index": (
            put(2, 5, 1, "choices", 0, "delta", "tool_calls", 0, "index"),
            "$[5]: index 2: calls must come one after the other, counted from 0",
        ),
        "no finish": (
            all_of(drop(6), put([], 6, 1, "choices")),
            "$[6]: the usage must come after the finish_reason",
        ),
        "text with finish": (
            put({"content": "!"}, 6, 1, "choices", 0, "delta"),
            "$[6]: the chunk with the finish_reason must have an empty delta",
        ),
        "wrong reason": (
            put("stop", 6, 1, "choices", 0, "finish_reason"),
            "$: must be 'tool_calls', for there are calls",
        ),
        "usage with a choice": (
            all_of(drop(7), put({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}, 6, 1, "usage")),
            "$[6]: the usage must stand in a chunk of its own with empty choices",
        ),
        "empty chunk": (put(None, 7, 1, "usage"), "$[7]: has neither a choice nor usage"),
        "promised usage": (drop(7), "$: lacks the chunk with the usage, which its other chunks promise"),
        "no end": (drop(8), "$: must end with [DONE]"),
        "after the end": (insert([None, DONE], 9), "$[9]: stands after [DONE]"),
        "cut arguments": (drop(4), "$.call 0: must be a string of valid JSON"),
        "repeated id": (
            put("call_1", 5, 1, "choices", 0, "delta", "tool_calls", 0, "id"),
            "$: repeats the call id 'call_1'",
        ),
        "piece after finish": (
            lambda frames: frames.insert(7, frames[1]),
            "$[7]: stands after the finish_reason",
        ),
        "after an error": (
            insert([None, {"error": {"message": "no"}}], 7),
            "$[8]: stands after an error",
        ),
    },
    "openai_responses": {
        "event name": (put("response.begun", 0, 0), "$[0]: the event 'response.begun' has the type 'response.created'"),
        "not created": (drop(0), "$[0]: response.created must be event number 0"),
        "number": (put(3, 4, 1, "sequence_number"), "$[4]: the sequence_number must rise, but 3 follows 3"),
        "output index": (
            _renumbered("output_index", 3, 4),
            "$[18]: the output_index must be 3, not 4",
        ),
        "item id": (put("fc_9", 15, 1, "item_id"), "$[15]: belongs to an item that is not open"),
        "filled item": (
            put("{}", 14, 1, "item", "arguments"),
            "$[14]: an item must be added empty; its pieces come in deltas",
        ),
        "delta differs": (
            put("{}", 15, 1, "delta"),
            "$[16]: the arguments must be what the deltas said together",
        ),
        "call id changes": (
            put("call_9", 14, 1, "item", "call_id"),
            "$[17]: the call_id must be the one with which the item was added",
        ),
        "no part": (drop(9), "$[9]: belongs to a part that is not open"),
        "part not closed": (drop(12), "$[12]: ends an item whose parts are still open"),
        "item never ends": (drop(21), "$[21]: the items [3] are still open"),
        "output differs": (
            put("m", 22, 1, "response", "output", 0, "id"),
            "$[22]: the output must be the items that were done",
        ),
        "no usage": (put(None, 22, 1, "response", "usage"), "$[22].response: needs usage"),
        "another response": (put("resp_2", 22, 1, "response", "id"), "$[22]: must have the response id of the events"),
        "status": (put("completed", 0, 1, "response", "status"), "$[0]: the status must be 'in_progress'"),
        "no end": (drop(22), "$: must end with response.completed"),
        "created again": (_again(0, 2), "$[2]: response.created must come only once"),
        "ended twice": (_again(17, 18), "$[18]: ends an item that is not open"),
        "after the end": (_again(1, 23), "$[23]: stands after the end"),
        "piece of another kind": (
            all_of(
                put("response.function_call_arguments.delta", 10, 0),
                put("response.function_call_arguments.delta", 10, 1, "type"),
            ),
            "$[10]: function_call_arguments does not belong into a message item",
        ),
        "closing word": (insert([None, DONE], 23), "$[23]: there is no [DONE] in this API"),
        "unknown event": (
            all_of(put("response.x", 15, 0), put("response.x", 15, 1, "type")),
            "$[15]: has the type 'response.x', but only response.created",
        ),
    },
    "anthropic": {
        "event name": (put("begin", 0, 0), "$[0]: the event 'begin' has the type 'message_start'"),
        "no start": (drop(0), "$[1]: the first event must be message_start, and no other one may be"),
        "no cache counts": (
            drop(0, 1, "message", "usage", "cache_creation_input_tokens"),
            "$[0].message.usage: lacks the required key 'cache_creation_input_tokens'",
        ),
        "content in the start": (
            put([{"type": "text", "text": ""}], 0, 1, "message", "content"),
            "$[0].message.content[0]: has the type 'text'",
        ),
        "two open blocks": (drop(5), "$[5]: a block must not begin while another one is open"),
        "index": (
            _renumbered("index", 3, 4),
            "$[13]: the index must be 3, not 4",
        ),
        "delta of another block": (put(0, 7, 1, "index"), "$[7]: belongs to a block that is not open"),
        "wrong kind of delta": (
            put({"type": "input_json_delta", "partial_json": ""}, 7, 1, "delta"),
            "$[7]: a input_json_delta does not belong into a text block",
        ),
        "input in the start": (
            put({"city": "Oslo"}, 9, 1, "content_block", "input"),
            "$[9]: a block must begin with an empty input; its value comes in deltas",
        ),
        "no delta of a call": (drop(14), "$[14]: a tool_use block needs at least one input_json_delta"),
        "cut arguments": (drop(11), "$[11]: must be a string of valid JSON"),
        "after the signature": (
            lambda frames: frames.insert(5, frames[3]),
            "$[5]: nothing may follow the signature of a block",
        ),
        "no usage": (drop(16, 1, "usage", "output_tokens"), "$[16].usage: lacks the required key 'output_tokens'"),
        "wrong reason": (put("end_turn", 16, 1, "delta", "stop_reason"), "$: must be 'tool_use', for there are calls"),
        "reason twice": (lambda frames: frames.insert(17, frames[16]), "$[17]: must come only once"),
        "block after the reason": (
            insert(
                [
                    "content_block_start",
                    {"type": "content_block_start", "index": 4, "content_block": {"type": "text", "text": ""}},
                ],
                17,
            ),
            "$[17]: a block must not begin after message_delta",
        ),
        "stop too early": (drop(16), "$[16]: must come after message_delta"),
        "no stop": (drop(17), "$: must end with message_delta and message_stop"),
        "open at the end": (drop(15), "$[15]: must not come while a block is open"),
        "closed twice": (
            insert(["content_block_stop", {"type": "content_block_stop", "index": 3}], 16),
            "$[16]: closes a block that is not open",
        ),
        "repeated id": (put("toolu_1", 13, 1, "content_block", "id"), "$[15]: repeats the tool_use id 'toolu_1'"),
        "after the end": (
            insert(["message_stop", {"type": "message_stop"}], 18),
            "$[18]: stands after the end",
        ),
        "closing word": (insert([None, DONE], 18), "$[18]: there is no [DONE] in this API"),
    },
    "gemini": {
        "early reason": (put("STOP", 0, 1, "candidates", 0, "finishReason"), "$[0]: only the last chunk may have"),
        "no reason": (drop(4, 1, "candidates", 0, "finishReason"), "$[4]: the last chunk must have a finishReason"),
        "no usage": (drop(4, 1, "usageMetadata"), "$[4]: the last chunk must have usageMetadata"),
        "closing word": (insert([None, DONE], 5), "$[5]: there is no [DONE] in this API"),
        "event name": (put("chunk", 0, 0), "$[0]: must not have the name of an event"),
        "repeated id": (
            put("a", 3, 1, "candidates", 0, "content", "parts", 0, "functionCall", "id"),
            "$: repeats the call id 'a'",
        ),
        "after an error": (
            insert([None, {"error": {"code": 500, "message": "", "status": "INTERNAL"}}], 4),
            "$[5]: stands after an error",
        ),
    },
    "ollama": {
        "no end": (drop(4), "$: must have done: true, or an error, in its last line and in no other"),
        "early end": (
            lambda frames: frames.insert(0, frames[4]),
            "$: must have done: true, or an error, in its last line and in no other",
        ),
        "string arguments": (
            put("{", 2, 1, "message", "tool_calls", 0, "function", "arguments"),
            "$[2].message.tool_calls[0].function.arguments: must be an object",
        ),
        "index": (
            put(0, 3, 1, "message", "tool_calls", 0, "function", "index"),
            "$: the indexes of calls must count from 0, not [0, 0]",
        ),
        "repeated id": (put("call_1", 3, 1, "message", "tool_calls", 0, "id"), "$: repeats the call id 'call_1'"),
        "no counts": (drop(4, 1, "eval_count"), "$[4]: lacks the required key 'eval_count'"),
        "event": (put("message", 0, 0), "$[0]: must be a line of JSON, not a server-sent event"),
    },
    "bedrock": {
        "unknown event": (put("messageBegin", 0, 0), "$[0]: there is no event 'messageBegin'"),
        "start of text": (
            insert(["contentBlockStart", {"contentBlockIndex": 1, "start": {"text": ""}}], 4),
            "$[4].start: must hold exactly one of toolUse, image, toolResult, not text",
        ),
        "no start of a call": (drop(10), "$[10]: a toolUse block must begin with a contentBlockStart"),
        "two open blocks": (drop(5), "$[5]: a block must not begin while another one is open"),
        "index": (put(3, 8, 1, "contentBlockIndex"), "$[8]: the contentBlockIndex must be 2, not 3"),
        "wrong kind of delta": (
            put({"text": "!"}, 8, 1, "delta"),
            "$[8]: a delta of text does not belong into a block of toolUse",
        ),
        "object input": (put({}, 8, 1, "delta", "toolUse", "input"), "$[8].delta.toolUse.input: must be a string"),
        "cut arguments": (drop(8), "$[6]: must be a string of valid JSON"),
        "closed twice": (
            insert(["contentBlockStop", {"contentBlockIndex": 1}], 6),
            "$[6]: closes a block that is not open",
        ),
        "open at the end": (drop(12), "$[12]: messageStop must not come while a block is open"),
        "no metadata": (drop(14), "$: must end with messageStop and metadata"),
        "metadata first": (
            lambda frames: frames.insert(13, frames.pop()),
            "$[13]: metadata stands where messageStop should be",
        ),
        "block after the end": (
            insert(["contentBlockDelta", {"contentBlockIndex": 4, "delta": {"text": "!"}}], 14),
            "$[14]: contentBlockDelta must come between messageStart and messageStop",
        ),
        "wrong reason": (put("end_turn", 13, 1, "stopReason"), "$: must be 'tool_use', for there are calls"),
        "after an exception": (
            insert(["throttlingException", {"message": "slow"}], 14),
            "$[15]: stands after an exception",
        ),
        "repeated id": (
            put("tooluse_1", 10, 1, "start", "toolUse", "toolUseId"),
            "$[10]: repeats the toolUseId 'tooluse_1'",
        ),
        "total": (put(1, 14, 1, "usage", "totalTokens"), "$[14].usage.totalTokens: must not be below the sum"),
    },
    "mistral": {
        "id": (
            put("call_1", 2, 1, "choices", 0, "delta", "tool_calls", 0, "id"),
            "$[2].id: must match 9 letters and digits, not 'call_1'",
        ),
        "no end": (drop(3), "$: must end with [DONE]"),
        "no finish": (drop(2, 1, "choices", 0, "finish_reason"), "$: lacks a chunk with a finish_reason"),
    },
    "cohere": {
        "no start": (drop(0), "$[0]: the first event must be message-start, and no other one may be"),
        "event name": (put("begin", 0, 0), "$[0]: the event 'begin' has the type 'message-start'"),
        "calls in a list": (
            put([{}], 5, 1, "delta", "message", "tool_calls"),
            "$[5].delta.message.tool_calls: must be an object",
        ),
        "two open": (drop(7), "$[7]: must not begin while another content or call is open"),
        "index": (
            all_of(put(2, 8, 1, "index"), put(2, 9, 1, "index")),
            "$[8]: the index must be 1, not 2",
        ),
        "piece of another": (put(1, 6, 1, "index"), "$[6]: belongs to a content or call that is not open"),
        "open at the end": (drop(9), "$[9]: must not come while a content or call is open"),
        "no end": (drop(10), "$: must end with message-end"),
        "no usage": (drop(10, 1, "delta", "usage"), "$[10].delta: lacks the required key 'usage'"),
        "after the end": (lambda frames: frames.append(frames[4]), "$[11]: stands after message-end"),
        "wrong reason": (put("COMPLETE", 10, 1, "delta", "finish_reason"), "$[10]: must be 'TOOL_CALL'"),
        "cut arguments": (
            put("{", 8, 1, "delta", "message", "tool_calls", "function", "arguments"),
            "$[8]: must be a string of valid JSON",
        ),
        "repeated id": (
            put("weather_1", 8, 1, "delta", "message", "tool_calls", "id"),
            "$[8]: repeats the call id 'weather_1'",
        ),
        "closing word": (insert([None, DONE], 11), "$[11]: there is no [DONE] in this API"),
    },
}
