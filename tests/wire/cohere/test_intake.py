"""Bodies of Cohere's chat read into requests, and written again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.cohere.fuzz import mutations
from tests.wire.cohere.samples import CITATION, PLAN, RICH, SCHEMA, THOUGHT, WIRE, call
from tests.wire.judges import cohere as judge
from tests.wire.rules import violations

from dragoman.types import Image, InvalidCall, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult


def decode(*messages: Any, **fields: Any) -> Request:
    return WIRE.decode_request({"model": "m", "messages": list(messages), **fields})


def test_the_rich_body_is_clean() -> None:
    judge.validate_request(RICH)
    assert violations("cohere", RICH) == []


def test_a_clean_body_comes_back_as_it_was() -> None:
    before = json.dumps(RICH)
    prepared = WIRE.prepare(WIRE.decode_request(RICH))
    assert prepared.body == RICH
    assert prepared.losses == ()
    assert json.dumps(RICH) == before, "reading and writing changed what was read"


def test_the_rich_body_in_our_words() -> None:
    request = WIRE.decode_request(json.dumps(RICH))
    system, user, assistant, tool, answer, thanks = request.messages
    assert system == Message("system", [Text("Be brief.")])
    assert user.parts == [
        Text("Like here?"),
        Image(None, "aGk=", "image/png", {"cohere": {"detail": "low"}}),
        Image("https://example.org/a.png"),
    ]
    assert assistant.parts[:3] == [
        Thinking("Two cities.", THOUGHT),
        Thinking("I will look it up.", PLAN),
        Text("A moment."),
    ]
    calls = [(part.id, part.name, part.arguments) for part in assistant.parts[3:] if isinstance(part, ToolCall)]
    assert calls == [("c1", "weather", {"city": "Oslo"}), ("c2", "ping", {})]
    document = Text('{"sky":"rain","degrees":4}', {"cohere": {"block": RICH["messages"][3]["content"][0]}})
    assert tool.parts == [
        ToolResult("c1", "weather", [document, Text("as of noon")]),
        ToolResult("c2", "ping", "pong"),
    ]
    assert answer == Message("assistant", [Text("Rain.")], {"cohere": {"citations": [CITATION]}})
    assert thanks == Message("user", [Text("Thanks")])
    assert request.tools == [
        Tool("weather", "The weather", SCHEMA),
        Tool("ping", "", {"type": "object", "properties": {}}),
    ]
    assert request.options == {
        "temperature": 0.3,
        "top_p": 0.9,
        "top_k": 10,
        "seed": 7,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.1,
        "max_tokens": 100,
        "stop": ["END"],
        "tool_choice": "required",
        "reasoning": {"budget": 500},
        "stream": True,
        "cohere": {
            "strict_tools": True,
            "safety_mode": "OFF",
            "documents": [{"id": "d0", "data": {"text": "A fact."}}],
            "citation_options": {"mode": "FAST"},
        },
    }


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"stream": False}, {}),
    ({"thinking": {"type": "disabled"}}, {"reasoning": {"enabled": False}}),
    ({"thinking": {"type": "enabled"}}, {"reasoning": {"enabled": True}}),
    ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json"}}),
    (
        {"response_format": {"type": "json_object", "json_schema": SCHEMA}},
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
    ),
    ({"seed": None}, {}),
    # Without a neutral name, or with an odd value, a field is kept as it is for this wire alone.
    ({"response_format": {"type": "text"}}, {"cohere": {"response_format": {"type": "text"}}}),
    ({"thinking": {"type": "enabled", "depth": 2}}, {"cohere": {"thinking": {"type": "enabled", "depth": 2}}}),
    ({"temperature": "hot"}, {"cohere": {"temperature": "hot"}}),
    ({"max_tokens": True}, {"cohere": {"max_tokens": True}}),
    ({"max_tokens": 1.5}, {"cohere": {"max_tokens": 1.5}}),
    ({"stop_sequences": [1]}, {"cohere": {"stop_sequences": [1]}}),
    ({"tool_choice": "SOME"}, {"cohere": {"tool_choice": "SOME"}}),
    ({"tools": [{"type": "web"}]}, {"cohere": {"tools": [{"type": "web"}]}}),
]


@pytest.mark.parametrize(("fields", "options"), OPTIONS)
def test_options(fields: dict[str, Any], options: dict[str, Any]) -> None:
    request = decode({"role": "user", "content": "Hi"}, **fields)
    assert request.options == options
    body = WIRE.encode_request(request)
    assert {name: body.get(name) for name in fields} == fields


@pytest.mark.parametrize("choice", ["NONE", "REQUIRED"])
def test_tool_choice(choice: str) -> None:
    request = decode({"role": "user", "content": "Hi"}, tools=RICH["tools"], tool_choice=choice)
    assert request.options == {"tool_choice": choice.lower()}
    assert WIRE.encode_request(request)["tool_choice"] == choice


def test_who_is_asked_and_how_may_be_said_elsewhere() -> None:
    request = WIRE.decode_request({"messages": []}, model="other", stream=True)
    assert (request.model, request.options) == ("other", {"stream": True})


def test_ids_are_made_where_there_are_none_and_never_twice() -> None:
    bare = {"type": "function", "function": {"name": "ping", "arguments": "{}"}}
    request = decode(
        {"role": "assistant", "tool_calls": [bare, call("call_1", "look", "{}"), bare]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
        {"role": "tool", "tool_call_id": "call_3", "content": "three"},
    )
    calls = [(part.id, part.wire_id) for part in request.messages[0].parts if isinstance(part, ToolCall)]
    assert calls == [("call_2", None), ("call_1", "call_1"), ("call_3", None)]
    assert request.messages[1].parts == [
        ToolResult("call_2", "ping", "one"),
        ToolResult("call_1", "look", "two"),
        ToolResult("call_3", "ping", "three"),
    ]


def test_a_call_that_cannot_be_read() -> None:
    [call_] = decode({"role": "assistant", "tool_calls": [call("c1", "ping", "[1]")]}).messages[0].parts
    assert isinstance(call_, InvalidCall)
    assert (call_.id, call_.raw) == ("c1", "[1]")


CONTENTS: list[tuple[Any, Any]] = [
    ("pong", "pong"),
    ("", ""),
    (None, ""),
    ([], ""),
    (7, "7"),
    ([{"type": "text", "text": "a"}, "b"], [Text("a"), Text("b")]),
    ({"type": "text", "text": "a"}, [Text("a")]),
]


@pytest.mark.parametrize(("content", "read"), CONTENTS)
def test_what_a_tool_said(content: Any, read: Any) -> None:
    [message] = decode({"role": "tool", "tool_call_id": "c1", "content": content}).messages
    assert message == Message("tool", [ToolResult("c1", "", read)])


def test_a_document_that_is_a_text() -> None:
    block = {"type": "document", "document": {"data": "It rains."}}
    [message] = decode({"role": "tool", "tool_call_id": "c1", "content": [block]}).messages
    assert message.parts[0].content == [Text("It rains.", {"cohere": {"block": block}})]  # type: ignore[union-attr]


def test_blocks_of_unknown_kinds_go_back_as_they_came() -> None:
    block = {"type": "audio", "audio": {"url": "https://example.org/a.ogg"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [block]}], "stream": False}
    assert WIRE.encode_request(WIRE.decode_request(body)) == body


DEEP: Any = []
for _ in range(5000):
    DEEP = [DEEP]

ODD: list[Any] = [
    "",
    b"\xff",
    "[]",
    {"messages": 7},
    {"messages": [7, None, {}, {"role": []}, {"role": "assistant", "content": 7, "tool_calls": {"a": 1}}]},
    {"messages": [{"role": "assistant", "content": [7, {"type": []}, {"type": "thinking"}], "tool_plan": 7}]},
    {"messages": [{"role": "assistant", "tool_calls": [{"id": 7, "function": 7}, {"function": {"name": 7}}]}]},
    {"messages": [{"role": "tool", "tool_call_id": [], "content": [{"type": "document", "document": DEEP}]}]},
    {"messages": [{"role": "tool", "content": [{"type": "document"}, {"type": "image_url", "image_url": 7}]}]},
    {"model": 7, "tools": [7, {"function": {"name": 7}}], "thinking": [], "response_format": 7, "tool_choice": {}},
]


@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_no_body_is_too_odd(body: Any) -> None:
    request = WIRE.decode_request(body)
    assert isinstance(request, Request)
    assert WIRE.encode_request(request)["model"] == request.model


# ---- the law: what was written is read ------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
objects = st.dictionaries(words, st.none() | st.integers(-9, 9) | words, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations in the canonical form of this wire."""
    messages = [Message("system", [Text(draw(words))]), Message("user", [Text(draw(words))])]
    for turn in range(draw(st.integers(0, 2))):
        parts: list[Any] = [Thinking(text, THOUGHT) for text in draw(st.lists(words, max_size=1))]
        calls = [
            ToolCall(f"c{turn}-{place}", draw(st.sampled_from(["look", "ping"])), draw(objects))
            for place in range(draw(st.integers(0, 2)))
        ]
        if calls:
            parts += [Thinking(text, PLAN) for text in draw(st.lists(words, max_size=1))]
        parts += [Text(text) for text in draw(st.lists(words, min_size=0 if calls else 1, max_size=2))]
        messages.append(Message("assistant", [*parts, *calls]))
        contents: st.SearchStrategy[Any] = words | st.lists(words.map(Text), min_size=1, max_size=2)
        results: list[Any] = [ToolResult(call.id, call.name, draw(contents)) for call in calls]
        if results:
            messages.append(Message("tool", results))
        messages.append(Message("user", [Text(draw(words)), Image("https://example.org/a.png")]))
    return messages


def bare(messages: list[Message]) -> list[Any]:
    """Messages without the account of how their calls were read."""
    return [
        (
            message.role,
            message.extra,
            [(part.id, part.name, part.arguments) if isinstance(part, ToolCall) else part for part in message.parts],
        )
        for message in messages
    ]


@given(conversations())
def test_what_is_written_is_read_again(messages: list[Message]) -> None:
    prepared = WIRE.prepare(Request("m", messages))
    assert prepared.losses == ()
    judge.validate_request(prepared.body)
    assert violations("cohere", prepared.body) == []
    assert bare(WIRE.decode_request(prepared.body).messages) == bare(messages)


# ---- fuzz ------------------------------------------------------------------------------------------------------------


@given(mutations(RICH))
def test_no_mutation_of_a_body_raises(body: Any) -> None:
    request = WIRE.decode_request(body)
    assert isinstance(WIRE.encode_request(request), dict)
