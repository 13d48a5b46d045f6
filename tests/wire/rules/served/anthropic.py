"""What a server of Anthropic's Messages sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.anthropic import CALL_ID, NAME
from tests.wire.rules.served.common import DONE, WORD, Frame, agrees, judge_frames, loose, whole_arguments
from tests.wire.rules.shapes import Check, Spot, array, integer, mapping, nullable, one_of, record, tagged, text, unique

_REASONS = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)
_CUT = ("max_tokens", "pause_turn", "refusal", "model_context_window_exceeded")
_ERRORS = one_of(
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
)
_ERROR = loose({"type": one_of("error"), "error": loose({"type": _ERRORS, "message": text()})})
_USAGE = loose(
    {
        "input_tokens": integer(),
        "output_tokens": integer(),
        "cache_creation_input_tokens": nullable(integer()),
        "cache_read_input_tokens": nullable(integer()),
    }
)
_BLOCKS: dict[str, Check] = {
    "text": loose({"type": WORD, "text": text()}),
    "thinking": loose({"type": WORD, "thinking": text(), "signature": text()}),
    "redacted_thinking": loose({"type": WORD, "data": WORD}),
    "tool_use": loose({"type": WORD, "id": CALL_ID, "name": NAME, "input": mapping}),
    "server_tool_use": mapping,
}


def _message(blocks: Check, reason: Check) -> Check:
    return loose(
        {
            "id": WORD,
            "type": one_of("message"),
            "role": one_of("assistant"),
            "model": text(),
            "content": array(blocks),
            "stop_reason": reason,
            "stop_sequence": nullable(text()),
            "usage": _USAGE,
        }
    )


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if body.get("type") == "error":
        _ERROR(body, spot)
        return
    _message(tagged("type", _BLOCKS), one_of(*_REASONS))(body, spot)
    if spot.found:
        return
    calls = [
        (block["id"], spot.at("content", position))
        for position, block in enumerate(body["content"])
        if block["type"] == "tool_use"
    ]
    unique([identity for identity, _ in calls], [place for _, place in calls], "tool_use id")
    agrees(bool(calls), body["stop_reason"], "tool_use", spot.at("stop_reason"), others=_CUT)


_DELTAS = {
    "text_delta": ("text", "text"),
    "citations_delta": ("text", "citation"),
    "input_json_delta": ("tool_use", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
}
_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
_STARTS = {**_BLOCKS, "thinking": loose({"type": WORD, "thinking": text()})}
_EVENTS = {
    "message_start": record({"type": WORD, "message": _message(tagged("type", {}), nullable(one_of()))}),
    "content_block_start": record({"type": WORD, "index": integer(), "content_block": tagged("type", _STARTS)}),
    "content_block_delta": record(
        {
            "type": WORD,
            "index": integer(),
            "delta": tagged(
                "type",
                {
                    kind: loose({key: text() if kind != "citations_delta" else mapping})
                    for kind, (_, key) in _DELTAS.items()
                },
            ),
        }
    ),
    "content_block_stop": record({"type": WORD, "index": integer()}),
    "message_delta": loose(
        {
            "type": WORD,
            "delta": loose({"stop_reason": one_of(*_REASONS), "stop_sequence": nullable(text())}),
            "usage": loose({"output_tokens": integer()}),
        }
    ),
    "message_stop": loose({"type": WORD}),
    "ping": loose({"type": WORD}),
    "error": _ERROR,
}


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of events."""
    for position, (_, data) in enumerate(frames):
        if data == DONE:
            spot.at(position).say("there is no [DONE] in this API")
            return
    if judge_frames(frames, spot, lambda data: tagged("type", _EVENTS), named=True):
        _Order(spot).read(frames)


class _Order:
    """The order of the events: start, blocks one after the other, the reason, stop."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.state = "message_start"
        self.block: dict[str, Any] | None = None
        self.blocks = 0
        self.pieces: list[tuple[str, str]] = []
        self.calls: list[tuple[str, str, Spot]] = []
        self.reason = ""
        self.failed = False

    def read(self, frames: list[Frame]) -> None:
        for position, (event, data) in enumerate(frames):
            place = self.spot.at(position)
            if event == "ping":
                continue
            if self.failed or self.state == "over":
                place.say("stands after the end")
            elif event == "error":
                self.failed = True
            elif self.state == "message_start" or event == "message_start":
                self._start(event, place)
            else:
                getattr(self, f"_{event}")(data, place)
        if not self.failed:
            self._end()

    def _start(self, event: str | None, place: Spot) -> None:
        if event != self.state:
            place.say("the first event must be message_start, and no other one may be")
        self.state = "blocks"

    def _end(self) -> None:
        if self.state != "over":
            self.spot.say("must end with message_delta and message_stop")
        for _, arguments, place in self.calls:
            if arguments:
                whole_arguments(arguments, place, cut=self.reason in _CUT)
        unique([identity for identity, *_ in self.calls], [place for *_, place in self.calls], "tool_use id")
        agrees(bool(self.calls), self.reason, "tool_use", self.spot, others=("", *_CUT))

    def _content_block_start(self, data: dict[str, Any], place: Spot) -> None:
        if self.state != "blocks":
            place.say("a block must not begin after message_delta")
        if self.block is not None:
            place.say("a block must not begin while another one is open")
        if data["index"] != self.blocks:
            place.say(f"the index must be {self.blocks}, not {data['index']}")
        self.blocks = data["index"] + 1
        self.block, self.pieces = data["content_block"], []
        for key, empty in _EMPTY.get(self.block["type"], {}).items():
            if self.block.get(key, empty) != empty:
                place.say(f"a block must begin with an empty {key}; its value comes in deltas")

    def _content_block_delta(self, data: dict[str, Any], place: Spot) -> None:
        kind = data["delta"]["type"]
        wanted, key = _DELTAS[kind]
        if self.block is None or data["index"] != self.blocks - 1:
            place.say("belongs to a block that is not open")
            return
        if self.block["type"] != wanted:
            place.say(f"a {kind} does not belong into a {self.block['type']} block")
        if any(before == "signature_delta" for before, _ in self.pieces):
            place.say("nothing may follow the signature of a block")
        self.pieces.append((kind, str(data["delta"][key])))

    def _content_block_stop(self, data: dict[str, Any], place: Spot) -> None:
        if self.block is None or data["index"] != self.blocks - 1:
            place.say("closes a block that is not open")
            return
        if self.block["type"] == "tool_use":
            if not self.pieces:
                place.say("a tool_use block needs at least one input_json_delta")
            self.calls.append((self.block["id"], "".join(piece for _, piece in self.pieces), place))
        self.block = None

    def _message_delta(self, data: dict[str, Any], place: Spot) -> None:
        if self.block is not None:
            place.say("must not come while a block is open")
        if self.reason:
            place.say("must come only once")
        self.reason, self.state = data["delta"]["stop_reason"], "stop"

    def _message_stop(self, data: dict[str, Any], place: Spot) -> None:
        if self.state != "stop":
            place.say("must come after message_delta")
        self.state = "over"
