"""Objects of official clients: accepted by `extract` and `decode_tool_calls`, by their shape alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import dragoman
from dragoman.errors import ConfigError

TOOLS = [{"name": "move", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]

BODIES: dict[str, dict[str, Any]] = {
    "openai": {
        "id": "r1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "move", "arguments": '{"x": 1}'}}
                    ],
                },
            }
        ],
    },
    "anthropic": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "c1", "name": "move", "input": {"x": 1}}],
    },
    "gemini": {
        "candidates": [
            {
                "finishReason": "STOP",
                "content": {"role": "model", "parts": [{"functionCall": {"name": "move", "args": {"x": 1}}}]},
            }
        ]
    },
    "mistral": {
        "id": "r1",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "c1", "function": {"name": "move", "arguments": '{"x": 1}'}}],
                },
            }
        ],
    },
}


class Dumped:
    """As pydantic's models: aliases are written only on request, and None is."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def model_dump(self, *, mode: str = "python", by_alias: bool = False, exclude_none: bool = False) -> dict[str, Any]:
        if not by_alias:
            return {"candidates_" if key == "candidates" else key: value for key, value in self._body.items()}
        return dict(self._body)


class OldDump:
    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def to_dict(self) -> dict[str, Any]:
        return dict(self._body)


class OldPydantic:
    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def dict(self) -> dict[str, Any]:
        return dict(self._body)


@pytest.mark.parametrize("provider", BODIES)
@pytest.mark.parametrize("kind", [Dumped, OldDump, OldPydantic])
def test_a_reply_object_of_a_client_is_read_as_its_body(provider: str, kind: Any) -> None:
    reply = kind(BODIES[provider])
    found = dragoman.extract(reply, tools=TOOLS)
    assert [(call.name, call.arguments) for call in found.calls] == [("move", {"x": 1})]
    calls = dragoman.decode_tool_calls(reply, provider)
    assert [(call.name, call.arguments) for call in calls] == [("move", {"x": 1})]


def test_lists_of_calls_and_of_content_are_read() -> None:
    calls = [Dumped(call) for call in BODIES["openai"]["choices"][0]["message"]["tool_calls"]]
    assert [call.arguments for call in dragoman.extract(calls, tools=TOOLS).calls] == [{"x": 1}]
    assert [call.arguments for call in dragoman.decode_tool_calls(calls, "openai")] == [{"x": 1}]
    blocks = [Dumped({"type": "text", "text": "Now."}), Dumped(BODIES["anthropic"]["content"][0])]
    found = dragoman.extract(blocks, tools=TOOLS)
    assert ([call.arguments for call in found.calls], found.text) == ([{"x": 1}], "Now.")


def test_a_dataclass_is_read() -> None:
    @dataclass
    class Answer:
        text: str = ""
        tool_calls: list[dict[str, Any]] = field(default_factory=list)

    answer = Answer("Now.", [{"name": "move", "arguments": {"x": 1}}])
    found = dragoman.extract(answer, tools=TOOLS)
    assert ([call.arguments for call in found.calls], found.text) == ([{"x": 1}], "Now.")


@pytest.mark.parametrize(
    "reply", [object(), iter([]), lambda: None, {1, 2}, type], ids=lambda reply: type(reply).__name__
)
def test_what_is_no_reply_raises(reply: Any) -> None:
    with pytest.raises(ConfigError, match="is not a reply"):
        dragoman.extract(reply, tools=TOOLS)
    with pytest.raises(ConfigError, match="is not a reply"):
        dragoman.decode_tool_calls(reply, "openai")


@pytest.mark.parametrize("provider", BODIES)
@pytest.mark.parametrize("key", ["arguments", "parameters", "args", "input"])
def test_a_flat_call_is_read_on_every_wire(provider: str, key: str) -> None:
    for body in ({"name": "move", key: {"x": 1}}, [{"name": "move", key: '{"x": 1}'}]):
        calls = dragoman.decode_tool_calls(body, provider)
        assert [(call.name, call.arguments) for call in calls] == [("move", {"x": 1})]
