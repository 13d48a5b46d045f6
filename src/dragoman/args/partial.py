"""`PartialObject`: reads one JSON object while it grows, and reports which part grew.

It reads every character once, however the text is cut into pieces, so a piece costs the same at the end of a long
argument as at its beginning. The grammar is strict JSON with the limits of `decode`. Invalid text stops the reader: it
reports the reason and keeps the value so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from dragoman.args.decoder import MAX_DEPTH, Undecodable, decode
from dragoman.types import JsonObject

_BLANKS = re.compile(r"[ \t\n\r]*")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_NUMBER_TEXT = re.compile(r"[-+.0-9eE]*")
# An incomplete escape; the first surrogate of a pair needs the second.
_ESCAPE_BEGINS = re.compile(r"\\(?:u.{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u.{0,3})?)?)?", re.DOTALL)
_WORDS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}

_Expected = Literal["object", "first member", "key", "colon", "value", "comma", "end"]
_SIGNS = {"object": "{", "key": '"', "colon": ":", "comma": ",", "end": ""}
_FAULTS = {
    "object": "expected an object",
    "key": "expected a key, got {!r}",
    "colon": "expected a colon, got {!r}",
    "comma": "expected a comma, got {!r}",
    "end": "text after the object",
}

Path = tuple[str | int, ...]


class PartialUpdate(Struct, frozen=True):
    """One part of the object that grew or was finished by the last piece."""

    path: Path
    """Keys and indexes from the top, such as ("files", 0, "text")."""
    delta: str = ""
    """The characters that a string gained, unescaped; empty for everything else."""
    complete: bool = False
    value: Any = None
    """The whole value once it is complete; None for a string that still grows."""


class PartialObject:
    """Reads one JSON object while it grows. `feed` takes the pieces; `value` can be read at any time.

    `value` is always the same dict, which grows with the text: copy it to keep a state. It contains the known part of
    a string that is still open; numbers, true, false and null appear when they are complete.
    """

    def __init__(self) -> None:
        self._root: JsonObject = {}
        self._containers: list[Any] = []
        self._steps: list[str | int] = []  # One entry for each open container: the current member.
        self._expected: _Expected = "object"
        self._inside: Callable[[str, int], int] | None = None  # The reader of the open scalar, if any.
        self._parts: list[str] = []
        self._fresh = 0  # The index in the parts at which the text of this piece begins.
        self._shown = True  # Whether `value` contains the current text of the open string.
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
        """Whether the closing brace has been read, and only white space after it."""
        return self._failed is None and self._expected == "end"

    @property
    def failed(self) -> str | None:
        """Why the text is not a JSON object; None while it may still become one."""
        return self._failed

    @property
    def growing(self) -> Path | None:
        """The path of the open string, if any."""
        return self._growing

    def feed(self, piece: str) -> list[PartialUpdate]:
        """Take the next characters; return the parts that grew, in order, each string at most once."""
        self._grown = []
        self._fresh = len(self._parts)
        position, end = 0, len(piece)
        while position < end and self._failed is None:
            if self._inside is not None:
                position = self._inside(piece, position)
                continue
            match = _BLANKS.match(piece, position)
            position = match.end() if match is not None else position
            if position < end and self._take(piece[position]):
                position += 1
        if self._growing is not None:
            delta = "".join(self._parts[self._fresh :])
            if delta:
                self._grown.append(PartialUpdate(self._growing, delta))
        return self._grown

    # ---- between scalars ---------------------------------------------------------------------------------------------

    def _take(self, character: str) -> bool:
        """Read one character; return False if it begins a number or a word, which has its own reader."""
        expected = self._expected
        in_object = bool(self._containers) and type(self._containers[-1]) is dict
        if expected in ("first member", "comma") and character == ("}" if in_object else "]"):
            return self._close()
        if expected == "first member":
            expected = "key" if in_object else "value"
        if expected == "value":
            return self._begin_value(character)
        if character != _SIGNS[expected]:
            self._fail(_FAULTS[expected].format(character))
        elif expected == "object":
            self._open(self._root)
        elif expected == "key":
            self._begin_string(in_key=True)
        elif expected == "colon":
            self._expected = "value"
        elif in_object:
            self._expected = "key"
        else:
            self._steps[-1] += 1  # type: ignore[operator]  # In a list the step is a position.
            self._expected = "value"
        return True

    def _begin_value(self, character: str) -> bool:
        if character == '"':
            self._put("")
            self._begin_string(in_key=False)
        elif character in "{[":
            self._open(self._put({} if character == "{" else []))
        elif character in _WORDS:
            self._word = _WORDS[character]
            self._inside = self._in_word
            return False
        elif character in "-0123456789":
            self._inside = self._in_number
            return False
        else:
            self._fail(f"expected a value, got {character!r}")
        return True

    # ---- inside of scalars: each takes the piece and a position in it, and returns the position it came to -----------

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
            self._inside = self._in_escape
        elif piece[end] == '"':
            self._end_string()
        else:
            self._fail(f"the character {piece[end]!r} in a string")
        return end + 1

    def _in_escape(self, piece: str, position: int) -> int:
        self._escape += piece[position]
        if not _ESCAPE_BEGINS.fullmatch(self._escape):
            try:
                self._parts.append(decode(f'"{self._escape}"'))
            except Undecodable as error:
                half = "a lone surrogate"
                self._fail(half if error.why == "lone surrogate" else f"the escape {self._escape!r}")
                return position + 1
            self._shown = self._in_key
            self._inside = self._in_string
        return position + 1

    def _in_number(self, piece: str, position: int) -> int:
        match = _NUMBER_TEXT.match(piece, position)
        end = match.end() if match is not None else position
        self._parts.append(piece[position:end])
        if end < len(piece):
            text = "".join(self._parts)
            try:
                self._put_scalar(decode(text))
            except Undecodable:
                self._fail(f"the number {text[:40]}")
        return end

    def _in_word(self, piece: str, position: int) -> int:
        word, value = self._word
        have = len(self._parts)
        self._parts.append(piece[position])
        if piece[position] != word[have]:
            self._fail(f"expected {word}")
        elif have + 1 == len(word):
            self._put_scalar(value)
        return position + 1

    # ---- what happens there ----------------------------------------------------------------------------------------

    def _begin_string(self, *, in_key: bool) -> None:
        self._in_key = in_key
        self._growing = None if in_key else tuple(self._steps)
        self._fresh = 0
        self._inside = self._in_string

    def _end_string(self) -> None:
        text = "".join(self._parts)
        if self._growing is not None:
            delta = "".join(self._parts[self._fresh :])
            self._grown.append(PartialUpdate(self._growing, delta, True, text))
            self._containers[-1][self._steps[-1]] = text
            self._shown = True
            self._growing = None
            self._expected = "comma"
        elif text in self._containers[-1]:
            self._fail(f"the key {text[:40]!r} twice")
        else:
            self._in_key = False
            self._steps[-1] = text
            self._expected = "colon"
        self._parts = []
        self._inside = None

    def _put(self, value: Any) -> Any:
        container = self._containers[-1]
        if type(container) is dict:
            container[self._steps[-1]] = value
        else:
            container.append(value)
        return value

    def _put_scalar(self, value: Any) -> None:
        self._parts = []
        self._inside = None
        self._expected = "comma"
        self._put(value)
        self._grown.append(PartialUpdate(tuple(self._steps), "", True, value))

    def _open(self, container: Any) -> None:
        if len(self._containers) >= MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
            return
        self._containers.append(container)
        self._steps.append("" if type(container) is dict else 0)
        self._expected = "first member"

    def _close(self) -> bool:
        container = self._containers.pop()
        self._steps.pop()
        self._grown.append(PartialUpdate(tuple(self._steps), "", True, container))
        self._expected = "comma" if self._containers else "end"
        return True

    def _fail(self, why: str) -> None:
        """Stop the reader; the text of the open string so far stays visible."""
        _ = self.value
        self._growing = None
        self._failed = why
