"""Scrubs values made of lists and mappings: every string in them, and whatever stands under a telling key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.scrubbing.judging import is_secret
from dragoman.scrubbing.keys import Weight, kind_of, weigh_key
from dragoman.scrubbing.styles import Render

_DEEPEST: Final = 200

ScrubText = Callable[[str], str]


def scrub_structure(value: Any, scrub_text: ScrubText, show: Render, *, eager: bool = False) -> Any:
    """A copy of a value as JSON has them, with its secrets hidden. `eager` hides all that is under a telling key."""
    return _walk(value, "", scrub_text, show, eager, 0)


def _walk(value: Any, key: str, scrub_text: ScrubText, show: Render, eager: bool, depth: int) -> Any:
    if isinstance(value, str):
        if _is_hidden(key, value, eager):
            return show(kind_of(key), value, False)
        return scrub_text(value)
    if depth >= _DEEPEST:
        return "[too deep]" if isinstance(value, dict | list | tuple) else value
    if isinstance(value, dict):
        return {
            scrub_text(name) if isinstance(name, str) else name: _walk(
                inner, name if isinstance(name, str) else "", scrub_text, show, eager, depth + 1
            )
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        walked = [_walk(inner, key, scrub_text, show, eager, depth + 1) for inner in value]
        return walked if isinstance(value, list) else tuple(walked)
    if isinstance(value, int | float) and not isinstance(value, bool):
        secret = weigh_key(key) is Weight.PASSWORD and len(str(value)) >= 4
        return show(kind_of(key), str(value), False) if secret else value
    return value


def _is_hidden(key: str, value: str, eager: bool) -> bool:
    weight = weigh_key(key) if key else Weight.NONE
    if eager:
        return weight >= Weight.SECRET and bool(value) and "[REDACTED]" not in value
    return is_secret(weight, value, quoted=True, literal=True)
