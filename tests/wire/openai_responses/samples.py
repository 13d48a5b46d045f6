"""Bodies and streams of the Responses API, as its documentation and its servers give them."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.events import Event
from dragoman.replies import fold, unfold
from dragoman.types import Reply, Tool
from dragoman.wire import get
from dragoman.wire.quirks import Quirks

WIRE = "openai_responses"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "Forecast for a city", CITY)
PING = Tool("ping", "Answer at once", {"type": "object", "properties": {}})

REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "I look."}, {"type": "summary_text", "text": "Then I speak."}],
    "encrypted_content": "gAAAAB",
}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Let me see. 🌍", "annotations": []}],
}
PARIS: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city":"Paris"}',
    "status": "completed",
}
PINGED: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_2",
    "call_id": "call_2",
    "name": "ping",
    "arguments": "{}",
    "status": "completed",
}
USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 29,
}


def response(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "gpt-5.6",
        "output": list(output),
        "usage": USAGE,
        **fields,
    }


def frames(*events: dict[str, Any]) -> bytes:
    """Events as the API sends them: named and numbered."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    )


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


CREATED = event("created", response=response(status="in_progress"))
OUTPUT = (REASONING, MESSAGE, PARIS, PINGED)
WHOLE = response(*OUTPUT)


def said_reasoning(index: int = 0) -> list[dict[str, Any]]:
    place = {"item_id": "rs_1", "output_index": index}
    events = [event("output_item.added", output_index=index, item={"type": "reasoning", "id": "rs_1", "summary": []})]
    for number, part in enumerate(REASONING["summary"]):
        inside = {**place, "summary_index": number}
        events += [
            event("reasoning_summary_part.added", **inside, part={"type": "summary_text", "text": ""}),
            event("reasoning_summary_text.delta", **inside, delta=part["text"][:3]),
            event("reasoning_summary_text.delta", **inside, delta=part["text"][3:]),
            event("reasoning_summary_text.done", **inside, text=part["text"]),
            event("reasoning_summary_part.done", **inside, part=part),
        ]
    return [*events, event("output_item.done", output_index=index, item=REASONING)]


def said_message(index: int = 1) -> list[dict[str, Any]]:
    place = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    text = MESSAGE["content"][0]["text"]
    return [
        event("output_item.added", output_index=index, item={**MESSAGE, "content": [], "status": "in_progress"}),
        event("content_part.added", **place, part={"type": "output_text", "text": "", "annotations": []}),
        event("output_text.delta", **place, delta=text[:5]),
        event("output_text.delta", **place, delta=text[5:]),
        event("output_text.done", **place, text=text),
        event("content_part.done", **place, part=MESSAGE["content"][0]),
        event("output_item.done", output_index=index, item=MESSAGE),
    ]


def said_call(item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    text = item["arguments"]
    return [
        event("output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"}),
        event("function_call_arguments.delta", **place, delta=text[:4]),
        event("function_call_arguments.delta", **place, delta=text[4:]),
        event("function_call_arguments.done", **place, arguments=text),
        event("output_item.done", output_index=index, item=item),
    ]


EVENTS = [
    CREATED,
    event("in_progress", response=response(status="in_progress")),
    *said_reasoning(),
    *said_message(),
    *said_call(PARIS, 2),
    *said_call(PINGED, 3),
]
COMPLETED = event("completed", response=WHOLE)
STREAM = frames(*EVENTS, COMPLETED)


def read(*pieces: bytes, **quirks: Any) -> list[Event]:
    stream = get(WIRE, Quirks(**quirks)).reply_stream()
    return [event for piece in pieces for event in stream.feed(piece)] + stream.close()


def folded(*events: dict[str, Any], **quirks: Any) -> Reply:
    return fold(read(frames(*events), **quirks))


def serve(reply: Reply, **named: Any) -> bytes:
    stream: Any = get(WIRE).event_stream(**named)
    return b"".join([piece for event in unfold(reply) for piece in stream.feed(event)] + stream.close())


def served_frames(written: bytes) -> list[tuple[str | None, dict[str, Any]]]:
    """The (event, data) pairs of a stream."""
    found: list[tuple[str | None, dict[str, Any]]] = []
    for block in written.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))))
    return found
