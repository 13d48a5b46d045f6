"""Requests as this wire wants them: items, instructions, tools, options, and what may be sent back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.judges import openai_responses as judge
from tests.wire.openai_responses.samples import PING, PIXEL, WEATHER, WIRE
from tests.wire.rules import WIRES, violations

from dragoman import providers
from dragoman.extraction.tool_mode import choose_tool_mode, compose
from dragoman.toolset import Toolset
from dragoman.types import (
    Fault,
    File,
    Image,
    InvalidCall,
    Message,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire import get
from dragoman.wire.codec import Prepared
from dragoman.wire.quirks import Quirks

HELLO = Message("user", [Text("Hello")])
IMAGE = Image(None, PIXEL, "image/png")
RS = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAAAB"}
OWN_THOUGHT = Thinking("hm", {WIRE: RS})


def prepare(*messages: Message, tools: Any = (), options: Any = None, **quirks: Any) -> Prepared:
    """A prepared request that the rules and the official client's types have nothing against."""
    prepared = get(WIRE, Quirks(**quirks)).prepare(Request("gpt-5.6", list(messages), list(tools), options or {}))
    assert violations(WIRE, prepared.body) == []
    judge.validate_request(prepared.body)
    return prepared


def items(*messages: Message, **named: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = prepare(*messages, **named).body["input"]
    return found


def user(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def called(*calls: ToolCall | InvalidCall, results: list[ToolResult]) -> list[Message]:
    return [HELLO, Message("assistant", list(calls)), Message("tool", list(results))]


# ---- messages --------------------------------------------------------------------------------------------------------


def test_a_request_says_nothing_of_storage_that_its_caller_did_not_say() -> None:
    assert prepare(HELLO).body == {"model": "gpt-5.6", "input": [user("Hello")]}


@pytest.mark.parametrize("source", WIRES)
def test_a_request_of_a_client_is_never_made_one_that_nothing_is_stored_of(source: str) -> None:
    body = get(source).encode_request(Request("m", [HELLO]))
    written = get(WIRE).encode_request(get(source).decode_request(body, model="m"))
    assert written.keys().isdisjoint({"store", "include"})


@pytest.mark.parametrize(
    "own, expected",
    [
        ({}, {"store": False, "include": ["reasoning.encrypted_content"]}),
        ({"include": None}, {"store": False}),
        ({"store": True}, {"store": True}),
        ({"previous_response_id": "resp_0"}, {"previous_response_id": "resp_0"}),
        ({"conversation": "conv_0"}, {"conversation": "conv_0"}),
    ],
)
def test_who_keeps_the_conversation_asks_to_store_nothing_unless_told_otherwise(own: Any, expected: Any) -> None:
    endpoint = providers.resolve("openai:gpt-5.6")
    composed = compose([HELLO], choose_tool_mode(endpoint, Toolset(())), {WIRE: own})
    body = get(WIRE).encode_request(composed.request)
    assert body == {"model": "gpt-5.6", "input": [user("Hello")], **expected}


@pytest.mark.parametrize(
    "own, expected",
    [
        ({"store": True}, {"store": True}),
        ({"store": False, "include": None}, {"store": False}),
        ({"previous_response_id": "resp_0"}, {"previous_response_id": "resp_0"}),
        ({"service_tier": "flex", "store": True}, {"service_tier": "flex", "store": True}),
    ],
)
def test_the_own_options_of_the_wire_overrule(own: Any, expected: Any) -> None:
    assert prepare(HELLO, options={WIRE: own}).body == {"model": "gpt-5.6", "input": [user("Hello")], **expected}


def test_one_leading_system_message_becomes_the_instructions_and_later_ones_stay_items() -> None:
    late = Message("system", [Text("Briefly.")])
    body = prepare(Message("system", [Text("Be kind.")]), late, HELLO, late).body
    item = {"type": "message", "role": "system", "content": "Briefly."}
    assert body["instructions"] == "Be kind."
    assert body["input"] == [item, user("Hello"), item]


def test_system_items_speak_as_developer_where_the_endpoint_wants_that() -> None:
    assert items(HELLO, Message("system", [Text("Briefly.")]), developer_role=True)[1]["role"] == "developer"


def test_a_system_message_of_several_texts_is_not_run_together() -> None:
    body = prepare(Message("system", [Text("One."), Text("Two.")]), HELLO).body
    assert "instructions" not in body
    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "One."},
        {"type": "input_text", "text": "Two."},
    ]


def test_a_conversation_of_a_system_message_alone_still_has_an_input() -> None:
    assert items(Message("system", [Text("Speak.")])) == [{"type": "message", "role": "system", "content": "Speak."}]


def test_images_and_files_of_the_user() -> None:
    parts: list[Part] = [
        Text("Look."),
        IMAGE,
        Image("https://example.com/a.png", extra={WIRE: {"detail": "high"}}),
        Image(extra={WIRE: {"file_id": "file_1"}}),
        File("a.pdf", "JVBERi0x", media_type="application/pdf"),
        File("b.pdf", url="https://example.com/b.pdf"),
        File("c.pdf", extra={WIRE: {"file_id": "file_2"}}),
    ]
    assert items(Message("user", parts))[0]["content"] == [
        {"type": "input_text", "text": "Look."},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "high"},
        {"type": "input_image", "detail": "auto", "file_id": "file_1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"},
        {"type": "input_file", "file_url": "https://example.com/b.pdf"},
        {"type": "input_file", "file_id": "file_2"},
    ]


@pytest.mark.parametrize(
    "data, media, guessed",
    [
        (PIXEL, "image/png", False),
        ("/9j/4AAQ", "image/jpeg", False),
        ("R0lGODlh", "image/gif", False),
        ("UklGRkQAAABXRUJQ", "image/webp", False),
        ("AAAA", "image/png", True),
    ],
)
def test_the_media_type_of_an_image_is_read_from_its_data(data: str, media: str, guessed: bool) -> None:
    prepared = prepare(Message("user", [Image(None, data), Text("?")]))
    assert prepared.body["input"][0]["content"][0]["image_url"].startswith(f"data:{media};")
    assert [loss.rule for loss in prepared.losses] == (["guessed"] if guessed else [])


def test_an_image_that_only_another_wire_can_find_is_named_in_the_report() -> None:
    prepared = prepare(Message("user", [Image(extra={"anthropic": {"file_id": "x"}}), Text("?")]))
    assert prepared.body["input"][0]["content"][0] == {"type": "input_text", "text": "[image: not available]"}
    assert any(loss.rule == "dropped" and "the image was left out" in loss.detail for loss in prepared.losses)


# ---- what the assistant said -----------------------------------------------------------------------------------------


def test_text_of_elsewhere_is_an_easy_message() -> None:
    assert items(HELLO, Message("assistant", [Text("Hi."), Text("You.")]))[1:] == [
        {"type": "message", "role": "assistant", "content": "Hi."},
        {"type": "message", "role": "assistant", "content": "You."},
    ]


def test_text_of_this_wire_goes_back_as_the_message_it_was() -> None:
    parts: list[Part] = [
        Text("Hi.", {WIRE: {"id": "msg_1", "phase": "final_answer"}}),
        Text("No.", {WIRE: {"id": "msg_1", "refusal": True, "status": "incomplete"}}),
    ]
    assert items(HELLO, Message("assistant", parts))[1:] == [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "incomplete",
            "content": [
                {"type": "output_text", "text": "Hi.", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
            "phase": "final_answer",
        }
    ]


@pytest.mark.parametrize("identity", ["chatcmpl-1", "msg_" + "x" * 80, 7])
def test_an_item_id_that_the_api_would_refuse_is_left_out_and_reported(identity: Any) -> None:
    prepared = prepare(HELLO, Message("assistant", [Text("Hi.", {WIRE: {"id": identity}})]))
    assert prepared.body["input"][1] == {"type": "message", "role": "assistant", "content": "Hi."}
    assert [loss.rule for loss in prepared.losses] == ["dropped"]


def test_the_same_item_id_is_not_sent_twice() -> None:
    text = Text("Hi.", {WIRE: {"id": "msg_1"}})
    sent = items(HELLO, Message("assistant", [text]), HELLO, Message("assistant", [text]))
    assert ["id" in item for item in sent] == [False, True, False, False]


def test_an_image_that_the_model_made_goes_back_as_its_own_item() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL}
    assert items(HELLO, Message("assistant", [Image(None, PIXEL, "image/png", {WIRE: {"item": item}})]))[1] == item
    prepared = prepare(HELLO, Message("assistant", [IMAGE]))
    assert prepared.body["input"][1]["content"] == "[image]"
    assert [loss.where for loss in prepared.losses] == ["image"]


# ---- calls and results -----------------------------------------------------------------------------------------------


def test_calls_and_results_are_items_in_order() -> None:
    sent = items(
        *called(
            ToolCall("a", "get_weather", {"city": "Paris"}),
            ToolCall("b", "ping", {}),
            results=[ToolResult("b", "ping", "pong"), ToolResult("a", "get_weather", "12", is_error=True)],
        )
    )
    assert sent[1:] == [
        {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": '{"city":"Paris"}'},
        {"type": "function_call", "call_id": "b", "name": "ping", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "Error: 12"},
        {"type": "function_call_output", "call_id": "b", "output": "pong"},
    ]


def test_a_result_holds_images_and_files_and_says_in_words_that_it_failed() -> None:
    content: list[Any] = [Text("a map"), IMAGE, File("a.pdf", "JVBERi0x", media_type="application/pdf")]
    sent = items(*called(ToolCall("a", "ping", {}), results=[ToolResult("a", "ping", content, is_error=True)]))
    assert sent[-1]["output"] == [
        {"type": "input_text", "text": "Error: a map"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"},
    ]
    sent = items(*called(ToolCall("a", "ping", {}), results=[ToolResult("a", "ping", [IMAGE], is_error=True)]))
    assert sent[-1]["output"][0] == {"type": "input_text", "text": "Error:"}


def test_what_this_wire_said_of_a_call_goes_back_with_it_and_its_caller_is_echoed() -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    own = {"id": "fc_1", "namespace": "crm", "caller": caller, "status": "completed"}
    sent = items(
        *called(ToolCall("a", "ping", {}, extra={WIRE: own}), results=[ToolResult("a", "ping", "pong")]), tools=[PING]
    )
    assert sent[1:] == [
        {"type": "function_call", "call_id": "a", "name": "ping", "arguments": "{}", **own},
        {"type": "function_call_output", "call_id": "a", "output": "pong", "caller": caller},
    ]


def test_a_custom_call_goes_back_as_one() -> None:
    call = ToolCall(
        "a", "apply_patch", {"input": "*** Begin"}, extra={WIRE: {"type": "custom_tool_call", "id": "ctc_1"}}
    )
    assert items(*called(call, results=[ToolResult("a", "apply_patch", "done")]))[1:] == [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "done"},
    ]


def test_a_call_that_could_not_be_read_has_no_arguments_and_its_words_in_the_result() -> None:
    call = InvalidCall("a", "ping", '{"n": ', (Fault("$", "cut off"),))
    sent = items(HELLO, Message("assistant", [call]), HELLO)
    assert sent[1]["arguments"] == "{}"
    assert sent[2]["output"].startswith("Error: ")
    assert '{"n": ' in sent[2]["output"]


def test_ids_longer_than_the_limit_are_replaced_and_found_again() -> None:
    long = "x" * 65
    prepared = prepare(*called(ToolCall(long, "ping", {}), results=[ToolResult(long, "ping", "pong")]))
    given = prepared.body["input"][1]["call_id"]
    assert len(given) <= 64
    assert prepared.body["input"][2]["call_id"] == given
    assert prepared.aliases.ids[given] == long


def test_results_of_calls_that_only_the_provider_remembers_are_sent_as_results() -> None:
    own = {WIRE: {"previous_response_id": "resp_0"}}
    message = Message("tool", [ToolResult("call_1", "", "pong"), Text("kept")])
    assert items(message, HELLO, options=own) == [
        {"type": "function_call_output", "call_id": "call_1", "output": "pong"},
        user("kept"),
        user("Hello"),
    ]


# ---- reasoning -------------------------------------------------------------------------------------------------------


def test_own_reasoning_goes_back_unchanged_before_the_call_it_led_to() -> None:
    own = {**RS, "content": [{"type": "reasoning_text", "text": "hm, hm"}], "status": "completed"}
    sent = items(
        HELLO,
        Message("assistant", [Thinking("hm", {WIRE: own}), ToolCall("a", "ping", {})]),
        Message("tool", [ToolResult("a", "ping", "pong")]),
    )
    assert sent[1] == {"type": "reasoning", **own}
    assert sent[2]["type"] == "function_call"


@pytest.mark.parametrize(
    "parts, why",
    [
        ([Thinking("hm", {"anthropic": {"signature": "x"}}), Text("Hi.")], "another wire"),
        ([OWN_THOUGHT], "without an item after it"),
        ([OWN_THOUGHT, Text("Hi."), OWN_THOUGHT, Text("Hi.")], "twice"),
        ([Thinking("hm", {WIRE: {"id": "rs_1", "summary": []}}), Text("Hi.")], "encrypted content"),
    ],
)
def test_reasoning_that_would_be_refused_is_left_out_and_reported(parts: Any, why: str) -> None:
    prepared = prepare(HELLO, Message("assistant", parts), HELLO, options={WIRE: {"store": False}})
    kinds = [item["type"] for item in prepared.body["input"]]
    assert kinds.count("reasoning") == parts.count(OWN_THOUGHT) // 2
    assert any(why in loss.detail for loss in prepared.losses)


def test_reasoning_in_the_clear_goes_back_to_endpoints_that_want_it_or_store_it() -> None:
    bare = {"id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    message = Message("assistant", [Thinking("hm", {WIRE: bare}), Text("Hi.")])
    stored = prepare(HELLO, message, HELLO, options={WIRE: {"store": True}}).body
    request = Request("m", [HELLO, message, HELLO])
    wanted = get(WIRE, Quirks(replay_reasoning="always")).encode_request(request)
    assert stored["input"][1] == wanted["input"][1] == {"type": "reasoning", **bare}


def test_items_of_no_known_kind_go_back_as_they_came() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    sent = items(HELLO, Message("assistant", [OWN_THOUGHT, Thinking("", {WIRE: {"item": search}}), Text("Hi.")]))
    assert [item["type"] for item in sent] == ["message", "reasoning", "web_search_call", "message"]
    assert sent[2] == search


# ---- tools -----------------------------------------------------------------------------------------------------------


def test_every_function_says_its_parameters_and_whether_it_is_strict() -> None:
    body = prepare(HELLO, tools=[WEATHER, Tool("bare")]).body
    assert body["tools"][0] == {
        "type": "function",
        "name": "get_weather",
        "description": "Forecast for a city",
        "parameters": WEATHER.parameters,
        "strict": False,
    }
    assert set(body["tools"][1]) == {"type", "name", "parameters", "strict"}
    strict = prepare(HELLO, tools=[WEATHER], strict_tools=True).body["tools"][0]
    assert strict["strict"] is True
    assert strict["parameters"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "choice, expected",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"name": "ping"}, {"type": "function", "name": "ping"}),
        (
            {"mode": "auto", "names": ["ping"]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "ping"}]},
        ),
        ({"name": "gone"}, "auto"),
    ],
)
def test_tool_choice(choice: Any, expected: Any) -> None:
    prepared = prepare(HELLO, tools=[WEATHER, PING], options={"tool_choice": choice})
    assert prepared.body["tool_choice"] == expected
    assert [loss.rule for loss in prepared.losses] == (["approximated"] if choice == {"name": "gone"} else [])


@pytest.mark.parametrize(
    "choice, sent, offered",
    [
        ({"name": "ping"}, "required", ["ping"]),
        ({"mode": "auto", "names": ["ping"]}, "auto", ["ping"]),
        ("none", None, []),
    ],
)
def test_a_choice_that_the_endpoint_does_not_honour_is_approximated(choice: Any, sent: Any, offered: Any) -> None:
    prepared = prepare(HELLO, tools=[WEATHER, PING], options={"tool_choice": choice}, tool_choice=("auto", "required"))
    assert prepared.body.get("tool_choice") == sent
    assert [tool["name"] for tool in prepared.body.get("tools", [])] == offered
    assert [loss.rule for loss in prepared.losses] == ["approximated"]


def test_a_required_call_becomes_a_wish_where_it_cannot_be_asked_for() -> None:
    prepared = prepare(HELLO, tools=[PING], options={"tool_choice": "required"}, tool_choice=("auto",))
    assert "tool_choice" not in prepared.body
    assert [loss.rule for loss in prepared.losses] == ["approximated"]


def test_choices_are_not_sent_without_tools() -> None:
    body = prepare(HELLO, options={"tool_choice": "auto", "parallel_tool_calls": False}).body
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


def test_the_parallel_switch() -> None:
    options = {"parallel_tool_calls": False}
    assert prepare(HELLO, tools=[PING], options=options).body["parallel_tool_calls"] is False
    without = prepare(HELLO, tools=[PING], options=options, parallel_flag=False)
    assert "parallel_tool_calls" not in without.body
    assert [loss.rule for loss in without.losses] == ["dropped"]


def test_the_other_tools_of_a_client_are_sent_as_they_are() -> None:
    others = [{"type": "web_search"}, {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}]
    prepared = prepare(HELLO, tools=[PING], options={WIRE: {"tools": others}})
    assert prepared.body["tools"][1:] == others
    assert prepared.tools is not None
    assert prepared.tools.names == ("ping", "apply_patch"), "a call of a custom tool is no call of an unknown tool"


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, fields",
    [
        ({"max_tokens": 50}, {"max_output_tokens": 50}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning": {"effort": "high", "summary": "auto"}}),
        ({"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}}),
        ({"reasoning": {"enabled": True}}, {}),
        ({"response_format": {"type": "json"}}, {"text": {"format": {"type": "json_object"}}}),
        (
            {"response_format": {"type": "json_schema", "schema": {"type": "object"}, "strict": True}},
            {
                "text": {
                    "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": True}
                }
            },
        ),
        ({"stream": True, "cache": True}, {"stream": True}),
        ({"user": "u1", "metadata": {"a": "b"}}, {"user": "u1", "metadata": {"a": "b"}}),
        (
            {"reasoning": {"effort": "low"}, WIRE: {"reasoning": {"context": "auto"}, "text": {"verbosity": "low"}}},
            {"reasoning": {"effort": "low", "context": "auto"}, "text": {"verbosity": "low"}},
        ),
    ],
)
def test_options_find_their_fields(options: Any, fields: Any) -> None:
    prepared = prepare(HELLO, options=options)
    assert prepared.losses == ()
    plain = prepare(HELLO).body
    assert prepared.body == {**plain, **fields}


@pytest.mark.parametrize(
    "options, rule",
    [
        ({"top_k": 5}, "dropped"),
        ({"seed": 5}, "dropped"),
        ({"stop": ["END"]}, "dropped"),
        ({"nonsense": 1}, "dropped"),
        ({"cache": "1h"}, "approximated"),
        ({"response_format": {"type": "poem"}}, "dropped"),
    ],
)
def test_options_without_a_place_are_reported(options: Any, rule: str) -> None:
    prepared = prepare(HELLO, options=options)
    assert prepared.body == prepare(HELLO).body
    assert [loss.rule for loss in prepared.losses] == [rule]


@pytest.mark.parametrize("budget, effort", [(0, "none"), (1024, "low"), (4096, "medium"), (50_000, "high")])
def test_a_budget_of_thought_becomes_an_effort(budget: int, effort: str) -> None:
    prepared = prepare(HELLO, options={"reasoning": {"budget": budget}})
    assert prepared.body["reasoning"] == {"effort": effort}
    assert [loss.rule for loss in prepared.losses] == ["approximated"]


def test_sampling_is_not_sent_to_endpoints_that_refuse_it() -> None:
    prepared = prepare(HELLO, options={"temperature": 0.5}, sends_sampling=False)
    assert "temperature" not in prepared.body
    assert [loss.rule for loss in prepared.losses] == ["dropped"]


def test_the_verbs() -> None:
    codec = get(WIRE)
    assert codec.endpoint("gpt-5.6", stream=True) == "/responses"
    assert codec.encode_definitions([{"name": "ping", "parameters": {"type": "object", "properties": {}}}]) == [
        {"type": "function", "name": "ping", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ]
    assert codec.encode_result({"call_id": "a", "content": "no", "is_error": True}) == {
        "type": "function_call_output",
        "call_id": "a",
        "output": "Error: no",
    }


def test_the_request_is_not_changed_by_encoding_it() -> None:
    own = {"tools": [{"type": "web_search"}], "reasoning": {"context": "auto"}}
    request = Request("m", [HELLO, Message("assistant", [OWN_THOUGHT, Text("Hi.")])], [PING], {WIRE: own})
    copy = Request("m", [HELLO, Message("assistant", [OWN_THOUGHT, Text("Hi.")])], [PING], {WIRE: dict(own)})
    assert get(WIRE).encode_request(request) == get(WIRE).encode_request(request)
    assert request == copy
