"""Requests of Converse as a client sends them, read, and written again."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from tests.wire.bedrock.talk import (
    CITY,
    CLAUDE,
    LLAMA,
    NOVA,
    PING,
    PIXEL,
    WEATHER,
    ask,
    assistant,
    call,
    calls_in,
    damaged,
    encode,
    results,
    user,
)
from tests.wire.rules.samples import valid

from dragoman.types import File, Image, InvalidCall, Message, Text, Thinking, Tool, ToolResult
from dragoman.wire.bedrock import Bedrock

POINT = {"cachePoint": {"type": "default"}}
SPEC = {"name": "weather", "description": "Forecast for a city", "inputSchema": {"json": CITY}}
RICH: dict[str, Any] = {
    "system": [{"text": "Be brief."}, POINT, {"guardContent": {"text": {"text": "No secrets."}}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"text": "Look at these"},
                {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                {
                    "image": {
                        "format": "webp",
                        "source": {"s3Location": {"uri": "s3://cats/a", "bucketOwner": "123456789012"}},
                    }
                },
                {"document": {"format": "pdf", "name": "paper", "source": {"bytes": "AAAA"}, "context": "an essay"}},
                {"document": {"format": "txt", "name": "note", "source": {"text": "Grüße"}}},
                {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}},
                {"searchResult": {"source": "s", "title": "t", "content": [{"text": "found"}]}},
                POINT,
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EqQB"}}},
                {"reasoningContent": {"redactedContent": "//4="}},
                {"text": "I look."},
                {"citationsContent": {"content": [{"text": "Rain."}], "citations": [{"title": "Almanac"}]}},
                {
                    "toolUse": {
                        "toolUseId": "tooluse_1",
                        "name": "weather",
                        "input": {"city": "Oslo", "days": [1, 2.5, None]},
                    }
                },
                {"toolUse": {"toolUseId": "tooluse_2", "name": "ping", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "tooluse_1",
                        "content": [
                            {"json": {"sky": "rain", "mm": 3}},
                            {"text": "a map"},
                            {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                            {"document": {"format": "csv", "name": "rows", "source": {"bytes": "AAAA"}}},
                        ],
                    }
                },
                {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "no route"}], "status": "error"}},
                {"text": "Well?"},
            ],
        },
    ],
    "toolConfig": {
        "tools": [
            {"toolSpec": {**SPEC, "strict": True}},
            {
                "toolSpec": {
                    "name": "ping",
                    "description": "ping",
                    "inputSchema": {"json": {"type": "object", "properties": {}}},
                }
            },
            {"systemTool": {"name": "nova_grounding"}},
            POINT,
        ],
        "toolChoice": {"any": {}},
    },
    "inferenceConfig": {"maxTokens": 4000, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
    "outputConfig": {
        "effort": "high",
        "textFormat": {
            "type": "json_schema",
            "structure": {"jsonSchema": {"schema": '{"type":"object"}', "name": "place", "description": "where"}},
        },
    },
    "additionalModelRequestFields": {
        "thinking": {"type": "adaptive"},
        "top_k": 5,
        "anthropic_beta": ["x"],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    },
    "requestMetadata": {"team": "maps"},
    "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
    "serviceTier": {"type": "flex"},
}


def test_a_clean_body_comes_out_of_a_round_trip_as_it_went_in() -> None:
    before = copy.deepcopy(RICH)
    request = Bedrock().decode_request(RICH, model=CLAUDE)
    prepared = Bedrock().prepare(request)
    assert prepared.body == RICH
    assert prepared.losses == ()
    assert before == RICH


def test_the_parts_of_a_rich_body() -> None:
    request = Bedrock().decode_request(msgspec.json.encode(RICH), model=CLAUDE, stream=True)
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool", "user"]
    system, asked, answered, told, last = [message.parts for message in request.messages]
    assert [part.text for part in system if isinstance(part, Text)] == ["Be brief.", "No secrets."]
    assert asked[1] == Image(data=PIXEL, media_type="image/png")
    assert isinstance(asked[2], Image) and asked[2].url == "s3://cats/a"
    assert isinstance(asked[3], File) and (asked[3].name, asked[3].media_type) == ("paper", "application/pdf")
    assert isinstance(asked[4], File) and asked[4].data == "R3LDvMOfZQ=="
    assert isinstance(asked[5], File) and (asked[5].data, asked[5].media_type) == ("AAAA", "video/mp4")
    assert isinstance(asked[6], Text) and asked[6].text == "t\ns\nfound"
    assert answered[0] == Thinking("Hm.", {"bedrock": {"field": "reasoningText", "signature": "EqQB"}})
    assert answered[1] == Thinking("", {"bedrock": {"redacted": "//4="}})
    assert [made.id for made in calls_in(request.messages[2])] == ["tooluse_1", "tooluse_2"]
    first, second = told
    assert isinstance(first, ToolResult) and isinstance(first.content, list)
    assert (first.name, first.content[0].text if isinstance(first.content[0], Text) else "") == (
        "weather",
        '{"sky":"rain","mm":3}',
    )
    assert second == ToolResult("tooluse_2", "ping", "no route", is_error=True)
    assert last == [Text("Well?")]
    assert request.tools == [
        Tool("weather", "Forecast for a city", CITY, metadata={"bedrock": {"strict": True}}),
        Tool("ping", "", {"type": "object", "properties": {}}),
    ]
    assert request.options == {
        "max_tokens": 4000,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop": ["END"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "high", "enabled": True},
        "response_format": {
            "type": "json_schema",
            "schema": {"type": "object"},
            "name": "place",
            "description": "where",
        },
        "metadata": {"team": "maps"},
        "cache": True,
        "stream": True,
        "bedrock": {
            "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
            "serviceTier": {"type": "flex"},
            "additionalModelRequestFields": {"anthropic_beta": ["x"]},
            "tools": [{"systemTool": {"name": "nova_grounding"}}, POINT],
        },
    }


def test_a_request_of_ours_comes_back_as_it_was() -> None:
    request = ask(
        Message("system", [Text("Be brief.")]),
        user("Oslo?", Image(data=PIXEL, media_type="image/png"), File("paper", "AAAA", media_type="application/pdf")),
        assistant(
            Thinking("Hm.", {"bedrock": {"field": "reasoningText", "signature": "EqQB"}}), "Yes.", call(city="Oslo")
        ),
        results(ToolResult("t1", "weather", "no", is_error=True)),
        user("Well?"),
        tools=[WEATHER, Tool("ping", "", {"type": "object", "properties": {}})],
        max_tokens=4000,
        temperature=0.5,
        stop=["END"],
        tool_choice="auto",
        parallel_tool_calls=False,
        reasoning={"budget": 2048},
        cache="1h",
        stream=True,
    )
    back = Bedrock().decode_request(encode(request), model=CLAUDE, stream=True)
    [made] = calls_in(back.messages[2])
    assert (made.id, made.name, made.arguments) == ("t1", "weather", {"city": "Oslo"})
    assert back.messages[2].parts[:2] == request.messages[2].parts[:2]
    assert [back.messages[place] for place in (0, 1, 3, 4)] == [request.messages[place] for place in (0, 1, 3, 4)]
    assert (back.tools, back.options, back.model) == (request.tools, request.options, CLAUDE)


def test_the_model_may_also_stand_in_the_body() -> None:
    assert Bedrock().decode_request({"modelId": NOVA}).model == NOVA
    assert Bedrock().decode_request({"modelId": NOVA}, model=LLAMA).model == LLAMA


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "fields", "options"),
    [
        (CLAUDE, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"reasoning": {"budget": 2048}}),
        (CLAUDE, {"thinking": {"type": "disabled"}}, {"reasoning": {"enabled": False}}),
        (NOVA, {"inferenceConfig": {"topK": 5}}, {"top_k": 5}),
        (NOVA, {"reasoningConfig": {"type": "enabled"}}, None),
        (CLAUDE, {"thinking": {"type": "between_tools"}}, None),
        (LLAMA, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "top_k": 5}, None),
    ],
)
def test_fields_of_a_family_get_neutral_names_or_stay_as_they_are(model: str, fields: Any, options: Any) -> None:
    body = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}], "additionalModelRequestFields": fields}
    request = Bedrock().decode_request(body, model=model)
    assert request.options == (options or {"bedrock": {"additionalModelRequestFields": fields}})
    assert Bedrock().encode_request(request) == body


@pytest.mark.parametrize("cache", [True, "1h"])
def test_cache_points_where_we_put_them_are_the_option_and_nothing_else(cache: Any) -> None:
    request = ask(
        Message("system", [Text("Be brief.")]), user("a"), assistant("b"), user("c"), tools=[PING], cache=cache
    )
    body = encode(request)
    back = Bedrock().decode_request(body, model=CLAUDE)
    assert back.options == {"cache": cache}
    assert back.messages == request.messages
    assert encode(back) == body


def test_cache_points_elsewhere_stay_where_they_are() -> None:
    body = {"messages": [{"role": "user", "content": [{"text": "a"}, POINT, {"text": "b"}]}]}
    request = Bedrock().decode_request(body)
    assert request.messages == [user(Text("a", {"bedrock": POINT}), "b")]
    assert request.options == {"cache": True}
    assert encode(request) == body


def test_the_sample_of_the_rules_survives() -> None:
    body = valid("bedrock")
    again = encode(Bedrock().decode_request(body, model=CLAUDE))
    assert str(again).count("cachePoint") == str(body).count("cachePoint")
    # The results are put in the order of their calls.
    assert [block["toolResult"]["toolUseId"] for block in again["messages"][2]["content"][:2]] == [
        "tooluse_1",
        "tooluse_2",
    ]


# ---- odd bodies ------------------------------------------------------------------------------------------------------


def test_ids_are_made_where_there_are_none_and_results_find_their_calls_by_order() -> None:
    body = {
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"name": "a", "input": {}}},
                    {"toolUse": {"toolUseId": "call_1", "name": "b", "input": {}}},
                    {"toolUse": {"name": "c", "input": {}}},
                ],
            },
            {"role": "user", "content": [{"toolResult": {"content": [{"text": text}]}} for text in ("A", "B", "C")]},
        ]
    }
    first, second = Bedrock().decode_request(body).messages
    assert [made.id for made in calls_in(first)] == ["call_2", "call_1", "call_3"]
    assert second.parts == [
        ToolResult("call_2", "a", "A"),
        ToolResult("call_1", "b", "B"),
        ToolResult("call_3", "c", "C"),
    ]


def test_results_of_neighbouring_messages_are_one_message() -> None:
    def told(id: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"toolResult": {"toolUseId": id, "content": [{"text": id}]}}]}

    messages = Bedrock().decode_request({"messages": [told("a"), told("b")]}).messages
    assert messages == [results(ToolResult("a", "", "a"), ToolResult("b", "", "b"))]


def test_a_call_that_a_provider_ran_is_no_call_of_ours() -> None:
    block = {"toolUse": {"toolUseId": "s1", "name": "search", "input": {}, "type": "server_tool_use"}}
    [message] = Bedrock().decode_request({"messages": [{"role": "assistant", "content": [block]}]}).messages
    assert message.parts == [Text("", {"bedrock": {"block": block}})]


@pytest.mark.parametrize(("given_input", "raw"), [([1], "[1]"), ("nonsense", "nonsense"), (3, "3")])
def test_arguments_that_are_no_object_are_an_invalid_call(given_input: Any, raw: str) -> None:
    block = {"toolUse": {"toolUseId": "t1", "name": "ping", "input": given_input}}
    [message] = Bedrock().decode_request({"messages": [{"role": "assistant", "content": [block]}]}).messages
    [invalid] = message.parts
    assert isinstance(invalid, InvalidCall) and invalid.raw == raw


def test_bytes_are_taken_as_the_aws_client_has_them() -> None:
    blocks = [
        {"image": {"format": "png", "source": {"bytes": b"abc"}}},
        {"reasoningContent": {"redactedContent": b"abc"}},
    ]
    [message] = Bedrock().decode_request({"messages": [{"role": "assistant", "content": blocks}]}).messages
    assert message.parts == [
        Image(data="YWJj", media_type="image/png"),
        Thinking("", {"bedrock": {"redacted": "YWJj"}}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        "nonsense",
        {},
        {"messages": None, "system": 3, "toolConfig": []},
        {"messages": [None, {"role": 3, "content": {}}]},
    ],
)
def test_nonsense_is_an_empty_request(body: Any) -> None:
    request = Bedrock().decode_request(body)
    assert all(message.parts == [] for message in request.messages)
    assert request.tools == []


@given(damaged(RICH))
def test_no_body_makes_the_intake_raise_and_what_it_gives_can_be_sent(body: Any) -> None:
    request = Bedrock().decode_request(body, model=CLAUDE)
    sent = Bedrock().prepare(request).body
    roles = [message["role"] for message in sent["messages"]]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]
