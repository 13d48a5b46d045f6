"""One answer in the words of four wires, whole and streamed: text, a thought and two calls, one without arguments."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.judges import scenes
from tests.wire.judges.seen import Seen

Body = dict[str, Any]
PARIS = '{"city": "Paris", "days": 2}'


def sse(*events: Body, named: bool = False, done: bool = False) -> list[bytes]:
    """Frame events for a stream, one piece each."""
    pieces = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    ]
    return [piece.encode() for piece in [*pieces, *(["data: [DONE]\n\n"] if done else [])]]


# ---- Chat Completions and Mistral, which look alike -----------------------------------------------------------------


def completion(message: Body, stop: str) -> Body:
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": stop, "logprobs": None}
    usage = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "some-model",
        "choices": [choice],
        "usage": usage,
    }


def call(id: str, name: str, arguments: Any, **more: Any) -> Body:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} | more


CALLS = [call("call00001", "get_weather", PARIS), call("call00002", "ping", "{}")]


def chunk(delta: Body, stop: str | None = None) -> Body:
    choice = {"index": 0, "delta": delta, "finish_reason": stop}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "some-model", "choices": [choice]}


USAGE_CHUNK = chunk({}) | {"choices": [], "usage": completion({}, "stop")["usage"]}


def piece(index: int, arguments: str, **more: Any) -> Body:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}} | more]}


def first_piece(index: int, id: str, name: str) -> Body:
    return piece(index, "", id=id, type="function", function={"name": name, "arguments": ""})


CHAT_STREAM: list[Body] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "Grüße"}),
    chunk({"content": " 🌍"}),
    chunk(first_piece(0, "call00001", "get_weather")),
    chunk(piece(0, PARIS[:7])),
    chunk(piece(0, PARIS[7:])),
    chunk(first_piece(1, "call00002", "ping")),
    chunk(piece(1, "{}")),
    chunk({}, "tool_calls"),
    USAGE_CHUNK,
]

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "signature": "signed"}
MISTRAL_STREAM: list[Body] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": [THINKING]}),
    chunk({"content": "Grüße"}),
    chunk({"content": [{"type": "text", "text": " 🌍"}]}),
    chunk({"tool_calls": [call("call00001", "get_weather", PARIS, index=0), call("call00002", "ping", {}, index=1)]}),
    chunk({}, "tool_calls") | {"usage": completion({}, "stop")["usage"]},
]

# ---- Responses ------------------------------------------------------------------------------------------------------

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "secret",
}
TEXT_PART = {"type": "output_text", "text": "Grüße 🌍", "annotations": []}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT_PART]}


def call_item(id: str, name: str, arguments: str) -> Body:
    item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments}
    return item | {"status": "completed"}


def response(*output: Body, status: str = "completed", **more: Any) -> Body:
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 34,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 46,
    }
    body = {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "some-model"}
    body |= {"output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
    return body | more


ITEMS: list[Body] = [
    REASONING,
    MESSAGE,
    call_item("call00001", "get_weather", PARIS),
    call_item("call00002", "ping", "{}"),
]


def item_events(place: int, item: Body, start: Body, *inside: Body) -> list[Body]:
    where = {"output_index": place, "item_id": item["id"]}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": item | start},
        *(where | event for event in inside),
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def text_deltas(kind: str, *deltas: str, **more: Any) -> list[Body]:
    return [{"type": f"response.{kind}.delta", "delta": delta} | more for delta in deltas]


RESPONSE_EVENTS: list[Body] = [
    {"type": "response.created", "response": response(status="in_progress", usage=None)},
    *item_events(0, REASONING, {"summary": []}, *text_deltas("reasoning_summary_text", "H", "m.", summary_index=0)),
    *item_events(
        1,
        MESSAGE,
        {"content": [], "status": "in_progress"},
        {"type": "response.content_part.added", "content_index": 0, "part": TEXT_PART | {"text": ""}},
        *text_deltas("output_text", "Grüße", " 🌍", content_index=0, logprobs=[]),
    ),
    *item_events(2, ITEMS[2], {"arguments": ""}, *text_deltas("function_call_arguments", PARIS[:7], PARIS[7:])),
    *item_events(3, ITEMS[3], {"arguments": ""}, *text_deltas("function_call_arguments", "{}")),
    {"type": "response.completed", "response": response(*ITEMS)},
]


def numbered(events: list[Body]) -> list[bytes]:
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)), named=True)


RESPONSES_EXTRA = {"encrypted": ("secret",), "cache_read_tokens": 4, "cache_write_tokens": 0, "reasoning_tokens": 5}

# ---- Messages -------------------------------------------------------------------------------------------------------

BLOCKS: list[Body] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
    {"type": "text", "text": "Grüße 🌍"},
    {"type": "tool_use", "id": "call00001", "name": "get_weather", "input": scenes.PARIS},
    {"type": "tool_use", "id": "call00002", "name": "ping", "input": {}},
]


def message(*content: Body, stop: str | None = "tool_use", output: int = 34) -> Body:
    usage = {"input_tokens": 12, "output_tokens": output, "cache_read_input_tokens": 3}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "some-model", "content": list(content)}
    return body | {"stop_reason": stop, "stop_sequence": None, "usage": usage}


def block_events(index: int, start: Body, *deltas: Body) -> list[Body]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def json_delta(text: str) -> Body:
    return {"type": "input_json_delta", "partial_json": text}


MESSAGE_END: list[Body] = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 34},
    },
    {"type": "message_stop"},
]
MESSAGE_EVENTS: list[Body] = [
    {"type": "message_start", "message": message(stop=None, output=1)},
    {"type": "ping"},
    *block_events(
        0,
        BLOCKS[0] | {"thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "signed"},
    ),
    *block_events(
        1,
        BLOCKS[1] | {"text": ""},
        {"type": "text_delta", "text": "Grüße"},
        {"type": "text_delta", "text": " 🌍"},
    ),
    *block_events(2, BLOCKS[2] | {"input": {}}, json_delta(PARIS[:7]), json_delta(PARIS[7:])),
    *block_events(3, BLOCKS[3], json_delta("")),
    *MESSAGE_END,
]
MESSAGES_EXTRA = {"signatures": ("signed",), "cache_read_tokens": 3}

# ---- the whole and the streamed form of one answer, per wire --------------------------------------------------------

WHOLE: dict[str, Body] = {
    "openai_chat": completion(
        {"content": "Grüße 🌍", "refusal": None, "reasoning_content": "Hm.", "tool_calls": CALLS}, "tool_calls"
    ),
    "openai_responses": response(*ITEMS),
    "anthropic": message(*BLOCKS),
    "mistral": completion(
        {
            "content": [THINKING, {"type": "text", "text": "Grüße 🌍"}],
            "tool_calls": [CALLS[0], call("call00002", "ping", {}, index=1)],
        },
        "tool_calls",
    ),
}
STREAMED = {
    "openai_chat": sse(*CHAT_STREAM, done=True),
    "openai_responses": numbered(RESPONSE_EVENTS),
    "anthropic": sse(*MESSAGE_EVENTS, named=True),
    "mistral": sse(*MISTRAL_STREAM, done=True),
}
STOPS = {"openai_chat": "tool_calls", "openai_responses": "completed", "anthropic": "tool_use", "mistral": "tool_calls"}
EXTRAS: dict[str, Body] = {
    "openai_chat": {},
    "openai_responses": RESPONSES_EXTRA,
    "anthropic": MESSAGES_EXTRA,
    "mistral": {"signatures": ("signed",)},
}


def expected(wire: str) -> Seen:
    """What the judge of a wire should see, in the whole answer and in the streamed one."""
    return Seen(
        text="Grüße 🌍",
        thinking="Hm.",
        calls=(("call00001", "get_weather", scenes.PARIS), ("call00002", "ping", {})),
        usage=(12, 34),
        stop=STOPS[wire],
        model="some-model",
        extra=EXTRAS[wire],
    )
