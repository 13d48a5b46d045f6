"""A request as the body of Cohere's chat, and the report of what it lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.cohere.samples import PLAN, SCHEMA, THOUGHT, WIRE, call
from tests.wire.judges import cohere as judge
from tests.wire.rules import violations

from dragoman.types import File, Image, InvalidCall, Message, Part, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire.codec import Prepared
from dragoman.wire.cohere import Cohere
from dragoman.wire.quirks import Quirks

HELLO = Message("user", [Text("Hello")])
WEATHER = Tool("weather", "The weather", SCHEMA)
PING = Tool("ping")
IMAGE = Image(None, "aGk=", "image/png")
DOCUMENT = {"type": "document", "document": {"data": {"a": 1}}}
CITED = Text('{"a":1}', {"cohere": {"block": DOCUMENT}})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def prepare(request: Request, quirks: Quirks | None = None) -> Prepared:
    """The prepared request, held against the official client and against the rules of the wire."""
    prepared = Cohere(quirks or Quirks()).prepare(request)
    judge.validate_request(prepared.body)
    assert violations("cohere", prepared.body) == []
    return prepared


def write(*messages: Message, tools: list[Tool] | None = None, **options: Any) -> dict[str, Any]:
    return prepare(Request("m", list(messages), tools or [], options)).body


def report(*messages: Message, tools: list[Tool] | None = None, **options: Any) -> list[str]:
    return [str(loss) for loss in prepare(Request("m", list(messages), tools or [], options)).losses]


# ---- messages ------------------------------------------------------------------------------------------------------


def assistant(*parts: Part) -> list[dict[str, Any]]:
    """The messages for what the assistant said, and for the results of its calls."""
    ids = [part.id for part in parts if isinstance(part, ToolCall | InvalidCall)]
    results: list[Part] = [ToolResult(id, "", "done") for id in ids]
    said = [Message("assistant", list(parts)), *([Message("tool", results)] if results else [])]
    entries: list[dict[str, Any]] = write(HELLO, *said, HELLO)["messages"][1:-1]
    return entries


ANSWERS: list[tuple[str, list[Part], dict[str, Any]]] = [
    ("text", [Text("Hi.")], {"content": "Hi."}),
    (
        "two texts",
        [Text("Hi."), Text("There.")],
        {"content": [text("Hi."), text("There.")]},
    ),
    ("calls alone", [ToolCall("c1", "ping", {})], {"tool_calls": [call("c1", "ping", "{}")]}),
    (
        "a plan",
        [Thinking("Ping it.", PLAN), ToolCall("c1", "ping", {"n": 1})],
        {"tool_plan": "Ping it.", "tool_calls": [call("c1", "ping", '{"n":1}')]},
    ),
    (
        "thoughts",
        [Thinking("Hm.", THOUGHT), Text("Hi.")],
        {"content": [{"type": "thinking", "thinking": "Hm."}, text("Hi.")]},
    ),
    (
        "thoughts, a plan and words of another wire beside a call",
        [Thinking("Hm.", THOUGHT), Thinking("Ping it.", PLAN), Text("Wait."), ToolCall("c1", "ping", {})],
        {
            "tool_plan": "Ping it.",
            "content": [{"type": "thinking", "thinking": "Hm."}, text("Wait.")],
            "tool_calls": [call("c1", "ping", "{}")],
        },
    ),
    ("empty text beside a call", [Text(""), ToolCall("c1", "ping", {})], {"tool_calls": [call("c1", "ping", "{}")]}),
    ("a call that could not be read", [InvalidCall("c1", "ping", "{", ())], {"tool_calls": [call("c1", "ping", "{}")]}),
    ("foreign thoughts", [Thinking("Hm.", {"anthropic": {"signature": "x"}}), Text("Hi.")], {"content": "Hi."}),
    ("an image", [Text("See:"), IMAGE], {"content": [text("See:"), text("[image: not available]")]}),
]


@pytest.mark.parametrize(("parts", "entry"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_what_the_assistant_said(parts: list[Part], entry: dict[str, Any]) -> None:
    assert assistant(*parts)[0] == {"role": "assistant", **entry}


def test_an_endpoint_may_want_an_empty_content_beside_calls() -> None:
    request = Request("m", [HELLO, Message("assistant", [ToolCall("c1", "ping", {})])])
    assert prepare(request, Quirks(empty_content="")).body["messages"][1]["content"] == ""


def test_a_plan_without_calls_is_left_out_and_reported() -> None:
    body = prepare(Request("m", [HELLO, Message("assistant", [Thinking("Look.", PLAN), Text("Hi.")])]))
    assert body.body["messages"][1] == {"role": "assistant", "content": "Hi."}
    assert [str(loss) for loss in body.losses] == ["history: a plan that led to no calls was left out"]


RESULTS: list[tuple[str, ToolResult, Any]] = [
    ("text", ToolResult("c1", "ping", "pong"), "pong"),
    ("empty", ToolResult("c1", "ping", ""), ""),
    ("an error", ToolResult("c1", "ping", "no route", is_error=True), "Error: no route"),
    ("an error that says so", ToolResult("c1", "ping", "error 7", is_error=True), "error 7"),
    ("a list of texts", ToolResult("c1", "ping", [Text("a"), Text("b")]), [text("a"), text("b")]),
    ("an error in a list", ToolResult("c1", "ping", [Text("a")], is_error=True), [text("Error: a")]),
    ("an empty list", ToolResult("c1", "ping", []), ""),
    ("a failed empty list", ToolResult("c1", "ping", [], is_error=True), [text("Error: ")]),
    (
        "a document of this wire",
        ToolResult("c1", "ping", [CITED]),
        [DOCUMENT],
    ),
    (
        "a document with an error",
        ToolResult("c1", "ping", [CITED], is_error=True),
        [text("Error:"), DOCUMENT],
    ),
]


@pytest.mark.parametrize(("result", "content"), [case[1:] for case in RESULTS], ids=[case[0] for case in RESULTS])
def test_what_a_tool_said(result: ToolResult, content: Any) -> None:
    messages = write(HELLO, Message("assistant", [ToolCall("c1", "ping", {})]), Message("tool", [result]))["messages"]
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": content}
    assert WIRE.encode_result(result) == messages[2]


def test_an_image_of_a_result_goes_into_a_user_message() -> None:
    result = ToolResult("c1", "ping", [Text("see"), IMAGE])
    body = prepare(Request("m", [HELLO, Message("assistant", [ToolCall("c1", "ping", {})]), Message("tool", [result])]))
    tool, user = body.body["messages"][2:]
    assert tool["content"][0] == text("see")
    assert user["content"][-1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert any("went into a user message" in str(loss) for loss in body.losses)
    # One result alone has no message to move it to.
    assert WIRE.encode_result(result)["content"][1] == text("[image]")


def test_an_endpoint_may_take_images_in_results() -> None:
    result = ToolResult("c1", "ping", [IMAGE])
    entry = Cohere(Quirks(result_images=True)).encode_result(result)
    assert entry["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]


def test_files_are_named_and_reported() -> None:
    message = Message("user", [Text("Read:"), File("a.pdf", "aGk=", None, "application/pdf")])
    assert write(message)["messages"][0]["content"][1] == text("[file a.pdf: not available]")
    assert report(message) == ["history: the file a.pdf was left out: this wire takes no files"]
    result = ToolResult("c1", "ping", [File("a.pdf", "aGk=")])
    assert WIRE.encode_result(result)["content"] == [text("[file a.pdf]")]


def test_empty_messages_are_left_out_and_reported() -> None:
    messages = [HELLO, Message("assistant", [Text("")]), Message("user", [Text("")]), Message("user", [Text("Go.")])]
    assert [entry["content"] for entry in write(*messages)["messages"]] == ["Hello", "Go."]
    assert report(*messages) == ["history: messages without any content were left out"]
    # A conversation of nothing else is the caller's own wish.
    assert write(Message("user", [Text("")]))["messages"] == [{"role": "user", "content": ""}]


def test_later_system_messages_become_user_text() -> None:
    body = write(Message("system", [Text("Be brief.")]), HELLO, Message("system", [Text("Now long.")]))
    assert [entry["role"] for entry in body["messages"]] == ["system", "user", "user"]
    assert "Now long." in body["messages"][2]["content"]


def test_odd_ids_stay_and_odd_names_are_rewritten() -> None:
    asked = [HELLO, Message("assistant", [ToolCall("functions.a/b:0 ü", "a/b", {})])]
    prepared = prepare(Request("m", asked, [Tool("a/b")]))
    [entry] = prepared.body["messages"][1]["tool_calls"]
    assert (entry["id"], entry["function"]["name"]) == ("functions.a/b:0 ü", "a_b")
    assert prepared.aliases.name("a_b") == "a/b"


# ---- tools ---------------------------------------------------------------------------------------------------------


def test_definitions() -> None:
    wanted = [
        {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": SCHEMA}},
        {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}},
    ]
    assert WIRE.encode_definitions([WEATHER, PING]) == wanted
    assert write(HELLO, tools=[WEATHER, PING])["tools"] == wanted


def test_strict_tools_are_asked_for_once_for_all() -> None:
    strict = Quirks(strict_tools=True)
    assert prepare(Request("m", [HELLO], [WEATHER]), strict).body["strict_tools"] is True
    assert "strict_tools" not in prepare(Request("m", [HELLO]), strict).body


ONLY = "options: tool_choice: only the tools that it allows are offered"
CHOICES: list[tuple[Any, list[str], str | None, list[str]]] = [
    (None, ["weather", "ping"], None, []),
    ("auto", ["weather", "ping"], None, []),
    ("none", ["weather", "ping"], "NONE", []),
    ("required", ["weather", "ping"], "REQUIRED", []),
    ({"name": "ping"}, ["ping"], "REQUIRED", [ONLY]),
    ({"mode": "auto", "names": ["ping"]}, ["ping"], None, [ONLY]),
    ({"mode": "required", "names": ["ping", "weather"]}, ["weather", "ping"], "REQUIRED", [ONLY]),
    (
        {"name": "gone"},
        ["weather", "ping"],
        None,
        ["options: tool_choice names no tool that is offered; it became auto"],
    ),
]


@pytest.mark.parametrize(("choice", "names", "written", "losses"), CHOICES)
def test_tool_choice(choice: Any, names: list[str], written: str | None, losses: list[str]) -> None:
    body = write(HELLO, tools=[WEATHER, PING], tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert body.get("tool_choice") == written
    assert report(HELLO, tools=[WEATHER, PING], tool_choice=choice) == losses


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in write(HELLO, tool_choice="required")


def test_choices_that_an_endpoint_does_not_honour() -> None:
    deaf = Quirks(tool_choice=("auto",))
    forced = prepare(Request("m", [HELLO], [PING], {"tool_choice": "required"}), deaf)
    assert "tool_choice" not in forced.body
    assert [loss.rule for loss in forced.losses] == ["approximated"]
    silent = prepare(Request("m", [HELLO], [PING], {"tool_choice": "none"}), deaf)
    assert "tools" not in silent.body
    assert [loss.rule for loss in silent.losses] == ["approximated"]
    called = [HELLO, Message("assistant", [ToolCall("c1", "ping", {})]), Message("tool", [ToolResult("c1", "", "x")])]
    kept = prepare(Request("m", called, [PING], {"tool_choice": "none"}), deaf)
    assert "tools" in kept.body
    assert [loss.rule for loss in kept.losses] == ["approximated"]


def test_parallel_calls_cannot_be_forbidden() -> None:
    assert report(HELLO, tools=[PING], parallel_tool_calls=False) == [
        "options: cohere has no switch against parallel calls"
    ]
    assert report(HELLO, tools=[PING], parallel_tool_calls=True) == []


# ---- options -------------------------------------------------------------------------------------------------------

SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"stream": False}),
    ({"stream": True}, {"stream": True}),
    ({"max_tokens": 9}, {"max_tokens": 9, "stream": False}),
    (
        {"temperature": 0, "top_p": 0.5, "top_k": 3, "seed": 1, "presence_penalty": 0.1, "frequency_penalty": 0.2},
        {
            "temperature": 0,
            "p": 0.5,
            "k": 3,
            "seed": 1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "stream": False,
        },
    ),
    ({"stop": ["END"]}, {"stop_sequences": ["END"], "stream": False}),
    ({"stop": "END"}, {"stop_sequences": ["END"], "stream": False}),
    ({"response_format": {"type": "json"}}, {"response_format": {"type": "json_object"}, "stream": False}),
    (
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
        {"response_format": {"type": "json_object", "json_schema": SCHEMA}, "stream": False},
    ),
    ({"reasoning": {"enabled": False}}, {"thinking": {"type": "disabled"}, "stream": False}),
    ({"reasoning": {"effort": "none"}}, {"thinking": {"type": "disabled"}, "stream": False}),
    ({"reasoning": {"enabled": True}}, {"thinking": {"type": "enabled"}, "stream": False}),
    ({"reasoning": {"budget": 64}}, {"thinking": {"type": "enabled", "token_budget": 64}, "stream": False}),
    ({"cache": True}, {"stream": False}),
    ({"cohere": {"safety_mode": "OFF"}}, {"safety_mode": "OFF", "stream": False}),
]


@pytest.mark.parametrize(("options", "fields"), SETTINGS)
def test_options_under_their_names(options: dict[str, Any], fields: dict[str, Any]) -> None:
    body = write(HELLO, **options)
    assert {name: value for name, value in body.items() if name not in ("model", "messages")} == fields
    assert report(HELLO, **options) == []


LOST: list[tuple[dict[str, Any], str]] = [
    ({"user": "u1"}, "options: user has no place on cohere"),
    ({"metadata": {"a": "b"}}, "options: metadata has no place on cohere"),
    ({"gemini": {"x": 1}}, "options: x, which only gemini knows"),
    ({"stop": list("abcdef")}, "options: stop: only the first 5 of 6 texts are sent"),
    ({"reasoning": {"effort": "high"}}, "options: reasoning: effort 'high' became plain thinking"),
    ({"reasoning": {"summary": "auto"}}, "options: reasoning: a summary has no place on cohere"),
    ({"reasoning": {"depth": 3}}, "options: reasoning: depth has no place on cohere"),
    (
        {"response_format": {"type": "json_schema", "schema": SCHEMA, "name": "city"}},
        "options: response_format: name has no place on cohere",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), LOST)
def test_what_has_no_place_is_reported(options: dict[str, Any], sentence: str) -> None:
    assert report(HELLO, **options) == [sentence]


def test_a_format_is_not_asked_for_beside_tools() -> None:
    assert "response_format" not in write(HELLO, tools=[PING], response_format={"type": "json"})
    assert report(HELLO, tools=[PING], response_format={"type": "json"}) == [
        "options: response_format is refused on cohere when tools are offered"
    ]


def test_an_endpoint_without_sampling() -> None:
    prepared = prepare(Request("m", [HELLO], options={"temperature": 1}), Quirks(sends_sampling=False))
    assert "temperature" not in prepared.body
    assert [str(loss) for loss in prepared.losses] == ["options: temperature has no place on cohere"]


def test_the_path() -> None:
    assert WIRE.endpoint("m") == WIRE.endpoint("m", stream=True) == "/chat"
