"""Tools, options and cache points of a request. Every body was accepted by two judges (`talk.prepare`)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.bedrock.talk import (
    CITY,
    CLAUDE,
    LLAMA,
    NOVA,
    PING,
    WEATHER,
    ask,
    assistant,
    call,
    encode,
    prepare,
    results,
    told,
    user,
)

from dragoman.types import Message, Text, Tool, ToolResult
from dragoman.wire.bedrock import Bedrock
from dragoman.wire.quirks import Quirks

DONE = [user("Oslo?"), assistant(call(city="Oslo")), results(ToolResult("t1", "weather", "rain"))]


# ---- tools -----------------------------------------------------------------------------------------------------------


def test_a_tool_without_description_is_described_by_its_name() -> None:
    assert encode(ask(tools=[WEATHER, PING]))["toolConfig"] == {
        "tools": [
            {"toolSpec": {"name": "weather", "description": "Forecast for a city", "inputSchema": {"json": CITY}}},
            {
                "toolSpec": {
                    "name": "ping",
                    "description": "ping",
                    "inputSchema": {"json": {"type": "object", "properties": {}}},
                }
            },
        ]
    }
    assert Bedrock().encode_definitions([WEATHER])[0]["toolSpec"]["name"] == "weather"


def test_strict_tools_are_asked_for_by_a_flag() -> None:
    spec = encode(ask(tools=[WEATHER]), Quirks(strict_tools=True))["toolConfig"]["tools"][0]["toolSpec"]
    assert spec["strict"] is True
    assert spec["inputSchema"]["json"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ({"name": "ping"}, {"tool": {"name": "ping"}}),
        ({"name": "unheard_of"}, {"auto": {}}),
    ],
)
def test_tool_choice(choice: Any, written: Any) -> None:
    assert encode(ask(tools=[WEATHER, PING], tool_choice=choice))["toolConfig"]["toolChoice"] == written
    assert "toolConfig" not in encode(ask(tool_choice=choice))


def test_a_choice_among_some_tools_offers_only_those() -> None:
    prepared = prepare(
        ask(tools=[WEATHER, PING], tool_choice={"mode": "required", "names": ["ping"]}),
        Quirks(tool_choice=("auto", "required")),
    )
    config = prepared.body["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["ping"]
    assert config["toolChoice"] == {"any": {}}
    assert any(line.startswith("approximated options") for line in told(prepared))


def test_a_choice_that_the_model_does_not_honour_is_left_out() -> None:
    prepared = prepare(ask(tools=[WEATHER], tool_choice="required"), Quirks(tool_choice=("auto",)))
    assert "toolChoice" not in prepared.body["toolConfig"]
    assert any("is not honoured" in line for line in told(prepared))


def test_no_tools_wanted() -> None:
    prepared = prepare(ask(tools=[WEATHER], tool_choice="none"))
    assert "toolConfig" not in prepared.body and prepared.losses == ()
    prepared = prepare(ask(*DONE, tools=[WEATHER], tool_choice="none"))
    assert "toolChoice" not in prepared.body["toolConfig"]
    assert any("tool_choice none" in line for line in told(prepared))


def test_a_history_with_calls_is_sent_with_tools_even_if_none_are_offered() -> None:
    prepared = prepare(ask(*DONE))
    assert [tool["toolSpec"]["name"] for tool in prepared.body["toolConfig"]["tools"]] == ["weather"]
    assert any(line.startswith("inserted tools") for line in told(prepared))
    assert prepared.tools is None


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (None, {"type": "auto"}),
        ("required", {"type": "any"}),
        ({"name": "ping"}, {"type": "tool", "name": "ping"}),
    ],
)
def test_claude_has_a_switch_against_parallel_calls(choice: Any, written: dict[str, Any]) -> None:
    body = encode(ask(tools=[PING], tool_choice=choice, parallel_tool_calls=False))
    assert body["additionalModelRequestFields"] == {"tool_choice": {**written, "disable_parallel_tool_use": True}}


@pytest.mark.parametrize(("model", "quirks"), [(NOVA, Quirks()), (CLAUDE, Quirks(parallel_flag=False))])
def test_others_have_none(model: str, quirks: Quirks) -> None:
    prepared = prepare(ask(model=model, tools=[PING], parallel_tool_calls=False), quirks)
    assert "additionalModelRequestFields" not in prepared.body
    assert any("parallel calls" in line for line in told(prepared))


def test_a_tool_that_cannot_be_expressed_is_left_out_with_a_report() -> None:
    prepared = prepare(ask(tools=[PING, Tool("ping", "the same name again"), WEATHER]))
    assert [tool["toolSpec"]["name"] for tool in prepared.body["toolConfig"]["tools"]] == ["ping", "weather"]
    assert any(line.startswith("left_out tool ping") for line in told(prepared))


# ---- options ---------------------------------------------------------------------------------------------------------


def test_sampling_and_limits() -> None:
    body = encode(ask(max_tokens=99, temperature=0.5, top_p=0.9, stop=["END"]))
    assert body["inferenceConfig"] == {"maxTokens": 99, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]}


def test_a_temperature_above_one_becomes_one() -> None:
    prepared = prepare(ask(temperature=1.5))
    assert prepared.body["inferenceConfig"] == {"temperature": 1}
    assert told(prepared) == ["approximated options: temperature 1.5 became 1, the most on this wire"]


@pytest.mark.parametrize(
    ("model", "fields"), [(CLAUDE, {"top_k": 5}), (NOVA, {"inferenceConfig": {"topK": 5}}), (LLAMA, None)]
)
def test_top_k_is_a_matter_of_the_family(model: str, fields: Any) -> None:
    prepared = prepare(ask(model=model, top_k=5))
    assert prepared.body.get("additionalModelRequestFields") == fields
    assert bool(prepared.losses) == (fields is None)


@pytest.mark.parametrize(
    ("reasoning", "fields", "rules"),
    [
        ({"budget": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, []),
        ({"budget": 5}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, ["approximated"]),
        ({"budget": 9000}, {"thinking": {"type": "enabled", "budget_tokens": 3999}}, ["approximated"]),
        ({"enabled": True}, {"thinking": {"type": "adaptive"}}, []),
        ({"enabled": False}, {"thinking": {"type": "disabled"}}, []),
        ({"enabled": True, "summary": "auto"}, {"thinking": {"type": "adaptive"}}, ["dropped"]),
    ],
)
def test_claude_is_told_how_to_think(reasoning: Any, fields: Any, rules: list[str]) -> None:
    prepared = prepare(ask(reasoning=reasoning, max_tokens=4000))
    assert prepared.body["additionalModelRequestFields"] == fields
    assert [loss.rule for loss in prepared.losses] == rules


def test_a_budget_needs_room_below_the_limit() -> None:
    prepared = prepare(ask(reasoning={"budget": 2048}, max_tokens=100))
    assert "additionalModelRequestFields" not in prepared.body
    assert [loss.rule for loss in prepared.losses] == ["dropped"]


def test_a_call_cannot_be_demanded_of_a_model_that_thinks_by_a_budget() -> None:
    prepared = prepare(ask(tools=[PING], tool_choice="required", reasoning={"budget": 2048}))
    assert prepared.body["toolConfig"]["toolChoice"] == {"auto": {}}
    assert [loss.rule for loss in prepared.losses] == ["approximated"]


def test_an_effort_is_for_every_model_and_a_budget_is_not() -> None:
    prepared = prepare(ask(model=NOVA, reasoning={"effort": "high", "budget": 2048}))
    assert prepared.body["outputConfig"] == {"effort": "high"}
    assert told(prepared) == ["dropped options: reasoning: only an effort can be said to this model, not budget"]


def test_an_answer_by_a_schema() -> None:
    body = encode(ask(response_format={"type": "json_schema", "schema": CITY, "name": "place"}))
    definition = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert definition["name"] == "place"
    assert definition["schema"] == '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
    prepared = prepare(ask(response_format={"type": "json"}))
    assert "outputConfig" not in prepared.body and [loss.rule for loss in prepared.losses] == ["dropped"]


def test_labels_go_into_the_log_of_requests_as_far_as_they_fit() -> None:
    prepared = prepare(ask(metadata={"team": "maps", "odd": "a\\b", "count": 3}))
    assert prepared.body["requestMetadata"] == {"team": "maps"}
    assert told(prepared) == ["dropped options: metadata: 2 labels do not fit this wire"]


def test_what_the_wire_has_no_place_for_is_reported() -> None:
    prepared = prepare(ask(seed=1, user="me", presence_penalty=0.5, anthropic={"service_tier": "auto"}, max_tokens=0))
    assert set(prepared.body) == {"messages"}
    assert len(prepared.losses) == 5


def test_own_fields_go_beside_what_was_written() -> None:
    body = encode(
        ask(
            tools=[PING],
            top_k=5,
            temperature=0.5,
            bedrock={
                "serviceTier": {"type": "flex"},
                "additionalModelRequestFields": {"anthropic_beta": ["x"]},
                "tools": [{"systemTool": {"name": "nova_grounding"}}],
            },
        )
    )
    assert body["serviceTier"] == {"type": "flex"}
    assert body["additionalModelRequestFields"] == {"top_k": 5, "anthropic_beta": ["x"]}
    assert body["toolConfig"]["tools"][1] == {"systemTool": {"name": "nova_grounding"}}


# ---- cache points ----------------------------------------------------------------------------------------------------

POINT = {"cachePoint": {"type": "default"}}


def marked(**options: Any) -> dict[str, Any]:
    system = Message("system", [Text("Be brief."), Text("Be kind.")])
    return encode(ask(system, *DONE, user("And?"), assistant("So."), user("Rome?"), tools=[WEATHER, PING], **options))


def test_without_the_option_there_are_no_cache_points() -> None:
    assert "cachePoint" not in str(marked())


def test_a_cache_point_stands_behind_the_last_tool() -> None:
    tools = marked(cache=True)["toolConfig"]["tools"]
    assert [entry == POINT for entry in tools] == [False, False, True]


def test_a_cache_point_stands_behind_the_last_system_block() -> None:
    assert marked(cache=True)["system"] == [{"text": "Be brief."}, {"text": "Be kind."}, POINT]


def test_a_cache_point_stands_at_the_end_of_the_last_two_user_messages() -> None:
    messages = marked(cache=True)["messages"]
    assert [message["content"][-1] == POINT for message in messages] == [False, False, True, False, True]
    assert messages[2]["content"][-2] == {"text": "And?"}
    assert str(messages).count("cachePoint") == 2


def test_the_long_cache_is_asked_for_by_name() -> None:
    assert marked(cache="1h")["system"][-1] == {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert str(marked(cache="1h")).count("1h") == 4


def test_cache_points_of_the_caller_are_kept_and_no_others_added() -> None:
    body = encode(ask(user(Text("a", {"bedrock": {"cachePoint": {"type": "default"}}}), "b"), cache=True, tools=[PING]))
    assert body["messages"][0]["content"] == [{"text": "a"}, POINT, {"text": "b"}]
    assert str(body).count("cachePoint") == 1


# ---- verbs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_error", "status"), [(False, {}), (True, {"status": "error"})])
def test_one_result_is_one_user_message_with_one_block(is_error: bool, status: dict[str, str]) -> None:
    written = Bedrock().encode_result({"call_id": "t1", "content": "rain", "is_error": is_error})
    block = {"toolUseId": "t1", "content": [{"text": "rain"}], **status}
    assert written == {"role": "user", "content": [{"toolResult": block}]}
