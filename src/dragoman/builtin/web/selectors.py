"""Selectors of style sheets: read, and compared with the elements of a page.

A selector may have types, classes, ids, attributes, `:not()`, `:is()` and positions, with descendants and children. The
siblings before an element are not looked at, so `a + b` means every `b`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from dragoman.builtin.web.markup import VOID, OpenElements, Token, names

Places = tuple[int, int, int, int]
"""The number of an element among all and among those of its type, from the start; and both from the end, or 0."""
_FROM_START = {":nth-child": 0, ":nth-of-type": 1, ":nth-last-child": 2, ":nth-last-of-type": 3}
_FIRST: dict[str, tuple[int, ...]] = {
    ":first-child": (0,),
    ":first-of-type": (1,),
    ":last-child": (2,),
    ":last-of-type": (3,),
}
_FIRST |= {":only-child": (0, 2), ":only-of-type": (1, 3)}


class Node(NamedTuple):
    """An open element as selectors see it."""

    name: str
    id: str = ""
    classes: frozenset[str] = frozenset()
    attributes: Mapping[str, str] = {}
    places: Places = (1, 1, 0, 0)
    """Its number among the elements of its parent, from the start and from the end."""


class Compound(Struct, frozen=True):
    name: str = ""
    id: str = ""
    classes: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str, str], ...] = ()
    negated: tuple[Compound, ...] = ()
    options: tuple[tuple[Compound, ...], ...] = ()
    positions: tuple[tuple[int, int, int], ...] = ()
    """Which number, and `a` and `b` of `:nth-child(an+b)`."""
    never: bool = False
    """Whether it depends on what a visitor does, or means no element."""

    def matches(self, node: Node) -> bool:
        if self.never or (self.name and self.name != node.name) or (self.id and self.id != node.id):
            return False
        if self.classes and not self.classes <= node.classes:
            return False
        for which, step, first in self.positions:
            if not _is_at(node.places[which], step, first):
                return False
        for wanted in self.attributes:
            if not _has(node, wanted):
                return False
        if self.negated and any(each.matches(node) for each in self.negated):
            return False
        return all(any(each.matches(node) for each in group) for group in self.options) if self.options else True

    @property
    def counts_from_end(self) -> bool:
        inner = (*self.negated, *(each for group in self.options for each in group))
        return any(which > 1 for which, _, _ in self.positions) or any(each.counts_from_end for each in inner)

    @property
    def weight(self) -> tuple[int, int, int]:
        extra = len(self.classes) + len(self.attributes) + len(self.positions)
        return (int(bool(self.id)), extra, int(bool(self.name)))


def _has(node: Node, wanted: tuple[str, str, str]) -> bool:
    name, sign, value = wanted
    found = node.attributes.get(name)
    if found is None or not sign:
        return found is not None
    if sign.endswith("i"):
        sign, found, value = sign[:-1], found.lower(), value.lower()
    if sign == "=":
        return found == value
    if not value:
        return False
    return {
        "~=": value in found.split(),
        "|=": found == value or found.startswith(f"{value}-"),
        "^=": found.startswith(value),
        "$=": found.endswith(value),
        "*=": value in found,
    }[sign]


def _is_at(place: int, step: int, first: int) -> bool:
    if place == 0:
        return False
    if step == 0:
        return place == first
    return (place - first) % step == 0 and (place - first) // step >= 0


_part = re.compile(
    r"""(?:(?:\*|[\w-]*)\|)?(?P<name>\*|[\w-]+) | \#(?P<id>[\w-]+) | \.(?P<class>[\w-]+)
      | \[\s*(?P<attr>[\w-]+)\s*(?:(?P<sign>[~|^$*]?=)\s*(?P<value>"[^"]*"|'[^']*'|[^\s\]]+)\s*(?P<flag>[iIsS])?)?\s*\]
      | (?P<pseudo>::?[\w-]+)(?P<inside>\([^()]*(?:\([^()]*\)[^()]*)*\))?""",
    re.VERBOSE,
)
_nth = re.compile(r"(?:(?P<a>[+-]?\d{0,4})n)?\s*(?P<b>[+-]?\s*\d{1,4})?").fullmatch
_step = re.compile(r"\s*([>+~])\s*|\s+")


def _read_compound(text: str) -> Compound | None:
    fields: dict[str, object] = {
        "classes": frozenset(),
        "attributes": (),
        "negated": (),
        "options": (),
        "positions": (),
    }
    at = 0
    while at < len(text):
        found = _part.match(text, at)
        if found is None:
            return None
        at = found.end()
        if found["name"]:
            fields["name"] = "" if found["name"] == "*" else found["name"].lower()
        elif found["id"]:
            fields["id"] = found["id"]
        elif found["class"]:
            fields["classes"] = fields["classes"] | {found["class"]}  # type: ignore[operator]
        elif found["attr"]:
            value = (found["value"] or "").strip("\"'")
            sign = (found["sign"] or "") + ("i" if (found["flag"] or "").lower() == "i" else "")
            fields["attributes"] = (*fields["attributes"], (found["attr"].lower(), sign, value))  # type: ignore[misc]
        else:
            _read_pseudo(found["pseudo"].lower(), (found["inside"] or "()")[1:-1], fields)
    return Compound(**fields)  # type: ignore[arg-type]


def _read_pseudo(name: str, inside: str, fields: dict[str, object]) -> None:
    compounds = [_read_compound(each.strip()) for each in inside.split(",")] if inside else []
    simple = tuple(each for each in compounds if each is not None)
    if name == ":not":
        fields["negated"] = (*fields["negated"], *simple)  # type: ignore[misc]
    elif name in (":is", ":where", ":matches", ":-webkit-any"):
        fields["options"] = (*fields["options"], simple)  # type: ignore[misc]
    elif name in _FIRST:
        fields["positions"] = (*fields["positions"], *((which, 0, 1) for which in _FIRST[name]))  # type: ignore[misc]
    elif name in _FROM_START:
        # `of` restricts the elements that are counted; they are not.
        position = _read_position(inside)
        fields["never"] = fields.get("never") or position is None
        fields["positions"] = (*fields["positions"], (_FROM_START[name], *(position or (0, 0))))  # type: ignore[misc]
    elif name == ":root":
        fields["options"] = (*fields["options"], (Compound("html"),))  # type: ignore[misc]
    elif name not in (":link", ":any-link", ":scope"):
        fields["never"] = True


def _read_position(text: str) -> tuple[int, int] | None:
    text = {"odd": "2n+1", "even": "2n"}.get(text.strip().lower(), text.strip().lower())
    found = _nth(text)
    if found is None or not text:
        return None
    step = found["a"]
    first = int((found["b"] or "0").replace(" ", ""))
    return (0 if step is None else int(step + "1") if step in ("", "+", "-") else int(step)), first


def read_selector(text: str) -> tuple[tuple[Compound, ...], tuple[str, ...]] | None:
    pieces: list[str] = []
    signs: list[str] = []
    at = depth = begin = 0
    text = text.strip()
    while at < len(text):
        if text[at] in "([":
            depth += 1
        elif text[at] in ")]":
            depth -= 1
        found = _step.match(text, at) if depth == 0 else None
        if found and found.end() > at:
            pieces.append(text[begin:at])
            signs.append(found[1] or " ")
            at = begin = found.end()
            continue
        at += 1
    pieces.append(text[begin:])
    compounds: list[Compound] = []
    kept: list[str] = []
    for index, piece in enumerate(pieces):
        compound = _read_compound(piece) if piece else None
        if compound is None:
            return None
        if index and signs[index - 1] in "+~":
            # The sibling before it is not looked at; what stands before that one counts.
            compounds.pop()
        elif index:
            kept.append(signs[index - 1])
        compounds.append(compound)
    return tuple(compounds), tuple(kept[-(len(compounds) - 1) :] if len(compounds) > 1 else ())


# --------------------------------------------------------------------------------------------------------------------
# The numbers of elements among their siblings.

_PAGE = frozenset({"html", "head", "body"})
_HEAD = names("base link meta noscript script style template title")
"""The elements before the body, whether its tag is there or not."""


class Siblings:
    """Counts the elements of each open element. `totals` are the numbers of all of them, if they are known."""

    def __init__(self, totals: Sequence[tuple[int, int]] = ()) -> None:
        self._counts: list[Counter[str] | None] = [None]
        self._totals = totals
        self._is_in_body = False
        self.found: list[tuple[Counter[str], str]] = []
        """The counts of the parent of each element, and its name, if no totals are known."""

    def begin_body(self) -> None:
        self._is_in_body = True

    def add(self, name: str, number: int) -> Places:
        """Count an element of the innermost open one; it is the element with this number of the page."""
        counts = self._counts[-1] or Counter()
        if len(self._counts) > 1 or self._is_in_body or name not in _HEAD:
            self._is_in_body = True
            self._counts[-1] = counts
            counts[""] += 1
            counts[name] += 1
        place, alike = counts[""], counts[name]
        if not self._totals:
            self.found.append((counts, name))
            return place, alike, 0, 0
        of_all, of_type = self._totals[number] if number < len(self._totals) else (0, 0)
        return place, alike, max(0, of_all - place + 1), max(0, of_type - alike + 1)

    def enter(self) -> None:
        self._counts.append(None)

    def leave(self) -> None:
        self._counts.pop()


def count_siblings(tokens: Iterable[Token]) -> list[tuple[int, int]]:
    """For each element of a page in order: how many its parent has, and how many of its type."""
    siblings = Siblings()
    elements: OpenElements[None] = OpenElements()
    for token in tokens:
        if token.kind == "text":
            continue
        is_end = token.kind == "end"
        for _ in elements.ended_by_end(token.value) if is_end else elements.ended_by_start(token.value):
            siblings.leave()
        if token.value == "body":
            siblings.begin_body()
        if is_end or token.value in _PAGE:
            continue
        siblings.add(token.value, 0)
        if is_open(token):
            elements.push(token.value, None)
            siblings.enter()
    return [(counts[""], counts[name]) for counts, name in siblings.found]


def is_open(token: Token) -> bool:
    """Whether a start tag opens an element that has an end."""
    return token.value not in VOID and not (token.closed and token.value in ("svg", "math"))
