"""HTML taken apart into tags and text, in one pass.

Every character is looked at a bounded number of times, whatever the page holds: unclosed comments, tags and quotes end
the page, as they do in a browser, and are not tried again at the next bracket. (The parser of the standard library
takes time with the square of such a page.)
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

TokenKind = Literal["text", "start", "end"]

RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"})
"""Elements whose content is text up to their own end tag, whatever brackets stand in it."""
_KEPT = frozenset(
    {"alt", "aria-hidden", "charset", "content", "hidden", "href", "http-equiv", "open", "src", "start", "style"}
)
"""The attributes that anybody asks for."""

# Any other bracket is a part of the text.
_bracket = re.compile(r"<(?=[A-Za-z/!?])").search
_tag_name = re.compile(r"[A-Za-z][^\t\n\f\r />]*").match
_gap = re.compile(r"[\t\n\f\r /]*").match
_attribute_name = re.compile(r"=?[^\t\n\f\r />=]*").match
_equals = re.compile(r"[\t\n\f\r ]*=[\t\n\f\r ]*").match
_bare_value = re.compile(r"[^\t\n\f\r >]*").match
_comment_end = re.compile(r"--!?>").search
_raw_ends = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search for name in sorted(RAW)}
# No character has a number this long, and reading one takes time with the square of its length.
_long_number = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{7,});?")


_NONE: Mapping[str, str] = MappingProxyType({})


class Token(NamedTuple):
    kind: TokenKind
    value: str
    """The text, with its entities still in it, or the name of the tag in lower case."""
    attributes: Mapping[str, str] = _NONE
    closed: bool = False
    """Whether a start tag ends with a slash; only foreign elements (svg, math) end with it."""


def unescape(text: str) -> str:
    """A text with its entities replaced."""
    if "&" not in text:
        return text
    return html.unescape(_long_number.sub("\ufffd", text) if "&#" in text else text)


def tokens(source: str) -> Iterator[Token]:
    """The tags and texts of a page, in order. Comments, declarations and the like are left out."""
    position, size = 0, len(source)
    while position < size:
        bracket = _bracket(source, position)
        if bracket is None:
            yield Token("text", source[position:])
            return
        opening = bracket.start()
        if opening > position:
            yield Token("text", source[position:opening])
        name = _tag_name(source, opening + 1)
        if name is not None:
            attributes, position = _read_attributes(source, name.end())
            if position < 0:
                return
            yield Token("start", name[0].lower(), attributes, source[position - 2] == "/")
            if name[0].lower() in RAW:
                end = _raw_end(source, position, name[0].lower())
                if end > position:
                    yield Token("text", source[position:end])
                position = end
            continue
        token, position = _read_other(source, opening)
        if token is not None:
            yield token
        if position < 0:
            return


def _raw_end(source: str, position: int, name: str) -> int:
    found = None if name == "plaintext" else _raw_ends[name](source, position)
    return len(source) if found is None else found.start()


def _read_other(source: str, opening: int) -> tuple[Token | None, int]:
    """What begins with a bracket and is no start tag; the place behind it is -1 where the page ends in it."""
    name = _tag_name(source, opening + 2) if source[opening + 1] == "/" else None
    if name is not None:
        _, position = _read_attributes(source, name.end())
        return (Token("end", name[0].lower()) if position >= 0 else None), position
    if source.startswith("<!--", opening):
        return None, _end_of_comment(source, opening)
    closing = source.find(">", opening + 2)
    return None, closing + 1 if closing >= 0 else -1


def _end_of_comment(source: str, opening: int) -> int:
    for empty in ("<!-->", "<!--->"):
        if source.startswith(empty, opening):
            return opening + len(empty)
    found = _comment_end(source, opening + 4)
    return -1 if found is None else found.end()


def _read_attributes(source: str, position: int) -> tuple[dict[str, str], int]:
    """The attributes of a tag, and the place behind the tag: -1 where the page ends in it."""
    if source.startswith(">", position):
        return {}, position + 1
    attributes: dict[str, str] = {}
    size = len(source)
    while True:
        position = _end(_gap(source, position))
        if position >= size:
            return attributes, -1
        if source[position] == ">":
            return attributes, position + 1
        name = _attribute_name(source, position)
        assert name is not None
        position = name.end()
        value = ""
        equals = _equals(source, position)
        if equals is not None:
            value, position = _read_value(source, equals.end())
            if position < 0:
                return attributes, -1
        lowered = name[0].lower() if len(name[0]) < 20 else ""
        if lowered in _KEPT and lowered not in attributes:
            attributes[lowered] = unescape(value)


def _read_value(source: str, position: int) -> tuple[str, int]:
    quote = source[position : position + 1]
    if quote in ('"', "'"):
        closing = source.find(quote, position + 1)
        return ("", -1) if closing < 0 else (source[position + 1 : closing], closing + 1)
    end = _end(_bare_value(source, position))
    return source[position:end], end


def _end(found: re.Match[str] | None) -> int:
    assert found is not None
    return found.end()
