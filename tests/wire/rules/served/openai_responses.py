"""What a server of OpenAI's Responses sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.served.common import DONE, WORD, Frame, judge_frames, loose, whole_arguments
from tests.wire.rules.shapes import (
    Check,
    Spot,
    anything,
    array,
    boolean,
    integer,
    nullable,
    numeric,
    one_of,
    tagged,
    text,
    unique,
)

_STATUS = one_of("in_progress", "completed", "incomplete")
_PART = tagged(
    "type",
    {
        "output_text": loose({"type": WORD, "text": text(), "annotations": array(anything)}),
        "refusal": loose({"type": WORD, "refusal": text()}),
        "reasoning_text": loose({"type": WORD, "text": text()}),
    },
)
_SUMMARY = loose({"type": one_of("summary_text"), "text": text()})
_ITEMS: dict[str, Check] = {
    "message": loose(
        {"type": WORD, "id": WORD, "role": one_of("assistant"), "status": _STATUS, "content": array(_PART)}
    ),
    "function_call": loose(
        {"type": WORD, "id": WORD, "call_id": WORD, "name": WORD, "arguments": text()}, {"status": _STATUS}
    ),
    "custom_tool_call": loose({"type": WORD, "id": WORD, "call_id": WORD, "name": WORD, "input": text()}),
    "reasoning": loose(
        {"type": WORD, "id": WORD, "summary": array(_SUMMARY)},
        {"encrypted_content": nullable(text()), "content": array(_PART)},
    ),
}
_USAGE = loose(
    {
        "input_tokens": integer(),
        "input_tokens_details": loose({"cached_tokens": integer()}),
        "output_tokens": integer(),
        "output_tokens_details": loose({"reasoning_tokens": integer()}),
        "total_tokens": integer(),
    }
)
_STATUSES = ("completed", "failed", "in_progress", "cancelled", "queued", "incomplete")
_RESPONSE = loose(
    {
        "id": WORD,
        "object": one_of("response"),
        "created_at": numeric,
        "status": one_of(*_STATUSES),
        "model": text(),
        "output": array(tagged("type", _ITEMS)),
        "parallel_tool_calls": boolean,
        "tool_choice": anything,
        "tools": array(anything),
    },
    {
        "usage": nullable(_USAGE),
        "error": nullable(loose({"code": WORD, "message": text()})),
        "incomplete_details": nullable(
            loose({"reason": one_of("max_output_tokens", "max_messages", "content_filter", "steered")})
        ),
    },
)
_ERROR = loose({"error": loose({"message": text()}, {"type": nullable(text())})})


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if "object" not in body and "error" in body:
        _ERROR(body, spot)
        return
    _RESPONSE(body, spot)
    if not spot.found:
        _check_response(body, spot)


def _check_response(body: dict[str, Any], spot: Spot) -> None:
    """What a response that has come to its end must hold."""
    status, output = body["status"], body["output"]
    wanted = {"completed": "usage", "incomplete": "incomplete_details", "failed": "error"}.get(status)
    if wanted and not body.get(wanted):
        spot.say(f"needs {wanted}, for its status is {status!r}")
    if (usage := body.get("usage")) and usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        spot.at("usage", "total_tokens").say("must be the sum of input_tokens and output_tokens")
    places = [spot.at("output", position) for position in range(len(output))]
    unique([item["id"] for item in output], places, "item id")
    calls = [(item["call_id"], place) for item, place in zip(output, places, strict=True) if "call_id" in item]
    unique([identity for identity, _ in calls], [place for _, place in calls], "call id")
    for item, place in zip(output, places, strict=True):
        if item["type"] == "function_call":
            cut = status != "completed" or item.get("status") == "incomplete"
            whole_arguments(item["arguments"], place.at("arguments"), cut=cut)


_OF_ITEM = {"item_id": WORD, "output_index": integer()}
_OF_PART = {**_OF_ITEM, "content_index": integer()}
_OF_SUMMARY = {**_OF_ITEM, "summary_index": integer()}


def _same(names: tuple[str, ...], keys: dict[str, Check]) -> dict[str, dict[str, Check]]:
    return {name: dict(keys) for name in names}


_SHAPES: dict[str, dict[str, Check]] = {
    **_same(("created", "in_progress", "completed", "incomplete", "failed", "queued"), {"response": _RESPONSE}),
    **_same(("output_item.added", "output_item.done"), {"output_index": integer(), "item": tagged("type", _ITEMS)}),
    **_same(("content_part.added", "content_part.done"), {**_OF_PART, "part": _PART}),
    "output_text.delta": {**_OF_PART, "delta": text()},
    "output_text.done": {**_OF_PART, "text": text()},
    "output_text.annotation.added": _OF_PART,
    "refusal.delta": {**_OF_PART, "delta": text()},
    "refusal.done": {**_OF_PART, "refusal": text()},
    "reasoning_text.delta": {**_OF_PART, "delta": text()},
    "reasoning_text.done": {**_OF_PART, "text": text()},
    **_same(("reasoning_summary_part.added", "reasoning_summary_part.done"), {**_OF_SUMMARY, "part": _SUMMARY}),
    "reasoning_summary_text.delta": {**_OF_SUMMARY, "delta": text()},
    "reasoning_summary_text.done": {**_OF_SUMMARY, "text": text()},
    "function_call_arguments.delta": {**_OF_ITEM, "delta": text()},
    "function_call_arguments.done": {**_OF_ITEM, "arguments": text()},
    "custom_tool_call_input.delta": {**_OF_ITEM, "delta": text()},
    "custom_tool_call_input.done": {**_OF_ITEM, "input": text()},
}
_EVENTS: dict[str, Check] = {
    **{
        f"response.{name}": loose({"type": WORD, "sequence_number": integer(), **keys})
        for name, keys in _SHAPES.items()
    },
    "error": loose({"type": WORD, "message": text(), "sequence_number": integer()}),
}
# What the pieces of a stream are called when they are put together, and the kind of item that they belong to.
_WHOLES = {
    "output_text": ("text", "message"),
    "refusal": ("refusal", "message"),
    "reasoning_text": ("text", "reasoning"),
    "reasoning_summary_text": ("text", "reasoning"),
    "function_call_arguments": ("arguments", "function_call"),
    "custom_tool_call_input": ("input", "custom_tool_call"),
}
_ENDS = ("completed", "incomplete", "failed")


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of events."""
    for position, (_, data) in enumerate(frames):
        if data == DONE:
            spot.at(position).say("there is no [DONE] in this API")
            return
    if judge_frames(frames, spot, lambda data: tagged("type", _EVENTS), named=True):
        _Order(spot).read([data for _, data in frames])


class _Order:
    """The order of the events: created, in progress, items with their pieces, the whole response."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.identity: Any = None
        self.over = False
        self.open: dict[int, dict[str, Any]] = {}
        self.done: dict[int, dict[str, Any]] = {}
        self.parts: set[tuple[Any, ...]] = set()
        self.pieces: dict[tuple[Any, ...], str] = {}

    def read(self, events: list[dict[str, Any]]) -> None:
        number = -1
        for position, event in enumerate(events):
            place = self.spot.at(position)
            name = event["type"].removeprefix("response.")
            if self.over:
                place.say("stands after the end")
            if event["sequence_number"] <= number:
                place.say(f"the sequence_number must rise, but {event['sequence_number']} follows {number}")
            number = event["sequence_number"]
            self._begin(position, name, place)
            if name == "error":
                self.over = True
            elif "response" in event:
                self._response(name, event["response"], place)
            elif name.startswith("output_item."):
                self._item(name, event, place)
            else:
                self._inside(name, event, place)
        if not self.over:
            self.spot.say("must end with response.completed, response.incomplete or response.failed")

    def _begin(self, position: int, name: str, place: Spot) -> None:
        order = ("created", "in_progress")
        if position < 2 and name not in {order[position], "error", "failed", "queued"}:
            place.say(f"response.{order[position]} must be event number {position}")
        if position >= 2 and name in order[:1]:
            place.say("response.created must come only once")

    def _response(self, name: str, response: dict[str, Any], place: Spot) -> None:
        if self.identity not in {None, response["id"]}:
            place.say("must have the response id of the events before it")
        self.identity = response["id"]
        expected = name if name in _ENDS else "in_progress"
        if response["status"] != expected:
            place.say(f"the status must be {expected!r}, not {response['status']!r}")
        if name not in _ENDS:
            return
        self.over = True
        if self.open:
            place.say(f"the items {sorted(self.open)} are still open")
        if name != "failed" and response["output"] != [self.done[index] for index in sorted(self.done)]:
            place.say("the output must be the items that were done, in the order of their indexes")
        _check_response(response, place.at("response"))

    def _item(self, name: str, event: dict[str, Any], place: Spot) -> None:
        index, item = event["output_index"], event["item"]
        if name == "output_item.added":
            if index != len(self.open) + len(self.done):
                place.say(f"the output_index must be {len(self.open) + len(self.done)}, not {index}")
            if item.get("arguments") or item.get("input") or item.get("content") or item.get("summary"):
                place.say("an item must be added empty; its pieces come in deltas")
            self.open[index] = item
            return
        added = self.open.pop(index, None)
        if added is None:
            place.say("ends an item that is not open")
            return
        for key in ("type", "id", "call_id", "name"):
            if added.get(key) != item.get(key):
                place.say(f"the {key} must be the one with which the item was added")
        self.done[index] = item
        if any(part[0] == index for part in self.parts):
            place.say("ends an item whose parts are still open")
        for (where, kind, inner), whole in self.pieces.items():
            if where == index and whole != _find(item, kind, inner):
                place.say(f"the item does not hold what its {kind} events said")

    def _inside(self, name: str, event: dict[str, Any], place: Spot) -> None:
        index = event["output_index"]
        item = self.open.get(index)
        if item is None or item["id"] != event["item_id"]:
            place.say("belongs to an item that is not open")
            return
        kind, step = name.rsplit(".", 1)
        inner = event.get("content_index", event.get("summary_index"))
        if kind.endswith("_part"):
            self._part((index, kind, inner), step, place)
        elif kind in _WHOLES:
            self._piece((index, kind, inner), step, event, place)

    def _part(self, key: tuple[Any, ...], step: str, place: Spot) -> None:
        if step == "added":
            self.parts.add(key)
        elif key in self.parts:
            self.parts.remove(key)
        else:
            place.say("ends a part that is not open")

    def _piece(self, key: tuple[Any, ...], step: str, event: dict[str, Any], place: Spot) -> None:
        index, kind, inner = key
        whole, owner = _WHOLES[kind]
        if self.open[index]["type"] != owner:
            place.say(f"{kind} does not belong into a {self.open[index]['type']} item")
        holder = "reasoning_summary_part" if kind == "reasoning_summary_text" else "content_part"
        if inner is not None and kind != "reasoning_text" and (index, holder, inner) not in self.parts:
            place.say("belongs to a part that is not open")
        if step == "delta":
            self.pieces[key] = self.pieces.get(key, "") + event["delta"]
        elif step == "done" and self.pieces.setdefault(key, "") != event[whole]:
            place.say(f"the {whole} must be what the deltas said together")


def _find(item: dict[str, Any], kind: str, inner: int | None) -> Any:
    """The value in a finished item that the pieces of a stream should add up to."""
    whole, _ = _WHOLES[kind]
    if inner is None:
        return item.get(whole)
    parts = item.get("summary" if kind == "reasoning_summary_text" else "content", [])
    return parts[inner].get(whole) if inner < len(parts) else None
