"""What a client says of a tool on one wire, on another: kept where both have it, else named in the report."""

from __future__ import annotations

import json

import pytest

from dragoman.wire import get

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
FUNCTION = {"name": "find", "description": "Find it", "parameters": SCHEMA}
MESSAGES = [{"role": "user", "content": "go"}]
CHAT = {"model": "m", "messages": MESSAGES, "tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]}
RESPONSES = {"model": "m", "input": MESSAGES, "tools": [{"type": "function", **FUNCTION, "strict": True}]}
WIRES = ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "cohere", "mistral", "ollama"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("given", "body"), [("openai_chat", CHAT), ("openai_responses", RESPONSES)])
def test_a_strict_tool_stays_strict_or_is_in_the_report(given: str, body: dict[str, object], wire: str) -> None:
    prepared = get(wire).prepare(get(given).decode_request(body))
    written = '"strict": true' in json.dumps(prepared.body)
    reported = [loss for loss in prepared.losses if "strict" in loss.detail]
    assert written is (wire in ("openai_chat", "openai_responses", "mistral"))
    assert bool(reported) is not written
