"""A resumable scanner that reads one JSON value as it arrives and finds its end.

It reads every character once, for every way to split the input. It checks the grammar, so that it detects a malformed
value at the first wrong token and not at the end of the text. It accepts two faults that leave no doubt where the value
ends: control characters inside strings, and escapes that JSON does not define.
"""

from __future__ import annotations

import re

MAX_DEPTH = 100
MAX_SIZE = 16 * 1024 * 1024

# What the scanner expects next.
_VALUE, _FIRST_ELEMENT, _FIRST_KEY, _KEY, _COLON, _NEXT, _STRING, _ATOM, _DONE = range(9)

_blanks = re.compile(r"[ \t\r\n]*").match
_string_stop = re.compile(r'["\\]').search
_atom_run = re.compile(r"[-+.0-9A-Za-z]*").match
_atom = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)\Z").match
_atom_start = frozenset("-0123456789tfn")


class JsonScanner:
    """`scan` takes a buffer and a position and returns the new position. `done` and `failed` describe the value."""

    __slots__ = ("_atom_text", "_escaped", "_is_key", "_size", "_stack", "_state", "failed")

    wakes = staticmethod(_string_stop)
    """While `in_string`, a piece without a match does not change the state, so it need not be scanned."""

    def __init__(self) -> None:
        self._state = _VALUE
        self._stack: list[bool] = []  # True for an object, False for a list
        self._is_key = False
        self._escaped = False
        self._atom_text = ""
        self._size = 0
        self.failed: str | None = None

    @property
    def done(self) -> bool:
        return self._state == _DONE

    @property
    def in_string(self) -> bool:
        """Whether the position is in a string and not after a backslash: plain text does not change the state."""
        return self._state == _STRING and not self._escaped

    def scan(self, text: str, position: int) -> int:
        """Continue at `position`; return the offset after the last character that belongs to the value."""
        start = position
        length = len(text)
        while position < length and self._state != _DONE and self.failed is None:
            if self._state == _STRING:
                position = self._scan_string(text, position, length)
            elif self._state == _ATOM:
                position = self._scan_atom(text, position)
            else:
                position = _blanks(text, position).end()  # type: ignore[union-attr]
                if position < length:
                    position = self._scan_token(text, position)
        self._size += position - start
        if self._size > MAX_SIZE and self.failed is None:
            self.failed = f"the value is larger than {MAX_SIZE} characters"
        return position

    def end(self) -> None:
        """End the text: a number or literal at the top level is complete now."""
        if self._state == _ATOM and not self._stack:
            self._close_atom()

    def _scan_string(self, text: str, position: int, length: int) -> int:
        if self._escaped:
            self._escaped = False
            position += 1
        while True:
            stop = _string_stop(text, position)
            if stop is None:
                return length
            position = stop.end()
            if stop.group() == '"':
                self._state = _COLON if self._is_key else self._after_value()
                return position
            if position == length:
                self._escaped = True
                return length
            position += 1

    def _scan_atom(self, text: str, position: int) -> int:
        end = _atom_run(text, position).end()  # type: ignore[union-attr]
        self._atom_text += text[position:end]
        if len(self._atom_text) > 1000:
            self.failed = "a number of more than 1000 characters"
        elif end < len(text):
            self._close_atom()
        return end

    def _close_atom(self) -> None:
        if _atom(self._atom_text):
            self._atom_text = ""
            self._state = self._after_value()
        else:
            self.failed = f"{self._atom_text[:20]!r} is not a JSON value"

    def _scan_token(self, text: str, position: int) -> int:
        character = text[position]
        state = self._state
        if state in (_VALUE, _FIRST_ELEMENT):
            if state == _FIRST_ELEMENT and character == "]":
                self._stack.pop()
                self._state = self._after_value()
                return position + 1
            return self._open_value(character, position)
        if state == _COLON and character == ":":
            self._state = _VALUE
        elif state == _NEXT and character == ",":
            self._state = _KEY if self._stack[-1] else _VALUE
        elif character == ("}" if self._stack[-1] else "]") and state in (_NEXT, _FIRST_KEY):
            self._stack.pop()
            self._state = self._after_value()
        elif character == '"' and state in (_KEY, _FIRST_KEY):
            self._is_key = True
            self._state = _STRING
        else:
            self.failed = f"{character!r} does not fit here"
            return position
        return position + 1

    def _open_value(self, character: str, position: int) -> int:
        if character == '"':
            self._is_key = False
            self._state = _STRING
        elif character in "{[":
            if len(self._stack) >= MAX_DEPTH:
                self.failed = f"nested deeper than {MAX_DEPTH}"
                return position
            self._stack.append(character == "{")
            self._state = _FIRST_KEY if character == "{" else _FIRST_ELEMENT
        elif character in _atom_start:
            self._state = _ATOM
            return position
        else:
            self.failed = f"{character!r} does not start a JSON value"
            return position
        return position + 1

    def _after_value(self) -> int:
        return _NEXT if self._stack else _DONE
