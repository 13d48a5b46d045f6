"""From every wire to every other and back: what the target can carry survives, and the rest is in the report."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.conversations import PIXEL, WIRES, restore_request, words
from tests.wire.rules import violations

from dragoman.types import Image, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import Quirks, get

# Sixty-four characters, with dots.
LONG_NAME = "server.files." + "read_" * 10 + "a"
ODD_ID = "functions.files.read:0 / ü"
TOOLS = [
    Tool(LONG_NAME, "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}}),
    Tool("ping", "Ping"),
]

# The opaque state of reasoning, as each wire gives it.
SIGNED: dict[str, Any] = {
    "openai_chat": {"field": "reasoning_content"},
    "openai_responses": {
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "I should look."}],
        "encrypted_content": "c2VhbGVk",
    },
    "anthropic": {"signature": "c2VhbGVk"},
    "gemini": {"thought_signature": "c2VhbGVk"},
    "ollama": {"field": "thinking"},
    "bedrock": {"signature": "c2VhbGVk"},
    "mistral": {"field": "thinking", "signature": "c2VhbGVk"},
    "cohere": {"field": "thinking"},
}
# Endpoints that want their reasoning back; the other wires take it anyway.
QUIRKS = {
    "openai_chat": Quirks(reasoning_field="reasoning_content", replay_reasoning="always"),
    "mistral": Quirks(replay_reasoning="always"),
}
# What each wire has a place for, from the descriptions of the protocols.
HAS_ERROR_FLAG = {"anthropic", "gemini", "bedrock"}
HOLDS_RESULT_IMAGES = {"openai_responses", "anthropic", "gemini", "ollama", "bedrock"}


def codec(wire: str) -> Any:
    return get(wire, QUIRKS.get(wire, Quirks()))


def conversation(wire: str) -> Request:
    """A hard conversation as this wire's model would have led it."""
    return Request(
        "model-1",
        [
            Message("system", [Text("Be brief.")]),
            Message("user", [Text("Look at both."), Image(None, PIXEL, "image/png")]),
            Message(
                "assistant",
                [
                    Thinking("I should look.", {wire: SIGNED[wire]}),
                    Text("Looking."),
                    ToolCall(ODD_ID, LONG_NAME, {"path": "/tmp/ü", "deep": {"list": [1, None, "x"]}}),
                    ToolCall("call_2", "ping", {}),
                ],
            ),
            Message(
                "tool",
                [
                    ToolResult(ODD_ID, LONG_NAME, "no such file", is_error=True),
                    ToolResult("call_2", "ping", [Text("a picture"), Image(None, PIXEL, "image/png")]),
                ],
            ),
            Message("assistant", [Text("Once more."), ToolCall("call_3", "ping", {"n": 1})]),
            Message("user", [Text("Never mind.")]),
        ],
        TOOLS,
        {"max_tokens": 500},
    )


def parts(request: Request, kind: Any) -> list[Any]:
    return [part for message in request.messages for part in message.parts if isinstance(part, kind)]


def calls(request: Request) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, call.arguments) for call in parts(request, ToolCall)]


def images(request: Request) -> int:
    inside = [part for result in parts(request, ToolResult) for part in result.content if isinstance(part, Image)]
    return len(parts(request, Image)) + len(inside)


def spoken(request: Request, role: str) -> str:
    return "\n".join(message.text for message in request.messages if message.role == role)


def check_rules(wire: str, body: Any) -> None:
    """The target's own rules, by a judge that knows nothing of our encoders, and by the official client."""
    if wire == "openai_chat":
        # The vendor's own rules know no reasoning; the endpoints that want it back differ in this one key.
        bare = [
            {key: value for key, value in entry.items() if key != "reasoning_content"} for entry in body["messages"]
        ]
        body = {**body, "messages": bare}
    assert violations(wire, body) == []
    import_module(f"tests.wire.judges.{wire}").validate_request(body)


def check_carried(before: Request, after: Request, target: str, report: list[str]) -> None:
    assert calls(after) == calls(before)
    assert [tool.name for tool in after.tools] == [tool.name for tool in before.tools]
    assert images(after) == images(before)
    assert "Be brief." in spoken(after, "system")
    for text in ("Look at both.", "Never mind."):
        assert text in spoken(after, "user")
    for text in ("Looking.", "Once more."):
        assert text in spoken(after, "assistant")
    for old, new in zip(parts(before, ToolResult), parts(after, ToolResult), strict=True):
        assert (new.call_id, new.name) == (old.call_id, old.name)
        assert words(old) in words(new)
        if target in HAS_ERROR_FLAG:
            assert new.is_error == old.is_error
    if target not in HAS_ERROR_FLAG and any(result.is_error for result in parts(before, ToolResult)):
        assert any("error flag" in line for line in report)
    held = [part for result in parts(before, ToolResult) for part in result.content if isinstance(part, Image)]
    if held and target not in HOLDS_RESULT_IMAGES:
        assert any("image" in line for line in report)


def check_reasoning(before: Request, after: Request, source: str, target: str, report: list[str]) -> None:
    old, new = parts(before, Thinking), parts(after, Thinking)
    if source == target:
        assert [(part.text, part.extra) for part in new] == [(part.text, part.extra) for part in old]
    elif old:
        assert new == []
        assert any("reasoning" in line for line in report)


@each_row("target", WIRES)
@each_row("source", WIRES)
def test_a_conversation_changes_wires_and_comes_back(source: str, target: str) -> None:
    first = codec(source).prepare(conversation(source))
    check_rules(source, first.body)
    start = codec(source).decode_request(first.body, model="model-1")
    assert len(parts(start, ToolResult)) == 3, "the dangling call was answered on the way"

    there = codec(target).prepare(start)
    check_rules(target, there.body)
    arrived = restore_request(codec(target).decode_request(there.body, model="model-1"), there.aliases)
    report = [str(loss) for loss in there.losses]
    check_carried(start, arrived, target, report)
    check_reasoning(start, arrived, source, target, report)

    back = codec(source).prepare(arrived)
    check_rules(source, back.body)
    returned = restore_request(codec(source).decode_request(back.body, model="model-1"), back.aliases)
    check_carried(arrived, returned, source, [str(loss) for loss in back.losses])


@pytest.mark.parametrize("wire", WIRES)
def test_the_names_and_ids_of_the_beginning_are_found_again(wire: str) -> None:
    prepared = codec(wire).prepare(conversation(wire))
    restored = restore_request(codec(wire).decode_request(prepared.body, model="model-1"), prepared.aliases)
    assert calls(restored) == calls(conversation(wire))


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_conversation_gives_the_same_bytes(wire: str) -> None:
    import msgspec

    bodies = {msgspec.json.encode(codec(wire).encode_request(conversation(wire))) for _ in range(3)}
    assert len(bodies) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(wire: str) -> None:
    """Prompt caches compare prefixes: what was sent before must be sent again unchanged."""
    longer = conversation(wire)
    shorter = Request(longer.model, longer.messages[:4], longer.tools, longer.options)
    key = {"gemini": "contents", "openai_responses": "input"}.get(wire, "messages")
    before, after = codec(wire).encode_request(shorter), codec(wire).encode_request(longer)
    assert after[key][: len(before[key]) - 1] == before[key][:-1]
    assert {name: value for name, value in before.items() if name != key} == {
        name: value for name, value in after.items() if name != key
    }
