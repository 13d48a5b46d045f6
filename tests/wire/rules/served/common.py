"""What the judges of replies share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.wire.rules.shapes import Check, Spot, object_text, record, text

Frame = tuple[str | None, dict[str, Any]]
DONE = {"[DONE]": True}
WORD: Check = text(least=1)


def loose(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object that needs some keys and may have others: clients do not mind what they do not know."""
    return record(required, optional, open_=True)


def whole_arguments(arguments: str, spot: Spot, *, cut: bool) -> None:
    """The arguments of a call are the JSON of an object, unless the model was cut off."""
    if not cut:
        object_text(arguments, spot)


def agrees(made_calls: bool, reason: str, name: str, spot: Spot, *, others: tuple[str, ...]) -> None:
    """The reason why a reply ended says that there are calls when, and only when, there are some."""
    if reason == name and not made_calls:
        spot.say(f"is {name!r}, but there are no calls")
    if made_calls and reason != name and reason not in others:
        spot.say(f"must be {name!r}, for there are calls")


def in_order(indexes: list[int], spot: Spot, what: str) -> None:
    """Indexes count from 0 without a gap."""
    if indexes != list(range(len(indexes))):
        spot.say(f"the indexes of {what} must count from 0, not {indexes}")


def judge_frames(
    frames: list[Frame], spot: Spot, check: Callable[[dict[str, Any]], Check | None], *, named: bool = False
) -> bool:
    """Look at the shape of every frame; whether all of them are right, so that their order can be looked at."""
    for position, (event, data) in enumerate(frames):
        place = spot.at(position)
        if named and event != data.get("type"):
            place.say(f"the event {event!r} has the type {data.get('type')!r}")
        shape = check(data)
        if shape is not None:
            shape(data, place)
    if not frames:
        spot.say("must not be an empty stream")
    return not spot.found
