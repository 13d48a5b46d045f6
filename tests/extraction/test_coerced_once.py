"""Arguments are coerced once: by the parser or the codec that read them, or here if those did not know the tools."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.args import coercion
from dragoman.types import Message, Reply, Tool, ToolCall

ADD = Tool(
    "add",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "deep": {"type": "array", "items": {"type": "boolean"}}},
        "required": ["a"],
    },
)
WRITTEN = '{"name": "add", "arguments": {"a": "7", "deep": ["true"]}}'
BODY = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "add", "arguments": '{"a": "7", "deep": ["true"]}'}},
                ],
            },
            "finish_reason": "tool_calls",
        }
    ]
}
REPLY = Reply(Message("assistant", [ToolCall("c1", "add", {"a": "7", "deep": ["true"]})]), stop="tool_calls")


@pytest.fixture
def coerced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every value that did not fit its schema and was therefore changed."""
    values: list[Any] = []

    class Counted(coercion.Coercer):
        def cast(self, shape: Any, value: Any, path: str, *rest: Any) -> Any:
            if path == "$":
                values.append(value)
            return super().cast(shape, value, path, *rest)

    monkeypatch.setattr(coercion, "Coercer", Counted)
    return values


@pytest.mark.parametrize(
    "response",
    [f"<tool_call>\n{WRITTEN}\n</tool_call>", WRITTEN, "add(a='7', deep=['true'])", BODY, REPLY],
    ids=["marked", "whole message", "unmarked", "native", "decoded elsewhere"],
)
def test_arguments_are_coerced_once(response: Any, coerced: list[Any]) -> None:
    (call,) = dragoman.extract(response, tools=[ADD], trust="compat").calls
    assert call.arguments == {"a": 7, "deep": [True]}
    assert [change.path for change in call.changes] == ["$.a", "$.deep[0]"]
    assert len(coerced) == 1
