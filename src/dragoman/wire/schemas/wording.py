"""Constraints in words, for targets that refuse the keyword but show the description to the model."""

from __future__ import annotations

from typing import Any

import msgspec

_LONGEST = 200

_PHRASES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "{} or more characters",
    "maxLength": "{} or fewer characters",
    "minItems": "{} or more items",
    "maxItems": "{} or fewer items",
    "minProperties": "{} or more properties",
    "maxProperties": "{} or fewer properties",
    "uniqueItems": "no item twice",
    "pattern": "pattern: {}",
    "format": "format: {}",
    "default": "default: {}",
    "examples": "examples: {}",
    "example": "example: {}",
    "nullable": "may be null",
    "const": "always {}",
}
_BARE = frozenset({"pattern", "format"})


def phrase(keyword: str, value: Any) -> str:
    """A constraint in a few words; "" when it would take too many."""
    words = value if keyword in _BARE and isinstance(value, str) else json_text(value)
    text = _PHRASES.get(keyword, keyword + ": {}").format(words)
    return text if len(text) <= _LONGEST else ""


def json_text(value: Any) -> str:
    """A value as compact JSON; what JSON cannot hold is shown as Python does."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def extend(description: Any, notes: list[str]) -> str:
    """A description with notes in brackets behind it."""
    text = description if isinstance(description, str) else ""
    note = "; ".join(notes)
    if not note:
        return text
    return f"{text} ({note})" if text else f"({note})"
