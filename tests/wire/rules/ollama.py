"""The rules of a request to Ollama's /api/chat."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
    boolean,
    both,
    integer,
    mapping,
    nullable,
    one_of,
    pad,
    record,
    tagged,
    text,
    text_or,
    unique,
)
from tests.wire.rules.turns import unique_tool_names

WORD: Check = text(least=1)
_CALL = record({"function": record({"name": WORD, "arguments": mapping}, {"index": integer()})}, {"id": WORD})
_IMAGES = {"images": array(base64_text)}


def _says_something(message: Any, spot: Spot) -> None:
    if message.get("content") is None and not message.get("tool_calls"):
        spot.say("needs content, for it makes no calls")


_MESSAGE = tagged(
    "role",
    {
        "system": record({"role": WORD, "content": text()}),
        "user": record({"role": WORD, "content": text()}, _IMAGES),
        "assistant": both(
            record(
                {"role": WORD},
                {"content": nullable(text()), "thinking": text(), "tool_calls": array(_CALL, least=1), **_IMAGES},
            ),
            _says_something,
        ),
        "tool": record({"role": WORD, "content": text(), "tool_name": WORD}, {"tool_call_id": WORD, **_IMAGES}),
    },
)
_FUNCTION = record({"name": WORD}, {"description": text(), "parameters": object_schema})
_TOOL = tagged("type", {"function": record({"type": WORD, "function": _FUNCTION})})


def _think(value: Any, spot: Spot) -> None:
    if not isinstance(value, bool):
        one_of("low", "medium", "high", "max")(value, spot)


def _keep(value: Any, spot: Spot) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        spot.say("must be a number of seconds or a duration")


_REQUEST = record(
    {"model": WORD, "messages": array(_MESSAGE, least=1)},
    {
        "tools": array(_TOOL),
        "stream": boolean,
        "format": text_or(mapping, plain=one_of("json", "")),
        "options": mapping,
        "think": _think,
        "keep_alive": _keep,
        "truncate": boolean,
        "shift": boolean,
        **pad("logprobs", "top_logprobs"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    unique_tool_names(body, spot)
    _check_answers(body["messages"], spot.at("messages"))


def _check_answers(messages: list[dict[str, Any]], spot: Spot) -> None:
    """N calls are followed by N tool messages; by their ids, or else by their order and their names."""
    position = 0
    while position < len(messages):
        message, place = messages[position], spot.at(position)
        start = position + 1
        if message["role"] == "tool":
            place.say("is a tool message that follows no calls")
        calls = message.get("tool_calls") or []
        end = start
        while calls and end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        if end - start != len(calls):
            place.say(f"makes {len(calls)} calls, but {end - start} tool messages follow it")
        else:
            _check_links(calls, messages[start:end], place, [spot.at(number) for number in range(start, end)])
        position = end


def _check_links(calls: list[dict[str, Any]], answers: list[dict[str, Any]], spot: Spot, places: list[Spot]) -> None:
    if any("index" in call["function"] for call in calls):
        indexes = [call["function"].get("index") for call in calls]
        if indexes != list(range(len(calls))):
            spot.at("tool_calls").say(f"the indexes must count from 0, not {indexes}")
    identities = [call["id"] for call in calls if "id" in call]
    unique(identities, [spot.at("tool_calls")] * len(identities), "call id")
    by_id = {call.get("id"): call["function"]["name"] for call in calls}
    for call, answer, place in zip(calls, answers, places, strict=True):
        if "tool_call_id" in answer and answer["tool_call_id"] not in by_id:
            place.say(f"answers the call {answer['tool_call_id']!r}, which the preceding message does not make")
            continue
        name = by_id[answer["tool_call_id"]] if "tool_call_id" in answer else call["function"]["name"]
        if answer["tool_name"] != name:
            place.say(f"has the tool_name {answer['tool_name']!r}, its call is of {name!r}")
