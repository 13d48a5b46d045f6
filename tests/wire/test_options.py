"""The neutral options of a request."""

from __future__ import annotations

import pytest

from dragoman import Message, Request, Text, Tool, wire

TOOLS = [Tool("look", parameters={"type": "object", "properties": {}})]


def ask(**options: object) -> Request:
    return Request("a-model", [Message("user", [Text("hello")])], TOOLS, dict(options))


def test_parallel_is_the_short_name_of_parallel_tool_calls() -> None:
    assert ask(parallel=False) == ask(parallel_tool_calls=False)
    assert ask(parallel=False, parallel_tool_calls=True).options == {"parallel_tool_calls": True}


@pytest.mark.parametrize("name", wire.names())
def test_both_names_give_the_same_body_on_every_wire(name: str) -> None:
    codec = wire.get(name)
    assert codec.encode_request(ask(parallel=False)) == codec.encode_request(ask(parallel_tool_calls=False))
