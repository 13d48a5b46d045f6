"""The rule that OpenAI's chat format and its relatives share: every call of a message is answered right after it."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.shapes import Check, Spot, unique


def offered_names(body: dict[str, Any]) -> list[str]:
    """The names of the tools that a request in the form of OpenAI chat offers."""
    return [tool[tool["type"]]["name"] for tool in body.get("tools") or []]


def unique_tool_names(body: dict[str, Any], spot: Spot) -> None:
    """No two tools have one name."""
    names = offered_names(body)
    unique(names, [spot.at("tools", position) for position in range(len(names))], "tool name")


def answered_calls(messages: list[dict[str, Any]], spot: Spot) -> None:
    """N calls are followed by exactly N `tool` messages, one for each, before anything else."""
    waiting: dict[str, Spot] = {}
    given: set[str] = set()
    for position, message in enumerate(messages):
        place = spot.at(position)
        if message["role"] == "tool":
            identity = message["tool_call_id"]
            if identity in waiting:
                del waiting[identity]
                given.add(identity)
            elif identity in given:
                place.say(f"answers the call {identity!r} a second time")
            else:
                place.say(f"answers the call {identity!r}, which the preceding assistant message does not make")
            continue
        _report(waiting)
        calls = message.get("tool_calls") or []
        places = [place.at("tool_calls", number) for number in range(len(calls))]
        unique([call["id"] for call in calls], places, "call id")
        waiting = {call["id"]: where for call, where in zip(calls, places, strict=True)}
        given = set()
    _report(waiting)


def _report(waiting: dict[str, Spot]) -> None:
    for identity, place in waiting.items():
        place.say(f"the call {identity!r} is not answered by a tool message right after this message")


def strict_functions(body: dict[str, Any], spot: Spot, judge: Check) -> None:
    """Functions that are marked strict have a schema that obeys the strict rules."""
    for position, tool in enumerate(body.get("tools") or []):
        function = tool.get("function", {})
        if function.get("strict") and "parameters" in function:
            judge(function["parameters"], spot.at("tools", position, "function", "parameters"))
