"""Texts that a provider cut into pieces: in the history of another wire they are one text again."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import Message, Reply, Request, Text
from dragoman.wire import get

CITED = {"anthropic": {"citations": [{"type": "char_location", "cited_text": "nine"}]}}
SIGNED = {"gemini": {"thoughtSignature": "c2ln"}}
REFERRED = {"mistral": {"block": {"type": "reference", "reference_ids": [0]}}}


def sent(wire: str, parts: list[Any]) -> Any:
    """The content of an assistant message as this wire sends it."""
    messages = [Message("user", [Text("When?")]), Message("assistant", parts), Message("user", [Text("And?")])]
    return get(wire).prepare(Request("m", messages)).body["messages"][1]["content"]


@pytest.mark.parametrize(
    "parts",
    [
        [Text("Ebb is"), Text(" at nine", CITED), Text(".")],
        [Text("Ebb is at ni"), Text("ne.", SIGNED)],
        [Text("Ebb is at nine"), Text("", REFERRED), Text(".")],
    ],
    ids=["citation", "signature", "reference"],
)
@pytest.mark.parametrize("wire", ["openai_chat", "ollama"])
def test_a_mark_inside_a_text_breaks_no_line(wire: str, parts: list[Any]) -> None:
    assert sent(wire, parts) == "Ebb is at nine."


@pytest.mark.parametrize("wire", ["openai_chat", "ollama"])
def test_texts_that_are_apart_stay_apart(wire: str) -> None:
    assert sent(wire, [Text("I look."), Text("Ebb is at nine.")]) == "I look.\nEbb is at nine."
    searched = Text("", {"anthropic": {"block": {"type": "server_tool_use"}}})
    assert sent(wire, [Text("Nine", CITED), searched, Text("So wait.")]) == "Nine\nSo wait."


def test_references_go_back_to_the_wire_that_gave_them() -> None:
    content = [{"type": "text", "text": "At nine"}, REFERRED["mistral"]["block"], {"type": "text", "text": "."}]
    reply: Reply = get("mistral").decode_reply(
        {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    )
    assert reply.text == "At nine."
    assert sent("mistral", reply.message.parts) == content
