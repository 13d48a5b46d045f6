"""Cache points: blocks that say how far a prompt cache shall reach.

They stand behind the last tool, behind the last system block and at the end of the last two user messages, which are
the user's words or results: four at the most, as Bedrock allows.
"""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.values import as_dict, as_list, dicts

_MARKED_MESSAGES = 2


def write_marks(body: JsonObject, cache: Any) -> JsonObject:
    """The body with cache points. One that has some already keeps those and gets no others."""
    if not cache or find_marks(body):
        return body
    point = {"cachePoint": {"type": "default", "ttl": "1h"} if cache == "1h" else {"type": "default"}}
    marked = dict(body)
    config = as_dict(body.get("toolConfig"))
    if as_list(config.get("tools")):
        marked["toolConfig"] = {**config, "tools": [*config["tools"], point]}
    if as_list(body.get("system")):
        marked["system"] = [*body["system"], point]
    messages = list(as_list(body.get("messages")))
    speaking = [place for place, message in enumerate(messages) if _can_be_marked(message)]
    for place in speaking[-_MARKED_MESSAGES:]:
        messages[place] = {**messages[place], "content": [*messages[place]["content"], point]}
    if speaking:
        marked["messages"] = messages
    return marked


def _can_be_marked(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user" and bool(as_list(message.get("content")))


def find_marks(body: JsonObject) -> list[JsonObject]:
    """All cache points of a body."""
    places = [as_dict(body.get("toolConfig")).get("tools"), body.get("system")]
    places += [message.get("content") for message in dicts(body.get("messages"))]
    return [block["cachePoint"] for blocks in places for block in dicts(blocks) if "cachePoint" in block]


def read_marks(body: JsonObject) -> tuple[JsonObject, bool | str | None]:
    """The body without its cache points, and the neutral option for them.

    Only if they stand where `write_marks` puts them: any others stay in the body, to be sent on as they are.
    """
    marks = find_marks(body)
    if not marks:
        return body, None
    cache = "1h" if any(as_dict(mark).get("ttl") == "1h" for mark in marks) else True
    plain = _without_marks(body)
    return (plain if write_marks(plain, cache) == body else body), cache


def _without_marks(body: JsonObject) -> JsonObject:
    plain = dict(body)
    config = as_dict(body.get("toolConfig"))
    if isinstance(config.get("tools"), list):
        plain["toolConfig"] = {**config, "tools": _unmarked(config["tools"])}
    if isinstance(body.get("system"), list):
        plain["system"] = _unmarked(body["system"])
    plain["messages"] = [
        {**message, "content": _unmarked(message["content"])}
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        else message
        for message in as_list(body.get("messages"))
    ]
    return plain


def _unmarked(blocks: list[Any]) -> list[Any]:
    return [block for block in blocks if not (isinstance(block, dict) and "cachePoint" in block)]
