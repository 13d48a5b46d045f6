"""Regular expressions of a schema, where they are simple enough to be written out.

Literals, classes, groups, alternatives, repeats and the two anchors; `\\d`, `\\w` and `\\s` stand for the plain ASCII
characters. Everything else (looking around, references back, word boundaries) is not translated, and reported.
"""

from __future__ import annotations

import re

from dragoman.formats.grammars.nodes import EMPTY, NEVER, Chars, Node, Text, choice, repeat, row
from dragoman.formats.grammars.notation import Notation

Ranges = list[tuple[str, str]]

_SETS: dict[str, Ranges] = {
    "d": [("0", "9")],
    "w": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "s": [(" ", " "), ("\t", "\r")],
}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_counted = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}").match
_LAST = "\U0010ffff"
_MOST, _MOST_INSIDE = 64, 8
"""Repeats without an end are given one; those inside of others a nearer one."""


class Untold(Exception):
    """The pattern says more than can be said here."""


def translate(pattern: str, notation: Notation) -> Node | None:
    """The texts of a pattern without their quotes; None where it cannot be translated."""
    try:
        return _Reader(pattern, notation).read()
    except (Untold, RecursionError):
        return None


class _Reader:
    def __init__(self, pattern: str, notation: Notation) -> None:
        self._pattern = pattern
        self._at = 0
        self._notation = notation
        self._depth = 0
        # Tags must not come up in a value, so that none may begin there.
        self._barred = "".join(marker[0] for marker in notation.markers)

    def read(self) -> Node:
        found = self._alternatives()
        if self._at != len(self._pattern) or found == NEVER:
            raise Untold
        return found

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise Untold
        self._at += 1
        return character

    def _alternatives(self) -> Node:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            ways.append(self._sequence())
        return choice(ways)

    def _sequence(self) -> Node:
        """One alternative; at the outermost level it may lack its anchors, and then stands between any text."""
        outermost = self._depth == 0
        starts = outermost and self._peek() == "^"
        self._at += starts
        parts: list[Node] = []
        ends = False
        while (character := self._peek()) and character not in "|)":
            if character == "$" and outermost and self._pattern[self._at + 1 : self._at + 2] in ("", "|"):
                self._at += 1
                ends = True
                break
            parts.append(self._repeated())
        around = repeat(self._class([], negated=True), 0, _MOST) if outermost and not (starts and ends) else EMPTY
        return row(EMPTY if starts else around, *parts, EMPTY if ends else around)

    def _repeated(self) -> Node:
        start = self._at
        part = self._atom()
        least, most = self._count()
        if (least, most) == (1, 1):
            return part
        if most is None or most > _MOST_INSIDE:
            # Read once more, knowing that it stands inside of a repeat.
            after, self._at = self._at, start
            self._depth += 10
            part = self._atom()
            self._depth -= 10
            self._at = after
        return repeat(part, least, max(least, _MOST_INSIDE if self._depth >= 10 else _MOST) if most is None else most)

    def _count(self) -> tuple[int, int | None]:
        counts: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        match = _counted(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
            least = int(match[1])
            found = (least, least if match[2] is None else int(match[3]) if match[3] else None)
        elif (character := self._peek()) and character in counts:
            self._at += 1
            found = counts[character]
        else:
            return 1, 1
        if self._peek() == "?":
            self._at += 1  # how eagerly it matches does not matter to what it matches
        if (self._peek() and self._peek() in "*+") or _counted(self._pattern, self._at):
            raise Untold
        return found

    def _atom(self) -> Node:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._bracketed()
        if character == ".":
            return self._class([("\n", "\n"), ("\r", "\r"), ("\u2028", "\u2029")], negated=True)
        if character == "\\":
            found = self._escaped()
            return self._class(*found)
        if character in "^$*+?{}])":
            raise Untold
        return self._class([(character, character)], negated=False)

    def _group(self) -> Node:
        if self._peek() == "?":
            self._at += 1
            if self._take() != ":":
                raise Untold
        self._depth += 1
        inner = self._alternatives()
        self._depth -= 1
        if self._take() != ")":
            raise Untold
        return inner

    def _escaped(self) -> tuple[Ranges, bool]:
        character = self._take()
        if character.lower() in _SETS:
            return _SETS[character.lower()], character.isupper()
        if character in _CONTROLS:
            return [(_CONTROLS[character], _CONTROLS[character])], False
        if character.isalnum():
            raise Untold
        return [(character, character)], False

    def _bracketed(self) -> Node:
        negated = self._peek() == "^"
        self._at += negated
        ranges: Ranges = []
        while (character := self._take()) != "]":
            low = self._member(character)
            if len(low) == 1 and self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member(self._take())
                if len(high) != 1 or low[0][0] > high[0][1]:
                    raise Untold
                low = [(low[0][0], high[0][1])]
            ranges += low
        return self._class(ranges, negated=negated)

    def _member(self, character: str) -> Ranges:
        if character == "[" and self._peek() in (":", "="):
            raise Untold
        if character != "\\":
            return [(character, character)]
        ranges, negated = self._escaped()
        if negated:
            raise Untold
        return ranges

    # ---- characters ----------------------------------------------------------------------------------------------

    def _class(self, ranges: Ranges, negated: bool) -> Node:
        """One character as the notation writes it: some are escaped, and some cannot be written at all."""
        wanted = _complement(ranges) if negated else _sorted(ranges)
        special = sorted(set(self._notation.barred + self._barred))
        plain = _without(wanted, special)
        ways: list[Node] = [Chars(tuple(plain))] if plain else []
        if len(plain) == 1 and plain[0][0] == plain[0][1]:
            ways = [Text(plain[0][0])]
        if self._notation.escape is not None:
            quote = len(self._notation.quotes[0])
            ways += [
                Text(self._notation.write(each)[quote:-quote])
                for each in special
                if each not in self._barred and any(low <= each <= high for low, high in wanted)
            ]
        return choice(ways)


def _sorted(ranges: Ranges) -> Ranges:
    merged: Ranges = []
    for low, high in sorted(ranges):
        if merged and ord(low) <= ord(merged[-1][1]) + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: Ranges) -> Ranges:
    """Everything else, without the halves of characters that no text holds."""
    found: Ranges = []
    start = 0
    for low, high in [*_sorted([*ranges, ("\ud800", "\udfff")]), (chr(0x10FFFF), "")]:
        if not high:
            if start <= ord(_LAST):
                found.append((chr(start), _LAST))
        elif start < ord(low):
            found.append((chr(start), chr(ord(low) - 1)))
        start = ord(high) + 1 if high else start
    return found


def _without(ranges: Ranges, characters: list[str]) -> Ranges:
    for character in characters:
        cut: Ranges = []
        for low, high in ranges:
            if low <= character <= high:
                cut += [(low, chr(ord(character) - 1))] if low < character else []
                cut += [(chr(ord(character) + 1), high)] if character < high else []
            else:
                cut.append((low, high))
        ranges = cut
    return ranges
