"""Requests as generateContent takes them: what stands in the body, and what the report says of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.gemini.asking import PING, SEARCH, ask, codec, prepare, rules_of, user

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

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SIGNATURE = "c2lnbmF0dXJl"


CALLS = (ToolCall("c1", "search", {"query": "cats"}), ToolCall("c2", "ping", {}))
RESULTS = Message("tool", [ToolResult("c1", content="nine lives"), ToolResult("c2", content="gone", is_error=True)])


# ---- the conversation ----------------------------------------------------------------------------------------------


def test_a_plain_question() -> None:
    assert prepare(ask(user("Hello"))).body == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def test_the_model_stands_in_the_path() -> None:
    assert codec().endpoint("gemini-3-pro") == "/models/gemini-3-pro:generateContent"
    assert codec().endpoint("models/gemini-3-pro", stream=True) == (
        "/models/gemini-3-pro:streamGenerateContent?alt=sse"
    )


def test_system_words_go_to_the_front_and_later_ones_become_labelled_text() -> None:
    prepared = prepare(
        ask(Message("system", [Text("Be brief.")]), user("Hi"), Message("system", [Text("Now in verse.")]))
    )
    assert prepared.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert prepared.body["contents"][0]["parts"][1] == {"text": "<system>\nNow in verse.\n</system>"}
    assert rules_of(prepared) == ["moved"]


def test_calls_are_answered_in_one_turn_in_their_order() -> None:
    backwards = Message("tool", list(reversed(RESULTS.parts)))
    prepared = prepare(ask(user("Go"), Message("assistant", [Text("Both."), *CALLS]), backwards, user("Well?")))
    assert prepared.body["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Both."},
                {"functionCall": {"id": "c1", "name": "search", "args": {"query": "cats"}}},
                {"functionCall": {"id": "c2", "name": "ping", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "search", "response": {"output": "nine lives"}}},
                {"functionResponse": {"id": "c2", "name": "ping", "response": {"error": "gone"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Well?"}]},
    ]
    assert prepared.losses == ()


def test_a_result_that_is_json_stays_text() -> None:
    """Only `output` and `error` mean something certain, so nothing else is ever written."""
    prepared = prepare(
        ask(user("Go"), Message("assistant", [CALLS[0]]), Message("tool", [ToolResult("c1", content='{"error": 1}')]))
    )
    response = prepared.body["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert response == {"output": '{"error": 1}'}


def test_a_call_without_a_result_is_answered_and_reported() -> None:
    prepared = prepare(ask(user("Go"), Message("assistant", [CALLS[0]]), user("Never mind")))
    assert prepared.body["contents"][2]["parts"] == [
        {
            "functionResponse": {
                "id": "c1",
                "name": "search",
                "response": {"error": "not executed: interrupted"},
            }
        }
    ]
    assert rules_of(prepared) == ["inserted"]


def test_a_call_that_could_not_be_read_goes_out_without_arguments() -> None:
    broken = InvalidCall("c9", "search", '{"query": "ca', (Fault("$", "the arguments were cut off"),))
    contents = prepare(ask(user("Go"), Message("assistant", [broken]))).body["contents"]
    assert contents[1]["parts"] == [{"functionCall": {"id": "c9", "name": "search", "args": {}}}]
    assert '{"query": "ca' in contents[2]["parts"][0]["functionResponse"]["response"]["error"]


def test_text_stays_behind_the_call_it_followed() -> None:
    contents = prepare(ask(user("Go"), Message("assistant", [CALLS[1], Text("Done.")]))).body["contents"]
    assert [next(iter(part)) for part in contents[1]["parts"]] == ["functionCall", "text"]


@pytest.mark.parametrize("messages", [(), (user(""),), (Message("system", [Text("Be brief.")]),)])
def test_a_conversation_without_words_gets_some(messages: tuple[Message, ...]) -> None:
    prepared = prepare(ask(*messages))
    assert prepared.body["contents"] == [{"role": "user", "parts": [{"text": "Continue."}]}]
    assert rules_of(prepared)[-1:] == ["inserted"]


def test_neighbours_of_one_role_are_merged() -> None:
    contents = prepare(ask(user("One"), user("Two"), Message("assistant", [Text("Three")]))).body["contents"]
    assert [content["role"] for content in contents] == ["user", "model"]


def test_names_are_rewritten_and_ids_kept() -> None:
    odd = Tool("weather/now!", "Weather", {"type": "object"})
    call = ToolCall("functions.weather:0 §", odd.name, {})
    prepared = prepare(ask(user("Go"), Message("assistant", [call]), tools=[odd]))
    written = prepared.body["contents"][1]["parts"][0]["functionCall"]
    assert written == {"id": "functions.weather:0 §", "name": "weather_now_", "args": {}}
    assert prepared.aliases.name("weather_now_") == "weather/now!"
    assert prepared.body["tools"][0]["functionDeclarations"][0]["name"] == "weather_now_"


def test_names_with_dots_need_no_rewriting() -> None:
    long = Tool("a." * 32, "", {})
    assert prepare(ask(user("Go"), tools=[long])).body["tools"][0]["functionDeclarations"] == [{"name": "a." * 32}]


# ---- images and files ----------------------------------------------------------------------------------------------


def test_images_and_files_of_the_user() -> None:
    parts = [Image(data=PIXEL, media_type="image/png"), Image("https://example.com/cat.jpg"), File("a.pdf", "JVBERg==")]
    prepared = prepare(ask(user("Look", *parts)))
    assert prepared.body["contents"][0]["parts"][1:] == [
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"fileData": {"fileUri": "https://example.com/cat.jpg", "mimeType": "image/jpeg"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
    ]
    assert [str(loss) for loss in prepared.losses] == ["history: the name of a file, a.pdf"]


@pytest.mark.parametrize(
    ("image", "media_type"),
    [
        (Image(f"data:image/webp;base64,{PIXEL}"), "image/webp"),
        (Image(data=PIXEL), "image/png"),
        (Image(data="/9j/4AAQ"), "image/jpeg"),
    ],
)
def test_the_media_type_of_an_image_that_came_without_one(image: Image, media_type: str) -> None:
    [part] = prepare(ask(user(image))).body["contents"][0]["parts"]
    assert part["inlineData"]["mimeType"] == media_type


def test_a_part_with_nothing_in_it_is_named_and_reported() -> None:
    prepared = prepare(ask(user("Look", File("lost.pdf"))))
    assert prepared.body["contents"][0]["parts"] == [{"text": "Look"}, {"text": "[file lost.pdf: not available]"}]
    assert rules_of(prepared) == ["dropped"]


def _with_picture(*content: Any) -> Request:
    results: list[Part] = [ToolResult("c1", content=list(content)), ToolResult("c2", content="ok")]
    return ask(user("Go"), Message("assistant", list(CALLS)), Message("tool", results), user("Well?"))


def test_images_of_results_stand_beside_them() -> None:
    prepared = prepare(_with_picture(Text("a map"), Image(data=PIXEL, media_type="image/png")))
    turn = prepared.body["contents"][2]["parts"]
    assert turn[0]["functionResponse"]["response"] == {"output": "a map\n[image: attachment 1 behind the results]"}
    assert turn[2] == {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    assert [str(loss) for loss in prepared.losses] == ["result of search (c1): its image was put beside the results"]


def test_images_of_results_stand_inside_them_where_the_model_takes_that() -> None:
    prepared = prepare(
        _with_picture(Text("a map"), Image(data=PIXEL, media_type="image/png"), Text("of Rome")), result_images=True
    )
    response = prepared.body["contents"][2]["parts"][0]["functionResponse"]
    assert response["response"] == {"output": "a map\nof Rome"}
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]
    assert rules_of(prepared) == ["moved"]


def test_a_type_that_no_result_may_hold_stands_beside_it_all_the_same() -> None:
    turn = prepare(_with_picture(Image(data="R0lGODlh", media_type="image/gif")), result_images=True).body["contents"][
        2
    ]
    assert "parts" not in turn["parts"][0]["functionResponse"]
    assert turn["parts"][2] == {"inlineData": {"mimeType": "image/gif", "data": "R0lGODlh"}}


# ---- reasoning and its signatures ----------------------------------------------------------------------------------


def _signed(**own: Any) -> dict[str, Any]:
    return {"gemini": {"thought_signature": SIGNATURE, **own}}


def test_signatures_go_back_in_the_part_they_came_with() -> None:
    parts: list[Part] = [
        Thinking("Hm.", {"gemini": {"thought": True}}),
        Text("I will"),
        Text(" look.", _signed()),
        ToolCall("c1", "search", {"query": "cats"}, extra=_signed()),
        ToolCall("c2", "ping", {}),
        Text("", _signed()),
    ]
    contents = prepare(ask(user("Go"), Message("assistant", parts)), call_signatures=True).body["contents"]
    assert contents[1]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"text": "I will"},
        {"text": " look.", "thoughtSignature": SIGNATURE},
        {
            "functionCall": {"id": "c1", "name": "search", "args": {"query": "cats"}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": "c2", "name": "ping", "args": {}}},
        {"text": "", "thoughtSignature": SIGNATURE},
    ]


def test_the_first_call_of_every_step_gets_a_placeholder_where_the_model_wants_signatures() -> None:
    request = ask(
        user("Go"),
        Message("assistant", list(CALLS)),
        RESULTS,
        Message("assistant", [ToolCall("c3", "ping", {}, extra=_signed())]),
        Message("tool", [ToolResult("c3", content="ok")]),
        Message("assistant", [ToolCall("c4", "ping", {})]),
        model="gemini-3-pro",
    )
    prepared = prepare(request, call_signatures=True)
    signatures = [
        part.get("thoughtSignature")
        for content in prepared.body["contents"]
        for part in content["parts"]
        if "functionCall" in part
    ]
    assert signatures == ["skip_thought_signature_validator", None, SIGNATURE, "skip_thought_signature_validator"]
    inserted = [str(loss) for loss in prepared.losses if "signature" in loss.detail]
    assert inserted == [
        "call c1 of search: a placeholder for its signature",
        "call c4 of ping: a placeholder for its signature",
    ]
    assert "thoughtSignature" not in str(prepare(ask(user("Go"), Message("assistant", list(CALLS)), RESULTS)).body)


def test_reasoning_of_another_wire_is_left_out_and_its_signature_with_it() -> None:
    foreign = Thinking("Hm.", {"anthropic": {"signature": "xyz"}})
    prepared = prepare(ask(user("Go"), Message("assistant", [foreign, Text("Yes.")])))
    assert prepared.body["contents"][1]["parts"] == [{"text": "Yes."}]
    assert rules_of(prepared) == ["dropped"]
    kept = prepare(ask(user("Go"), Message("assistant", [foreign, Text("Yes.")])), foreign_reasoning="text")
    assert kept.body["contents"][1]["parts"][0] == {"text": "<previous_reasoning>\nHm.\n</previous_reasoning>"}


# ---- one result ----------------------------------------------------------------------------------------------------


def test_one_result_as_a_turn_of_its_own() -> None:
    result = {"tool_call_id": "id1", "name": "ping", "content": "pong"}
    assert codec().encode_result(result) == {
        "role": "user",
        "parts": [{"functionResponse": {"id": "id1", "name": "ping", "response": {"output": "pong"}}}],
    }
    failed = codec().encode_result({**result, "is_error": True})
    assert failed["parts"][0]["functionResponse"]["response"] == {"error": "pong"}
    pictured = codec(result_images=True).encode_result(
        ToolResult("id1", "ping", [Text("a map"), Image(data=PIXEL, media_type="image/png")])
    )
    assert pictured["parts"][0]["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    ]
    odd = codec().encode_result({**result, "content": ["pong", {"n": 1}]})
    assert odd["parts"][0]["functionResponse"]["response"] == {"output": 'pong\n{"n":1}'}


def test_the_same_request_gives_the_same_bytes_and_stays_as_it_was() -> None:
    request = ask(user("Go"), Message("assistant", list(CALLS)), RESULTS, tools=[SEARCH, PING], tool_choice="auto")
    before = repr(request)
    first, second = (codec(call_signatures=True).prepare(request) for _ in range(2))
    assert (first.body, first.losses) == (second.body, second.losses)
    assert repr(request) == before
