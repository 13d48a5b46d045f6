"""Putting one text in place of another, on the bytes of a file: what is not replaced stays as it is, bit by bit."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.builtin.files.encodings import PLAIN, Encoding, encoding_of, line_end_of, places_of

_BARE_LINE_END = re.compile(r"(?<!\r)\n")


class Substitution(Struct, frozen=True):
    """Where a text was found, and the content with the other one in its place."""

    places: list[int]
    """Offsets in the old content."""
    content: bytes
    encoding: Encoding
    crlf: bool = False
    """Line ends were taken for CR LF, as they are in the file."""

    def line_of(self, old: bytes, place: int) -> int:
        return len(places_of(old[:place], self.encoding.encode("\n"), self.encoding.width)) + 1


def substitute(content: bytes, old: str, new: str) -> Substitution | None:
    """The content with every `old` replaced; None where there is none. Raises UnicodeEncodeError where the encoding of
    the file does not hold the new text.

    The texts are put into the encoding of the file. In a file whose lines end in CR LF, a line end of the texts means
    CR LF as well; in a mixed one it means what is there.
    """
    for encoding in _readings(content):
        line_end = line_end_of(content, encoding)
        spellings = [(old, new, False)]
        if line_end != "\n" and "\n" in old + new:
            crlf = (_BARE_LINE_END.sub("\r\n", old), _BARE_LINE_END.sub("\r\n", new), True)
            # A text without a line end is found either way: then the new one goes by how the whole file is.
            spellings = [crlf] if line_end == "\r\n" else [*spellings, crlf]
        for wanted, replacement, is_crlf in spellings:
            found = _substitute(content, wanted, replacement, encoding)
            if found is not None:
                changed = is_crlf and (wanted, replacement) != (old, new)
                return Substitution(*found, encoding, changed)
    return None


def _readings(content: bytes) -> list[Encoding]:
    """The encodings to look in: a file that is not UTF-8 throughout may still be so in the lines that were shown."""
    encoding = encoding_of(content)
    return [encoding, PLAIN] if encoding.name == "latin-1" else [encoding]


def _substitute(content: bytes, old: str, new: str, encoding: Encoding) -> tuple[list[int], bytes] | None:
    try:
        wanted = encoding.encode(old)
    except UnicodeEncodeError:
        return None
    places = places_of(content, wanted, encoding.width)
    if not places:
        return None
    replacement = encoding.encode(new)
    pieces: list[bytes] = []
    at = 0
    for place in places:
        pieces += (content[at:place], replacement)
        at = place + len(wanted)
    return places, b"".join([*pieces, content[at:]])
