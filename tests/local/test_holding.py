"""Tool choice and format are held by a grammar where an endpoint takes one, and a breach is told where none does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import dragoman
from dragoman import formats, providers, testing
from dragoman.errors import ChoiceIgnored, ConfigError
from dragoman.extraction.tool_mode import ComposedRequest, choose_tool_mode, compose, find_breach, list_alternatives
from dragoman.providers.endpoint import settle
from dragoman.toolset import Toolset
from dragoman.types import Message, Text, ToolCall, ToolResult

TOOLS = Toolset(
    [
        {"name": "get_time", "description": "Tell the time.", "parameters": {"type": "object", "properties": {}}},
        {
            "name": "add",
            "description": "Add numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    ]
)
WORDS = ("q7Rk2w", "m4Tz9c", "x8Lp3v", "j5Hd6n")


def write(model: str, **options: Any) -> ComposedRequest:
    manner = choose_tool_mode(providers.resolve(model), TOOLS)
    return compose([Message("user", [Text("What time is it?")])], manner, options, boundaries=WORDS)


def own(composed: ComposedRequest) -> dict[str, Any]:
    fields: dict[str, Any] = composed.request.options.get(composed.chosen_mode.endpoint.wire, {})
    return fields


@pytest.mark.parametrize(
    ("model", "options", "place"),
    [
        ("local", {}, ("grammar",)),
        ("llamacpp:smollm2", {}, ("grammar",)),
        ("vllm:smollm2", {}, ("structured_outputs", "grammar")),
        ("sglang:smollm2", {}, ("ebnf",)),
        ("llamacpp:gemma3", {"tool_choice": "required"}, ("grammar",)),
        ("vllm:gemma3", {"tool_choice": {"name": "add"}}, ("structured_outputs", "grammar")),
    ],
)
def test_a_weak_model_and_a_demand_are_held(model: str, options: dict[str, Any], place: tuple[str, ...]) -> None:
    found: Any = own(write(model, **options))
    for name in place:
        found = found[name]
    assert found.startswith("root ::=")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llamacpp:qwen3", {}),
        ("llamacpp:gemma3", {}),
        ("vllm:gemma3", {"tool_choice": "auto"}),
        ("ollama:smollm2", {}),
        ("openai:gpt-4o", {"tool_choice": "required"}),
        ("local", {"response_format": {"type": "json"}}),
    ],
)
def test_a_capable_model_keeps_its_freedom(model: str, options: dict[str, Any]) -> None:
    fields = own(write(model, **options))
    assert not {"grammar", "structured_outputs", "ebnf", "format"} & set(fields)


def test_the_callers_own_grammar_is_left_alone() -> None:
    composed = write("local", openai_chat={"grammar": 'root ::= "yes"', "min_p": 0.1})
    assert own(composed) == {"grammar": 'root ::= "yes"', "min_p": 0.1}


def test_a_named_tool_is_the_only_one_in_the_grammar() -> None:
    grammar = own(write("local", tool_choice={"name": "add"}))["grammar"]
    assert "add" in grammar
    assert "get_time" not in grammar
    assert "reply" not in grammar


def test_the_embedded_model_gets_every_alternative_by_itself() -> None:
    listed = own(write("local"))["alternatives"]
    assert [(call["opening"], call["name"]) for call in listed["calls"]] == [
        ("```tool", " get_time\n"),
        ("```tool", " add\n"),
    ]
    assert all("get_time" in call["grammar"] and "add" not in call["grammar"] for call in listed["calls"][:1])
    assert "```tool" not in listed["reply"]


def test_alternatives_are_listed_only_for_a_free_choice_after_a_question() -> None:
    asked = Message("user", [Text("What time is it?")])
    called = Message("assistant", [ToolCall("1", "get_time", {})])
    told = Message("tool", [ToolResult("1", "get_time", "14:05")])
    many = Toolset([{"name": f"tool_{n}", "parameters": {"type": "object"}} for n in range(17)])
    rows: list[tuple[str, str, list[Message], dict[str, Any], Toolset, bool]] = [
        ("a question", "local", [asked], {}, TOOLS, True),
        ("a later question", "local", [asked, called, told, asked], {}, TOOLS, True),
        ("a result", "local", [asked, called, told], {}, TOOLS, False),
        ("a demand", "local", [asked], {"tool_choice": "required"}, TOOLS, False),
        ("a refusal", "local", [asked], {"tool_choice": "none"}, TOOLS, False),
        ("a named tool", "local", [asked], {"tool_choice": {"name": "add"}}, TOOLS, False),
        ("the caller's grammar", "local", [asked], {"openai_chat": {"grammar": "root ::= [a-z]"}}, TOOLS, False),
        ("many tools", "local", [asked], {}, many, False),
        ("a server", "llamacpp:smollm2", [asked], {}, TOOLS, False),
    ]
    for name, model, messages, options, tools, expected in rows:
        composed = compose(messages, choose_tool_mode(providers.resolve(model), tools), options, boundaries=WORDS)
        assert ("alternatives" in own(composed)) is expected, name


def test_alternatives_begin_like_the_calls_of_every_format_for_weak_models() -> None:
    names = ("get", "get_time", "tool", "name", "function")
    tools = Toolset([{"name": name, "parameters": {"type": "object"}} for name in names])
    for format in ("fenced_tool_name", "fenced", "hermes", "qwen3_coder", "json", "pythonic"):
        listed = list_alternatives(tools, format)
        assert listed is not None, format
        written = [formats.render([(name, {})], format) for name in names]
        beginnings = [call.opening + call.name for call in listed.calls]
        for name, call, beginning in zip(names, listed.calls, beginnings, strict=True):
            assert [text.startswith(beginning) for text in written] == [each == name for each in names], format
            assert name in call.name, format
        assert len({call.opening for call in listed.calls}) == 1, format


def test_a_server_that_ignores_the_choice_is_asked_in_text() -> None:
    """Ollama has native tools for qwen3 and no tool choice: a schema holds what it writes instead."""
    free, held = write("ollama:qwen3"), write("ollama:qwen3", tool_choice="required")
    assert (free.chosen_mode.mode, len(free.request.tools)) == ("native", 2)
    assert (held.chosen_mode.mode, held.request.tools) == ("text", [])
    assert isinstance(own(held)["format"], dict)


def test_without_a_choice_of_its_own_none_means_that_nothing_is_offered() -> None:
    composed = write("ollama:qwen3", tool_choice="none")
    assert composed.request.tools == []
    assert not len(composed.chosen_mode.tools)


def test_a_tool_that_is_not_offered_cannot_be_named() -> None:
    with pytest.raises(ConfigError, match="'fly', which is not offered"):
        write("local", tool_choice={"name": "fly"})


# ---- examples for weak models --------------------------------------------------------------------------------------


def test_a_weak_model_is_shown_a_call_of_every_tool_and_a_plain_reply() -> None:
    texts = [message.text for message in write("local").request.messages]
    assert texts[-1] == "What time is it?"
    assert "```tool get_time\n{}\n```" in texts
    assert '```tool add\n{"a": 1, "b": 1}\n```' in texts
    assert "Hello! How can I help?" in texts
    assert any(text.startswith("<<result example ") for text in texts)


def test_where_a_call_is_demanded_only_calls_are_shown() -> None:
    texts = [message.text for message in write("local", tool_choice="required").request.messages]
    assert "Hello! How can I help?" not in texts
    assert not any(text.startswith("<<result") for text in texts)


def test_a_longer_conversation_begins_with_the_same_messages() -> None:
    manner = choose_tool_mode(providers.resolve("local"), TOOLS)
    said = [Message("user", [Text("Time?")])]
    first = compose(said, manner, {}, boundaries=WORDS)
    grown = [
        *said,
        Message("assistant", [ToolCall("c1", "get_time", {})]),
        Message("tool", [ToolResult("c1", "get_time", "09:30")]),
    ]
    second = compose(grown, manner, {}, boundaries=WORDS)
    assert (first.boundaries, second.boundaries) == ((), ("q7Rk2w",))
    assert second.request.messages[: len(first.request.messages)] == first.request.messages


# ---- after the fact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "called", "words"),
    [
        ("auto", [], ""),
        ("required", ["add"], ""),
        ("required", [], "tool_choice is 'required', and the model called nothing"),
        ({"name": "add"}, ["add"], ""),
        ({"name": "add"}, [], "tool_choice is 'add', and the model called nothing"),
        ({"name": "add"}, ["get_time"], "tool_choice allows add, and the model called get_time"),
        ("none", ["add"], "tool_choice is none, and the model called add"),
    ],
    ids=str,
)
def test_a_breach_is_found(choice: Any, called: list[str], words: str) -> None:
    assert find_breach(write("openai_chat:gpt-4o", tool_choice=choice), called) == words


@pytest.mark.parametrize(
    ("choice", "reply"),
    [
        ("required", "It is late."),
        ({"name": "add"}, testing.call("get_time")),
        ("none", testing.call("get_time")),
    ],
    ids=["required", "named", "none"],
)
def test_a_server_that_does_as_it_pleases_is_an_error(choice: Any, reply: Any) -> None:
    model = testing.ScriptedModel([reply])
    with pytest.raises(ChoiceIgnored) as raised:
        dragoman.ask(model.endpoint(), "Time?", tools=TOOLS, tool_choice=choice, transport=model)
    assert "accepts grammars" in raised.value.next_step


def test_a_stream_ends_with_the_same_error() -> None:
    model = testing.ScriptedModel(["It is late."])

    async def listen() -> list[str]:
        texts = []
        stream = dragoman.astream(model.endpoint(), "Time?", tools=TOOLS, tool_choice="required", transport=model)
        with pytest.raises(ChoiceIgnored):
            async for event in stream:
                texts.append(getattr(event, "text", ""))
        return texts

    assert "".join(asyncio.run(listen())) == "It is late."


def test_definitions_are_encoded_only_when_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(*_: object) -> None:
        raise AssertionError("the tool mode needs no definitions")

    monkeypatch.setattr("dragoman.wire.codec.Codec.encode_definitions", encode)
    assert choose_tool_mode(providers.resolve("openai:gpt-4o"), TOOLS).mode == "native"
    assert choose_tool_mode(providers.resolve("openai:gpt-4o"), TOOLS, "text").mode == "text"


def test_a_provider_without_a_known_wire_cannot_be_chosen() -> None:
    oci = providers.get("oci")
    with pytest.raises(ConfigError, match="does not support the protocol of oci"):
        choose_tool_mode(settle(oci, "m", overrides={"native_tool_calls": True}), TOOLS)
