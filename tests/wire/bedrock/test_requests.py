"""Requests as Converse wants them. Every body that is written here was accepted by two judges (`talk.prepare`)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.wire.bedrock.talk import (
    CITY,
    CLAUDE,
    LLAMA,
    PING,
    PIXEL,
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

from dragoman.types import Fault, File, Image, InvalidCall, Message, Text, Thinking, Tool, ToolResult
from dragoman.wire.bedrock import Bedrock
from dragoman.wire.quirks import Quirks

SIGNED = {"bedrock": {"field": "reasoningText", "signature": "EqQB"}}
DONE = [user("Oslo?"), assistant(call(city="Oslo")), results(ToolResult("t1", "weather", "rain"))]


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        (CLAUDE, False, "/model/anthropic.claude-sonnet-4-5-v1%3A0/converse"),
        (CLAUDE, True, "/model/anthropic.claude-sonnet-4-5-v1%3A0/converse-stream"),
        ("arn:aws:bedrock:eu:1:x/y", False, "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ax%2Fy/converse"),
    ],
)
def test_model_and_streaming_are_in_the_path(model: str, stream: bool, path: str) -> None:
    assert Bedrock().endpoint(model, stream=stream) == path
    assert "modelId" not in encode(ask(model=model, stream=stream))


# ---- conversation ----------------------------------------------------------------------------------------------------


def test_system_stands_apart_and_later_system_words_become_labelled_user_text() -> None:
    prepared = prepare(
        ask(Message("system", [Text("Be brief."), Text(" ")]), user("Hi"), Message("system", [Text("Be polite.")]))
    )
    assert prepared.body["system"] == [{"text": "Be brief."}]
    assert prepared.body["messages"] == [
        {"role": "user", "content": [{"text": "Hi"}, {"text": "<system>\nBe polite.\n</system>"}]}
    ]
    assert any(line.startswith("moved message 2") for line in told(prepared))


def test_results_and_the_words_behind_them_are_one_message_results_first_in_the_order_of_the_calls() -> None:
    body = encode(
        ask(
            user("Oslo and Rome?"),
            assistant("Both.", call("t1", city="Oslo"), call("t2", city="Rome")),
            results(ToolResult("t2", "weather", "sun")),
            user("Quick!"),
            results(ToolResult("t1", "weather", "no such city", is_error=True)),
            tools=[WEATHER],
        )
    )
    assert body["messages"][1]["content"] == [
        {"text": "Both."},
        {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Oslo"}}},
        {"toolUse": {"toolUseId": "t2", "name": "weather", "input": {"city": "Rome"}}},
    ]
    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "no such city"}], "status": "error"}},
            {"toolResult": {"toolUseId": "t2", "content": [{"text": "sun"}]}},
            {"text": "Quick!"},
        ],
    }


def test_roles_take_turns_and_the_user_begins() -> None:
    prepared = prepare(ask(assistant("Hello."), user("a"), user("b"), assistant("c"), assistant("d"), user("e")))
    assert [message["role"] for message in prepared.body["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert prepared.body["messages"][2]["content"] == [{"text": "a"}, {"text": "b"}]
    assert any("a first user message" in line for line in told(prepared))


def test_an_empty_conversation_gets_a_user_message_and_says_so() -> None:
    prepared = prepare(ask(Message("system", [Text("Be brief.")])))
    assert [message["role"] for message in prepared.body["messages"]] == ["user"]
    assert any("a first user message" in line for line in told(prepared))


def test_blank_text_is_never_sent_and_a_turn_of_nothing_else_was_not_said() -> None:
    prepared = prepare(ask(user("a"), assistant(" \n"), user("", "b"), assistant("c", "\t"), user("d")))
    assert [message["content"] for message in prepared.body["messages"]] == [
        [{"text": "a"}, {"text": "b"}],
        [{"text": "c"}],
        [{"text": "d"}],
    ]
    assert [line for line in told(prepared) if "blank" in line] == [
        "dropped message 1: blank text, which this wire refuses",
        "dropped message 3: blank text, which this wire refuses",
    ]


@pytest.mark.parametrize("content", ["", [], [Text("")]])
def test_a_result_without_words_has_no_content(content: Any) -> None:
    body = encode(ask(*DONE[:2], results(ToolResult("t1", "weather", content)), tools=[WEATHER]))
    assert body["messages"][2]["content"] == [{"toolResult": {"toolUseId": "t1", "content": []}}]


def test_a_call_without_result_is_answered_and_one_that_could_not_be_read_goes_out_empty() -> None:
    broken = InvalidCall("t2", "weather", '{"city', (Fault("$", "cut off"),))
    prepared = prepare(ask(user("?"), assistant(call(city="Oslo"), broken), tools=[WEATHER]))
    made, answered = prepared.body["messages"][1:]
    assert made["content"][1] == {"toolUse": {"toolUseId": "t2", "name": "weather", "input": {}}}
    assert [block["toolResult"]["status"] for block in answered["content"]] == ["error", "error"]
    assert '{"city' in answered["content"][1]["toolResult"]["content"][0]["text"]
    assert any(line.startswith("inserted message 1") for line in told(prepared))


def test_odd_ids_and_long_names_are_mapped_and_mapped_back() -> None:
    long = Tool("files.read/" + "x" * 70, "Read", CITY)
    prepared = prepare(
        ask(user("?"), assistant(call("odd id!", long.name, city="a")), results(ToolResult("odd id!")), tools=[long])
    )
    use = prepared.body["messages"][1]["content"][0]["toolUse"]
    assert prepared.aliases.ids[use["toolUseId"]] == "odd id!"
    assert prepared.aliases.name(use["name"]) == long.name
    body = {"output": {"message": {"content": [{"toolUse": {"toolUseId": "t9", "name": use["name"], "input": {}}}]}}}
    assert Bedrock().decode_reply(body, prepared).calls[0].name == long.name


def test_a_good_id_stays_as_it_is() -> None:
    body = encode(ask(user("?"), assistant(call("a_b.c:d-1", city="a")), tools=[WEATHER]))
    assert body["messages"][1]["content"][0]["toolUse"]["toolUseId"] == "a_b.c:d-1"


def test_encoding_is_the_same_every_time_and_changes_nothing_it_is_given() -> None:
    request = ask(*DONE, user("And now?"), tools=[WEATHER, PING], cache=True, bedrock={"serviceTier": {"type": "flex"}})
    before = copy.deepcopy(request)
    assert encode(request) == encode(request)
    assert request == before


# ---- images and documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "written"),
    [
        (Image(data=PIXEL, media_type="image/png"), {"format": "png", "source": {"bytes": PIXEL}}),
        (Image(data=PIXEL, media_type="image/jpg"), {"format": "jpeg", "source": {"bytes": PIXEL}}),
        (Image(url=f"data:image/gif;base64,{PIXEL}"), {"format": "gif", "source": {"bytes": PIXEL}}),
        (Image(url="s3://cats/one.webp"), {"format": "webp", "source": {"s3Location": {"uri": "s3://cats/one.webp"}}}),
    ],
)
def test_images(image: Image, written: dict[str, Any]) -> None:
    assert encode(ask(user("What?", image)))["messages"][0]["content"] == [{"text": "What?"}, {"image": written}]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Image(url="https://cats.example/one.png"), "[image: https://cats.example/one.png]"),
        (Image(data=PIXEL, media_type="image/tiff"), "[image: image/tiff]"),
        (File("song.mid", data="AAAA", media_type="audio/midi"), "[file: song.mid]"),
        (File("far.pdf", url="https://far.example/far.pdf", media_type="application/pdf"), "[file: far.pdf]"),
    ],
)
def test_what_converse_cannot_take_is_named_and_reported(part: Any, words: str) -> None:
    prepared = prepare(ask(user("What?", part)))
    assert prepared.body["messages"][0]["content"][1] == {"text": words}
    assert [line for line in told(prepared) if line.startswith("dropped message 0")]


@pytest.mark.parametrize(
    ("file", "format", "name"),
    [
        (File("report", "AAAA", media_type="application/pdf"), "pdf", "report"),
        (File("report.pdf", "AAAA", media_type="application/pdf"), "pdf", "report"),
        (File("../año_1 (final).csv", "AAAA", media_type="text/csv; charset=utf-8"), "csv", "a o 1 (final)"),
        (File("data.json", "AAAA", media_type="application/json"), "txt", "data json"),
        (File("notes.md", "AAAA"), "md", "notes"),
        (File("世界.txt", "AAAA", media_type="text/plain"), "txt", "document"),
        (File("x" * 300, "AAAA", media_type="text/plain"), "txt", "x" * 200),
    ],
)
def test_documents_have_a_format_and_a_clean_name(file: File, format: str, name: str) -> None:
    prepared = prepare(ask(user("Read", file)))
    written = {"format": format, "name": name, "source": {"bytes": "AAAA"}}
    assert prepared.body["messages"][0]["content"][1] == {"document": written}
    assert bool([line for line in told(prepared) if line.startswith("renamed")]) == (name != file.name)


def test_two_documents_of_one_name_are_told_apart() -> None:
    file = File("a.b", "AAAA", media_type="text/plain")
    body = encode(ask(user("Read", file, file, file)))
    assert [block["document"]["name"] for block in body["messages"][0]["content"][1:]] == ["a b", "a b 2", "a b 3"]


def test_a_result_holds_images_and_documents() -> None:
    content: Any = [
        Text("a map"),
        Image(data=PIXEL, media_type="image/png"),
        File("legend", "AAAA", media_type="text/html"),
    ]
    body = encode(ask(*DONE[:2], results(ToolResult("t1", "weather", content)), tools=[WEATHER]))
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [
        {"text": "a map"},
        {"image": {"format": "png", "source": {"bytes": PIXEL}}},
        {"document": {"format": "html", "name": "legend", "source": {"bytes": "AAAA"}}},
    ]


# ---- reasoning -------------------------------------------------------------------------------------------------------


def test_own_reasoning_goes_back_as_it_came() -> None:
    hidden = Thinking("", {"bedrock": {"redacted": "//4="}})
    body = encode(ask(user("?"), assistant(Thinking("Hm.", SIGNED), hidden, "Yes."), user("!")))
    assert body["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EqQB"}}},
        {"reasoningContent": {"redactedContent": "//4="}},
        {"text": "Yes."},
    ]


@pytest.mark.parametrize(
    ("quirks", "content"),
    [
        (Quirks(), [{"text": "Yes."}]),
        (
            Quirks(foreign_reasoning="text"),
            [{"text": "<previous_reasoning>\nHm.\n</previous_reasoning>"}, {"text": "Yes."}],
        ),
    ],
)
@pytest.mark.parametrize("extra", [{"anthropic": {"signature": "x"}}, {"bedrock": {"field": "reasoningText"}}])
def test_foreign_and_for_claude_unsigned_reasoning_is_not_replayed(
    extra: dict[str, Any], quirks: Quirks, content: Any
) -> None:
    prepared = prepare(ask(user("?"), assistant(Thinking("Hm.", extra), "Yes."), user("!")), quirks)
    assert prepared.body["messages"][1]["content"] == content
    assert any("reasoning of another wire" in line for line in told(prepared))


def test_models_that_do_not_sign_get_their_reasoning_back() -> None:
    thought = Thinking("Hm.", {"bedrock": {"field": "reasoningText"}})
    body = encode(ask(user("?"), assistant(thought, "Yes."), user("!"), model=LLAMA))
    assert body["messages"][1]["content"][0] == {"reasoningContent": {"reasoningText": {"text": "Hm."}}}


def test_reasoning_behind_a_call_is_put_before_it() -> None:
    prepared = prepare(ask(user("?"), assistant("a", call(city="b"), Thinking("Hm.", SIGNED), "c"), tools=[WEATHER]))
    kinds = [next(iter(block)) for block in prepared.body["messages"][1]["content"]]
    assert kinds == ["text", "reasoningContent", "toolUse", "text"]
    assert "moved message 1: thinking after a call was moved before it" in told(prepared)
