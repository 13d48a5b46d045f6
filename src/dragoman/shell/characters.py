"""Characters that have no place in a plain command line, because shells, terminals and people read them differently."""

from __future__ import annotations

import re
import unicodedata

_UNUSUAL = re.compile(r"[^\t\x20-\x7e]")
_NAMED = {"\n": "newline", "\r": "carriage_return", "\0": "nul"}


def find_odd_characters(text: str) -> list[str]:
    """The kinds of characters in the text that make it doubtful, in the order of their first appearance."""
    kinds: dict[str, None] = {}
    for character in dict.fromkeys(_UNUSUAL.findall(text)):
        kind = _kind_of(character)
        if kind:
            kinds[kind] = None
    return list(kinds)


def _kind_of(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category[0] == "Z":
        return "blank"
    return "control" if category[0] == "C" else ""
