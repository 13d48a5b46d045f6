"""The open elements of a page: which end tag closes what, without a tree.

The rules are those of browsers as far as they decide what is inside what: an inline end tag does not reach out of its
block, no end tag reaches out of its table cell, and items, cells and paragraphs end where the next one begins. Each
question is answered without looking through the open elements, so that depth costs nothing.
"""

from __future__ import annotations

from typing import Generic, TypeVar


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
        self._blocks: list[int] = []
        self._boundaries: list[int] = []

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
            place = self._last("a") if name == "a" else -1
            return self._pop(place) if place > self._top(self._blocks) else []
        ended: list[tuple[str, Mark]] = []
        paragraph = self._last("p")
        if paragraph > self._top(self._boundaries):
            ended = self._pop(paragraph)
        rule = _ENDED_BY.get(name)
        if rule is not None:
            place = max(self._last(each) for each in rule[0])
            if place > max(self._last(each) for each in rule[1]):
                ended += self._pop(place)
        return ended

    def ended_by_end(self, name: str) -> list[tuple[str, Mark]]:
        """The elements that an end tag ends, the innermost first; none if nothing of that name is in its reach."""
        place = self._last(name)
        if name in _TABLE_PARTS:
            reach = self._last("table")
        elif name not in BLOCKS:
            reach = self._top(self._blocks)
        else:
            reach = -1 if name in _BOUNDARIES else self._top(self._boundaries)
        return self._pop(place) if place > reach else []

    def _last(self, name: str) -> int:
        places = self._places.get(name)
        return places[-1] if places else -1

    def _top(self, places: list[int]) -> int:
        return places[-1] if places else -1

    def _pop(self, place: int) -> list[tuple[str, Mark]]:
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
