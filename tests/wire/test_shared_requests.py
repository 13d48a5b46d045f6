"""What requests of one conversation share is computed once, and nobody can tell: results are equal, and bounded."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dragoman import wire
from dragoman.events import ReplyEnded
from dragoman.replies import fold
from dragoman.types import Message, Request, Tool
from dragoman.wire.codec import Kept, content_key
from dragoman.wire.openai_chat.client import read_plain

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS = [Tool("weather", "The weather.", CITY), Tool("a/b", "Renamed.", CITY), Tool("free", "Anything.")]


def make_body(**changes: Any) -> dict[str, Any]:
    """A completion with one call; `changes` are made in the call, the message, the choice or the body."""
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    call |= changes.pop("call", {})
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call, *changes.pop("calls", [])]}
    message |= changes.pop("message", {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"} | changes.pop("choice", {})
    usage = {"prompt_tokens": 4, "completion_tokens": 2}
    return {"id": "r", "model": "m", "choices": [choice], "usage": usage, **changes}


def named(name: str, arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


SECOND = {"id": "c2", "type": "function", **named("weather", '{"city":"Rome","days":2}')}
PLAIN = [
    make_body(),
    make_body(message={"content": None, "refusal": None, "annotations": [], "function_call": None}),
    make_body(calls=[SECOND]),
    make_body(call=named("weather", '{"city":"Ørsta"}')),
    make_body(choice={"logprobs": {"content": []}}, system_fingerprint="x"),
    make_body(usage=None),
]
UNUSUAL = [
    make_body(call=named("weather", '{"city": 5}')),
    make_body(call=named("weather", '{"city": "Oslo", "days": "2"}')),
    make_body(call=named("weather", "{'city': 'Oslo'}")),
    make_body(call=named("weather", '{"city": "Oslo"')),
    make_body(call=named("weather", '{"city": "A", "city": "B"}')),
    make_body(call=named("weather", {"city": "Oslo"})),
    make_body(call=named("Weather", '{"city": "Oslo"}')),
    make_body(call=named("a_b", '{"city": "Oslo"}')),
    make_body(call=named("free", "{}")),
    make_body(call=named("unknown", "{}")),
    make_body(call={"id": ""}),
    make_body(call={"id": "before"}),
    make_body(call={"custom": {"name": "weather", "input": "x"}}),
    make_body(calls=[SECOND | {"id": "c1"}]),
    make_body(calls=["no call"]),
    make_body(message={"content": [{"type": "text", "text": "x"}]}),
    make_body(message={"content": "\ud83d"}),
    make_body(message={"reasoning_content": "hm"}),
    make_body(message={"refusal": "No."}),
    make_body(message={"tool_calls": []}),
    make_body(choice={"finish_reason": "stop"}),
    make_body(choice={"finish_reason": "length"}),
    make_body(choice={"finish_reason": None}),
    make_body(choice={"index": 1}),
    make_body(usage={"prompt_tokens": 4, "completion_tokens": 50}),
    make_body(error={"message": "broken"}),
    make_body(object="error", message={}),
    make_body(citations=["https://example.org"]),
    make_body(choices=[]),
    {"choices": "none"},
]


def test_a_plain_completion_is_read_as_every_other() -> None:
    codec = wire.get("openai_chat")
    messages = codec.decode_request({"messages": [{"role": "user", "content": "?"}, *history("before")]}).messages
    sent = codec.prepare(Request("m", messages, TOOLS, {"max_tokens": 50}))
    for body in [*PLAIN, *UNUSUAL]:
        expected = codec.open_reader(sent).read_whole(deepcopy(body))
        assert codec.read_body(deepcopy(body), sent) == expected, body
        assert (read_plain(deepcopy(body), "openai_chat", sent) is not None) is (body in PLAIN), body


def history(identity: str) -> list[dict[str, Any]]:
    call = {"id": identity, "type": "function", **named("weather", '{"city":"Bonn"}')}
    result = {"role": "tool", "tool_call_id": identity, "content": "rain"}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def write_tools(name: str, codec: str) -> list[dict[str, Any]]:
    if codec == "anthropic":
        return [{"name": name, "description": "It.", "input_schema": CITY}]
    return [{"type": "function", "function": {"name": name, "description": "It.", "parameters": CITY}}]


@pytest.mark.parametrize("name", ["openai_chat", "anthropic"])
def test_a_shared_codec_gives_what_another_gives(name: str) -> None:
    bodies: list[dict[str, Any]] = []
    for text in ("one", "two"):
        said = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
        for rest in (
            {"tools": write_tools("look", name)},
            {"tools": write_tools("find", name), "temperature": 1},
            {"tools": write_tools("find", name), "temperature": 1.0},
            {"tools": write_tools("find", name), "tool_choice": "none" if name == "openai_chat" else {"type": "none"}},
            {"system": "Be brief.", "metadata": {"user_id": text}},
            {},
        ):
            bodies.append({**said, **rest})
    shared, plain = wire.get(name), wire.get(name)
    shared.is_shared = True
    for body in [*bodies, *bodies]:
        request, expected = shared.decode_request(deepcopy(body)), plain.decode_request(deepcopy(body))
        assert request == expected, body
        for each in ("openai_chat", "anthropic", "gemini"):
            sender, other = wire.get(each), wire.get(each)
            sender.is_shared = True
            one, same = sender.prepare(request), other.prepare(expected)
            assert (one.body, one.losses, one.aliases, one.limit) == (same.body, same.losses, same.aliases, same.limit)
            assert one.body == sender.prepare(request).body, "the second time it came from the first"


def test_tools_that_are_changed_in_place_are_sent_as_they_are_now() -> None:
    codec = wire.get("openai_chat")
    codec.is_shared = True
    schema: dict[str, Any] = {"type": "object", "properties": {"changed": {"type": "string"}}}
    before = deepcopy(schema)
    tool = Tool("changes", "It.", schema)
    messages = [Message.user("?")]

    def send(tools: list[Tool]) -> Any:
        return codec.prepare(Request("m", messages, tools)).body["tools"][0]["function"]["parameters"]

    assert send([tool]) == before
    schema["properties"]["changed"]["type"] = "integer"
    assert send([tool]) == schema != before
    assert send([Tool("changes", "It.", deepcopy(before))]) == before, "the kept result was changed with the tool"


def test_what_is_kept_is_bounded_and_told_apart_by_content() -> None:
    kept: Kept[int] = Kept(entries=3, size=100, longest=60)
    for number in range(10):
        kept.add(number, bytes([number]) * 40)
        assert kept.find(bytes([number]) * 40) == number
        assert len(kept) <= 2, "80 of 100 bytes are used"
    kept.add(1, b"x" * 61)
    assert kept.find(b"x" * 61) is None
    small: Kept[str] = Kept(entries=3)
    for name in "abcde":
        small.add(name, name.encode(), "wire")
    assert [small.find(name.encode(), "wire") for name in "abcde"] == [None, None, "c", "d", "e"]
    assert small.find(b"e", "another wire") is None
    values = [1, 1.0, True, "1", None, float("nan"), [], {}, {"a": 1, "b": 2}, {"a": 1, "b": 2.0}, b"x"]
    keys = [content_key(value) for value in values]
    assert None not in keys and len(set(keys)) == len(values)
    assert content_key(Tool("t", run=print)) is content_key("\ud800") is content_key({1 << 70: 1}) is None


def test_events_of_a_plain_completion_fold_to_its_reply() -> None:
    codec = wire.get("openai_chat")
    sent = codec.prepare(Request("m", [Message.user("?")], TOOLS))
    events = codec.read_body(PLAIN[2], sent)
    assert fold(events) == codec.decode_reply(PLAIN[2], sent)
    assert isinstance(events[-1], ReplyEnded) and events[-1].stop == "tool_calls"
