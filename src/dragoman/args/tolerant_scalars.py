"""The state of a tolerant reader, and the values without parts: strings, numbers, words; and what stands between."""

from __future__ import annotations

import re
from typing import Any

from dragoman.args.decode import MAX_DEPTH, MAX_DIGITS, Undecodable, has_surrogate, raw_decode, read_float, read_integer
from dragoman.args.tolerant_expressions import NOT_FINITE, read_expression
from dragoman.args.tolerant_quotes import Place, fits, plain_string
from dragoman.args.tolerant_strings import Unreadable, has_control, read_string

_blanks = re.compile(r"\s*+").match
_comments = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?s:.*?)\*/)*+").match
_plain_number = re.compile(
    r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?=[ \t\r\n]*+[,\])}]|\Z)"
).match
_odd_number = re.compile(
    r"[+-]?(?:(?P<base>0[xX][0-9a-fA-F_]++|0[oO][0-7_]++|0[bB][01_]++)"
    r"|(?=\.?[0-9])[0-9]*+(?:_[0-9]++)*+(?P<fraction>(?:\.[0-9_]*+)?(?:[eE][+-]?[0-9]++)?))(?!\w)"
).match
_word = re.compile(r"[^\W\d]\w*+").match
_prefix = re.compile(r"[rbfuRBFU]{1,2}(?=[\"'])").match
_embeds = re.compile(r"\"\s*+[\[{][\[{\s]*+\"").match
_string_continues = re.compile(r"\s*+(?:\+\s*+)?(?=[rbfuRBFU]{0,2}[\"'])").match
# What may follow a value if it is not the beginning of an expression. `7 // 2` is a sum, `7 // seven` is commented.
value_ends = re.compile(r"[ \t]*+(?:[,)\]}\r\n#]|/\*|//(?!\s*+[\d(])|\Z)").match

_JSON_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS = {
    **_JSON_LITERALS,
    **{"True": True, "False": False, "None": None, "undefined": None, "TRUE": True, "FALSE": False, "NULL": None},
}
_ENDS = frozenset(",)]}")
_INSIDE = frozenset(("member", "item", "argument"))
_LARGEST = 10**MAX_DIGITS


class Scalars:
    """Reads everything but lists and objects; notes in `_rules` what was repaired."""

    __slots__ = ("_ascii", "_closing", "_embeddable", "_expressions", "_open", "_python", "_rules", "max_depth", "text")

    def __init__(
        self,
        text: str,
        *,
        max_depth: int = MAX_DEPTH,
        python: bool = False,
        expressions: bool | None = None,
        closing: bool = False,
    ) -> None:
        self.text = text
        self.max_depth = max_depth
        self._python = python
        self._expressions = python if expressions is None else expressions
        self._closing = closing
        self._rules: dict[str, None] = {}
        self._open: list[str] = []
        self._ascii = text.isascii()
        self._embeddable = 0

    @property
    def rules(self) -> list[str]:
        """The names of the repairs used so far, in order, each once."""
        return list(self._rules)

    def _skip(self, position: int) -> int:
        """Past blanks and comments."""
        text = self.text
        blanks = _blanks(text, position)
        end = blanks.end() if blanks is not None else position
        char = text[end : end + 1]
        if char != "/" and char != "#":
            return end
        comments = _comments(text, end)
        if comments is None or comments.end() == end:
            return end
        if char == "/" or not self._python:
            self._rules["comment"] = None
        return comments.end()

    # ---- strings -----------------------------------------------------------------------------------------------------

    def _string(self, position: int, place: Place, depth: int, raw: bool = False) -> tuple[str, int]:
        text = self.text
        quote = text[position]
        plain = plain_string(place, quote, depth == 1, self._expressions).match(text, position)
        if plain is None:
            value, end = self._odd_string(position, place, depth, raw)
        else:
            value = plain[1]
            end = plain.end()
            if quote == "'":
                if not self._python:
                    self._rules["single_quotes"] = None
            elif quote != '"':
                self._rules["backtick_quotes" if quote == "`" else "smart_quotes"] = None
            if not self._ascii and has_surrogate(value):
                raise Unreadable("lone surrogate", position)
        if text[end : end + 1] not in _ENDS and (place == "argument" or self._expressions):
            return self._continued(position, value, end, place, depth)
        return value, end

    def _odd_string(self, position: int, place: Place, depth: int, raw: bool) -> tuple[str, int]:
        embedded = self._embedded_json(position, place, depth)
        if embedded is not None:
            return embedded
        return read_string(
            self.text,
            position,
            place,
            rules=self._rules,
            outermost=depth == 1,
            python=self._python,
            names=self._expressions,
            raw=raw,
            closers="".join(reversed(self._open)) if self._closing else None,
        )

    def _embedded_json(self, position: int, place: Place, depth: int) -> tuple[str, int] | None:
        """A string that holds JSON whose quotes were not escaped: `"{"a": 1}"`. None if there is no such thing here."""
        text = self.text
        if position < self._embeddable or place not in _INSIDE or _embeds(text, position) is None:
            return None
        try:
            _, end = raw_decode(text, position + 1)
        except Undecodable as error:
            # What was looked at in vain is not looked at again, so that the whole stays linear.
            self._embeddable = error.position if error.position > position + 1 else len(text)
            return None
        blanks = _blanks(text, end)
        end = blanks.end() if blanks is not None else end
        if text[end : end + 1] != '"' or fits(place, '"', depth == 1, self._expressions).match(text, end + 1) is None:
            self._embeddable = end
            return None
        self._rules["escaped_quotes"] = None
        if has_control(text, position, end):
            self._rules["raw_newline"] = None
        return text[position + 1 : end], end + 1

    def _prefixed_string(self, position: int, place: Place, depth: int) -> tuple[str, int] | None:
        """A string with one of Python's prefixes, `r"\\d"`, or None if there is no such thing here."""
        prefix = _prefix(self.text, position)
        if prefix is None:
            return None
        if not self._python:
            self._rules["python_literals"] = None
        return self._string(prefix.end(), place, depth, "r" in prefix[0].lower())

    def _continued(self, start: int, value: str, end: int, place: Place, depth: int) -> tuple[str, int]:
        """Strings side by side are one string in Python, inside parentheses; `"a" + "b"` is one everywhere."""
        text = self.text
        pieces = [value]
        while place in ("argument", "item"):
            joint = _string_continues(text, end)
            if joint is None or (place == "item" and "+" not in joint[0]):
                break
            prefix = _prefix(text, joint.end())
            quote = joint.end() if prefix is None else prefix.end()
            value, end = self._odd_string(quote, place, depth, prefix is not None and "r" in prefix[0].lower())
            pieces.append(value)
        if len(pieces) > 1:
            if not self._python:
                self._rules["joined_strings"] = None
            value = "".join(pieces)
        if self._expressions and place in _INSIDE and value_ends(text, end) is None:
            expression, end = read_expression(text, start, self._rules)
            return str(expression), end
        return value, end

    # ---- numbers and words -------------------------------------------------------------------------------------------

    def _word_or_number(self, position: int) -> tuple[Any, int]:
        text = self.text
        plain = _plain_number(text, position)
        try:
            if plain is not None:
                return (read_float(plain[0]) if plain[2] else read_integer(plain[1])), plain.end()
            word = _word(text, position)
            if word is not None:
                if word[0] in _LITERALS and (not self._expressions or value_ends(text, word.end()) is not None):
                    return self._literal(word[0]), word.end()
            else:
                odd = _odd_number(text, position)
                if odd is not None and (not self._expressions or value_ends(text, odd.end()) is not None):
                    return self._read_odd_number(odd), odd.end()
        except ValueError as error:
            raise Unreadable(str(error), position) from None
        if self._expressions:
            return read_expression(text, position, self._rules)
        if word is not None and word[0].lower() in NOT_FINITE:
            raise Unreadable("not a finite number", position)
        raise Unreadable("expected a value", position, cut=position >= len(text))

    def _literal(self, name: str) -> bool | None:
        if not self._python and name not in _JSON_LITERALS:
            self._rules["python_literals"] = None
        return _LITERALS[name]

    def _read_odd_number(self, found: re.Match[str]) -> int | float | str:
        digits = found[0].replace("_", "")
        unsigned = digits.lstrip("+-")
        if len(unsigned) > 1 and unsigned[0] == "0" and unsigned.isdigit():
            # A postal code or an identifier: as a number it would lose its zeros.
            self._rules["expression_as_text"] = None
            return found[0]
        if not self._python and _plain_number(found[0]) is None:
            self._rules["number_spelling"] = None
        if found["base"] is not None:
            value = int(digits, 0)
            if abs(value) >= _LARGEST:
                raise ValueError(f"integer of more than {MAX_DIGITS} digits")
            return value
        return read_float(digits) if found["fraction"] else read_integer(digits)
