"""Notations: how the arguments of a call are written, as JSON, as Python or as Gemma's notation.

A row names its notation. The renderer fills the holes of the template with it, and the grammar writes constants and
keys with it, so both agree on the values that a format can carry.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dragoman.args.decoder import has_surrogate
from dragoman.errors import CannotExpress
from dragoman.formats.cursor import make_writer
from dragoman.formats.template import Format, Hole, Many, compile_template, literals_after
from dragoman.types import JsonObject

write_strict_json = make_writer(allow_nan=False)
PLAIN_KEY = r"[^\W\d][\w.\-]{0,100}"
"""Matches a key that Gemma's notation writes without delimiters."""
is_plain_key = re.compile(rf"{PLAIN_KEY}\Z").match


def notation_of(row: Format) -> JsonNotation:
    """Return the notation of a row, with the markers that a string must not contain unescaped."""
    match row.notation:
        case "quoted":
            return QuotedNotation(closers_of(row)[-1])
        case "elements":
            return ElementNotation(row.quote)
        case "python":
            return PythonNotation(closers_of(row))
        case "gemma":
            return GemmaNotation(row.quote, closers_of(row))
    return JsonNotation()


def closers_of(row: Format) -> tuple[str, ...]:
    """Return the markers that end a call or all calls of a row, in every spelling.

    Brackets before them are left out, because a reader recognises brackets inside a string. A fence is left out as
    well: it ends a call only at the start of a line, and Python writes no line break inside a string.
    """
    nodes = compile_template(row.template, row.spellings)
    payload = max((place for place, node in enumerate(nodes) if isinstance(node, Hole | Many)), default=-1)
    closers = [spelling for literal, _ in literals_after(nodes[payload + 1 :]) for spelling in literal.spellings]
    bare = dict.fromkeys(closer.lstrip(")]") for closer in (*closers, *row.section_ends))
    return tuple(closer for closer in bare if closer.strip("`"))


class JsonNotation:
    """JSON, as most formats write their arguments. The other notations override parts of it.

    A value that cannot be written raises CannotExpress with its path.
    """

    def write(self, value: Any, path: str = "$") -> str:
        try:
            return write_strict_json(value)
        except (TypeError, ValueError) as error:
            raise CannotExpress(path, f"no JSON value: {error}") from None

    def write_value(self, value: Any, path: str) -> str:
        """Return the text of `{value}`: a string without quotes."""
        return value if isinstance(value, str) else self.write(value, path)

    def write_arguments(self, arguments: JsonObject) -> str:
        """Return the text of `{args}`."""
        return self.write(arguments)

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        """Return the text of `{call}`, or of one item of `{calls}`. `envelope` holds the name and the arguments."""
        return self.write(envelope)


class QuotedNotation(JsonNotation):
    """JSON also for strings. The marker that ends the calls is escaped inside a string."""

    def __init__(self, closer: str) -> None:
        self._closer = closer
        self._escaped = f"\\u{ord(closer[0]):04x}{closer[1:]}"

    def write_value(self, value: Any, path: str) -> str:
        return self.write(value, path).replace(self._closer, self._escaped)


is_element_name = re.compile(r"[^\s<>/\[\]\"'=]{1,200}\Z").match


class ElementNotation(JsonNotation):
    """Lists and objects of strings as nested elements; all other structures as JSON.

    A number in an element would be read as a string if the schema does not describe it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def write_value(self, value: Any, path: str) -> str:
        named = [("item", each) for each in value] if isinstance(value, list) else []
        if isinstance(value, dict) and "item" not in value:
            named = list(value.items())
        if named and all(self._is_plain(each) and is_element_name(key) for key, each in named):
            return "".join(f"{self._token}<{key}>{each}{self._token}</{key}>" for key, each in named)
        text = super().write_value(value, path)
        if self._token in text:
            raise CannotExpress(path, "the value contains the token that marks a tag")
        return text

    def _is_plain(self, value: Any) -> bool:
        """Whether a string is read as a string, independent of the schema."""
        return isinstance(value, str) and bool(value.strip()) and value.lstrip()[0] not in "[{"


class PartwiseNotation(JsonNotation, ABC):
    """The base of notations with their own strings and keys: writes objects and lists part by part."""

    colon = ": "
    comma = ", "

    def write(self, value: Any, path: str = "$") -> str:
        if isinstance(value, str):
            return self._write_text(value, path)
        if isinstance(value, dict):
            members = (
                self._write_key(key, path) + self.colon + self.write(each, f"{path}.{key}")
                for key, each in value.items()
            )
            return "{" + self.comma.join(members) + "}"
        if isinstance(value, list | tuple):
            return "[" + self.comma.join(self.write(each, f"{path}[{at}]") for at, each in enumerate(value)) + "]"
        return self._write_scalar(value, path)

    def _write_key(self, key: Any, path: str) -> str:
        if not isinstance(key, str):
            raise CannotExpress(path, f"the key {key!r} is not a string")
        return self._write_text(key, path)

    @abstractmethod
    def _write_text(self, text: str, path: str) -> str: ...

    def _write_scalar(self, value: Any, path: str) -> str:
        return super().write(value, path)


# --------------------------------------------------------------------------------------------------------------------
# Python: keyword arguments with Python literals.

_is_keyword = re.compile(r"[^\W\d]\w{0,60}\Z").match
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = r'[\\"\x00-\x1f\x7f]'
_surrogate = re.compile("[\ud800-\udfff]").search
_WORDS = {True: "True", False: "False", None: "None"}
_DIGITS = 400


class PythonNotation(PartwiseNotation):
    """Python: `{args}` is `key="value", other=3`. Markers inside strings are escaped."""

    def __init__(self, markers: Sequence[str] = ()) -> None:
        self._special = re.compile("|".join([*map(re.escape, markers), _SPECIAL]))

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        return f"{name}({self.write_arguments(arguments)})"

    def write_arguments(self, arguments: JsonObject) -> str:
        return ", ".join(self._write_argument(key, value) for key, value in arguments.items())

    def _write_argument(self, key: str, value: Any) -> str:
        """Return `key=value`; for a key that is not a Python identifier `**{"a-b": 1}`."""
        return f"{key}={self.write(value, f'$.{key}')}" if _is_keyword(key) else "**" + self.write({key: value}, "$")

    def _write_scalar(self, value: Any, path: str) -> str:
        return _WORDS[value] if value is None or isinstance(value, bool) else _write_number(value, path)

    def _write_text(self, text: str, path: str) -> str:
        if _surrogate(text):
            raise CannotExpress(path, "a string with a lone surrogate")
        return '"' + self._special.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    """Escape the markers; an escape for the first character is sufficient."""
    first, rest = found.group()[0], found.group()[1:]
    return (_ESCAPES.get(first) or f"\\x{ord(first):02x}") + rest


def _write_number(value: Any, path: str) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CannotExpress(path, "not a finite number")
        return repr(value)
    if isinstance(value, int):
        if abs(value) >= 10**_DIGITS:
            raise CannotExpress(path, f"an integer of more than {_DIGITS} digits")
        return str(value)
    raise CannotExpress(path, f"{type(value).__name__} is not a JSON value")


# --------------------------------------------------------------------------------------------------------------------
# Gemma: bare keys, and strings between two tokens, without escapes.


class GemmaNotation(PartwiseNotation):
    """Gemma's own notation: `{city:<|"|>Oslo<|"|>,days:3}`."""

    colon = ":"
    comma = ","

    def __init__(self, quote: str, closers: Sequence[str]) -> None:
        self._quote = quote
        self._forbidden = (quote, *closers)

    def _write_key(self, key: Any, path: str) -> str:
        return key if isinstance(key, str) and is_plain_key(key) else super()._write_key(key, path)

    def _write_text(self, text: str, path: str) -> str:
        for marker in self._forbidden:
            if marker in text:
                raise CannotExpress(path, f"the string contains {marker!r}, and this format has no escape for it")
        # A string that ends in the beginning of the delimiter would move the delimiter.
        if (text + self._quote).find(self._quote) != len(text) or has_surrogate(text):
            raise CannotExpress(path, "this format cannot write the string unchanged")
        return self._quote + text + self._quote
