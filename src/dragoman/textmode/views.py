"""A text as a tokenizer or a hurried reader sees it: compatibility forms made plain, invisible characters left out."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import Struct

# The blocks of 256 characters in which some are another spelling of ASCII: fullwidth and small forms, letters in
# circles, mathematical alphabets. To ask for every character that there is would take a quarter of a second.
_BLOCKS = (
    *(0x00, 0x01, 0x02, 0x03, 0x1D, 0x1F, 0x20, 0x21, 0x24, 0x2A, 0x2C, 0x30, 0x32, 0x33, 0xA7, 0xFB, 0xFE, 0xFF),
    *(0x107, 0x1D4, 0x1D5, 0x1D6, 0x1D7, 0x1F1, 0x1FB),
)
_INVISIBLE = (
    *(range(0x00AD, 0x00AE), range(0x034F, 0x0350), range(0x061C, 0x061D), range(0x180B, 0x180F)),
    *(range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070), range(0x115F, 0x1161)),
    *(range(0xFE00, 0xFE10), range(0xFEFF, 0xFF00), range(0xFFF9, 0xFFFC), range(0x1BCA0, 0x1BCA4)),
    *(range(0x1D173, 0x1D17B), range(0xE0000, 0xE0200)),
)


class View(Struct, frozen=True):
    """The plain text, and where each of its characters came from."""

    text: str
    _shown: list[int] = []
    _given: list[int] = []

    def origin(self, position: int) -> int:
        """The place in the text as given of the character that stands here in the view."""
        if not self._shown:
            return position
        place = bisect_right(self._shown, position) - 1
        # Of several characters that stand for one, all come from that one.
        last = self._given[place + 1] - 1 if place + 1 < len(self._given) else None
        at = self._given[place] + position - self._shown[place]
        return at if last is None else min(at, last)


def look_at(text: str) -> View:
    """The view of a text. Most texts are their own."""
    if text.isascii():
        return View(text)
    find, table = _odd_characters()
    pieces: list[str] = []
    shown: list[int] = [0]
    given: list[int] = [0]
    length = end = 0
    for match in find(text):
        start = match.start()
        plain = text[end:start]
        replaced = table.get(match.group(), "")
        end = match.end()
        pieces += (plain, replaced)
        length += len(plain)
        if replaced:
            shown.append(length)
            given.append(start)
        length += len(replaced)
        shown.append(length)
        given.append(end)
    if not pieces:
        return View(text)
    pieces.append(text[end:])
    return View("".join(pieces), shown, given)


@cache
def _odd_characters() -> tuple[Callable[[str], Iterator[re.Match[str]]], dict[str, str]]:
    """How to find the characters that look like others or like nothing, and what they stand for."""
    table = {chr(code): "" for codes in _INVISIBLE for code in codes}
    for block in _BLOCKS:
        for code in range(max(block << 8, 0x80), (block + 1) << 8):
            character = chr(code)
            plain = unicodedata.normalize("NFKC", character)
            if plain.isascii() and character not in table:
                table[character] = plain
    return re.compile(f"[{''.join(table)}]").finditer, table
