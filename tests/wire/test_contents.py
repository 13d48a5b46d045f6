"""Contents that a client sends in a form of its own: nothing of them is lost."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ToolResult, wire
from dragoman.types import JsonObject

CALL = {"name": "look", "arguments": "{}"}
ASKED = {"role": "user", "content": "Go."}
BODIES: dict[str, Any] = {
    "openai_chat": lambda value: [
        ASKED,
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "c1", "content": value},
    ],
    "anthropic": lambda value: [
        ASKED,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": value}]},
    ],
    "ollama": lambda value: [
        ASKED,
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
        {"role": "tool", "tool_name": "look", "content": value},
    ],
}
VALUES: list[tuple[Any, str]] = [(21.5, "21.5"), (True, "true"), ({"degrees": 21}, '{"degrees":21}'), (None, "")]


def body_of(name: str, value: Any) -> JsonObject:
    if name == "openai_responses":
        call = {"type": "function_call", "call_id": "c1", **CALL}
        return {
            "model": "m",
            "input": [ASKED, call, {"type": "function_call_output", "call_id": "c1", "output": value}],
        }
    if name == "gemini":
        parts = [[{"text": "Go."}], [{"functionCall": {"name": "look", "args": {}}}]]
        parts.append([{"functionResponse": {"name": "look", "response": value}}])
        return {
            "contents": [{"role": "user" if place != 1 else "model", "parts": each} for place, each in enumerate(parts)]
        }
    return {"model": "m", "messages": BODIES[name](value)}


def words_of(result: ToolResult) -> str:
    parts = result.content
    return parts if isinstance(parts, str) else "".join(getattr(part, "text", "") for part in parts)


@pytest.mark.parametrize("name", [*BODIES, "openai_responses", "gemini"])
def test_a_result_that_is_no_text_is_its_json(name: str) -> None:
    for value, words in VALUES:
        request = wire.get(name).decode_request(body_of(name, value), model="m")
        (result,) = (part for message in request.messages for part in message.parts if isinstance(part, ToolResult))
        assert words_of(result) == words, (value, result)


@pytest.mark.parametrize("name", ["openai_chat", "anthropic"])
def test_texts_in_a_list_and_a_single_block_are_contents(name: str) -> None:
    block = {"type": "text", "text": "there"}
    for role in ("user", "assistant"):
        for content in (["Hi ", block], block, ["there", 7]):
            said = [ASKED, {"role": role, "content": content}]
            request = wire.get(name).decode_request({"model": "m", "messages": said})
            text = "".join(part.text for part in request.messages[-1].parts if hasattr(part, "text"))
            assert text in ("Hi there", "there", "there7"), (role, content)
