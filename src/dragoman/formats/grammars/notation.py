"""How values are spelt inside a call: as JSON, as JSON between tags, as plain text between tags, as Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.errors import CannotExpress
from dragoman.formats.grammars.nodes import EMPTY, Free, Node, Text, chars, choice, row
from dragoman.formats.odd.python_writing import write_python_call
from dragoman.formats.writing import write_json
from dragoman.types import ToolCall

_CONTROLS = "".join(map(chr, range(32)))
_JSON_ESCAPE = choice(
    [
        row(Text("\\"), chars('""\\\\bbffnnrrtt')),
        row(Text("\\u00"), chars("01"), chars("09af")),
    ]
)


_PYTHON_ESCAPE = choice(
    [
        row(Text("\\"), chars('""\\\\nnrrtt')),
        row(Text("\\x"), chars("07"), chars("09af")),
    ]
)
_is_plain_key = re.compile(r"[^\W\d][\w.\-]{0,100}\Z").match


class Notation(Struct, frozen=True):
    """The spelling of one family of formats."""

    name: str
    write: Callable[[Any], str]
    """A value as it is written: for keys, enums and constants."""
    true: str = "true"
    false: str = "false"
    null: str = "null"
    colon: str = ": "
    comma: str = ", "
    quotes: tuple[str, str] = ('"', '"')
    markers: tuple[str, ...] = ()
    """What must not stand inside a text, escaped or not."""
    barred: str = '"\\' + _CONTROLS
    escape: Node | None = _JSON_ESCAPE
    bare_keys: bool = False

    def text(self, least: int, most: int | None, *, exact: bool) -> Node:
        """A text of some length, with its quotes."""
        opening, closing = self.quotes
        inner: Node = EMPTY if most == 0 else Free(self.markers, least, most, exact, self.barred, self.escape)
        return row(Text(opening), inner, Text(closing))

    def form(self, node: Node) -> Node:
        """A text of a known form; forms hold nothing that would have to be escaped."""
        opening, closing = self.quotes
        return row(Text(opening), node, Text(closing))

    def key(self, key: str) -> Node | None:
        """The key of a member; None if it holds a marker."""
        return Text(key) if self.bare_keys and _is_plain_key(key) else self.literal(key)

    def literal(self, value: Any) -> Node | None:
        """A value that is known; None if it cannot be written, or holds a marker."""
        try:
            text = self.write(value)
        except (CannotExpress, TypeError, ValueError):
            return None
        return None if any(marker in text for marker in self.markers) else Text(text)


JSON = Notation("json", write_json)


def json_between(markers: tuple[str, ...]) -> Notation:
    """JSON inside tags: its strings must not hold them. What stands before a quote is enough to keep a tag out."""
    heads = (marker.partition('"')[0] for marker in markers)
    return Notation("inner", write_json, markers=tuple(dict.fromkeys(head for head in heads if head)))


def plain_between(markers: tuple[str, ...]) -> Notation:
    """Texts as they are, up to the next tag."""
    return Notation("plain", str, quotes=("", ""), markers=markers, barred="\0", escape=None)


def python(markers: tuple[str, ...]) -> Notation:
    """Literals of Python, in double quotes."""

    def write(value: Any) -> str:
        return write_python_call(ToolCall("", "f", {"k": value}), markers=markers)[4:-1]

    return Notation(
        "python",
        write,
        "True",
        "False",
        "None",
        markers=markers,
        barred='"\\\x7f' + _CONTROLS,
        escape=_PYTHON_ESCAPE,
    )


def gemma(quote: str, closer: str) -> Notation:
    """Gemma's own: bare keys, texts between two tokens and without escapes."""

    def write(value: Any) -> str:
        if isinstance(value, str):
            return quote + value + quote
        if isinstance(value, dict):
            return "{" + ",".join(f"{write_key(key)}:{write(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(map(write, value)) + "]"
        return write_json(value)

    def write_key(key: str) -> str:
        return key if _is_plain_key(key) else write(key)

    return _Gemma(
        "gemma",
        write,
        colon=":",
        comma=",",
        quotes=(quote, quote),
        markers=(quote, closer),
        barred="\0",
        escape=None,
        bare_keys=True,
    )


class _Gemma(Notation, frozen=True):
    def literal(self, value: Any) -> Node | None:
        """A value whose texts hold neither of the two tokens."""
        if any(marker in text for text in _texts(value) for marker in self.markers):
            return None
        try:
            return Text(self.write(value))
        except (TypeError, ValueError):
            return None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *_texts(each))]
    return [text for each in value for text in _texts(each)] if isinstance(value, list) else []
