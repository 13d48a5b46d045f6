"""Marks for the prompt cache: where they go, and that there are never more than four."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.wire.rules import violations

from dragoman import providers
from dragoman.providers.definitions import codec_for
from dragoman.types import JsonObject, Message, Part, Request, Text, ToolCall, ToolResult
from dragoman.wire.anthropic import Anthropic
from dragoman.wire.anthropic.client import AUTO, mark

from .samples import TOOLS

CODEC = Anthropic()
MARK = {"type": "ephemeral"}
SYSTEM = Message("system", [Text("You help."), Text("Be brief.")])
TALK = [
    Message("user", [Text("First")]),
    Message("assistant", [Text("Yes?")]),
    Message("user", [Text("Second")]),
    Message("assistant", [ToolCall("a", "ping", {}), ToolCall("b", "ping", {})]),
    Message("tool", [ToolResult("a", content="1"), ToolResult("b", content="2")]),
]


def encode(messages: list[Message], **options: Any) -> JsonObject:
    body = CODEC.encode_request(Request("claude-sonnet-4-5", messages, TOOLS, options))
    assert violations("anthropic", body) == []
    return body


def marked(body: JsonObject) -> list[str]:
    """The names and texts of everything that carries a mark, in the order of the body's prefix."""
    blocks = [*body.get("tools", []), *(body.get("system", []) if isinstance(body.get("system"), list) else [])]
    for message in body["messages"]:
        blocks += message["content"] if isinstance(message["content"], list) else []
    return [
        block.get("name") or block.get("text") or block.get("content") for block in blocks if "cache_control" in block
    ]


def test_without_the_option_nothing_is_marked() -> None:
    assert marked(encode([SYSTEM, *TALK])) == []


def test_the_last_tool_is_marked() -> None:
    tools = encode(TALK[:1], cache=True)["tools"]
    assert [tool.get("cache_control") for tool in tools] == [None, MARK]


def test_the_last_tool_may_be_one_of_the_provider() -> None:
    search = {"type": "web_search_20260318", "name": "web_search"}
    assert encode(TALK[:1], cache=True, anthropic={"tools": [search]})["tools"][-1] == search | {"cache_control": MARK}


def test_the_last_system_block_is_marked() -> None:
    assert encode([SYSTEM, *TALK[:1]], cache=True)["system"] == [
        {"type": "text", "text": "You help."},
        {"type": "text", "text": "Be brief.", "cache_control": MARK},
    ]


def test_the_last_two_user_blocks_are_marked() -> None:
    assert marked(encode(TALK[:3], cache=True)) == ["ping", "First", "Second"]


def test_the_last_two_result_blocks_are_marked() -> None:
    body = encode([SYSTEM, *TALK], cache=True)
    assert marked(body) == ["ping", "Be brief.", "1", "2"]
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK


def test_a_result_and_the_words_behind_it_are_the_last_two() -> None:
    assert marked(encode([*TALK, Message("user", [Text("And?")])], cache=True)) == ["ping", "2", "And?"]


def test_what_the_assistant_said_is_never_marked() -> None:
    body = encode([*TALK[:2], Message("user", [Text("Second")]), Message("assistant", [Text("So")])], cache=True)
    assert marked(body) == ["ping", "First", "Second"]


@pytest.mark.parametrize(("option", "ttl"), [("1h", {"ttl": "1h"}), ("5m", {"ttl": "5m"}), (True, {})])
def test_the_long_cache(option: Any, ttl: JsonObject) -> None:
    body = encode([SYSTEM, *TALK], cache=option)
    assert body["tools"][-1]["cache_control"] == body["system"][-1]["cache_control"] == MARK | ttl
    assert len(marked(body)) == 4


def own(text: str) -> Part:
    return Text(text, {"anthropic": {"cache_control": {"type": "ephemeral"}}})


def test_marks_that_came_with_the_conversation_stay() -> None:
    assert marked(encode([Message("user", [own("a"), Text("b")])])) == ["a"]


def test_of_more_than_four_marks_the_last_four_stay() -> None:
    sent = CODEC.prepare(Request("m", [Message("user", [own(letter) for letter in "abcdef"])]))
    assert marked(sent.body) == ["c", "d", "e", "f"]
    assert [loss.rule for loss in sent.losses] == ["dropped", "dropped"]


def test_the_option_replaces_the_marks_that_came_with_the_conversation() -> None:
    sent = CODEC.prepare(Request("m", [Message("user", [own(letter) for letter in "abcdef"])], TOOLS, {"cache": "1h"}))
    assert marked(sent.body) == ["ping", "e", "f"]
    assert [loss.rule for loss in sent.losses] == ["moved"]


def test_a_mark_for_the_whole_request_counts_too() -> None:
    body = encode([SYSTEM, *TALK], cache=True, anthropic={"cache_control": MARK})
    assert marked(body) == ["ping", "Be brief.", "2"]


def test_a_longer_conversation_has_the_shorter_one_as_its_beginning() -> None:
    def plain(body: JsonObject) -> list[Any]:
        unmarked = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            unmarked += [{name: block[name] for name in block if name != "cache_control"} for block in blocks]
        return unmarked

    shorter, longer = encode(TALK[:3], cache=True), encode(TALK, cache=True)
    assert plain(longer)[: len(plain(shorter))] == plain(shorter)
    assert longer["tools"] == shorter["tools"]


# ---- by default, at endpoints that have a prompt cache ---------------------------------------------------------------


def send(messages: list[Message], tools: list[Any] = TOOLS, **options: Any) -> JsonObject:
    codec = codec_for(providers.resolve("anthropic:claude-sonnet-4-5"))
    body = codec.encode_request(Request("claude-sonnet-4-5", messages, tools, options))
    assert violations("anthropic", body) == []
    return body


def test_a_run_is_marked_without_asking_and_a_single_question_is_not() -> None:
    asked = encode([SYSTEM, *TALK], cache=True)
    assert send([SYSTEM, *TALK]) == asked
    assert marked(send([SYSTEM, *TALK[:3]], [])) == ["Be brief.", "First", "Second"]
    assert marked(send(TALK[:1])) == ["ping", "First"]
    assert marked(send([SYSTEM, *TALK[:1]], [])) == []
    for choice in (False, 0, ""):
        assert marked(send([SYSTEM, *TALK], cache=choice)) == [], choice
    assert send([SYSTEM, *TALK], cache="1h") == encode([SYSTEM, *TALK], cache="1h")


def test_marks_of_the_request_count_instead() -> None:
    body = send([SYSTEM, Message("user", [own("a")]), *TALK[1:]])
    assert marked(body) == ["a"]


def test_only_rows_with_a_prompt_cache_have_it() -> None:
    for model, expected in {
        "anthropic:claude-opus-4-8": True,
        "vertex:claude-opus-4-8": True,
        "azure_ai:claude-opus-4-8": True,
        "ollama:qwen3": False,
        "minimax:minimax-m2": False,
    }.items():
        assert providers.resolve(model).quirks.marks_cache is expected, model


def test_no_mark_is_put_where_the_api_rejects_it() -> None:
    tools: list[JsonObject] = [{"name": "now"}, {"name": "later", "defer_loading": True}]
    system: list[JsonObject] = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": ""}]
    blocks: list[JsonObject] = [{"type": "text", "text": "Go"}, {"type": "text", "text": ""}]
    mark(tools, system, [{"role": "user", "content": blocks}], AUTO)
    assert [["cache_control" in block for block in each] for each in (tools, system, blocks)] == [[True, False]] * 3


def test_the_prefix_of_a_longer_run_keeps_its_bytes() -> None:
    def strip(value: Any) -> Any:
        if isinstance(value, list):
            return [strip(each) for each in value]
        if isinstance(value, dict):
            return {name: strip(each) for name, each in value.items() if name != "cache_control"}
        return value

    def blocks(body: JsonObject) -> list[Any]:
        return [
            block
            for message in body["messages"]
            for block in (
                message["content"]
                if isinstance(message["content"], list)
                else [{"type": "text", "text": message["content"]}]
            )
        ]

    bodies = [send([SYSTEM, *TALK[:length]]) for length in (1, 3, 5)]
    for shorter, longer in pairwise(bodies):
        assert strip(longer["tools"]) == strip(shorter["tools"])
        assert strip(longer["system"]) == strip(shorter["system"])
        assert strip(blocks(longer))[: len(blocks(shorter))] == strip(blocks(shorter))
        # What the shorter request wrote into the cache, the longer one can find.
        assert marked(shorter)[-1] in json.dumps(longer)
