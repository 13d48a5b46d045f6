"""Requests of clients, as they come: items in every form, tools of every kind, and nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.openai_responses.samples import MESSAGE, PARIS, PINGED, PIXEL, REASONING, WIRE

from dragoman.types import File, Image, InvalidCall, Message, Request, Text, Thinking, ToolCall, ToolResult
from dragoman.wire import get

CALLER = {"type": "program", "caller_id": "prog_1"}
PATCHED = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "apply_patch", "input": "*** Begin"}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
ADDED = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {"type": "function", "name": "late", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ],
}
FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "description": "Forecast",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
NAMESPACE = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers",
    "tools": [
        {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {}}, "strict": False},
        {"type": "custom", "name": "note"},
    ],
}
RICH: dict[str, Any] = {
    "model": "gpt-5.6",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": "Use tools."},
        {"type": "message", "role": "user", "content": "Weather?"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "high"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            ],
        },
        ADDED,
        REASONING,
        MESSAGE,
        PARIS,
        {**PINGED, "namespace": "crm", "caller": CALLER},
        PATCHED,
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [
                {"type": "input_text", "text": "a map"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
            ],
            "caller": CALLER,
        },
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "done"},
        SEARCHED,
        {"type": "message", "role": "assistant", "content": "Fine."},
        {"type": "message", "role": "user", "content": "Thanks."},
    ],
    "tools": [FUNCTION, NAMESPACE, {"type": "web_search"}, {"type": "custom", "name": "apply_patch"}],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "high", "summary": "auto", "context": "auto"},
    "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}, "verbosity": "low"},
    "max_output_tokens": 100,
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"a": "b"},
}


def decode(**body: Any) -> Request:
    return get(WIRE).decode_request(body)


def messages(*items: Any, **body: Any) -> list[Message]:
    return decode(input=list(items), **body).messages


def test_a_rich_body_is_understood_and_written_back_as_it_was() -> None:
    request = get(WIRE).decode_request(RICH)
    assert get(WIRE).encode_request(request) == RICH


def test_what_a_rich_body_says() -> None:
    request = get(WIRE).decode_request(RICH)
    system, developer, first, second, turn, results, answer, last = request.messages
    assert system == Message("system", [Text("Be brief.")])
    assert (developer.role, developer.text) == ("system", "Use tools.")
    assert first == Message("user", [Text("Weather?")])
    assert second.parts[1] == Image(None, PIXEL, "image/png")
    assert second.parts[2] == Image("https://example.com/a.png", extra={WIRE: {"detail": "high"}})
    assert second.parts[3] == File("a.pdf", "JVBERi0x", None, "application/pdf")
    assert (second.parts[4].name, second.parts[4].media_type) == ("audio.mp3", "audio/mp3")  # type: ignore[union-attr]
    added, thought, text, paris, pinged, patched = turn.parts
    assert added == Thinking("", {WIRE: {"item": ADDED}})
    assert isinstance(thought, Thinking)
    assert thought.text == "I look.\n\nThen I speak."
    assert text == Text("Let me see. 🌍", {WIRE: {"id": "msg_1", "phase": "commentary", "status": "completed"}})
    assert isinstance(paris, ToolCall)
    assert (paris.id, paris.wire_id, paris.arguments) == ("call_1", "call_1", {"city": "Paris"})
    assert isinstance(pinged, ToolCall)
    assert (pinged.extra[WIRE]["namespace"], pinged.extra[WIRE]["caller"]) == ("crm", CALLER)
    assert isinstance(patched, ToolCall)
    assert patched.arguments == {"input": "*** Begin"}
    assert patched.extra[WIRE]["type"] == "custom_tool_call"
    assert [(result.call_id, result.name) for result in results.parts if isinstance(result, ToolResult)] == [
        ("call_1", "get_weather"),
        ("call_2", "ping"),
        ("call_3", "apply_patch"),
    ]
    assert answer == Message("assistant", [Thinking("", {WIRE: {"item": SEARCHED}}), Text("Fine.")])
    assert last == Message("user", [Text("Thanks.")])


def test_the_options_of_a_rich_body() -> None:
    assert get(WIRE).decode_request(RICH).options == {
        "max_tokens": 100,
        "parallel_tool_calls": False,
        "stream": True,
        "tool_choice": {"name": "get_weather"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "response_format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}},
        WIRE: {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "client_metadata": {"a": "b"},
            "reasoning": {"context": "auto"},
            "text": {"verbosity": "low"},
            "tools": RICH["tools"][1:],
        },
    }


def test_functions_are_tools_wherever_they_stand() -> None:
    tools = get(WIRE).decode_request(RICH).tools
    assert [(tool.name, tool.metadata) for tool in tools] == [
        ("get_weather", {}),
        ("find", {"namespace": "crm"}),
        ("late", {WIRE: {"added": True}}),
    ]


def test_a_function_whose_namespace_is_gone_is_offered_by_itself() -> None:
    request = get(WIRE).decode_request(RICH)
    body = get(WIRE).encode_request(Request(request.model, request.messages[2:3], request.tools))
    assert [tool["name"] for tool in body["tools"]] == ["get_weather", "find", "late"]


def test_the_own_fields_of_a_function_are_kept() -> None:
    tool = {**FUNCTION, "strict": True, "defer_loading": True, "allowed_callers": ["direct"], "output_schema": {}}
    body = get(WIRE).encode_request(decode(model="m", input="x", tools=[tool]))
    assert body["tools"] == [tool]


def test_an_input_that_is_a_text() -> None:
    assert decode(model="m", input="Hello") == Request("m", [Message("user", [Text("Hello")])])


@pytest.mark.parametrize(
    "item, expected",
    [
        ({"role": "user", "content": "Hi"}, Message("user", [Text("Hi")])),
        ({"role": "assistant", "content": "Hi"}, Message("assistant", [Text("Hi")])),
        ({"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}, Message("assistant", [Text("Hi")])),
        ({"role": "system", "content": "Hi"}, Message("system", [Text("Hi")])),
        ({"role": "developer", "content": "Hi"}, Message("system", [Text("Hi")], {WIRE: {"role": "developer"}})),
        ({"role": "stranger", "content": "Hi"}, Message("user", [Text("Hi")])),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            Message("assistant", [Text("No.", {WIRE: {"group": 1, "refusal": True}})]),
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
            Message("user", [Image(extra={WIRE: {"file_id": "file_1"}})]),
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}]},
            Message("user", [File("", url="https://example.com/a.pdf")]),
        ),
        (
            {"role": "user", "content": [{"type": "input_video", "v": 1}]},
            Message("user", [Text('{"type":"input_video","v":1}', {WIRE: {"part": {"type": "input_video", "v": 1}}})]),
        ),
    ],
)
def test_messages_in_every_form(item: Any, expected: Message) -> None:
    assert messages(item) == [expected]


def test_a_part_of_no_known_kind_goes_back_as_it_came() -> None:
    part = {"type": "input_video", "v": 1}
    body = get(WIRE).encode_request(decode(model="m", input=[{"role": "user", "content": [part]}]))
    assert body["input"][0]["content"] == [part]


def test_a_system_item_at_the_front_stays_an_item() -> None:
    items = [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "Hi"},
    ]
    body = get(WIRE).encode_request(decode(model="m", input=items))
    assert "instructions" not in body
    assert body["input"] == items


def test_ids_are_made_where_there_are_none_and_results_find_their_calls_by_order() -> None:
    first = {"type": "function_call", "name": "a", "arguments": ""}
    second = {"type": "function_call", "call_id": "call_1", "name": "b", "arguments": "{}"}
    third = {"type": "function_call", "name": "c", "arguments": None}
    answers = [{"type": "function_call_output", "output": output} for output in ("1", None, {"x": 2})]
    made, results = messages(first, second, third, *answers)
    assert [part.id for part in made.parts if isinstance(part, ToolCall)] == ["call_2", "call_1", "call_3"]
    assert [(part.call_id, part.name, part.content) for part in results.parts if isinstance(part, ToolResult)] == [
        ("call_2", "a", "1"),
        ("call_1", "b", ""),
        ("call_3", "c", '{"x":2}'),
    ]


@pytest.mark.parametrize("arguments", ["[1]", "7", [1], 7, '"text"'])
def test_arguments_that_are_no_object_make_an_invalid_call(arguments: Any) -> None:
    (call,) = messages({"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments})[0].parts
    assert isinstance(call, InvalidCall)
    assert (call.id, call.name) == ("a", "f")


def test_arguments_that_came_as_an_object_are_taken() -> None:
    (call,) = messages({"type": "function_call", "call_id": "a", "name": "f", "arguments": {"n": 1}})[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments == {"n": 1}


@pytest.mark.parametrize(
    "choice, neutral, own",
    [
        ("required", "required", None),
        ({"type": "function", "name": "f"}, {"name": "f"}, None),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}] * 2},
            {"mode": "required", "names": ["f", "f"]},
            None,
        ),
        ({"type": "custom", "name": "x"}, None, {"type": "custom", "name": "x"}),
        ({"type": "mcp", "server_label": "s"}, None, {"type": "mcp", "server_label": "s"}),
        ("sometimes", None, "sometimes"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
            None,
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        ),
    ],
)
def test_tool_choice_is_read(choice: Any, neutral: Any, own: Any) -> None:
    options = decode(model="m", tool_choice=choice).options
    assert options.get("tool_choice") == neutral
    assert options.get(WIRE, {}).get("tool_choice") == own


@pytest.mark.parametrize(
    "fields, options",
    [
        ({"reasoning": {"effort": "none"}}, {"reasoning": {"enabled": False}}),
        ({"reasoning": None, "text": None, "instructions": None}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json"}}),
        ({"text": {"format": {"type": "text"}}}, {WIRE: {"text": {"format": {"type": "text"}}}}),
        ({"temperature": 0.5, "user": "u"}, {"temperature": 0.5, "user": "u"}),
        ({"stream": False}, {"stream": False}),
    ],
)
def test_options_are_read(fields: Any, options: Any) -> None:
    assert decode(model="m", **fields).options == options


def test_the_path_may_name_the_model_and_the_stream() -> None:
    request = get(WIRE).decode_request(b'{"input": "Hi"}', model="m", stream=True)
    assert (request.model, request.options) == ("m", {"stream": True})


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, entry in inner for found in paths(entry, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(path=st.sampled_from(paths(RICH)), new=junk)
def test_no_body_makes_reading_it_fail(path: tuple[Any, ...], new: Any) -> None:
    body = replaced(RICH, path, new)
    request = get(WIRE).decode_request(body)
    assert isinstance(request, Request)
    get(WIRE).encode_request(request)
