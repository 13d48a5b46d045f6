"""The tools of a request, the choice among them, and its options."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import JsonObject, Request, Tool, ToolCall
from dragoman.wire.anthropic import Anthropic
from dragoman.wire.quirks import Quirks

from .asking import CODEC, MODEL, prepare, reports, used
from .samples import TOOLS

# ---- tools -----------------------------------------------------------------------------------------------------------


def test_definitions() -> None:
    assert CODEC.encode_definitions([{"name": "ping", "description": "Ping", "parameters": {"type": "object"}}]) == [
        {"name": "ping", "description": "Ping", "input_schema": {"type": "object"}}
    ]


def test_no_tools_are_no_field() -> None:
    assert "tools" not in prepare(tools=[], tool_choice="required").body


def test_strict_tools_are_compiled_for_it_and_only_twenty_may_be() -> None:
    tools = [Tool(f"t{number}", "", {"type": "object", "properties": {"n": {"minimum": 3}}}) for number in range(22)]
    sent = prepare(tools=tools, quirks=Quirks(strict_tools=True))
    assert [tool.get("strict", False) for tool in sent.body["tools"]] == [True] * 20 + [False] * 2
    assert sent.body["tools"][0]["input_schema"]["additionalProperties"] is False
    assert [loss.where for loss in sent.losses if "only 20" in loss.detail] == ["tool t20", "tool t21"]


def test_tools_of_the_history_are_declared_where_none_are_offered() -> None:
    sent = prepare(used(ToolCall("a", "fs.read", {})))
    assert [tool["name"] for tool in sent.body["tools"]] == ["fs_read"]
    assert sent.body["tool_choice"] == {"type": "none"}
    assert sent.tools is None
    assert reports(sent) == ["renamed", "inserted"]


def test_tools_of_the_provider_follow_ours() -> None:
    search = {"type": "web_search_20260318", "name": "web_search"}
    body = prepare(tools=TOOLS, anthropic={"tools": [search]}, tool_choice={"name": "web_search"}).body
    assert [tool["name"] for tool in body["tools"]] == ["get_weather", "ping", "web_search"]
    assert body["tool_choice"] == {"type": "tool", "name": "web_search"}


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"name": "ping"}, {"type": "tool", "name": "ping"}),
    ],
)
def test_choices(option: Any, written: JsonObject) -> None:
    sent = prepare(tools=TOOLS, tool_choice=option)
    assert sent.body["tool_choice"] == written
    assert sent.losses == ()
    alone = prepare(tools=TOOLS, tool_choice=option, parallel_tool_calls=False).body["tool_choice"]
    # Where no call may be made there is nothing to forbid.
    assert alone == written | ({} if option == "none" else {"disable_parallel_tool_use": True})


def test_no_parallel_calls_without_a_choice() -> None:
    body = prepare(tools=TOOLS, parallel_tool_calls=False).body
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in prepare(tools=TOOLS, parallel_tool_calls=True).body


def test_an_endpoint_without_the_parallel_switch() -> None:
    sent = prepare(tools=TOOLS, parallel_tool_calls=False, quirks=Quirks(parallel_flag=False))
    assert "tool_choice" not in sent.body
    assert reports(sent) == ["dropped"]


@pytest.mark.parametrize(
    ("kinds", "option", "names", "written"),
    [
        (("auto", "required"), {"name": "ping"}, ["ping"], {"type": "any"}),
        (("auto",), {"name": "ping"}, ["ping"], None),
        (("auto",), "required", ["get_weather", "ping"], None),
        (("auto",), "none", None, None),
        (
            ("auto", "none", "required", "named"),
            {"mode": "required", "names": ["ping", "x"]},
            ["ping"],
            {"type": "any"},
        ),
        (("auto", "none", "required", "named"), {"mode": "auto", "names": ["ping"]}, ["ping"], {"type": "auto"}),
        (("auto", "none", "required", "named"), {"name": "gone"}, ["get_weather", "ping"], {"type": "auto"}),
    ],
)
def test_choices_that_have_to_be_approximated(
    kinds: tuple[str, ...], option: Any, names: list[str] | None, written: JsonObject | None
) -> None:
    sent = prepare(tools=TOOLS, tool_choice=option, quirks=Quirks(tool_choice=kinds))
    assert ([tool["name"] for tool in sent.body["tools"]] if "tools" in sent.body else None) == names
    assert sent.body.get("tool_choice") == written
    assert set(reports(sent)) == {"approximated"}


def test_tools_stay_where_the_history_needs_them_though_none_may_be_called() -> None:
    sent = prepare(used(ToolCall("a", "ping", {})), TOOLS, Quirks(tool_choice=("auto",)), tool_choice="none")
    assert len(sent.body["tools"]) == 2
    assert reports(sent) == ["approximated"]


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"max_tokens": 100}, {"max_tokens": 100}),
        ({"max_tokens": 0}, {"max_tokens": 0}),
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 5}, {"temperature": 0.5, "top_p": 0.9, "top_k": 5}),
        ({"stop": ["END"]}, {"stop_sequences": ["END"]}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"user": "u1"}, {"metadata": {"user_id": "u1"}}),
        ({"stream": True}, {"stream": True}),
        ({"anthropic": {"service_tier": "auto"}}, {"service_tier": "auto"}),
        ({"reasoning": {"effort": "xhigh"}}, {"output_config": {"effort": "xhigh"}, "thinking": {"type": "adaptive"}}),
        ({"reasoning": {"enabled": True}}, {"thinking": {"type": "adaptive"}}),
        ({"reasoning": {"enabled": False}}, {"thinking": {"type": "disabled"}}),
        ({"reasoning": {"effort": "none"}}, {"thinking": {"type": "disabled"}}),
        ({"reasoning": {"budget": 0}}, {"thinking": {"type": "disabled"}}),
        ({"reasoning": {"budget": -1}}, {"thinking": {"type": "adaptive"}}),
        (
            {"reasoning": {"budget": 2048}, "max_tokens": 4000},
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 4000},
        ),
        (
            {"reasoning": {"budget": 10000}},
            {"thinking": {"type": "enabled", "budget_tokens": 10000}, "max_tokens": 14096},
        ),
        (
            {"reasoning": {"effort": "low", "summary": "auto"}},
            {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive", "display": "summarized"}},
        ),
        (
            {"reasoning": {"effort": "low"}, "anthropic": {"thinking": {"display": "omitted"}}},
            {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive", "display": "omitted"}},
        ),
        ({"reasoning": {"effort": "low"}, "anthropic": {"thinking": None}}, {"output_config": {"effort": "low"}}),
    ],
)
def test_options(options: dict[str, Any], fields: JsonObject) -> None:
    sent = prepare(**options)
    assert sent.losses == ()
    plain = {"model": MODEL, "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]}
    assert sent.body == plain | fields
    assert sent.limit == sent.body["max_tokens"]


@pytest.mark.parametrize(
    ("options", "fields", "rule"),
    [
        ({"seed": 7}, {}, "dropped"),
        ({"metadata": {"run": "1"}}, {}, "dropped"),
        ({"response_format": {"type": "json"}}, {}, "dropped"),
        ({"stop": ["END", "\n"]}, {"stop_sequences": ["END"]}, "dropped"),
        ({"temperature": 1.7}, {"temperature": 1}, "approximated"),
        ({"reasoning": {"effort": "vast"}}, {"thinking": {"type": "adaptive"}}, "dropped"),
        (
            {"reasoning": {"effort": "minimal"}},
            {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}},
            "approximated",
        ),
        (
            {"reasoning": {"budget": 5}, "max_tokens": 4096},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            "approximated",
        ),
        (
            {"reasoning": {"budget": 9000}, "max_tokens": 4096},
            {"thinking": {"type": "enabled", "budget_tokens": 4095}},
            "approximated",
        ),
        ({"reasoning": {"budget": 2000}, "max_tokens": 1024}, {"max_tokens": 1024}, "dropped"),
        ({"openai_chat": {"logprobs": True}}, {}, "dropped"),
    ],
)
def test_options_that_are_changed_or_left_out_are_reported(
    options: dict[str, Any], fields: JsonObject, rule: str
) -> None:
    sent = prepare(**options)
    plain = {"model": MODEL, "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]}
    assert sent.body == plain | fields
    assert reports(sent) == [rule]


def test_sampling_is_left_out_and_reported_where_it_is_refused() -> None:
    sent = prepare(temperature=0.5, quirks=Quirks(sends_sampling=False))
    assert "temperature" not in sent.body
    assert reports(sent) == ["dropped"]


def test_a_forced_choice_excludes_a_budget_but_no_effort() -> None:
    sent = prepare(tools=TOOLS, tool_choice="required", reasoning={"budget": 2048})
    assert "thinking" not in sent.body
    assert reports(sent) == ["dropped"]
    assert prepare(tools=TOOLS, tool_choice="required", reasoning={"effort": "low"}).losses == ()


def test_a_schema_for_the_answer_is_compiled_for_the_strict_mode() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "schema": schema, "name": "count", "strict": True}
    body = prepare(response_format=form, reasoning={"effort": "low"}).body
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["output_config"]["format"]["schema"] == schema | {"additionalProperties": False}


def test_the_path() -> None:
    assert CODEC.endpoint("claude-opus-5-5", stream=True) == "/messages"


def test_an_endpoint_with_another_name_for_the_limit() -> None:
    body = Anthropic(Quirks(max_tokens_field="max_output_tokens")).encode_request(
        Request(MODEL, options={"max_tokens": 7})
    )
    assert body["max_output_tokens"] == 7
    assert "max_tokens" not in body
