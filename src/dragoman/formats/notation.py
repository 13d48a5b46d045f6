"""Notations: how the arguments of a call are written as JSON, in Python, or as Gemma does.

A row names its notation. The renderer fills the holes of the template through it, and the grammar writes constants and
keys with it, so that both agree on every value that a format can carry.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Protocol

from dragoman.args.decoder import has_surrogate
from dragoman.errors import CannotExpress
from dragoman.formats.template import Format, Hole, compile_template, literals_after
from dragoman.types import JsonObject

write_strict_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
PLAIN_KEY = r"[^\W\d][\w.\-]{0,100}"
"""A key that Gemma's notation writes without delimiters."""
is_plain_key = re.compile(rf"{PLAIN_KEY}\Z").match


class Notation(Protocol):
    """How the values in a template are written. A value that cannot be written raises CannotExpress with its path."""

    def write(self, value: Any, path: str = "$") -> str:
        """One value."""
        ...

    def write_arguments(self, arguments: JsonObject) -> str:
        """What `{args}` stands for."""
        ...

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        """What `{call}` stands for, and each item of `{calls}`. `envelope` holds the name and the arguments."""
        ...


def notation_of(row: Format) -> Notation:
    """The notation of a row, with the markers that a text must not hold as they are."""
    if row.notation == "python":
        return PythonNotation(closers_of(row))
    return GemmaNotation(row.quote, closers_of(row)) if row.notation == "gemma" else JsonNotation()


def closers_of(row: Format) -> tuple[str, ...]:
    """The markers that end a call or all calls of a row, in every spelling.

    Brackets before them do not count: a reader tells those inside a text from the others. A fence does not count
    either: it ends a call only at the start of a line, and Python writes no line break inside a text.
    """
    nodes = compile_template(row.template, row.spellings)
    payload = max((place for place, node in enumerate(nodes) if isinstance(node, Hole)), default=-1)
    closers = [spelling for literal, _ in literals_after(nodes[payload + 1 :]) for spelling in literal.spellings]
    if row.section is not None:
        end = row.section[1].strip()
        closers += [end, *row.spellings.get(end, ())]
    bare = dict.fromkeys(closer.lstrip(")]") for closer in closers)
    return tuple(closer for closer in bare if closer.strip("`"))


class JsonNotation:
    """JSON, as most formats write their arguments."""

    def write(self, value: Any, path: str = "$") -> str:
        try:
            return write_strict_json(value)
        except (TypeError, ValueError) as error:
            raise CannotExpress(path, f"no JSON value: {error}") from None

    def write_arguments(self, arguments: JsonObject) -> str:
        return self.write(arguments)

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        return self.write(envelope)


# --------------------------------------------------------------------------------------------------------------------
# Python: keyword arguments with Python literals.

_is_keyword = re.compile(r"[^\W\d]\w{0,60}\Z").match
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = r'[\\"\x00-\x1f\x7f]'
_surrogate = re.compile("[\ud800-\udfff]").search
_WORDS = {True: "True", False: "False", None: "None"}
_DIGITS = 400


class PythonNotation:
    """Python: `{args}` is `key="value", other=3`. Markers that stand inside strings are written with an escape."""

    def __init__(self, markers: Sequence[str] = ()) -> None:
        self._special = re.compile("|".join([*map(re.escape, markers), _SPECIAL]))

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        return f"{name}({self.write_arguments(arguments)})"

    def write_arguments(self, arguments: JsonObject) -> str:
        return ", ".join(self._write_argument(key, value) for key, value in arguments.items())

    def _write_argument(self, key: str, value: Any) -> str:
        """`key=value`; a key that is no name in Python goes into a dict that is spread: `**{"a-b": 1}`."""
        return f"{key}={self.write(value, f'$.{key}')}" if _is_keyword(key) else "**" + self.write({key: value}, "$")

    def write(self, value: Any, path: str = "$") -> str:
        if isinstance(value, str):
            return self._write_text(value, path)
        if value is None or isinstance(value, bool):
            return _WORDS[value]
        if isinstance(value, dict):
            members = (
                f"{self._write_key(key, path)}: {self.write(each, f'{path}.{key}')}" for key, each in value.items()
            )
            return "{" + ", ".join(members) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self.write(each, f"{path}[{index}]") for index, each in enumerate(value)) + "]"
        return _write_number(value, path)

    def _write_key(self, key: object, path: str) -> str:
        if not isinstance(key, str):
            raise CannotExpress(path, f"the key {key!r} is no text")
        return self._write_text(key, path)

    def _write_text(self, text: str, path: str) -> str:
        if _surrogate(text):
            raise CannotExpress(path, "a lone surrogate is no text")
        return '"' + self._special.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    """An escape for the first character is enough to keep a marker from being one."""
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
    raise CannotExpress(path, f"{type(value).__name__} is no JSON value")


# --------------------------------------------------------------------------------------------------------------------
# Gemma: bare keys, and texts between two tokens without any escape.


class GemmaNotation:
    """Gemma's own notation: `{city:<|"|>Oslo<|"|>,days:3}`."""

    def __init__(self, quote: str, closers: Sequence[str]) -> None:
        self._quote = quote
        self._forbidden = (quote, *closers)

    def write_call(self, name: str, arguments: JsonObject, envelope: JsonObject) -> str:
        return self.write(envelope)

    def write_arguments(self, arguments: JsonObject) -> str:
        return self.write(arguments)

    def write(self, value: Any, path: str = "$") -> str:
        if isinstance(value, str):
            return self._write_text(value, path)
        if isinstance(value, dict):
            members = (
                f"{self._write_key(key, path)}:{self.write(each, f'{path}.{key}')}" for key, each in value.items()
            )
            return "{" + ",".join(members) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(self.write(each, f"{path}[{index}]") for index, each in enumerate(value)) + "]"
        try:
            return write_strict_json(value)
        except (TypeError, ValueError):
            raise CannotExpress(path, f"{value!r} is no JSON value") from None

    def _write_key(self, key: Any, path: str) -> str:
        if not isinstance(key, str):
            raise CannotExpress(path, f"the key {key!r} is no text")
        return key if is_plain_key(key) else self._write_text(key, path)

    def _write_text(self, text: str, path: str) -> str:
        for marker in self._forbidden:
            if marker in text:
                raise CannotExpress(path, f"the text holds {marker!r}, and this format has no escape for it")
        # A text that ends in the beginning of the delimiter would move it.
        if (text + self._quote).find(self._quote) != len(text) or has_surrogate(text):
            raise CannotExpress(path, "this format cannot write the text unchanged")
        return self._quote + text + self._quote
