"""What only chat completions say of tools, results, images and answers: kept where it fits, else in the report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.rules import WIRES, violations

from dragoman.replies import fold, unfold
from dragoman.types import File, Image, Message, Reply, Request, Text, Thinking
from dragoman.wire import get

MARK = {"type": "ephemeral"}
FUNCTION = {"name": "tide", "description": "The tide", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {"id": "call00001", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
ANSWERED = [{"role": "assistant", "content": None, "tool_calls": [CALL]}]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
MARKED = {"type": "text", "text": "x", "cache_control": MARK}
MORE = {"role": "user", "content": "y"}
FORMAT = {"name": "report", "description": "A short report", "schema": {"type": "object", "properties": {}}}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi."}, *messages], "tools": [TOOL], **fields}


def result(content: Any, **fields: Any) -> list[Any]:
    return [*ANSWERED, {"role": "tool", "tool_call_id": "call00001", "content": content, **fields}]


# The body, the word to look for, and the wires that have a place for it.
CASES: dict[str, tuple[dict[str, Any], str, set[str]]] = {
    "mark on a tool": (chat(tools=[{**TOOL, "cache_control": MARK}]), "cache_control", {"anthropic"}),
    "mark in a function": (
        chat(tools=[{**TOOL, "function": {**FUNCTION, "cache_control": MARK}}]), "cache_control", {"anthropic"}
    ),
    "mark on a result": (chat(*result("high", cache_control=MARK)), "cache_control", {"anthropic"}),
    "mark in a result": (
        chat(*result([{"type": "text", "text": "high", "cache_control": MARK}])), "cache_control", {"anthropic"}
    ),
    "mark on a text": (
        chat({"role": "user", "content": [{"type": "text", "text": "x", "cache_control": MARK}]}),
        "cache_control",
        {"anthropic"},
    ),
    "mark on an image": (
        chat({"role": "user", "content": [{**PICTURE, "cache_control": MARK}]}), "cache_control", {"anthropic"}
    ),
    "mark on the instructions": (
        {"model": "m", "messages": [{"role": "system", "content": [MARKED]}, {"role": "user", "content": "Hi."}]},
        "cache_control",
        {"anthropic"},
    ),
    "description of a format": (
        {**chat(response_format={"type": "json_schema", "json_schema": FORMAT}), "tools": []},
        "description",
        {"openai_responses", "bedrock", "mistral"},
    ),
    "annotations": (
        chat({"role": "assistant", "content": "x", "annotations": [{"type": "url_citation"}]}, MORE),
        "annotations",
        set(),
    ),
    "audio of an answer": (
        chat({"role": "assistant", "content": "x", "audio": {"id": "audio_1"}}, MORE),
        "audio",
        set(),
    ),
    "a field of a call": (
        chat({"role": "assistant", "content": None, "tool_calls": [{**CALL, "extra_content": {"google": {"x": "y"}}}]},
             {"role": "tool", "tool_call_id": "call00001", "content": "z"}),
        "extra_content",
        set(),
    ),
    "a field of the body": (chat(logit_bias={"5": 1}), "logit_bias", set()),
    "a tool of the provider": (chat(tools=[{"type": "web_search"}, TOOL]), "web_search", set()),
}  # fmt: skip


@each_row("wire", WIRES)
@each_row("case", CASES)
def test_what_chat_says_is_kept_or_in_the_report(case: str, wire: str) -> None:
    body, word, places = CASES[case]
    prepared = get(wire).prepare(get("openai_chat").decode_request(body))
    kept = word in json.dumps(prepared.body).replace(f'"description": "{FUNCTION["description"]}"', "")
    reported = [str(loss) for loss in prepared.losses if word in str(loss)]
    assert kept is (wire in {"openai_chat", *places})
    assert bool(reported) is not kept, reported


@pytest.mark.parametrize("wire", WIRES)
def test_recordings_of_a_client_are_files_to_every_wire(wire: str) -> None:
    block = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    prepared = get(wire).prepare(get("openai_chat").decode_request(chat({"role": "user", "content": [block]})))
    assert "UklGRg==" in json.dumps(prepared.body) or prepared.losses


@pytest.mark.parametrize("wire", WIRES)
def test_tools_of_the_provider_keep_their_place(wire: str) -> None:
    own = {"gemini": {"googleSearch": {}}, "bedrock": {"systemTool": {"name": "nova_grounding"}}}
    given: list[Any] = [own.get(wire, {"type": "web_search", "name": "web_search"})]
    request = get("openai_chat").decode_request(chat(tools=[TOOL, {**TOOL, "function": {**FUNCTION, "name": "berth"}}]))
    for order in ([*given, "tide", "berth"], ["tide", *given, "berth"], ["tide", "berth", *given]):
        prepared = get(wire).prepare(Request("m", request.messages, request.tools, {wire: {"tools": order}}))
        text = json.dumps(prepared.body)
        assert given[0] in _tools_of(prepared.body)
        places = [text.index(f'"{name}"') for name in _names(order)]
        assert places == sorted(places)
        again = get(wire).prepare(get(wire).decode_request(prepared.body, model="m"))
        assert again.body == prepared.body


def _tools_of(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body["toolConfig"]["tools"] if "toolConfig" in body and "tools" not in body else body["tools"]
    return found


def _names(order: list[Any]) -> list[str]:
    return [each if isinstance(each, str) else each.get("name", next(iter(each))) for each in order]


# ---- rules that our own judge has ------------------------------------------------------------------------------------

FOREIGN = Message("assistant", [Thinking("hm", {"openai_chat": {"field": "reasoning"}})])
PREFIX = Message("assistant", [], {"mistral": {"prefix": True}})
TEXTS = [
    [Message.system("Be kind."), Message.system("Be brief."), Message.user("Hi.")],
    [Message.user("Hi."), FOREIGN, Message.user("?")],
    [Message.user("Hi."), Message("assistant", [Text("")]), Message.user("?")],
    [Message.user("Hi."), Message("assistant", []), Message.user("?")],
    [Message.system("A."), Message.user("Hi."), PREFIX, Message.user("?")],
]  # fmt: skip


@each_row("wire", WIRES)
@each_row("messages", TEXTS)
def test_no_conversation_becomes_a_request_that_our_rules_refuse(messages: list[Message], wire: str) -> None:
    assert violations(wire, get(wire).encode_request(Request("some-model", messages))) == []


# ---- replies ---------------------------------------------------------------------------------------------------------

MESSAGE = {
    "role": "assistant",
    "content": "Low water at six.",
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.example", "title": "E"}}],
    "audio": {"id": "audio_1", "data": "UklGRg==", "transcript": "Low water", "expires_at": 5},
    "images": [PICTURE],
}
REPLY = {
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "citations": ["https://e.example"],
    "search_results": [{"title": "E"}],
}


def _is_told(reply: Reply) -> None:
    assert reply.text == "Low water at six."
    (text,) = [part for part in reply.message.parts if isinstance(part, Text)]
    assert text.extra["openai_chat"]["annotations"] == MESSAGE["annotations"]
    (audio,) = [part for part in reply.message.parts if isinstance(part, File)]
    assert audio.data == "UklGRg==" and audio.extra["openai_chat"]["audio"]["id"] == "audio_1"
    (image,) = [part for part in reply.message.parts if isinstance(part, Image)]
    assert image.data == "iVBORw0KGgo="
    own = reply.extra["openai_chat"]
    assert own["citations"] == REPLY["citations"] and own["search_results"] == REPLY["search_results"]


def test_annotations_citations_audio_and_images_of_a_reply_are_kept() -> None:
    reply = get("openai_chat").decode_reply(REPLY)
    _is_told(reply)
    _is_told(get("openai_chat").decode_reply(get("openai_chat").encode_reply(reply)))
    writer, reader = get("openai_chat").event_stream(), get("openai_chat").reply_stream()
    pieces = [piece for event in unfold(reply) for piece in writer.feed(event)] + writer.close()
    _is_told(fold([event for piece in pieces for event in reader.feed(piece)] + reader.close()))


def test_a_recording_goes_back_by_its_id_and_annotations_are_named_in_the_report() -> None:
    reply = get("openai_chat").decode_reply({**REPLY, "choices": [{"message": {**MESSAGE, "images": []}}]})
    prepared = get("openai_chat").prepare(Request("m", [Message.user("Hi."), reply.message, Message.user("And?")]))
    assert prepared.body["messages"][1] == {
        "role": "assistant",
        "content": "Low water at six.",
        "audio": {"id": "audio_1"},
    }
    assert [str(loss) for loss in prepared.losses] == [
        "history: annotations of an answer, which this wire takes from nobody"
    ]


def test_annotations_belong_to_the_text_before_a_call() -> None:
    message = {**MESSAGE, "audio": None, "images": None, "tool_calls": [CALL]}
    reply = get("openai_chat").decode_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert [type(part).__name__ for part in reply.message.parts] == ["Text", "ToolCall"]
    assert "annotations" in reply.message.parts[0].extra["openai_chat"]
