"""What a server of Cohere's v2 chat sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.served.common import DONE, WORD, Frame, agrees, judge_frames, loose, whole_arguments
from tests.wire.rules.shapes import Check, Spot, array, integer, mapping, numeric, one_of, record, tagged, text, unique

_CUT = ("MAX_TOKENS", "ERROR", "TIMEOUT")
_REASON = one_of("COMPLETE", "STOP_SEQUENCE", "TOOL_CALL", *_CUT)
_COUNTS = loose({"input_tokens": numeric, "output_tokens": numeric})
_USAGE = loose({"billed_units": _COUNTS, "tokens": _COUNTS})
_FUNCTION = loose({"name": WORD, "arguments": text()})
_CALL = loose({"id": WORD, "type": one_of("function"), "function": _FUNCTION})
_CONTENT = tagged(
    "type", {"text": loose({"type": WORD, "text": text()}), "thinking": loose({"type": WORD, "thinking": text()})}
)
_REPLY = loose(
    {
        "id": WORD,
        "finish_reason": _REASON,
        "message": loose(
            {"role": one_of("assistant")},
            {"content": array(_CONTENT), "tool_plan": text(), "tool_calls": array(_CALL, least=1)},
        ),
    },
    {"usage": _USAGE},
)
_ERROR = loose({"message": text()})


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if isinstance(body.get("message"), str):
        _ERROR(body, spot)
        return
    _REPLY(body, spot)
    if spot.found:
        return
    calls = body["message"].get("tool_calls", [])
    places = [spot.at("message", "tool_calls", position) for position in range(len(calls))]
    unique([call["id"] for call in calls], places, "call id")
    for call, place in zip(calls, places, strict=True):
        whole_arguments(call["function"]["arguments"], place, cut=body["finish_reason"] in _CUT)
    agrees(bool(calls), body["finish_reason"], "TOOL_CALL", spot.at("finish_reason"), others=_CUT)


def _event(message: Check | None = None, *, indexed: bool = True) -> Check:
    index: dict[str, Check] = {"index": integer()} if indexed else {}
    delta: dict[str, Check] = {"delta": loose({"message": message})} if message else {}
    return loose({"type": WORD, **index, **delta})


_EVENTS: dict[str, Check] = {
    "message-start": loose(
        {"type": WORD, "id": WORD, "delta": loose({"message": loose({"role": one_of("assistant")})})}
    ),
    "content-start": _event(loose({"content": _CONTENT})),
    "content-delta": _event(loose({"content": loose({}, {"text": text(), "thinking": text()})})),
    "content-end": _event(),
    "tool-plan-delta": _event(loose({"tool_plan": text()}), indexed=False),
    "tool-call-start": _event(loose({"tool_calls": _CALL})),
    "tool-call-delta": _event(loose({"tool_calls": record({"function": record({"arguments": text()})})})),
    "tool-call-end": _event(),
    "citation-start": mapping,
    "citation-end": mapping,
    "message-end": loose({"type": WORD, "delta": loose({"finish_reason": _REASON, "usage": _USAGE})}),
}


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of events."""
    for position, (event, data) in enumerate(frames):
        if data == DONE:
            spot.at(position).say("there is no [DONE] in this API")
        elif event is not None and event != data.get("type"):
            spot.at(position).say(f"the event {event!r} has the type {data.get('type')!r}")
    if not spot.found and judge_frames(frames, spot, lambda data: tagged("type", _EVENTS)):
        _Order(spot).read(frames)


class _Order:
    """The order of the events: start, contents and calls one after the other, end."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.open: tuple[str, int] | None = None
        self.counts = {"content": 0, "tool-call": 0}
        self.calls: list[list[Any]] = []
        self.reason = ""

    def read(self, frames: list[Frame]) -> None:
        for position, (_, data) in enumerate(frames):
            place, kind = self.spot.at(position), data["type"]
            if (position == 0) != (kind == "message-start"):
                place.say("the first event must be message-start, and no other one may be")
            if self.reason:
                place.say("stands after message-end")
            if kind == "message-end":
                self._end(data, place)
            elif kind.startswith(("content-", "tool-call-")):
                thing, step = kind.rsplit("-", 1)
                self._piece(thing, step, data, place)
        if not self.reason:
            self.spot.say("must end with message-end")

    def _piece(self, kind: str, step: str, data: dict[str, Any], place: Spot) -> None:
        if step == "start":
            if self.open is not None:
                place.say("must not begin while another content or call is open")
            if data["index"] != self.counts[kind]:
                place.say(f"the index must be {self.counts[kind]}, not {data['index']}")
            self.counts[kind] += 1
            self.open = (kind, data["index"])
        elif self.open != (kind, data["index"]):
            place.say("belongs to a content or call that is not open")
            return
        elif step == "end":
            self.open = None
        if kind == "tool-call" and step != "end":
            self._arguments(data["delta"]["message"]["tool_calls"], place)

    def _arguments(self, call: dict[str, Any], place: Spot) -> None:
        if "id" in call:
            self.calls.append([call["id"], "", place])
        self.calls[-1][1] += call["function"]["arguments"]

    def _end(self, data: dict[str, Any], place: Spot) -> None:
        if self.open is not None:
            place.say("must not come while a content or call is open")
        self.reason = data["delta"]["finish_reason"]
        for _, arguments, where in self.calls:
            if arguments:
                whole_arguments(arguments, where, cut=self.reason in _CUT)
        unique([identity for identity, *_ in self.calls], [where for *_, where in self.calls], "call id")
        agrees(bool(self.calls), self.reason, "TOOL_CALL", place, others=_CUT)
