"""HTML parsed into tags and text in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Generic, Literal, NamedTuple, TypeVar

from dragoman.characters import unescape_html

# --------------------------------------------------------------------------------------------------------------------
# The open elements of a page: which end tag closes what, without a tree.
#
# The rules are those of browsers as far as they decide what is inside what: an inline end tag does not reach out of
# its block, no end tag reaches out of its table cell, and items, cells and paragraphs end where the next one begins.
# Each question is answered without looking through the open elements, so that depth costs nothing.


def names(text: str) -> frozenset[str]:
    """The set of the words of a text: lists of elements are easier to read so."""
    return frozenset(text.split())


VOID = names("area base basefont br col embed frame hr img input keygen link meta param source track wbr")
"""Elements that are never open."""
BLOCKS = names(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form frameset h1 h2 h3 h4 h5 h6 header hgroup html legend li listing main menu nav noscript object ol "
    "optgroup option p plaintext pre search section select summary svg table tbody td template tfoot th thead tr ul "
    "xmp"
)
_BOUNDARIES = frozenset({"caption", "object", "table", "td", "template", "th"})
_TABLE_PARTS = frozenset({"caption", "tbody", "td", "tfoot", "th", "thead", "tr"})
# What the start of an element ends: these, unless one of those lies between.
_ENDED_BY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "li": (("li",), ("ul", "ol", "menu")),
    "dt": (("dt", "dd"), ("dl",)),
    "dd": (("dt", "dd"), ("dl",)),
    "option": (("option",), ("select",)),
    "td": (("td", "th"), ("table",)),
    "th": (("td", "th"), ("table",)),
    "tr": (("tr",), ("table",)),
    "tbody": (("tbody", "thead", "tfoot"), ("table",)),
    "thead": (("tbody", "thead", "tfoot"), ("table",)),
    "tfoot": (("tbody", "thead", "tfoot"), ("table",)),
}

Mark = TypeVar("Mark")


class OpenElements(Generic[Mark]):
    """A stack of elements, each with whatever its reader wants to remember until it ends."""

    def __init__(self) -> None:
        self._stack: list[tuple[str, Mark]] = []
        self._places: dict[str, list[int]] = {}
        self._blocks = [-1]
        self._boundaries = [-1]

    def __len__(self) -> int:
        return len(self._stack)

    def push(self, name: str, mark: Mark) -> None:
        place = len(self._stack)
        self._stack.append((name, mark))
        self._places.setdefault(name, []).append(place)
        if name in BLOCKS:
            self._blocks.append(place)
            if name in _BOUNDARIES:
                self._boundaries.append(place)

    def ended_by_start(self, name: str) -> list[tuple[str, Mark]]:
        """The elements that end because this one begins, the innermost first."""
        if name not in BLOCKS:
            # A link cannot stand in a link.
            return self._pop(self._last("a"), self._blocks[-1]) if name == "a" else []
        ended = self._pop(self._last("p"), self._boundaries[-1])
        rule = _ENDED_BY.get(name)
        if rule is not None:
            ended += self._pop(max(map(self._last, rule[0])), max(map(self._last, rule[1])))
        return ended

    def ended_by_end(self, name: str) -> list[tuple[str, Mark]]:
        """The elements that an end tag ends, the innermost first; none if nothing of that name is in its reach."""
        if name in _TABLE_PARTS:
            reach = self._last("table")
        elif name not in BLOCKS:
            reach = self._blocks[-1]
        else:
            reach = -1 if name in _BOUNDARIES else self._boundaries[-1]
        return self._pop(self._last(name), reach)

    def _last(self, name: str) -> int:
        places = self._places.get(name)
        return places[-1] if places else -1

    def _pop(self, place: int, reach: int) -> list[tuple[str, Mark]]:
        """End everything from a place on, if it lies within reach."""
        if place <= reach:
            return []
        ended = self._stack[place:]
        del self._stack[place:]
        ended.reverse()
        for name, _ in ended:
            self._places[name].pop()
            if name in BLOCKS:
                self._blocks.pop()
                if name in _BOUNDARIES:
                    self._boundaries.pop()
        return ended


# --------------------------------------------------------------------------------------------------------------------
# HTML taken apart into tags and text, in one pass.
#
# Every character is looked at a bounded number of times, whatever the page holds: unclosed comments, tags and quotes
# end the page, as they do in a browser, and are not tried again at the next bracket. (The parser of the standard
# library takes time with the square of such a page.)

TokenKind = Literal["text", "start", "end"]

RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"})
"""Elements whose content is text up to their own end tag, whatever brackets stand in it."""
_KEPT = names(
    "alt bgcolor charset class color content dir height hidden href http-equiv id lang media name open popover role "
    "size src start style title type width"
)
"""The attributes that anybody asks for, besides those of the two groups."""
_KEPT_GROUPS = ("aria-", "data-")

# Any other bracket is a part of the text.
_bracket = re.compile(r"<(?=[A-Za-z/!?])").search
_tag_name = re.compile(r"[A-Za-z][^\t\n\f\r />]*").match
# The name of an attribute, its value, and the end of the page where that comes before the closing quote. It matches
# everywhere; without a name where the tag or the page ends.
_attribute = re.compile(
    r"[\t\n\f\r /]*(=?[^\t\n\f\r />=]*)"
    r"""(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)(?:"|(\Z))|'([^']*)(?:'|(\Z))|([^\t\n\f\r >]*)))?"""
).match
_comment = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL).match
_raw_ends = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search for name in sorted(RAW)}


_NONE: Mapping[str, str] = MappingProxyType({})


class Token(NamedTuple):
    kind: TokenKind
    value: str
    """The text, with its entities still in it, or the name of the tag in lower case."""
    attributes: Mapping[str, str] = _NONE
    closed: bool = False
    """Whether a start tag ends with a slash; only foreign elements (svg, math) end with it."""


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
                found = None if name[0].lower() == "plaintext" else _raw_ends[name[0].lower()](source, position)
                end = size if found is None else found.start()
                if end > position:
                    yield Token("text", source[position:end])
                position = end
            continue
        token, position = _read_other(source, opening)
        if token is not None:
            yield token
        if position < 0:
            return


def _read_other(source: str, opening: int) -> tuple[Token | None, int]:
    """What begins with a bracket and is no start tag; the place behind it is -1 where the page ends in it."""
    name = _tag_name(source, opening + 2) if source[opening + 1] == "/" else None
    if name is not None:
        _, position = _read_attributes(source, name.end())
        return (Token("end", name[0].lower()) if position >= 0 else None), position
    if source.startswith("<!--", opening):
        comment = _comment(source, opening)
        return None, -1 if comment is None else comment.end()
    closing = source.find(">", opening + 2)
    return None, closing + 1 if closing >= 0 else -1


def _read_attributes(source: str, position: int) -> tuple[dict[str, str], int]:
    """The attributes of a tag, and the place behind the tag: -1 where the page ends in it."""
    if source.startswith(">", position):
        return {}, position + 1
    attributes: dict[str, str] = {}
    while True:
        found = _attribute(source, position)
        assert found is not None
        position = found.end()
        name, double, unclosed, single, unclosed_too, bare = found.groups()
        if not name:
            return attributes, position + 1 if source.startswith(">", position) else -1
        if unclosed is not None or unclosed_too is not None:
            return attributes, -1
        lowered = name.lower() if len(name) < 20 else ""
        if (lowered in _KEPT or lowered.startswith(_KEPT_GROUPS)) and lowered not in attributes:
            attributes[lowered] = unescape_html(double or single or bare or "")
