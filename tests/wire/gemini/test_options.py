"""Tools and options of a request as generateContent takes them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.gemini.asking import PING, SEARCH, ask, codec, prepare, rules_of, user

from dragoman.types import Message, Text, Tool

# ---- tools ---------------------------------------------------------------------------------------------------------


def test_definitions_are_one_object_with_types_in_upper_case() -> None:
    assert codec().encode_definitions([SEARCH, PING]) == [
        {
            "functionDeclarations": [
                {
                    "name": "search",
                    "description": "Search the web",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "query": {"type": "STRING"},
                            "filters": {
                                "type": "ARRAY",
                                "items": {"type": "OBJECT", "properties": {"site": {"type": "STRING"}}},
                            },
                        },
                        "required": ["query"],
                    },
                },
                {"name": "ping", "description": "Ping"},
            ]
        }
    ]


def test_standard_schemas_only_where_the_endpoint_takes_them() -> None:
    [group] = codec(json_schema=True).encode_definitions([SEARCH, PING])
    search, ping = group["functionDeclarations"]
    assert search == {
        "name": "search",
        "description": "Search the web",
        "parametersJsonSchema": SEARCH.parameters,
    }
    assert ping == {"name": "ping", "description": "Ping"}


def test_no_tools_no_field() -> None:
    assert codec().encode_definitions([]) == []
    assert prepare(ask(user("Hi"), tool_choice="required")).body.keys() == {"contents"}


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"name": "ping"}, {"mode": "ANY", "allowedFunctionNames": ["ping"]}),
        (
            {"mode": "required", "names": ["ping", "search"]},
            {"mode": "ANY", "allowedFunctionNames": ["ping", "search"]},
        ),
        ({"mode": "auto", "names": ["ping"]}, {"mode": "VALIDATED", "allowedFunctionNames": ["ping"]}),
    ],
)
def test_tool_choice(choice: Any, written: dict[str, Any]) -> None:
    prepared = prepare(ask(user("Hi"), tools=[SEARCH, PING], tool_choice=choice))
    assert prepared.body["toolConfig"] == {"functionCallingConfig": written}
    assert prepared.losses == ()


@pytest.mark.parametrize(
    ("choice", "kinds", "offered", "config"),
    [
        ({"name": "gone"}, ("auto", "none", "required", "named"), 2, {"mode": "AUTO"}),
        ({"name": "ping"}, ("auto", "none", "required"), 1, {"mode": "ANY"}),
        ("required", ("auto",), 2, None),
        ("none", ("auto",), 0, None),
    ],
)
def test_a_choice_that_cannot_be_said_is_approximated(
    choice: Any, kinds: tuple[str, ...], offered: int, config: dict[str, Any] | None
) -> None:
    prepared = prepare(ask(user("Hi"), tools=[SEARCH, PING], tool_choice=choice), tool_choice=kinds)
    groups = prepared.body.get("tools", [])
    assert sum(len(group["functionDeclarations"]) for group in groups) == offered
    assert prepared.body.get("toolConfig") == (config and {"functionCallingConfig": config})
    assert rules_of(prepared) == ["approximated"]


def test_there_is_no_switch_against_parallel_calls() -> None:
    prepared = prepare(ask(user("Hi"), tools=[PING], parallel_tool_calls=False))
    assert [str(loss) for loss in prepared.losses] == ["options: this wire has no switch against parallel calls"]
    assert prepare(ask(user("Hi"), tools=[PING], parallel_tool_calls=True)).losses == ()


def test_a_tool_that_cannot_be_expressed_is_left_out_and_the_rest_is_sent() -> None:
    hopeless = Tool("hopeless", "", {"type": "array"})
    prepared = prepare(ask(user("Hi"), tools=[hopeless, PING], tool_choice={"name": "ping"}))
    assert [entry["name"] for entry in prepared.body["tools"][0]["functionDeclarations"]] == ["ping"]
    assert any("hopeless" in str(loss) for loss in prepared.losses)


# ---- options -------------------------------------------------------------------------------------------------------


def test_sampling_and_limits() -> None:
    options: dict[str, Any] = {
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "seed": 3,
        "stop": ["END"],
    }
    more: dict[str, Any] = {"presence_penalty": 0.1, "frequency_penalty": 0.2, "stream": True}
    prepared = prepare(ask(user("Hi"), **options, **more))
    assert prepared.body["generationConfig"] == {
        "maxOutputTokens": 99,
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 7,
        "seed": 3,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "stopSequences": ["END"],
    }
    assert prepared.losses == ()
    assert prepared.limit == 99
    assert prepare(ask(user("Hi"), temperature=0.5), sends_sampling=False).body.keys() == {"contents"}


@pytest.mark.parametrize(
    ("model", "reasoning", "config", "rules"),
    [
        ("gemini-3-pro", {"effort": "low"}, {"thinkingLevel": "LOW"}, []),
        ("gemini-3-pro", {"effort": "max"}, {"thinkingLevel": "HIGH"}, ["approximated"]),
        ("gemini-2.5-pro", {"effort": "high"}, {"thinkingBudget": 24576}, ["approximated"]),
        (
            "some-model",
            {"effort": "minimal", "summary": "auto"},
            {"includeThoughts": True, "thinkingLevel": "MINIMAL"},
            [],
        ),
        ("gemini-2.5-pro", {"budget": 2048}, {"thinkingBudget": 2048}, []),
        ("gemini-2.5-pro", {"enabled": False}, {"thinkingBudget": 0}, []),
        ("gemini-2.5-pro", {"effort": "none"}, {"thinkingBudget": 0}, []),
        ("gemini-2.5-pro", {"enabled": True}, {"thinkingBudget": -1}, []),
        ("gemini-3-pro", {"effort": "heroic"}, None, ["dropped"]),
    ],
)
def test_reasoning(model: str, reasoning: dict[str, Any], config: dict[str, Any] | None, rules: list[str]) -> None:
    prepared = prepare(ask(user("Hi"), model=model, reasoning=reasoning))
    assert prepared.body.get("generationConfig", {}).get("thinkingConfig") == config
    assert rules_of(prepared) == rules


def test_response_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    plain = prepare(ask(user("Hi"), response_format={"type": "json"})).body["generationConfig"]
    assert plain == {"responseMimeType": "application/json"}
    prepared = prepare(ask(user("Hi"), response_format={"type": "json_schema", "schema": schema, "name": "answer"}))
    assert prepared.body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert rules_of(prepared) == ["dropped"]


def test_what_has_no_place_is_reported() -> None:
    prepared = prepare(ask(user("Hi"), user="me", cache=True, anthropic={"service_tier": "auto"}))
    assert [str(loss) for loss in prepared.losses] == [
        "options: user has no place on gemini",
        "options: cache has no place on gemini",
        "options: service_tier, which only anthropic knows",
    ]


def test_own_fields_are_merged_and_left_as_they_were() -> None:
    own = {
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {"candidateCount": 1, "responseSchema": {"type": "STRING"}},
        "tools": [{"googleSearch": {}}],
    }
    format = {"type": "json_schema", "schema": {"type": "string"}}
    request = ask(user("Hi"), tools=[PING], temperature=1, gemini=own, response_format=format)
    body = prepare(request).body
    assert body["safetySettings"] == own["safetySettings"]
    assert body["generationConfig"] == {
        "temperature": 1,
        "responseMimeType": "application/json",
        "candidateCount": 1,
        "responseSchema": {"type": "STRING"},
    }
    assert body["tools"] == [
        {"functionDeclarations": [{"name": "ping", "description": "Ping"}]},
        {"googleSearch": {}},
    ]
    assert own["generationConfig"] == {"candidateCount": 1, "responseSchema": {"type": "STRING"}}


def test_what_lives_in_the_cache_is_not_sent_again() -> None:
    request = ask(
        Message("system", [Text("Be brief.")]), user("Hi"), tools=[PING], gemini={"cachedContent": "cachedContents/x"}
    )
    prepared = prepare(request)
    assert prepared.body.keys() == {"contents", "cachedContent"}
    assert rules_of(prepared) == ["dropped", "dropped"]
