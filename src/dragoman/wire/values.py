"""Values as servers send them: what has the wrong type counts as not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.types import JsonObject
from dragoman.wire.lines import half_character

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))

BROKEN = object()
"""What `parse` gives for text that is no JSON."""


def as_text(value: Any, default: str = "") -> str:
    return value if isinstance(value, str) else default


def as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def dicts(value: Any) -> Iterator[JsonObject]:
    """The objects in a list; anything else in it is passed over."""
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else iter(())


def as_count(value: Any) -> int:
    """A number of tokens; 0 for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


def parse(text: str | bytes) -> Any:
    """The JSON value of a frame, or BROKEN."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return BROKEN


def write(value: Any) -> str:
    """JSON text without blanks, the same for the same value, on one line for every reader of lines."""
    try:
        text = _encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form.
        text = _encode(_without_surrogates(value)).decode()
    if not text.isascii():
        # Readers that split text where Unicode says so (some official clients do) would end a line here.
        for character, escape in _LINE_ENDS:
            text = text.replace(character, escape)
    return text


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return half_character.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(entry) for entry in value]
    return value


def omit_none(**fields: Any) -> JsonObject:
    """An object of the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
