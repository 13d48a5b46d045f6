"""The small language in which the shapes of requests and replies are written down: checks that speak in sentences."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spot:
    """A place in a body: it knows its path, and what is wrong there is said to it."""

    path: str = "$"
    found: list[str] = field(default_factory=list)
    extra: frozenset[str] = frozenset()

    def at(self, *steps: str | int) -> Spot:
        """The place that is reached by these keys and indexes."""
        path = self.path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        return Spot(path, self.found, self.extra)

    def say(self, sentence: str) -> None:
        """Report a violation here."""
        self.found.append(f"{self.path}: {sentence}")


Check = Callable[[Any, Spot], None]


def anything(value: Any, spot: Spot) -> None:
    """Every JSON value is right."""


def boolean(value: Any, spot: Spot) -> None:
    """True or false."""
    if not isinstance(value, bool):
        spot.say("must be a boolean")


def numeric(value: Any, spot: Spot) -> None:
    """A number of any kind."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        spot.say("must be a number")


def mapping(value: Any, spot: Spot) -> None:
    """Any object."""
    if not isinstance(value, dict):
        spot.say("must be an object")


def integer(least: int = 0) -> Check:
    """An integer that is not below a bound."""

    def check(value: Any, spot: Spot) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            spot.say("must be an integer")
        elif value < least:
            spot.say(f"must be at least {least}")

    return check


def text(*, pattern: str = "", most: int = 0, least: int = 0, blank: bool = True, why: str = "") -> Check:
    """A string, perhaps of a pattern and a length; `blank=False` refuses white space alone."""
    wanted = re.compile(pattern) if pattern else None

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, str):
            spot.say("must be a string")
        elif len(value) < least:
            spot.say("must not be empty" if least == 1 else f"must have at least {least} characters")
        elif not blank and not value.strip():
            spot.say("must not be blank text")
        elif most and len(value) > most:
            spot.say(f"must have at most {most} characters, not {len(value)}")
        elif wanted and not wanted.fullmatch(value):
            spot.say(f"must match {why or pattern}, not {value!r}")

    return check


def one_of(*values: str) -> Check:
    """One of some known words."""

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, str) or value not in values:
            spot.say(f"must be one of {', '.join(values)}, not {value!r}")

    return check


def nullable(inner: Check) -> Check:
    """Null, or what the inner check wants."""

    def check(value: Any, spot: Spot) -> None:
        if value is not None:
            inner(value, spot)

    return check


def array(item: Check, *, least: int = 0, most: int = 0) -> Check:
    """An array of like things."""

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, list):
            spot.say("must be an array")
            return
        if len(value) < least:
            spot.say("must not be an empty array")
        if most and len(value) > most:
            spot.say(f"must hold at most {most} entries, not {len(value)}")
        for position, entry in enumerate(value):
            item(entry, spot.at(position))

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None, *, open_: bool = False) -> Check:
    """An object with these keys and, unless it is open, no others."""
    known = {**required, **(optional or {})}

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, dict):
            spot.say("must be an object")
            return
        for key in required:
            if key not in value:
                spot.say(f"lacks the required key {key!r}")
        for key, entry in value.items():
            if key in known:
                known[key](entry, spot.at(key))
            elif not open_ and key not in spot.extra:
                spot.say(f"has the unknown key {key!r}")

    return check


def by_key(kinds: Mapping[str, Check], *, beside: Mapping[str, Check] | None = None) -> Check:
    """An object that holds exactly one of these keys, which says what it is, and perhaps some others beside it."""
    others = beside or {}

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, dict):
            spot.say("must be an object")
            return
        present = [key for key in value if key in kinds]
        unknown = [key for key in value if key not in kinds and key not in others and key not in spot.extra]
        if len(present) != 1:
            spot.say(f"must hold exactly one of {', '.join(kinds)}, not {', '.join(present or unknown) or 'nothing'}")
        else:
            for key in unknown:
                spot.say(f"has the unknown key {key!r}")
        for key, entry in value.items():
            inner = kinds.get(key) or others.get(key)
            if inner is not None:
                inner(entry, spot.at(key))

    return check


def tagged(tag: str, kinds: Mapping[str, Check], *, default: str = "") -> Check:
    """An object whose tag (`type`, `role`) says which of these shapes it has."""

    def check(value: Any, spot: Spot) -> None:
        if not isinstance(value, dict):
            spot.say("must be an object")
            return
        kind = value.get(tag, default)
        if not isinstance(kind, str) or kind not in kinds:
            spot.say(f"has the {tag} {kind!r}, but only {', '.join(kinds)} may stand here")
        else:
            kinds[kind](value, spot)

    return check


def text_or(inner: Check, *, plain: Check | None = None) -> Check:
    """A string, or what the inner check wants."""
    string = plain or text()

    def check(value: Any, spot: Spot) -> None:
        (string if isinstance(value, str) else inner)(value, spot)

    return check


def both(*checks: Check) -> Check:
    """Several checks of one value; the later ones only see what the earlier ones found nothing wrong with."""

    def check(value: Any, spot: Spot) -> None:
        before = len(spot.found)
        for inner in checks:
            if len(spot.found) == before:
                inner(value, spot)

    return check


def pad(*names: str) -> dict[str, Check]:
    """Keys that may be there and hold anything."""
    return dict.fromkeys(names, anything)


def object_text(value: Any, spot: Spot) -> None:
    """The arguments of a call as a string: the JSON text of an object."""
    if not isinstance(value, str):
        spot.say("must be a string of JSON")
        return
    try:
        decoded = json.loads(value, parse_constant=_refuse)
    except ValueError:
        spot.say("must be a string of valid JSON")
        return
    if not isinstance(decoded, dict):
        spot.say("must be the JSON text of an object")


def _refuse(word: str) -> None:
    raise ValueError(word)


def base64_text(value: Any, spot: Spot) -> None:
    """Bytes as text, as they travel in JSON."""
    if isinstance(value, str) and value:
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            spot.say("must be base64")
    else:
        spot.say("must be base64, not empty")


def data_or_web_address(value: Any, spot: Spot) -> None:
    """The address of an image: on the web, or the image itself as a data URL."""
    if not isinstance(value, str):
        spot.say("must be a string")
    elif match := re.fullmatch(r"data:([a-z]+/[a-zA-Z0-9.+-]+);base64,(.*)", value, re.DOTALL):
        base64_text(match[2], spot)
    elif not value.startswith(("https://", "http://")):
        spot.say("must be an http(s) address or a data URL with a media type and base64")


def unique(values: Sequence[str], spots: Sequence[Spot], what: str) -> None:
    """Report every value that an earlier one already had."""
    seen: set[str] = set()
    for value, spot in zip(values, spots, strict=True):
        if value in seen:
            spot.say(f"repeats the {what} {value!r}")
        seen.add(value)


def must_be_offered(name: Any, offered: Collection[str], spot: Spot) -> None:
    """A forced tool has to be among the offered ones."""
    if name not in offered:
        spot.say(f"names the tool {name!r}, which is not offered")
