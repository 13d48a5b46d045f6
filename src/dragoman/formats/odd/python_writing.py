"""Writing calls in Python: keyword arguments with Python literals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.errors import CannotExpress
from dragoman.types import ToolCall

_is_name = re.compile(r"[^\W\d][\w.\-]*\Z").match
_is_keyword = re.compile(r"[^\W\d]\w{0,60}\Z").match
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = r'[\\"\x00-\x1f\x7f]'
_surrogate = re.compile("[\ud800-\udfff]").search
_WORDS = {True: "True", False: "False", None: "None"}
_DIGITS = 400


def write_python_call(call: ToolCall, method: str = "", markers: Sequence[str] = ()) -> str:
    """`name(key="value")`; markers that stand inside strings are written with an escape."""
    if not _is_name(call.name):
        raise CannotExpress("$", f"{call.name!r} is no name in Python")
    literals = _Literals(markers)
    arguments = ", ".join(literals.write_argument(key, value) for key, value in call.arguments.items())
    return f"{call.name}{method}({arguments})"


class _Literals:
    def __init__(self, markers: Sequence[str]) -> None:
        self._special = re.compile("|".join([*map(re.escape, markers), _SPECIAL]))

    def write_argument(self, key: str, value: Any) -> str:
        """`key=value`; a key that is no name in Python goes into a dict that is spread: `**{"a-b": 1}`."""
        return f"{key}={self.write(value, f'$.{key}')}" if _is_keyword(key) else "**" + self.write({key: value}, "$")

    def write(self, value: Any, path: str) -> str:
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


Writer = Callable[[Sequence[ToolCall]], str]


def writer(before: str, after: str, *, separator: str = ", ", method: str = "") -> Writer:
    """A writer for calls between two markers; `method` is what is called of each tool, if not the tool itself."""
    markers = (after.strip("\n]"),) if after.strip("\n]`") else ()

    def write(calls: Sequence[ToolCall]) -> str:
        return before + separator.join(write_python_call(call, method, markers) for call in calls) + after

    return write
