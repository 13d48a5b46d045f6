"""What a server of Bedrock's Converse sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.bedrock import CALL_ID, NAME
from tests.wire.rules.served.common import Frame, agrees, judge_frames, loose, whole_arguments
from tests.wire.rules.shapes import Check, Spot, array, by_key, integer, mapping, one_of, record, text, unique

_CUT = (
    "max_tokens",
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
    "model_context_window_exceeded",
)
_REASON = one_of("end_turn", "tool_use", "stop_sequence", *_CUT)
_USAGE = loose(
    {"inputTokens": integer(), "outputTokens": integer(), "totalTokens": integer()},
    {"cacheReadInputTokens": integer(), "cacheWriteInputTokens": integer()},
)
_METRICS = loose({"latencyMs": integer()})
_THOUGHT = by_key({"reasoningText": loose({"text": text()}, {"signature": text()}), "redactedContent": text()})
_BLOCK = by_key(
    {
        "text": text(),
        "toolUse": loose({"toolUseId": CALL_ID, "name": NAME, "input": mapping}),
        "reasoningContent": _THOUGHT,
        **dict.fromkeys(("image", "audio", "citationsContent", "toolResult"), mapping),
    }
)
_REPLY = loose(
    {
        "output": record({"message": record({"role": one_of("assistant"), "content": array(_BLOCK)})}),
        "stopReason": _REASON,
        "usage": _USAGE,
        "metrics": _METRICS,
    }
)
_ERROR = loose({"message": text()})


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if "output" not in body and "message" in body:
        _ERROR(body, spot)
        return
    _REPLY(body, spot)
    if spot.found:
        return
    content = body["output"]["message"]["content"]
    calls = [block["toolUse"]["toolUseId"] for block in content if "toolUse" in block]
    unique(calls, [spot.at("output", "message", "content")] * len(calls), "toolUseId")
    agrees(bool(calls), body["stopReason"], "tool_use", spot.at("stopReason"), others=_CUT)
    _check_total(body["usage"], spot.at("usage"))


def _check_total(usage: dict[str, Any], spot: Spot) -> None:
    if usage["totalTokens"] < usage["inputTokens"] + usage["outputTokens"]:
        spot.at("totalTokens").say("must not be below the sum of inputTokens and outputTokens")


_INDEX = {"contentBlockIndex": integer()}
_DELTA = by_key(
    {
        "text": text(),
        "toolUse": record({"input": text()}),
        "reasoningContent": by_key(dict.fromkeys(("text", "signature", "redactedContent"), text())),
        "citation": mapping,
    }
)
_START = by_key({"toolUse": loose({"toolUseId": CALL_ID, "name": NAME}), "image": mapping, "toolResult": mapping})
_EVENTS: dict[str, Check] = {
    "messageStart": loose({"role": one_of("assistant")}),
    "contentBlockStart": loose({**_INDEX, "start": _START}),
    "contentBlockDelta": loose({**_INDEX, "delta": _DELTA}),
    "contentBlockStop": loose(_INDEX),
    "messageStop": loose({"stopReason": _REASON}),
    "metadata": loose({"usage": _USAGE, "metrics": _METRICS}),
}
_EXCEPTIONS = {
    "internalServerException",
    "modelStreamErrorException",
    "validationException",
    "throttlingException",
    "serviceUnavailableException",
}


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of events."""
    for position, (event, data) in enumerate(frames):
        place = spot.at(position)
        if event in _EXCEPTIONS:
            _ERROR(data, place)
        elif event in _EVENTS:
            _EVENTS[str(event)](data, place)
        else:
            place.say(f"there is no event {event!r}")
    if judge_frames(frames, spot, lambda data: None):
        _Order(spot).read(frames)


class _Order:
    """The order of the events: start, blocks one after the other, stop, metadata."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.state = "messageStart"
        self.kind = ""
        self.blocks = 0
        self.arguments = ""
        self.calls: list[tuple[str, str, Spot]] = []
        self.reason = ""

    def read(self, frames: list[Frame]) -> None:
        for position, (event, data) in enumerate(frames):
            place = self.spot.at(position)
            if event in _EXCEPTIONS:
                if position < len(frames) - 1:
                    self.spot.at(position + 1).say("stands after an exception")
                return
            if event in {"messageStart", "messageStop", "metadata"}:
                self._frame(str(event), data, place)
            else:
                self._block(str(event), data, place)
        self._end()

    def _end(self) -> None:
        if self.state != "over":
            self.spot.say("must end with messageStop and metadata")
        for _, arguments, place in self.calls:
            if arguments:
                whole_arguments(arguments, place, cut=self.reason in _CUT)
        unique([identity for identity, *_ in self.calls], [place for *_, place in self.calls], "toolUseId")
        agrees(bool(self.calls), self.reason, "tool_use", self.spot, others=("", *_CUT))

    def _frame(self, event: str, data: dict[str, Any], place: Spot) -> None:
        after = {"messageStart": "messageStop", "messageStop": "metadata", "metadata": "over"}
        if event != self.state:
            place.say(f"{event} stands where {self.state} should be")
        if self.kind:
            place.say(f"{event} must not come while a block is open")
        self.state = after[event]
        self.reason = data.get("stopReason", self.reason)
        if event == "metadata":
            _check_total(data["usage"], place.at("usage"))

    def _block(self, event: str, data: dict[str, Any], place: Spot) -> None:
        if self.state != "messageStop":
            place.say(f"{event} must come between messageStart and messageStop")
        opens = event == "contentBlockStart" or (event == "contentBlockDelta" and not self.kind)
        if opens and self.kind:
            place.say("a block must not begin while another one is open")
        if not opens and not self.kind:
            place.say("closes a block that is not open")
            return
        if opens:
            self.blocks += 1
        if data["contentBlockIndex"] != self.blocks - 1:
            place.say(f"the contentBlockIndex must be {self.blocks - 1}, not {data['contentBlockIndex']}")
        {"contentBlockStart": self._open, "contentBlockDelta": self._add, "contentBlockStop": self._close}[event](
            data, place
        )

    def _open(self, data: dict[str, Any], place: Spot) -> None:
        self.kind, self.arguments = next(iter(data["start"])), ""
        if self.kind == "toolUse":
            self.calls.append((data["start"]["toolUse"]["toolUseId"], "", place))

    def _add(self, data: dict[str, Any], place: Spot) -> None:
        kind = next(iter(data["delta"]))
        if not self.kind:
            self.kind = kind
            if kind == "toolUse":
                place.say("a toolUse block must begin with a contentBlockStart")
        if kind != self.kind:
            place.say(f"a delta of {kind} does not belong into a block of {self.kind}")
        elif kind == "toolUse" and self.calls:
            identity, arguments, where = self.calls[-1]
            self.calls[-1] = (identity, arguments + data["delta"]["toolUse"]["input"], where)

    def _close(self, data: dict[str, Any], place: Spot) -> None:
        self.kind = ""
