"""One JSON object while it is still being written: what is there so far, and which part of it grew.

Every character is looked at once, however the text is cut into pieces, so following a long argument costs the same
per piece at its end as at its beginning. The grammar is strict JSON with the limits of `decode`; text that breaks it
stops the reader, which then says why and keeps what it had.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isinf
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import MAX_DEPTH, MAX_DIGITS
from dragoman.types import JsonObject

_BLANKS = re.compile(r"[ \t\n\r]*")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_NUMBER_TEXT = re.compile(r"[-+.0-9eE]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}

Path = tuple[str | int, ...]


class PartialUpdate(Struct, frozen=True):
    """One part of the object that grew or was finished by the last piece."""

    path: Path
    """Keys and positions from the top, such as ("files", 0, "text")."""
    delta: str = ""
    """The characters that a string gained, unescaped; empty for everything else."""
    complete: bool = False
    value: Any = None
    """The whole value once it is complete; a string that is still growing leaves this None."""


class PartialObject:
    """Reads one JSON object as it grows. Feed it pieces; look at `value` whenever you like.

    `value` is the same dict all along, filled as the text comes in: copy it to keep a moment. A string that is still
    open stands in it with what is known; numbers, true, false and null appear when they are complete.

    It is there for partial answers: arguments and typed answers that a program shows while the model writes them.
    """

    __slots__ = (
        "_containers",
        "_escape",
        "_failed",
        "_fresh",
        "_growing",
        "_grown",
        "_in_key",
        "_next",
        "_parts",
        "_root",
        "_shown",
        "_steps",
        "_word",
    )

    def __init__(self) -> None:
        self._root: JsonObject = {}
        self._containers: list[Any] = []
        self._steps: list[str | int] = []  # One for each open container: the member that is being read.
        self._next: Callable[[str, int], int] = self._at_start
        self._parts: list[str] = []
        self._fresh = 0  # Where in the parts the text of this piece begins.
        self._shown = True  # Whether `value` has the open string as it stands.
        self._in_key = False
        self._growing: Path | None = None
        self._escape = ""
        self._word = ("", None)
        self._grown: list[PartialUpdate] = []
        self._failed: str | None = None

    @property
    def value(self) -> JsonObject:
        """The object so far."""
        if not self._shown:
            text = "".join(self._parts)
            self._parts = [text]
            self._containers[-1][self._steps[-1]] = text
            self._shown = True
        return self._root

    @property
    def complete(self) -> bool:
        """Whether the closing brace has been read, and nothing after it that does not belong."""
        return self._failed is None and self._next == self._at_end

    @property
    def failed(self) -> str | None:
        """Why the text is no JSON object; None while it still may be one."""
        return self._failed

    @property
    def growing(self) -> Path | None:
        """The path of the string that is being written, if one is."""
        return self._growing

    def feed(self, piece: str) -> list[PartialUpdate]:
        """Take the next characters, and return what grew, in order; a string at most once."""
        if self._failed is not None:
            return []
        self._grown = []
        self._fresh = len(self._parts)
        position, end = 0, len(piece)
        while position < end:
            position = self._next(piece, position)
        if self._growing is not None:
            delta = "".join(self._parts[self._fresh :])
            if delta:
                self._grown.append(PartialUpdate(self._growing, delta))
        return self._grown

    # ---- places in the grammar: each takes the piece and a position in it, and returns the position it came to -----

    def _at_start(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position < len(piece):
            if piece[position] != "{":
                return self._fail("expected an object", piece)
            self._open(self._root)
        return position + 1

    def _at_end(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        return self._fail("text after the object", piece) if position < len(piece) else position

    def _at_value(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position == len(piece):
            return position
        character = piece[position]
        if character == '"':
            self._put("")
            self._begin_string(in_key=False)
        elif character in "{[":
            self._open(self._put({} if character == "{" else []))
        elif character in _WORDS:
            self._word = _WORDS[character]
            self._parts = []
            self._next = self._in_word
            return position
        elif character in "-0123456789":
            self._parts = []
            self._next = self._in_number
            return position
        else:
            return self._fail(f"expected a value, got {character!r}", piece)
        return position + 1

    def _at_first_member(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position == len(piece):
            return position
        if piece[position] == ("}" if type(self._containers[-1]) is dict else "]"):
            return self._close(position)
        self._next = self._at_key if type(self._containers[-1]) is dict else self._at_value
        return position

    def _at_key(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position < len(piece):
            if piece[position] != '"':
                return self._fail(f"expected a key, got {piece[position]!r}", piece)
            self._begin_string(in_key=True)
        return position + 1

    def _at_colon(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position < len(piece):
            if piece[position] != ":":
                return self._fail(f"expected a colon, got {piece[position]!r}", piece)
            self._next = self._at_value
        return position + 1

    def _after_member(self, piece: str, position: int) -> int:
        position = _skip_blanks(piece, position)
        if position == len(piece):
            return position
        in_object = type(self._containers[-1]) is dict
        if piece[position] == ("}" if in_object else "]"):
            return self._close(position)
        if piece[position] != ",":
            return self._fail(f"expected a comma, got {piece[position]!r}", piece)
        if in_object:
            self._next = self._at_key
        else:
            self._steps[-1] += 1  # type: ignore[operator]  # In a list the step is a position.
            self._next = self._at_value
        return position + 1

    # ---- inside of scalars -----------------------------------------------------------------------------------------

    def _in_string(self, piece: str, position: int) -> int:
        match = _PLAIN_TEXT.match(piece, position)
        end = match.end() if match is not None else position
        if end > position:
            self._parts.append(piece[position:end])
            self._shown = self._in_key
        if end == len(piece):
            return end
        if piece[end] == "\\":
            self._escape = "\\"
            self._next = self._in_escape
        elif piece[end] == '"':
            return self._end_string(piece, end)
        else:
            return self._fail(f"the character {piece[end]!r} in a string", piece)
        return end + 1

    def _in_escape(self, piece: str, position: int) -> int:
        self._escape += piece[position]
        escape = self._escape
        if len(escape) == 2 and escape[1] != "u":
            character = _ESCAPES.get(escape[1])
        elif len(escape) in (6, 12):
            if not _HEX.fullmatch(escape, len(escape) - 4):
                return self._fail(f"the escape {escape!r}", piece)
            character = _unescape(escape)
            if character is None and len(escape) == 6 and escape[2] in "dD" and escape[3] in "89abAB":
                return position + 1  # The first half of a character: the other must follow.
        elif len(escape) in (7, 8) and not "\\u".startswith(escape[6:]):
            return self._fail("half a character (a lone surrogate)", piece)
        else:
            return position + 1
        if character is None:
            return self._fail(f"the escape {escape!r}", piece)
        self._parts.append(character)
        self._shown = self._in_key
        self._next = self._in_string
        return position + 1

    def _in_number(self, piece: str, position: int) -> int:
        match = _NUMBER_TEXT.match(piece, position)
        end = match.end() if match is not None else position
        self._parts.append(piece[position:end])
        if end < len(piece):
            text = "".join(self._parts)
            number = _read_number(text)
            if number is None:
                return self._fail(f"the number {text[:40]}", piece)
            self._put_scalar(number)
        return end

    def _in_word(self, piece: str, position: int) -> int:
        word, value = self._word
        have = len(self._parts)
        self._parts.append(piece[position])
        if piece[position] != word[have]:
            return self._fail(f"expected {word}", piece)
        if have + 1 == len(word):
            self._put_scalar(value)
        return position + 1

    # ---- what happens there ----------------------------------------------------------------------------------------

    def _begin_string(self, *, in_key: bool) -> None:
        self._in_key = in_key
        self._growing = None if in_key else tuple(self._steps)
        self._parts = []
        self._fresh = 0
        self._shown = True
        self._next = self._in_string

    def _end_string(self, piece: str, position: int) -> int:
        text = "".join(self._parts)
        if self._growing is not None:
            delta = "".join(self._parts[self._fresh :])
            self._grown.append(PartialUpdate(self._growing, delta, True, text))
            self._containers[-1][self._steps[-1]] = text
            self._shown = True
            self._growing = None
            self._next = self._after_member
        elif text in self._containers[-1]:
            return self._fail(f"the key {text[:40]!r} twice", piece)
        else:
            self._in_key = False
            self._steps[-1] = text
            self._next = self._at_colon
        self._parts = []
        return position + 1

    def _put(self, value: Any) -> Any:
        container = self._containers[-1]
        if type(container) is dict:
            container[self._steps[-1]] = value
        else:
            container.append(value)
        return value

    def _put_scalar(self, value: Any) -> None:
        self._parts = []
        self._put(value)
        self._grown.append(PartialUpdate(tuple(self._steps), "", True, value))
        self._next = self._after_member

    def _open(self, container: Any) -> None:
        if len(self._containers) >= MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels", "")
            return
        self._containers.append(container)
        self._steps.append("" if type(container) is dict else 0)
        self._next = self._at_first_member

    def _close(self, position: int) -> int:
        container = self._containers.pop()
        self._steps.pop()
        self._grown.append(PartialUpdate(tuple(self._steps), "", True, container))
        self._next = self._after_member if self._containers else self._at_end
        return position + 1

    def _fail(self, why: str, piece: str) -> int:
        """Stop for good, and skip the rest of the piece."""
        _ = self.value  # What the open string had so far stays visible.
        self._growing = None
        self._failed = why
        self._next = self._stopped
        return len(piece)

    def _stopped(self, piece: str, position: int) -> int:
        return len(piece)


def _skip_blanks(piece: str, position: int) -> int:
    match = _BLANKS.match(piece, position)
    return match.end() if match is not None else position


def _unescape(escape: str) -> str | None:
    """The character of `\\uXXXX` or of a surrogate pair; None when it is half a character."""
    code = int(escape[-4:], 16)
    if len(escape) == 6:
        return None if 0xD800 <= code < 0xE000 else chr(code)
    if not 0xDC00 <= code < 0xE000:
        return None
    return chr(0x10000 + ((int(escape[2:6], 16) - 0xD800) << 10) + (code - 0xDC00))


def _read_number(text: str) -> int | float | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if match[1] == text:
        return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else None
    number = float(text)
    return None if isinf(number) else number
