"""The tolerant reader of malformed JSON, JSON5, Python literals and JavaScript; every repair has a name."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import MAX_DEPTH, Undecodable, decode, has_surrogate, raw_decode
from dragoman.args.tolerant_scalars import (
    CLOSING_QUOTES,
    Place,
    ScalarReader,
    Unreadable,
    read_expression,
    read_string,
    value_ends,
)
from dragoman.characters import TOKENIZER_BLANKS

# --------------------------------------------------------------------------------------------------------------------
# The reader accepts one value in a union of JSON, JSON5, Python literals and JavaScript.
#
# It reads in one pass from left to right and never goes back further than the current value. Each deviation from JSON
# adds the name of a repair to `rules`. In Python mode, valid Python is not a deviation.

__all__ = ["TolerantReader", "Unreadable"]

_member = re.compile(r"""\s*+(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'|([^\W\d]\w*+))\s*+:\s*+(?![/#])""").match
_bare_key = re.compile(r"(?:[\w$]|\\_)(?:[\w$.-]|\\_)*+").match
_half_quoted = re.compile(r"([^\W\d][\w.-]{0,99}) ?[=:] ?\Z").match
_colon = re.compile(r"\s*+(?::|=>?)").match
_set_opens = re.compile(r"""\{\s*+(?:"[^"\\\n]*+"|'[^'\\\n]*+'|[\w.+-]++)\s*+[,}]""").match
_keyword = re.compile(r"\s*+([^\W\d]\w*+)\s*+=(?!=)\s*+(?![/#])").match
_odd_keyword = re.compile(
    r"""(?:"([^"\\\n]*+)"|'([^'\\\n]*+)'|(?!lambda\b)((?:[^\W\d]|\\_)(?:[\w.-]|\\_)*+))\s*+(?:=(?!=)|:(?!//))"""
).match
_type_name = re.compile(
    r"\s*+(?:str|int|float|bool|list|dict|tuple|set|bytes|object|Any|List|Dict|Tuple|Set|Optional|Union|Literal|Callable"
    r"|string|number|integer|boolean|array|types\.\w+)(?![\w(])"
).match
_markup_follows = re.compile(r"[ \t]*+(?:</|<[|｜]|<\w*[|｜]>|/?>|\[/|`)").match
"""Matches the markup around a whole value: unlike an operator, it does not make the value a part of an expression."""
_JSON_OPENINGS = ('{"', '["', "[{", "[[")


class TolerantReader(ScalarReader):
    """Reads values in one text.

    `python` selects the Python dialect. `expressions` (on in Python) also reads names, arithmetic and `dict(a=1)`.
    `closing` adds missing brackets and a missing quote at the end; use it only for a text that is not truncated.
    """

    __slots__ = ()

    def value(self, position: int = 0, *, whole: bool = False) -> tuple[Any, int]:
        """Read the value at `position`, after blanks and comments; return it and its end; raises `Unreadable`.

        With `whole`, a string ends only at the end of the text, so quotes inside it need no escape.
        """
        self._open.clear()
        try:
            position = self._skip(position)
            if whole:
                return self._value(position, "whole", 0)
            return self._json_or_value(position, "alone", 0)
        except RecursionError:
            raise Unreadable("nested too deep", position) from None

    def arguments(self, position: int = 0, closer: str = ")") -> tuple[list[Any], dict[str, Any], int]:
        """Read the arguments of a call up to and including its closing bracket; raises `Unreadable`.

        Returns the positional arguments, the named arguments and the end. A single object in place of the arguments,
        `({...})`, counts as named arguments, with the repair `object_as_arguments`.
        """
        self._open.clear()
        try:
            positional, keywords, end = self._arguments(position, closer, 1)
        except RecursionError:
            raise Unreadable("nested too deep", position) from None
        if len(positional) == 1 and not keywords and isinstance(positional[0], dict):
            self._rules["object_as_arguments"] = None
            return [], positional[0], end
        return positional, keywords, end

    # ---- values ------------------------------------------------------------------------------------------------------

    def _json_or_value(self, position: int, place: Place, depth: int) -> tuple[Any, int]:
        """Try the fast scanner first if an object or a list looks like JSON, once for each outermost value."""
        if self.text.startswith(_JSON_OPENINGS, position) and self.max_depth >= MAX_DEPTH:
            try:
                value, end = raw_decode(self.text, position)
            except Undecodable:
                pass
            else:
                if not self._expressions or value_ends(self.text, end) is not None:
                    return value, end
        return self._value(position, place, depth)

    def _value(self, position: int, place: Place, depth: int) -> tuple[Any, int]:
        text = self.text
        char = text[position : position + 1]
        if char in CLOSING_QUOTES:
            return self._string(position, place, depth)
        if char == "[" or char == "{" or char == "(":
            value, end = self._container(char, position, depth + 1)
        elif char in "rbfuRBFU" and (prefixed := self._prefixed_string(position, place, depth)) is not None:
            return prefixed
        elif char == "d" and self._expressions and text.startswith("dict(", position):
            value, end = self._dict_call(position, depth + 1)
        elif char == "<" and (quoted := self._token_string(position)) is not None:
            return quoted
        else:
            return self._word_or_number(position)
        if self._expressions and value_ends(text, end) is None and (depth or _markup_follows(text, end) is None):
            return read_expression(text, position, self._rules)
        return value, end

    def _dict_call(self, start: int, depth: int) -> tuple[Any, int]:
        noted = dict(self._rules)
        positional, keywords, end = self._arguments(start + len("dict("), ")", depth)
        if positional:
            self._rules = noted
            return read_expression(self.text, start, self._rules)
        return keywords, end

    # ---- containers --------------------------------------------------------------------------------------------------

    def _container(self, char: str, position: int, depth: int) -> tuple[Any, int]:
        self._check_depth(position, depth)
        if char == "{":
            if self.text.startswith("{", position + 1):
                return self._doubled_object(position, depth)
            if self._expressions and _set_opens(self.text, position) is not None:
                return self._items(position + 1, "}", "item", depth)[:2]
            return self._object(position + 1, depth)
        if char == "[":
            items, end, _ = self._items(position + 1, "]", "item", depth)
            if self._expressions and len(items) == 1 and self._is_comprehension(position + 1, items[0]):
                return read_expression(self.text, position, self._rules)
            return items, end
        items, end, commas = self._items(position + 1, ")", "argument", depth)
        if len(items) == 1 and not commas:
            return items[0], end
        if not self._python:
            self._rules["python_literals"] = None
        return items, end

    def _doubled_object(self, position: int, depth: int) -> tuple[Any, int]:
        """Read `{{...}}`: a template writes each brace twice, and the model copies that."""
        value, end = self._object(position + 2, depth)
        end = self._skip(end)
        if not self.text.startswith("}", end):
            raise Unreadable("expected a second '}'", end, cut=end >= len(self.text))
        self._rules["doubled_braces"] = None
        return value, end + 1

    def _check_depth(self, position: int, depth: int) -> None:
        if depth > self.max_depth:
            raise Unreadable(f"nested deeper than {self.max_depth}", position)

    def _is_comprehension(self, position: int, only: Any) -> bool:
        return isinstance(only, str) and " for " in only and not self.text.startswith(("'", '"'), position)

    def _items(self, position: int, closer: str, place: Place, depth: int) -> tuple[list[Any], int, int]:
        """Return the values up to `closer`, their end, and the number of commas."""
        text = self.text
        self._open.append(closer)
        items: list[Any] = []
        commas = 0
        ended = False
        while not ended:
            position = self._skip(position)
            if text.startswith(closer, position):
                if commas and closer != ")" and not self._python:
                    self._rules["trailing_comma"] = None
                position += 1
                break
            if self._closer_missing(position):
                break
            value, position = self._value(position, place, depth)
            items.append(value)
            char = text[position : position + 1]
            if char == closer:
                position += 1
                break
            if char == ",":
                position += 1
            else:
                position, ended = self._separator(position, closer)
            commas += 1
        self._open.pop()
        return items, position, commas - ended

    def _object(self, position: int, depth: int) -> tuple[Any, int]:
        text = self.text
        self._open.append("}")
        members: dict[str, Any] = {}
        ended = False
        while not ended:
            member = _member(text, position)
            if member is not None:
                kind = member.lastindex or 1
                key = member[kind]
                if kind != 1 or not self._ascii:
                    self._note_key(kind, member)
                position = member.end()
            else:
                odd, position = self._odd_key(position, members)
                if odd is None:
                    break
                key = odd
            if key in members:
                position = self._repeat(members, key, position, depth)
            else:
                members[key], position = self._value(position, "member", depth)
            char = text[position : position + 1]
            if char == ",":
                position += 1
            elif char == "}":
                position += 1
                break
            else:
                position, ended = self._separator(position, "}")
        self._open.pop()
        return members, position

    def _note_key(self, kind: int, member: re.Match[str]) -> None:
        if kind == 2 and not self._python:
            self._rules["single_quotes"] = None
        elif kind == 3:
            self._rules["bare_key"] = None
        if not self._ascii and has_surrogate(member[kind]):
            raise Unreadable("lone surrogate", member.start(kind))

    def _odd_key(self, position: int, members: dict[str, Any]) -> tuple[str | None, int]:
        """Return a key in an unusual spelling and the start of its value, or None and the end of the object."""
        text = self.text
        position = self._skip(position)
        while members and text.startswith(",", position):
            self._rules["extra_comma"] = None
            position = self._skip(position + 1)
        if text.startswith("}", position):
            if members and not self._python:
                self._rules["trailing_comma"] = None
            return None, position + 1
        if self._closer_missing(position):
            return None, position
        key, end = self._key(position)
        position = self._skip(end)
        colon = _colon(text, position)
        if colon is None and (half := _half_quoted(key)) is not None and text[end - 1] == '"' and position == end:
            # `"name="search"`: the second quote opens the value.
            self._rules["half_quoted_key"] = None
            return half[1], end - 1
        if colon is None:
            raise Unreadable("expected ':'", position, cut=position >= len(text))
        if not colon[0].endswith(":"):
            self._rules["equals_for_colon"] = None
        return key, self._skip(colon.end())

    def _key(self, position: int) -> tuple[str, int]:
        text = self.text
        if text[position : position + 1] in CLOSING_QUOTES:
            return read_string(text, position, "key", rules=self._rules, python=self._python)
        quoted = self._prefixed_string(position, "key", 0) or self._token_string(position)
        if quoted is not None:
            return quoted
        bare = _bare_key(text, position)
        if bare is None:
            raise Unreadable("expected a key", position, cut=position >= len(text))
        self._rules["bare_key"] = None
        return self._plain_name(bare[0]), bare.end()

    def _plain_name(self, name: str) -> str:
        """Markdown escapes the underscores of names: `check\\_in`."""
        if "\\" not in name:
            return name
        self._rules["bad_escape"] = None
        return name.replace("\\_", "_")

    # ---- between values ----------------------------------------------------------------------------------------------

    def _separator(self, position: int, closer: str) -> tuple[int, bool]:
        """Continue after a value that no comma follows directly; return the position, and whether this is the end."""
        text = self.text
        after = self._skip(position)
        char = text[after : after + 1]
        if char == ",":
            return after + 1, False
        if char == closer:
            return after + 1, True
        if self._closer_missing(after):
            return after, True
        new_line = "\n" in text[position:after]
        if closer == ")":
            forgotten = new_line and _keyword(text, after) is not None
        else:
            forgotten = char != "" and char not in ")]}:" and (new_line or char in "\"'“{[")
        if not forgotten:
            raise Unreadable(f"expected ',' or '{closer}'", after, cut=not char)
        self._rules["missing_comma"] = None
        return after, False

    def _closer_missing(self, position: int) -> bool:
        """Whether a closing bracket is missing here: at the end, or because an outer one is closed instead."""
        if not self._closing:
            return False
        char = self.text[position : position + 1]
        if char and char not in self._open:
            return False
        self._rules["closed_brackets"] = None
        return True

    # ---- arguments ---------------------------------------------------------------------------------------------------

    def _arguments(self, position: int, closer: str, depth: int) -> tuple[list[Any], dict[str, Any], int]:
        self._check_depth(position, depth)
        text = self.text
        self._open.append(closer)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        ended = False
        while not ended:
            keyword = _keyword(text, position)
            if keyword is not None:
                key: str | None = keyword[1]
                position = keyword.end()
            else:
                position = self._skip(position)
                if text.startswith(closer, position):
                    position += 1
                    break
                if self._closer_missing(position):
                    break
                key, position = self._odd_keyword(position)
            value, position = self._json_or_value(position, "argument", depth)
            self._add(key, value, positional, keywords, position)
            char = text[position : position + 1]
            if char == ",":
                position += 1
            elif char == closer:
                position += 1
                break
            else:
                position, ended = self._separator(position, closer)
        self._open.pop()
        return positional, keywords, position

    def _repeat(self, members: dict[str, Any], key: str, position: int, depth: int) -> int:
        """Read the value of a key that is given twice. Only an equal value is no loss."""
        value, end = self._value(position, "member", depth)
        if repr(value) != repr(members[key]):
            raise Unreadable(f"duplicate key {key!r}", position)
        self._rules["repeated_key"] = None
        return end

    def _add(self, key: str | None, value: Any, positional: list[Any], keywords: dict[str, Any], position: int) -> None:
        if key is None:
            positional.append(value)
        elif key == "**":
            if not isinstance(value, dict) or not keywords.keys().isdisjoint(value):
                raise Unreadable("cannot spread this into arguments", position)
            keywords.update(value)
        elif key in keywords:
            if repr(keywords[key]) != repr(value):
                raise Unreadable(f"duplicate argument {key!r}", position)
            self._rules["repeated_key"] = None
        else:
            keywords[key] = value

    def _odd_keyword(self, position: int) -> tuple[str | None, int]:
        """Return the name of an argument in an unusual spelling (None if positional), and the start of its value."""
        text = self.text
        if text.startswith("**", position):
            return "**", self._skip(position + 2)
        found = _odd_keyword(text, position)
        if found is None:
            return None, position
        key = found[found.lastindex or 1]
        if found.lastindex != 3:
            self._rules["quoted_keyword"] = None
        if text[found.end() - 1] == ":":
            if found.lastindex == 3 and _type_name(text, found.end()) is not None:
                raise Unreadable("a signature, not a call", position)
            self._rules["colon_for_equals"] = None
        if not self._ascii and has_surrogate(key):
            raise Unreadable("lone surrogate", position)
        return self._plain_name(key), self._skip(found.end())


# --------------------------------------------------------------------------------------------------------------------
# `repair`: reads malformed JSON and names the repairs.
#
# Valid JSON is never changed. `TolerantReader` reads the rest, after the removal of wrappers: a Markdown fence, words
# around the object, a layer of escapes. A repair that would invent data is not made; the result is an error.

_FENCE = re.compile(r"(?P<fence>```+|~~~+)[ \t]*(?P<label>[\w+.-]*)[ \t]*")
_ESCAPED_START = re.compile(r"[\[{]\s*+(?:[\[{]\s*+)*+\\+\"")
_CLOSERS = re.compile(r"[\s}\])]++")
_ENDINGS = re.compile(r"[\s,;]++")
_VALUE_STARTS = frozenset("{[\"'`“‘(")


class Repaired(Struct, frozen=True):
    """The value and the names of the repairs in order, or the reason why there is no value."""

    value: Any
    rules: tuple[str, ...] = ()
    error: str | None = None


def repair(text: str, *, complete: bool = True) -> Repaired:
    """Read one value from text that may be malformed JSON. Never raises; `error` says why there is no value.

    `complete` says that the end of the call was seen. Only then are missing brackets and a missing quote added at the
    end; otherwise the text may be truncated, and the rest is unknown.
    """
    try:
        return Repaired(decode(text))
    except Undecodable:
        pass
    rules: dict[str, None] = {}
    try:
        value = _read(text, complete, rules)
    except Unreadable as error:
        return _repair_structure(text, complete) or Repaired(None, error=str(error))
    # There was no other fault, so it is white space that JSON does not allow.
    return Repaired(value, tuple(rules) or ("unusual_blanks",))


_QUOTED = r"""(?P<quoted>"(?:[^"\\]|\\.)*+\\?(?:"|\Z)|“[^”]*+(?:”|\Z)|'(?:[^'\\\n]|\\.)*+')"""
_ODD_COLON = re.compile(rf"""{_QUOTED}|(?<=[^\\]["”}}\]\del])\s*([：，])(?=\s*["“{{\[\dtfn-])""", re.DOTALL)
_PIECES = f"[{TOKENIZER_BLANKS}]+"
_ODD_BLANK = re.compile(
    rf"""{_QUOTED}|(?<=[:,{{\[}}\]"]){_PIECES}|{_PIECES}(?=[{{}}\[\]:,"])|\A{_PIECES}|{_PIECES}\Z""", re.DOTALL
)


def _repair_structure(text: str, complete: bool) -> Repaired | None:
    """Read a value with the colons and commas of East Asia, or the blanks of a tokenizer, between its parts."""
    rules: dict[str, None] = {}
    found: dict[str, None] = {}

    def replace(match: re.Match[str]) -> str:
        # The same characters in a string are a part of it.
        if match["quoted"] is not None:
            return match["quoted"]
        mark = match[2] if match.re is _ODD_COLON else ""
        found["wide_punctuation" if mark else "unusual_blanks"] = None
        return {"：": ":", "，": ","}.get(mark, " ")

    plain = _ODD_COLON.sub(replace, _ODD_BLANK.sub(replace, text))
    if not found:
        return None
    try:
        value = _read(plain, complete, rules)
    except Unreadable:
        return None
    return Repaired(value, tuple(found | rules))


def _read(text: str, complete: bool, rules: dict[str, None]) -> Any:
    start, end = _unfence(text, rules)
    if _ESCAPED_START.match(text, start, end) is not None:
        body = _unescape(text[start:end])
        if body is not None:
            rules["double_encoded"] = None
            return _read_body(body, 0, complete, rules)
    return _read_body(text[:end], start, complete, rules)


def _read_body(text: str, start: int, complete: bool, rules: dict[str, None]) -> Any:
    """Read the value in text[start:], with or without words around it."""
    if rules:
        try:
            return decode(text[start:])
        except Undecodable:
            pass
    start = _find_value(text, start, rules)
    reader, value, end = _read_value(text, start, complete)
    for rule in reader.rules:
        rules[rule] = None
    _judge_rest(text, end, value, rules)
    return value


def _read_value(text: str, start: int, complete: bool) -> tuple[TolerantReader, Any, int]:
    reader = TolerantReader(text, closing=complete)
    try:
        value, end = reader.value(start, whole=True)
    except Unreadable as error:
        if error.cut or not text.startswith(("{", "["), start):
            raise
        reader = TolerantReader(text, closing=complete, expressions=True)
        value, end = reader.value(start, whole=True)
    return reader, value, end


def _unfence(text: str, rules: dict[str, None]) -> tuple[int, int]:
    """Return the bounds of the text inside a Markdown fence, or of the text without blanks at both ends."""
    start, end = _trim(text, 0, len(text))
    opening = _FENCE.match(text, start, end)
    if opening is None:
        return start, end
    fence = opening["fence"]
    rules["markdown_fence"] = None
    inside = opening.end()
    closing = text.rfind(fence, inside, end)
    if closing >= 0 and not text[closing:end].strip(fence[0]):
        end = closing
    return _trim(text, inside, end)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    stripped = inner.lstrip("\ufeff \t\r\n\f\v\u00a0")
    start += len(inner) - len(stripped)
    return start, start + len(stripped.rstrip())


def _unescape(body: str) -> str | None:
    """Remove one layer of string escapes from text that was encoded twice and lost its outer quotes."""
    try:
        value, _ = TolerantReader('"' + body + '"').value(0)
    except Unreadable:
        return None
    return value if isinstance(value, str) else None


def _find_value(text: str, start: int, rules: dict[str, None]) -> int:
    """Return the start of the value: here, or the first brace if words or a fence are before it."""
    if text[start : start + 1] in _VALUE_STARTS:
        return start
    brace = text.find("{", start)
    if brace < 0 or text.startswith(("/", "#"), start):
        return start
    rules["surrounding_text"] = None
    fence = text.rfind("```", start, brace)
    if fence >= 0 and not text[fence:brace].strip("`").strip().strip("abcdefghijklmnopqrstuvwxyz_-"):
        rules["markdown_fence"] = None
    return brace


def _judge_rest(text: str, end: int, value: Any, rules: dict[str, None]) -> None:
    """Accept text after the value only if it cannot be a second value."""
    rest = text[end:]
    if not rest.strip():
        return
    if _ENDINGS.fullmatch(rest):
        rules["trailing_comma" if "," in rest else "surrounding_text"] = None
        return
    if _CLOSERS.fullmatch(rest) and isinstance(value, dict | list):
        rules["extra_closers"] = None
        return
    # A quote and a bracket right after the value: a string was closed too early.
    if not isinstance(value, dict) or "{" in rest or (rest[0] in "\"'" and "}" in rest):
        raise Unreadable("text after the value", end)
    rules["surrounding_text"] = None
