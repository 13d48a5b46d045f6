"""Marks for the prompt cache: at most four, on what stays the same from one request to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.report import Loss

MOST = 4
_KEY = "cache_control"

Place = tuple[list[JsonObject], int]
"""A block by the list that it stands in: a block is never changed, only replaced, for it may be the caller's."""


def mark(
    tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject], asked: Any, room: int = MOST
) -> list[Loss]:
    """Mark the last tool, the last system block and the last two user or result blocks, if the caller asked for it.

    Marks that came with the parts of a conversation are replaced then. Otherwise they stay, as far as there is room.
    """
    marked = []
    if _may_be_marked(tools, system, messages):
        marked = [place for place in _places(tools, system, messages) if _KEY in place[0][place[1]]]
    if not asked:
        return _thin_out(marked, room)
    for blocks, index in marked:
        blocks[index] = _unmarked(blocks[index])
    sign = {"type": "ephemeral", "ttl": asked} if asked in ("1h", "5m") else {"type": "ephemeral"}
    heads = [*_last(tools), *_last(system)]
    users = list(_message_places(messages, "user"))[-min(2, room - len(heads)) :]
    for blocks, index in [*heads, *users]:
        blocks[index] = {**blocks[index], _KEY: sign}
    return [Loss("moved", "options", "the request's own cache marks gave way to those of `cache`")] if marked else []


def _may_be_marked(tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject]) -> bool:
    """A quick look, for most requests have no marks: True where one was seen, or where blocks lie inside of others."""
    for blocks in (tools, system, *[message["content"] for message in messages]):
        for block in blocks:
            if _KEY in block or type(block.get("content")) is list:
                return True
    return False


def _thin_out(marked: list[Place], room: int) -> list[Loss]:
    surplus = marked[:-room]
    for blocks, index in surplus:
        blocks[index] = _unmarked(blocks[index])
    return [Loss("dropped", "history", "a cache mark: only four are allowed") for _ in surplus]


def _unmarked(block: JsonObject) -> JsonObject:
    return {name: value for name, value in block.items() if name != _KEY}


def _last(blocks: list[JsonObject]) -> list[Place]:
    return [(blocks, len(blocks) - 1)] if blocks else []


def _places(tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject]) -> Iterator[Place]:
    """Every place that may carry a mark, in the order in which the cache reads them."""
    yield from ((tools, index) for index in range(len(tools)))
    yield from ((system, index) for index in range(len(system)))
    for blocks, index in _message_places(messages):
        inner = blocks[index].get("content") if blocks[index].get("type") == "tool_result" else None
        if isinstance(inner, list):
            yield from ((inner, place) for place, block in enumerate(inner) if isinstance(block, dict))
        yield blocks, index


def _message_places(messages: list[JsonObject], role: str = "") -> Iterator[Place]:
    for message in messages:
        if not role or message["role"] == role:
            yield from ((message["content"], index) for index in range(len(message["content"])))
