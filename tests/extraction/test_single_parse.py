"""The text of a reply is parsed once, however it arrives and whatever it holds."""

from __future__ import annotations

import json

import pytest

import dragoman
from dragoman.extraction import extractor
from dragoman.formats.parser import Parser
from dragoman.types import Tool

READ = Tool("file_read", parameters={"type": "object", "properties": {"path": {"type": "string"}}})
MARKED = '<tool_call>\n{"name": "file_read", "arguments": {"path": "a.txt"}}\n</tool_call>'
NONCE = "k7Qxabcdef"
TEXTS = {
    "words": "There is nothing to do.",
    "brackets": "Look at main() and at {this}.",
    "marked": MARKED,
    "marked, and one in prose": f'{MARKED}\nor maybe {{"name": "file_read", "arguments": {{"path": "b.txt"}}}}',
    "whole message": '{"name": "file_read", "arguments": {"path": "a.txt"}}',
    "in prose": 'I call {"name": "file_read", "arguments": {"path": "a.txt"}} now.',
    "as Python": 'file_read(path="a.txt")\n',
    "in thinking": f"<think>{MARKED}</think>Done (with that).",
    "broken": '<tool_call>\n{"name": "file_read", "arguments": {"path": ',
    "nonce": MARKED.replace("<tool_call>", f'<tool_call id="{NONCE}">') + "\nsee file_read(path='b.txt') for more",
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Parser]:
    """Every engine that was run to its end."""
    closed: list[Parser] = []
    close = Parser.close

    def count(self: Parser, rest: str = "") -> object:
        closed.append(self)
        return close(self, rest)

    monkeypatch.setattr(Parser, "close", count)
    return closed


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_whole_reply_is_parsed_once(text: str, runs: list[Parser]) -> None:
    dragoman.extract(text, {"native_tool_calls": False}, tools=[READ], nonce=NONCE)
    assert len(runs) == 1


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_streamed_reply_is_parsed_once(text: str, runs: list[Parser]) -> None:
    stage = extractor({"native_tool_calls": False}, tools=[READ], nonce=NONCE)
    for place in range(0, len(text), 7):
        stage.feed(text[place : place + 7])
    stage.close()
    assert len(runs) == 1
    assert stage.extraction == dragoman.extract(text, {"native_tool_calls": False}, tools=[READ], nonce=NONCE)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_loose_calls_are_those_of_the_loose_parser(text: str) -> None:
    found = dragoman.extract(text, tools=[READ], trust="compat")
    known = dragoman.formats.parse(text, tools=[READ], loose=True).calls
    loose = {call.provenance.span: call.arguments for call in known if call.provenance.format == "loose"}
    counted = [*found.calls, *(refused.call for refused in found.refused)]
    taken = {call.provenance.span: call.arguments for call in counted if call.provenance.format == "loose"}
    assert taken.items() <= loose.items()
    strict = [call.provenance.span for call in dragoman.formats.parse(text, tools=[READ]).calls]
    missed = [span for span in loose if span not in taken and not any(s < span[1] and span[0] < e for s, e in strict)]
    assert missed == []


def test_the_calls_of_one_envelope_are_found_once() -> None:
    """A second parse found the second call again: the calls behind the first have an empty span."""
    calls = [{"function": {"name": "file_read", "arguments": json.dumps({"path": path})}} for path in ("a", "b")]
    found = dragoman.extract(json.dumps({"tool_calls": calls}), tools=[READ], trust="compat")
    assert [call.arguments for call in found.calls] == [{"path": "a"}, {"path": "b"}]
    assert found.refused == []
