"""Requests as clients of generateContent send them, read into ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.gemini.samples import ANYTHING, mutations_of

from dragoman.types import File, Image, InvalidCall, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import registry
from dragoman.wire.quirks import Quirks

GEMINI = registry.get("gemini")
SIGNATURE = "c2lnbmF0dXJl"
PIXEL = "iVBORw0KGgo="

RICH: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Look:"},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "mediaResolution": {"level": "HIGH"}},
                {"fileData": {"fileUri": "https://example.com/v.mp4", "mimeType": "video/mp4"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {"text": "I will look"},
                {"text": " it up.", "thoughtSignature": SIGNATURE},
                {"executableCode": {"language": "PYTHON", "code": "1+1"}},
                {"functionCall": {"name": "search", "args": {"q": "ça"}}, "thoughtSignature": SIGNATURE},
                {"functionCall": {"name": "search", "args": {"q": "va"}}},
                {"functionCall": {"name": "ping", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "search", "response": {"output": "one"}}},
                {"functionResponse": {"name": "search", "response": {"rows": [1, 2]}, "scheduling": "SILENT"}},
                {"functionResponse": {"name": "ping", "response": {"error": "no route"}}},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            ],
        },
        {"role": "model", "parts": [{"functionCall": {"id": "x1", "name": "ping", "args": {"n": 1}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "x1", "name": "ping", "response": {"output": {"n": 2}}}}],
        },
        {"role": "user", "parts": [{"text": "Go on."}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "search",
                    "description": "Search",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "q": {"type": "STRING", "minLength": 1},
                            "sort": {"type": "STRING", "enum": ["new", "old"], "nullable": True},
                        },
                        "required": ["q"],
                    },
                    "behavior": "NON_BLOCKING",
                },
                {"name": "ping"},
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["search", "ping"]},
        "retrievalConfig": {"languageCode": "de"},
    },
    "generationConfig": {
        "maxOutputTokens": 99,
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 7,
        "seed": 3,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        "candidateCount": 1,
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "labels": {"team": "a"},
}


def read(body: Any, **fields: Any) -> Request:
    return GEMINI.decode_request(body, **fields)


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def answer(name: str, response: Any, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **fields}}


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments, **fields}}


# ---- there and back ------------------------------------------------------------------------------------------------


def test_a_rich_body_comes_back_as_it_was() -> None:
    request = read(RICH)
    before = msgspec.json.encode(RICH)
    prepared = GEMINI.prepare(request)
    assert prepared.body == RICH
    assert [str(loss) for loss in prepared.losses] == []
    assert msgspec.json.encode(RICH) == before
    assert read(msgspec.json.encode(prepared.body)) == request


def test_what_a_rich_body_says() -> None:
    request = read(RICH, model="gemini-3-pro", stream=True)
    assert request.model == "gemini-3-pro"
    assert [message.role for message in request.messages] == [
        *("system", "user", "assistant", "tool", "user", "assistant", "tool", "user"),
    ]
    assert request.messages[1].parts == [
        Text("Look:"),
        Image(None, PIXEL, "image/png", {"gemini": {"mediaResolution": {"level": "HIGH"}}}),
        File("", None, "https://example.com/v.mp4", "video/mp4"),
    ]
    thought, _, signed, code, first, second, third = request.messages[2].parts
    assert thought == Thinking("Hm.", {"gemini": {"thought": True}})
    assert signed == Text(" it up.", {"gemini": {"thought_signature": SIGNATURE}})
    assert isinstance(code, Text) and code.text == ""
    calls = [made for made in (first, second, third) if isinstance(made, ToolCall)]
    assert [(made.id, made.wire_id, made.name) for made in calls] == [
        ("call_1", None, "search"),
        ("call_2", None, "search"),
        ("call_3", None, "ping"),
    ]
    assert calls[0].extra == {"gemini": {"thought_signature": SIGNATURE}}
    results = [part for part in request.messages[3].parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.name, result.content, result.is_error) for result in results] == [
        ("call_1", "search", "one", False),
        ("call_2", "search", '{"rows":[1,2]}', False),
        ("call_3", "ping", "no route", True),
    ]
    assert request.messages[4].parts == [Image(None, PIXEL, "image/png")]
    assert request.messages[6].parts == [
        ToolResult("x1", "ping", '{"n":2}', extra={"gemini": {"response": {"output": {"n": 2}}}})
    ]


def test_the_options_of_a_rich_body() -> None:
    options = read(RICH, stream=True).options
    assert options == {
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "seed": 3,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop": ["END"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "response_format": {"type": "json_schema", "schema": {"type": "object"}},
        "tool_choice": {"mode": "required", "names": ["search", "ping"]},
        "stream": True,
        "gemini": {
            "safetySettings": RICH["safetySettings"],
            "labels": {"team": "a"},
            "generationConfig": {"candidateCount": 1},
            "toolConfig": {"retrievalConfig": {"languageCode": "de"}},
            "tools": [{"googleSearch": {}}],
        },
    }


def test_both_spellings_mean_the_same() -> None:
    def snake(value: Any) -> Any:
        if isinstance(value, list):
            return [snake(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        spelled = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): entry for name, entry in value.items()}
        return {name: entry if name in _AS_IT_IS else snake(entry) for name, entry in spelled.items()}

    assert read(snake(RICH)) == read(RICH)


# What stands in these belongs to the client or to a part of the API that is passed on unread.
_AS_IT_IS = {"args", "response", "safety_settings", "retrieval_config", "response_json_schema", "executable_code"}


CONVERSATION = [
    Message("system", [Text("Be brief.")]),
    Message("user", [Text("Look"), Image(None, PIXEL, "image/png")]),
    Message(
        "assistant",
        [
            Thinking("Hm.", {"gemini": {"thought": True, "thought_signature": SIGNATURE}}),
            Text("Both."),
            ToolCall("odd id §", "a.b", {"x": [1, {"y": None}]}, extra={"gemini": {"thought_signature": SIGNATURE}}),
            ToolCall("c2", "ping", {}),
            Text("So."),
        ],
    ),
    Message(
        "tool",
        [
            ToolResult(
                "odd id §", "a.b", [Text("a map"), Image(None, PIXEL, "image/png", {"gemini": {"inside": True}})]
            ),
            ToolResult("c2", "ping", "gone", is_error=True),
        ],
    ),
    Message("user", [Text("Well?")]),
]


def _bare(message: Message) -> Message:
    """The message without what reading adds to calls: where they came from."""
    parts = [
        ToolCall(part.id, part.name, part.arguments, extra=part.extra) if isinstance(part, ToolCall) else part
        for part in message.parts
    ]
    return Message(message.role, parts)


def test_what_is_written_is_read_as_it_was_meant() -> None:
    codec = registry.get("gemini", Quirks(result_images=True))
    tools = [Tool("ping", "Ping", {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}})]
    options = {"max_tokens": 5, "tool_choice": {"name": "ping"}, "reasoning": {"budget": 100}, "stop": ["a"]}
    request = Request("gemini-3-pro", CONVERSATION, tools, options)
    prepared = codec.prepare(request)
    again = codec.decode_request(prepared.body, model="gemini-3-pro")
    assert prepared.losses == ()
    assert [_bare(message) for message in again.messages] == CONVERSATION
    assert (again.tools, again.options) == (tools, options)


# ---- ids and results -----------------------------------------------------------------------------------------------


def test_made_ids_avoid_those_that_occur() -> None:
    messages = read({"contents": [turn("model", call("a", {}), call("b", {}, id="call_1"), call("c", {}))]}).messages
    assert [part.id for part in messages[0].parts if isinstance(part, ToolCall)] == ["call_2", "call_1", "call_3"]


@pytest.mark.parametrize(
    ("calls", "answers", "matched"),
    [
        ([("a", ""), ("b", "")], [("b", ""), ("a", "")], ["call_2", "call_1"]),
        ([("a", ""), ("a", "")], [("a", ""), ("a", "")], ["call_1", "call_2"]),
        ([("a", "x"), ("a", "y")], [("a", "y"), ("a", "x")], ["y", "x"]),
        ([("a", "x"), ("a", "y")], [("a", "y"), ("a", "")], ["y", "x"]),
        ([("a", "x"), ("a", "y")], [("a", "x"), ("a", "")], ["x", "y"]),
        ([("a", ""), ("b", "")], [("", ""), ("", "")], ["call_1", "call_2"]),
        # A client that made up an id for a call that had none.
        ([("a", "")], [("a", "z")], ["call_1"]),
        ([("a", "")], [("other", "")], [""]),
        ([("a", "")], [("a", ""), ("a", "")], ["call_1", ""]),
        # Clients that write an id of their own in place of the name.
        ([("a", "")], [("6f1b", "")], ["call_1"]),
        ([("a", ""), ("a", "")], [("6f1b", ""), ("77aa", "")], ["call_1", "call_2"]),
        ([("a", ""), ("b", "")], [("6f1b", ""), ("77aa", "q")], ["call_1", "call_2"]),
        ([("a", "x"), ("b", "y")], [("6f1b", ""), ("a", "")], ["y", "x"]),
        ([("a", ""), ("b", "")], [("6f1b", ""), ("77aa", ""), ("88cc", "")], ["call_1", "call_2", ""]),
    ],
)
def test_results_find_their_calls(
    calls: list[tuple[str, str]], answers: list[tuple[str, str]], matched: list[str]
) -> None:
    contents = [
        turn("model", *(call(name, {}, **({"id": id} if id else {})) for name, id in calls)),
        turn("user", *(answer(name, {"output": "ok"}, **({"id": id} if id else {})) for name, id in answers)),
    ]
    declared = [{"functionDeclarations": [{"name": name} for name in ("a", "b", "other")]}]
    results = read({"contents": contents, "tools": declared}).messages[1].parts
    assert [part.call_id for part in results if isinstance(part, ToolResult)] == matched
    assert all(part.name in ("a", "b") for part in results if isinstance(part, ToolResult) and part.call_id)


def test_results_of_neighbouring_turns_are_one_message_and_words_follow() -> None:
    contents = [
        turn("model", call("a", {}), call("b", {})),
        turn("function", answer("a", {"output": "1"})),
        turn("user", {"text": "words"}, answer("b", {"output": "2"})),
    ]
    messages = read({"contents": contents}).messages
    assert [message.role for message in messages] == ["assistant", "tool", "user"]
    assert [part.content for part in messages[1].parts if isinstance(part, ToolResult)] == ["1", "2"]


@pytest.mark.parametrize(
    ("response", "content", "is_error"),
    [
        ({"output": "fine"}, "fine", False),
        ({"output": ""}, "", False),
        ({"output": [1, "é"]}, '[1,"é"]', False),
        ({"error": "bad"}, "bad", True),
        ({"error": {"code": 7}}, '{"code":7}', True),
        ({"result": "fine"}, '{"result":"fine"}', False),
        ({"error": "bad", "code": 7}, '{"error":"bad","code":7}', True),
        ({"output": "fine", "error": None}, '{"output":"fine","error":null}', False),
        ({}, "", False),
        (None, "", False),
        ("text", "text", False),
    ],
)
def test_responses(response: Any, content: str, is_error: bool) -> None:
    [message] = read({"contents": [turn("user", answer("a", response))]}).messages
    [result] = message.parts
    assert isinstance(result, ToolResult)
    assert (result.content, result.is_error) == (content, is_error)


def test_a_result_that_was_changed_does_not_go_back_as_it_came() -> None:
    """What a filter took out of a result must not return through what was kept of the original."""
    contents = [turn("model", call("a", {})), turn("user", answer("a", {"secret": "123"}))]
    request = read({"contents": contents})
    assert GEMINI.encode_request(request)["contents"][2]["parts"] == [answer("a", {"secret": "123"})]
    [result] = request.messages[1].parts
    assert isinstance(result, ToolResult)
    request.messages[1].parts[0] = msgspec.structs.replace(result, content="***")
    assert GEMINI.encode_request(request)["contents"][2]["parts"] == [answer("a", {"output": "***"})]


def test_media_in_results() -> None:
    parts = [
        {"inline_data": {"mime_type": "image/png", "data": "-_8"}},
        {"fileData": {"fileUri": "gs://b/a.pdf", "mimeType": "application/pdf"}},
        {"neither": 1},
    ]
    [message] = read({"contents": [turn("user", answer("a", {"output": "map"}, parts=parts))]}).messages
    inside = {"gemini": {"inside": True}}
    picture, file = Image(None, "+/8=", "image/png", inside), File("", None, "gs://b/a.pdf", "application/pdf", inside)
    rest = {"gemini": {"parts": [{"neither": 1}]}}
    assert message.parts == [ToolResult("", "a", [Text("map"), picture, file], extra=rest)]


# ---- whatever clients send -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "messages"),
    [
        ("Hi", [Message("user", [Text("Hi")])]),
        (["Hi"], [Message("user", [Text("Hi")])]),
        ({"parts": [{"text": "Hi"}]}, [Message("user", [Text("Hi")])]),
        ([{"parts": {"text": "Hi"}}], [Message("user", [Text("Hi")])]),
        ([{"role": "user", "parts": "Hi"}], [Message("user", [Text("Hi")])]),
        ([{"role": "user"}], [Message("user", [])]),
        ([None, 7, []], []),
        (None, []),
    ],
)
def test_contents_in_other_forms(contents: Any, messages: list[Message]) -> None:
    assert read({"contents": contents}).messages == messages


@pytest.mark.parametrize(
    "given", ["Be brief.", {"text": "Be brief."}, {"parts": [{"text": "Be brief."}]}, ["Be brief."]]
)
def test_system_instructions_in_other_forms(given: Any) -> None:
    assert read({"system_instruction": given}).messages == [Message("system", [Text("Be brief.")])]


def test_a_call_that_cannot_be_read_is_kept_as_such() -> None:
    parts = read({"contents": [turn("model", call("a", "{oops"), call("a", [1]), call("", {}))]}).messages[0].parts
    assert all(isinstance(part, InvalidCall) for part in parts)
    assert [part.raw for part in parts if isinstance(part, InvalidCall)] == ["{oops", "[1]", "{}"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", "null", {}, msgspec.json.encode([RICH])])
def test_a_body_that_is_none_is_an_empty_request(body: Any) -> None:
    assert read(body, model="m") == Request("m")


def test_the_model_may_stand_in_the_body() -> None:
    assert read({"model": "models/gemini-2.0-flash-exp"}).model == "models/gemini-2.0-flash-exp"


def test_deep_bodies_are_read() -> None:
    deep: Any = {"type": "STRING"}
    arguments: Any = {}
    for _ in range(5000):
        deep = {"type": "ARRAY", "items": deep}
        arguments = {"a": arguments}
    request = read(
        {
            "contents": [turn("model", call("a", arguments)), turn("user", answer("a", arguments))],
            "tools": [{"functionDeclarations": [{"name": "f", "parameters": deep}]}],
        }
    )
    assert isinstance(request.messages[0].parts[0], InvalidCall)
    assert len(request.tools) == 1


@given(mutations_of((RICH,)))
def test_no_body_makes_the_reader_raise(body: Any) -> None:
    request = read(body if isinstance(body, dict) else {"contents": body})
    assert isinstance(GEMINI.prepare(request).body["contents"], list)


@given(st.dictionaries(st.sampled_from(sorted(RICH)), ANYTHING))
def test_no_field_makes_the_reader_raise(body: dict[str, Any]) -> None:
    assert isinstance(read(body), Request)
