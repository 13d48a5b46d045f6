"""Readings of a text: what it says without escapes, colours, invisible characters, line numbers and dumps.

A known secret may be printed in an encoding of its own for every character, or with something between the characters.
These forms cannot be listed. So the text is decoded, and the secret is searched in the result. A reading knows for each
of its characters where it stands in the text. All of them take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from dragoman.characters import is_invisible

# --------------------------------------------------------------------------------------------------------------------
# Escapes of JSON, JavaScript, Python, C, shells, HTML, addresses and mails, and what may stand between characters.

# They all begin with one of a few characters, which makes the search fast.
_ESCAPES: Final = r"""(?:
    (?<=(?<!\\)\\)\\*+(?: (?:e|033|x1[bB]|u001[bB])\[[0-9;]{0,16}m
        | u\{(?P<brace>[0-9a-fA-F]{1,6})\} | u(?P<four>[0-9a-fA-F]{4}) | U(?P<eight>[0-9a-fA-F]{8})
        | x\{?(?P<hex>[0-9a-fA-F]{2})\}? | (?P<octal>[0-3][0-7]{2}) | [nrt]
        | (?=&) | (?P<sign>[^A-Za-z0-9\s\\ODD]) | )
  | (?<=&)(?:amp;){0,3}(?: \#(?: [xX]0{0,8}(?P<entity>[0-9a-fA-F]{1,6}) | 0{0,8}(?P<number>[0-9]{1,7}) );?
        | (?P<named>amp|lt|gt|quot|apos); | shy; | nbsp; | zwn?j; | ZeroWidthSpace; )
  | (?<=%)(?:25){0,3}(?P<percent>[0-9a-fA-F]{2})
  | (?<==)(?: (?P<quoted>[0-9A-F]{2}) | [ \t]{0,8}(?=\r?\n) )
  | (?<=\x1b)(?: \[[0-?]{0,32}[ -/]{0,4}[@-~] | \][^\x07\x1b]{0,200}(?:\x07|\x1b\\) )
  | (?<=\^)\[\[[0-9;]{0,16}m
  | (?<=[ODD]) PREFIX )"""
_CHARACTERS: Final = frozenset({"brace", "four", "eight", "entity", "number"})
"""Escapes of whole characters; the others may be bytes of one."""
_CONTROLS: Final = "\x00-\x08\x0e-\x1f\x7f-\x9f"
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
# A pattern that begins with a set of characters is found several times as fast as alternatives.
_HAS_ESCAPE = re.compile(
    rf"[\\^&%={_CONTROLS}](?:(?<=\\)|(?<=\^)\[|(?<=&)[#alqgsnzZ]|(?<=%)[0-9a-fA-F]{{2}}"
    rf"|(?<==)[0-9A-F\r\n]|(?<=[{_CONTROLS}]))"
).search
# The beginning of an escape at the end of a text: what it is depends on what follows.
_UNFINISHED = re.compile(
    r"(?:(?<!\\)\\++(?:[uUx]\{?[0-9a-fA-F]{0,7}|[0-7]{0,2}|(?:e|033|x1[bB]|u001[bB])(?:\[[0-9;]{0,16})?)?"
    r"|&(?:amp;){0,3}\#?[xX]?[0-9a-zA-Z]{0,15}|%[0-9a-fA-F]{0,8}|=[0-9A-F]?[ \t]{0,8}\r?|\x1b[\[\]]?[0-?]{0,32}"
    r"|\^(?:\[){0,2}[0-9;]{0,16})\Z"
).search
_TAIL: Final = 256
# The number of a line, or the sign of a difference, before each line; also the name of a file as grep prints it.
_PREFIXES: Final = r"""(?<=\n)(?:
        [ \t]{0,8}[0-9]{1,7}(?: [ ]?[:|)\t\-+\u2502] | [ ]{1,2} )[ \t]{0,2}
      | [+\-<>|][ ]? | [\w./\-]{1,80}[:\-][0-9]{1,7}[:\-] )"""
_HAS_PREFIX = re.compile(_PREFIXES.replace("(?<=", "(?:"), re.VERBOSE).search
_UNFINISHED_PREFIX = re.compile(
    r"(?:[ \t]{0,8}[0-9]{0,7}[ :|)\t\-+\u2502]{0,4}|[+\-<>|][ ]?|[\w./\-]{1,80}(?:[:\-][0-9]{0,7}[:\-]?)?)\Z"
).match
_LONGEST_PREFIX: Final = 96

Places = Callable[[int], tuple[int, int]]


def _decode(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind is None:
        return ""
    written = found[kind]
    if kind == "sign":
        return written
    if kind == "named":
        return _NAMED[written]
    code = int(written, 8 if kind == "octal" else 10 if kind == "number" else 16)
    if code > 0x10FFFF or (kind in _CHARACTERS and not 0xD800 <= code < 0xE000 and is_invisible(chr(code))):
        return ""
    return chr(code)


class Reading:
    """A text without escapes and blanks, and optionally without what precedes its lines."""

    def __init__(self, text: str, *, prefixed: bool = False) -> None:
        self._text = text
        self._pattern = _pattern_for(text, prefixed)
        self.text = "".join(self._pattern.sub(_decode, text).split())

    def place_from_end(self, length: int) -> int:
        """Where the last characters of the reading begin in the text."""
        size = 64 + 16 * length
        while True:
            offset = max(0, len(self._text) - size)
            read, place = self.places(offset)
            if len(read) >= length + 8 or not offset:
                return place(len(read) - length)[0]
            size *= 8

    def places(self, offset: int = 0) -> tuple[str, Places]:
        """The reading again from an offset on, and where each of its characters stands in the text."""
        text = self._text
        pieces: list[str] = []
        starts: list[int] = []
        marks: list[tuple[int, int]] = []
        total, at = 0, offset

        def keep(start: int, end: int) -> None:
            nonlocal total
            for piece in _WORDS.finditer(text, start, end):
                starts.append(total)
                marks.append((piece.start(), 0))
                pieces.append(piece.group())
                total += piece.end() - piece.start()

        for found in self._pattern.finditer(text, offset):
            keep(at, found.start())
            at = found.end()
            character = _decode(found)
            if character and not character.isspace():
                starts.append(total)
                marks.append((found.start(), at))
                pieces.append(character)
                total += 1
        keep(at, len(text))

        def place(index: int) -> tuple[int, int]:
            number = bisect_right(starts, index) - 1
            start, end = marks[number]
            return (start, end) if end else (start + index - starts[number], start + index - starts[number] + 1)

        return "".join(pieces), place


_WORDS = re.compile(r"\S+")


@lru_cache(maxsize=64)
def _compile(odd: str, *, prefixed: bool, struck: bool) -> re.Pattern[str]:
    ignored = _CONTROLS + re.escape(odd)
    escapes = _ESCAPES.replace("ODD", ignored).replace("PREFIX", f"| {_PREFIXES}" if prefixed else "")
    first = rf"[\\&%=^{ignored}{chr(92) + 'n' if prefixed else ''}]{escapes}"
    return re.compile(rf"[^\n]\x08 | {first}" if struck else first, re.VERBOSE)


def _pattern_for(text: str, prefixed: bool) -> re.Pattern[str]:
    odd = "" if text.isascii() else "".join(sorted(each for each in set(text) if each > "\x9f" and is_invisible(each)))
    return _compile(odd[:64], prefixed=prefixed, struck="\x08" in text)


def readings(text: str) -> Iterator[Reading]:
    """The readings of a text that may say more than the text itself."""
    if _HAS_ESCAPE(text) or (not text.isascii() and any(map(is_invisible, set(text)))):
        yield Reading(text)
    if _HAS_PREFIX(text):
        yield Reading(text, prefixed=True)


def unfinished(text: str) -> tuple[int, int]:
    """Where an incomplete escape may begin, and the line whose prefix may be incomplete; else the end of the text."""
    size = len(text)
    escape = _UNFINISHED(text, max(0, size - _TAIL))
    line = text.rfind("\n", max(0, size - _LONGEST_PREFIX)) + 1
    return escape.start() if escape else size, line if line and _UNFINISHED_PREFIX(text, line) else size


# --------------------------------------------------------------------------------------------------------------------
# Dumps of bytes: lines of `xxd`, `hexdump` and `od` in any base, and lists of numbers.
#
# A dump is a list of cells: bytes or words, in any base and order. Two texts are made of it: the hexadecimal digits of
# all bytes, and the cells themselves, without leading zeros. `cell_forms` says how a secret looks in the second one.

_DUMP_LINE = re.compile(
    r"^[ \t]{0,8}[0-9a-fA-F]{4,16}(?:(?P<colon>:)[ ]{1,20}|[ \t]{1,24})(?P<cells>-?[0-9a-fA-F][^\n]*)$", re.MULTILINE
)
_DUMP_BEGINS = re.compile(r"^[ \t]*[0-9a-fA-F]{4,16}[: \t]|^[ \t]*[0-9a-fA-F]{0,16}\Z|\*\n?\Z", re.MULTILINE)
_LONGEST_DUMP_LINE: Final = 1024
_TEXT_COLUMN = re.compile(r"  [|>]").search
# 22 octal digits are 64 bits.
_is_cell = re.compile(r"-?[0-9a-fA-F]{1,22}").fullmatch
_HEX_LIST = re.compile(r"[0-9a-fA-F]{2}(?:[ \t\r\n]{0,4}[,:;\-][ \t\r\n]{0,8}(?:0[xX])?[0-9a-fA-F]{2}){3,}+")
_HEX_ITEM = re.compile(r"(?:0[xX])?([0-9a-fA-F]{2})(?![0-9a-fA-F])")
_SUFFIX: Final = r"(?:[ui](?:8|16|32|64)|[uUlL]{1,3})?"
_NUMBER: Final = rf"(?:0[xXoO]|\\x)?-?[0-9a-fA-F]{{1,22}}{_SUFFIX}(?!\w)"
_KEY: Final = r"['\"][0-9]{1,6}['\"][ ]?:|\[[0-9]{1,6}\][ ]?=>?"
# Also the dash of a list in YAML, the keys of an object, and functions that return a character.
_BETWEEN: Final = rf"(?:{_KEY}|[\s,;:|'\"\[\](){{}}*+&]|-(?=[ \t])|\.?(?i:chr|char)(?=\())"
# The same as `(?<![\w.])` before a number. A pattern that begins with a set of characters is found twice as fast.
_FIRST_NUMBER: Final = (
    r"[-0-9a-fA-F\\](?<![\w.].)(?:(?<=[0-9a-fA-F])[0-9a-fA-F]{0,21}|(?<=0)[xXoO]-?[0-9a-fA-F]{1,22}"
    rf"|(?<=\\)x-?[0-9a-fA-F]{{1,22}}|(?<=-)[0-9a-fA-F]{{1,22}}){_SUFFIX}(?!\w)"
)
_NUMBERS = re.compile(rf"{_FIRST_NUMBER}(?:{_BETWEEN}{{1,24}}{_NUMBER})++")
_ITEM = re.compile(
    rf"{_KEY}|(?P<star>(?<=\n)[ \t]*\*(?=\r?\n))"
    r"|(?:0[xXoO]|\\x|0[bB](?=[01]{6,8}(?!\w)))?(?P<cell>-?[0-9a-fA-F]{1,22})" + _SUFFIX + r"(?!\w)"
)
_FUNCTIONS = re.compile(r"\.?(?i:cha?r(?=\()|c(?:ha?r?)?\Z)")
_LIST_CHARACTERS: Final = "0123456789abcdefABCDEFxXoOuUiIlL=> \t\r\n,;:|'\"[](){}*+-\\"


class Dump:
    """Bytes that a text shows, as hexadecimal digits or as cells, and where they stand in it."""

    def __init__(self, *, cells: bool = False) -> None:
        self.text = ""
        self.has_cells = cells
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._size = 0

    def add(self, piece: str, start: int, end: int) -> None:
        self._starts.append(self._size)
        self._spans.append((start, end))
        self._pieces.append(piece.lower())
        self._size += len(piece)

    def add_cell(self, cell: str, start: int, end: int) -> None:
        sign = "-" if cell[0] == "-" else ""
        self.add(f" {sign}{cell.lstrip('-0') or '0'}", start, end)

    def finish(self) -> Dump:
        self.text = "".join(self._pieces) + " " * self.has_cells
        return self

    def place(self, first: int, last: int, *, beside: int = 0) -> tuple[int, int]:
        """Where these characters stand in the text, with so many pieces on either side."""
        # A form of cells ends with the blank before the next one.
        begin = bisect_right(self._starts, first) - 1 - beside
        end = bisect_right(self._starts, last - 1 - self.has_cells) - 1 + beside
        return self._spans[max(0, begin)][0], self._spans[min(end, len(self._spans) - 1)][1]


def dumps(text: str) -> Iterator[Dump]:
    """The dumps in a text: hexadecimal digits in their order, with the bytes of each word exchanged, and cells."""
    lines = [(found, cells) for found in _DUMP_LINE.finditer(text) if (cells := _cells_of(found))]
    if lines:
        yield from _read_lines(lines, text)
    for found in _HEX_LIST.finditer(text):
        dump = Dump()
        for each in _HEX_ITEM.finditer(text, found.start(), found.end()):
            dump.add(each[1], each.start(), each.end())
        yield dump.finish()
    dump = Dump(cells=True)
    for found in _NUMBERS.finditer(text):
        cell = "?"
        for each in _ITEM.finditer(text, found.start(), found.end()):
            # `od` writes a star instead of lines that repeat.
            cell = each["cell"] or cell
            if each.lastgroup:
                dump.add_cell(cell, each.start(), each.end())
        dump.add(" ?", found.end(), found.end())
    if dump.finish().text.strip():
        yield dump


def _cells_of(found: re.Match[str]) -> list[str]:
    """The cells of a line without the column of text; none if it is not a line of a dump."""
    cells = found["cells"]
    if found["colon"]:
        cells = cells.partition("  ")[0]
    elif column := _TEXT_COLUMN(cells):
        cells = cells[: column.start()]
    words = cells.split()
    return words if all(map(_is_cell, words)) else []


def _read_lines(lines: list[tuple[re.Match[str], list[str]]], text: str) -> Iterator[Dump]:
    # The whole line is hidden, with the characters behind its digits.
    plain, exchanged, cells = Dump(), Dump(), Dump(cells=True)
    for found, words in lines:
        is_repeated = text.startswith("\n*\n", found.end())
        for _ in range(1 + is_repeated):
            digits = "".join(words) if all(len(word) % 2 == 0 for word in words) else "??"
            plain.add(digits, *found.span())
            exchanged.add(_exchange(digits), *found.span())
            for word in words:
                cells.add_cell(word, *found.span())
    yield from (plain.finish(), exchanged.finish(), cells.finish())


def _exchange(digits: str) -> str:
    return "".join(digits[at + 2 : at + 4] + digits[at : at + 2] for at in range(0, len(digits), 4))


# Words of a longer secret would need a lot of memory.
_LONGEST_IN_WORDS: Final = 256
_LEAST_IN_WORDS: Final = 6
_BASES: Final = "dox"


def cell_forms(value: str) -> Iterator[str]:
    """How a secret looks as a list of cells that are bytes or characters: in every base, and backwards."""
    raw = value.encode("utf-8", "surrogatepass")
    codes = [*map(ord, value)]
    signed = [byte - 256 * (byte > 127) for byte in raw]
    for base in "doxb":
        yield _list([format(byte, base) for byte in raw])
        yield _list([format(byte, base) for byte in reversed(raw)])
        yield _list([format(code, base) for code in codes])
        yield _list([format(code, base) for code in reversed(codes)])
    yield _list([str(byte) for byte in signed])


def word_forms(value: str) -> Iterator[tuple[str, bool]]:
    """The words that contain only characters of the secret, of two to eight bytes in both orders.

    Also whether the rest of the secret shares a word with other characters.
    """
    raw = value.encode("utf-8", "surrogatepass")
    for size in (2, 4, 8) if len(raw) <= _LONGEST_IN_WORDS else ():
        for first in range(size):
            places = range(first, len(raw) - size + 1, size)
            if len(places) * size < min(_LEAST_IN_WORDS, len(raw) // 2):
                continue
            is_part = len(places) * size < len(raw)
            for order in ("little", "big"):
                words = [int.from_bytes(raw[at : at + size], order) for at in places]
                yield from ((_list([format(word, base) for word in words]), is_part) for base in _BASES)
                half = 1 << 8 * size - 1
                yield _list([str(word - 2 * half * (word >= half)) for word in words]), is_part


def _list(cells: list[str]) -> str:
    return f" {' '.join(cells)} "


def undecided_dump(text: str, most: int) -> int:
    """Where the end of a text may be part of a dump in which so many characters of cells matter."""
    lowest = max(0, len(text) - 8 * most - 512)
    # Each function is replaced by as many blanks.
    tail = _FUNCTIONS.sub(lambda found: " " * len(found.group()), text[lowest:])
    best = lowest + len(tail.rstrip(_LIST_CHARACTERS))
    best = len(text) if text[best:].isspace() else best
    line = text.rfind("\n", max(0, len(text) - _LONGEST_DUMP_LINE)) + 1
    if _DUMP_BEGINS.match(text, line) and len(text) - line < _LONGEST_DUMP_LINE:
        # The lines before it belong to the same dump.
        best = min(best, line)
    while lowest < best <= line:
        before = text.rfind("\n", max(0, best - 1 - _LONGEST_DUMP_LINE), best - 1) + 1
        if before >= best - 1 or (_DUMP_LINE.match(text, before, best - 1) is None and text[before:best] != "*\n"):
            break
        best = before
    return best
