"""What a server of Ollama's /api/chat sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.served.common import DONE, WORD, Frame, in_order, judge_frames, loose
from tests.wire.rules.shapes import Check, Spot, array, boolean, integer, mapping, one_of, text, unique

_CALL = loose({"function": loose({"name": WORD, "arguments": mapping}, {"index": integer()})}, {"id": WORD})
_MESSAGE = loose(
    {"role": one_of("assistant"), "content": text()}, {"thinking": text(), "tool_calls": array(_CALL, least=1)}
)
_TIME = text(pattern=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*", why="a time such as 2026-01-31T12:00:00Z")
_LINE = {"model": text(), "created_at": _TIME, "message": _MESSAGE, "done": boolean}
_LAST = loose(
    {
        **_LINE,
        "done_reason": one_of("stop", "length", "load", "unload"),
        "prompt_eval_count": integer(),
        "eval_count": integer(),
    },
    dict.fromkeys(("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), integer()),
)
_ERROR = loose({"error": WORD})


def _check_calls(calls: list[dict[str, Any]], spot: Spot) -> None:
    identities = [call["id"] for call in calls if "id" in call]
    unique(identities, [spot] * len(identities), "call id")
    if any("index" in call["function"] for call in calls):
        in_order([call["function"].get("index", -1) for call in calls], spot, "calls")


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if "error" in body:
        _ERROR(body, spot)
        return
    _LAST(body, spot)
    if spot.found:
        return
    if not body["done"]:
        spot.at("done").say("must be true in a whole reply")
    _check_calls(body["message"].get("tool_calls", []), spot.at("message", "tool_calls"))


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of lines."""

    def shape(data: dict[str, Any]) -> Check | None:
        if "error" in data:
            return _ERROR
        return _LAST if data.get("done") is True else loose(_LINE)

    for position, (event, data) in enumerate(frames):
        if event is not None or data == DONE:
            spot.at(position).say("must be a line of JSON, not a server-sent event")
    if not judge_frames(frames, spot, shape):
        return
    ends = [position for position, (_, data) in enumerate(frames) if data.get("done") or "error" in data]
    if ends != [len(frames) - 1]:
        spot.say("must have done: true, or an error, in its last line and in no other")
    calls = [call for _, data in frames for call in data.get("message", {}).get("tool_calls", [])]
    _check_calls(calls, spot)
