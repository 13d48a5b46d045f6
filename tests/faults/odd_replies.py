"""Unusual replies of OpenAI-compatible servers with one call of `get_weather(city: str)`: 26 rows.

Each row is a chat message with its finish reason; `whole` and `streamed` write it the way such a server does.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field

from dragoman.testing import Answer, sse
from dragoman.types import JsonObject

PARIS = '{"city": "Paris"}'


def make_call(arguments: Any = PARIS, *, name: str = "get_weather", **more: Any) -> JsonObject:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def without_id(call: JsonObject) -> JsonObject:
    return {name: value for name, value in call.items() if name != "id"}


class Row(Struct, frozen=True):
    """One thing that an upstream sends, and what has to become of it.

    `ran` are the cities that the tool runs with. Where none does, the model is asked again, and `told` are words of
    what it hears.
    """

    calls: list[JsonObject] = field(default_factory=list)
    content: str | None = None
    finish: str | None = "tool_calls"
    ran: tuple[str, ...] = ("Paris",)
    told: str = ""
    status: int = 200
    same_index: bool = False


ROWS: dict[str, Row] = {
    "well-formed call": Row([make_call()]),
    "call, finish_reason=stop": Row([make_call()], finish="stop"),
    "call, finish_reason=null": Row([make_call()], finish=None),
    "call without id": Row([without_id(make_call())]),
    'id is ""': Row([make_call(id="")]),
    "two calls, same id": Row([make_call(), make_call('{"city": "Rome"}')], ran=("Paris", "Rome")),
    "arguments is an object": Row([make_call({"city": "Paris"})]),
    "arguments JSON-encoded twice": Row([make_call(json.dumps(PARIS))]),
    "trailing comma": Row([make_call('{"city": "Paris",}')]),
    "single quotes": Row([make_call("{'city': 'Paris'}")]),
    "raw newline inside a string": Row([make_call('{"city": "Paris\nFrance"}')], ran=("Paris\nFrance",)),
    "arguments in a json fence": Row([make_call(f"```json\n{PARIS}\n```")]),
    "cut JSON, finish=length": Row([make_call('{"city": "Par')], finish="length", ran=(), told="length"),
    "valid JSON but finish=length": Row([make_call('{"city": "Par"}')], finish="length", ran=(), told="length"),
    "list instead of string": Row([make_call('{"city": ["Paris", "Rome"]}')], ran=(), told="city"),
    "{} for a required argument": Row([make_call("{}")], ran=(), told="city"),
    "unknown extra argument": Row([make_call('{"city": "Paris", "mood": "sunny"}')], ran=(), told="mood"),
    "tool name with a typo": Row([make_call(name="get_wether")], ran=(), told="get_weather"),
    "wrong case": Row([make_call(name="Get_Weather")]),
    "functions. prefix": Row([make_call(name="functions.get_weather")]),
    "<tool_call> in content": Row(
        content='<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>', finish="stop"
    ),
    "bare JSON call in content": Row(content='{"name": "get_weather", "arguments": {"city": "Paris"}}', finish="stop"),
    "empty answer, no call": Row(content="", finish="stop", ran=(), told="empty"),
    "429 then ok": Row([make_call()], status=429),
    "500 then ok": Row([make_call()], status=500),
    "two parallel calls, both index 0": Row(
        [make_call(), make_call('{"city": "Rome"}', id="call_2")], ran=("Paris", "Rome"), same_index=True
    ),
}


def whole(row: Row) -> Answer:
    message = {"role": "assistant", "content": row.content, **({"tool_calls": row.calls} if row.calls else {})}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "odd",
        "choices": [{"index": 0, "message": message, "finish_reason": row.finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return Answer(200, {"content-type": "application/json"}, body)


def streamed(row: Row) -> Answer:
    deltas: list[JsonObject] = [{"role": "assistant", "content": row.content}]
    for number, call in enumerate(row.calls):
        index = 0 if row.same_index else number
        deltas += _stream_call(call, index)
    frames = [_chunk(delta) for delta in deltas]
    return sse([*frames, _chunk({}, row.finish)])


def _stream_call(call: JsonObject, index: int) -> list[JsonObject]:
    arguments = call["function"]["arguments"]
    if not isinstance(arguments, str):
        return [{"tool_calls": [{"index": index, **call}]}]
    function = {"name": call["function"]["name"], "arguments": ""}
    first = {"tool_calls": [{"index": index, **call, "function": function}]}
    pieces = [arguments[place : place + 5] for place in range(0, len(arguments), 5)]
    return [first, *({"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces)]


def _chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "odd",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
