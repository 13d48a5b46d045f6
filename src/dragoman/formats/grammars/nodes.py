"""What a grammar is made of, whatever syntax it is written in afterwards.

Every grammar here is finite in depth and in repeats: all of it is a regular language, which each engine takes.
`NEVER` accepts nothing, so that what cannot be written vanishes by itself: an optional part with it is left out, and
a choice goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Text(Struct, frozen=True):
    """Exactly this text."""

    text: str


class Chars(Struct, frozen=True):
    """One character of some ranges, or, negated, any other one."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


class Row(Struct, frozen=True):
    """One part after the other."""

    parts: tuple[Node, ...]


class Choice(Struct, frozen=True):
    """One of these. None at all: nothing is accepted."""

    ways: tuple[Node, ...]


class Repeat(Struct, frozen=True):
    """The same part some times over; `most` None: without end."""

    part: Node
    least: int
    most: int | None


class Ref(Struct, frozen=True):
    """A rule by its name."""

    name: str


class Free(Struct, frozen=True):
    """Running text in which none of the markers stands.

    It is made of characters other than the barred ones, and of escapes where there are any; each counts as one.
    """

    markers: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    exact: bool = False
    """Whether `most` is a promise (the schema's own limit) or only keeps a model from running on for ever."""
    barred: str = "\0"
    """Characters that do not stand in it as they are; never the one with the number 0, which no tool expects."""
    escape: Node | None = None
    starts_visible: bool = False
    """The first character is no white space."""


Node = Text | Chars | Row | Choice | Repeat | Ref | Free

NEVER = Choice(())
EMPTY = Text("")
DIGIT = Chars((("0", "9"),))


def row(*parts: Node) -> Node:
    """One after the other; texts that meet become one."""
    flat: list[Node] = []
    for part in parts:
        for each in part.parts if type(part) is Row else (part,):
            kind = type(each)
            if kind is Choice and not each.ways:  # type: ignore[union-attr]
                return NEVER
            if kind is Text:
                if flat and type(flat[-1]) is Text:
                    flat[-1] = Text(flat[-1].text + each.text)  # type: ignore[union-attr]
                elif each.text:  # type: ignore[union-attr]
                    flat.append(each)
            else:
                flat.append(each)
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Row(tuple(flat))


def choice(ways: Iterable[Node]) -> Node:
    """One of these, each once."""
    flat: dict[Node, None] = {}
    for way in ways:
        flat.update(dict.fromkeys(way.ways if isinstance(way, Choice) else (way,)))
    found = tuple(flat)
    return found[0] if len(found) == 1 else Choice(found)


def repeat(part: Node, least: int, most: int | None) -> Node:
    """The part between `least` and `most` times."""
    if most is not None and most < least:
        return NEVER
    if part == NEVER:
        return NEVER if least else EMPTY
    if most == 0 or part == EMPTY:
        return EMPTY
    return part if least == most == 1 else Repeat(part, least, most)


def maybe(part: Node) -> Node:
    """The part, or nothing."""
    return repeat(part, 0, 1)


def chars(spec: str, *, negated: bool = False) -> Chars:
    """A class of characters from pairs of ends: `chars("az09")` is a letter or a digit."""
    return Chars(tuple(zip(spec[::2], spec[1::2], strict=True)), negated)


def runs(characters: str) -> tuple[tuple[str, str], ...]:
    """Ranges of these characters, neighbours together."""
    found: list[tuple[str, str]] = []
    for character in sorted(set(characters)):
        if found and ord(found[-1][1]) + 1 == ord(character):
            found[-1] = (found[-1][0], character)
        else:
            found.append((character, character))
    return tuple(found)


class Rules:
    """The named parts of a grammar. Parts that are the same share a name, and the order is that of their making."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self._names: dict[Node, str] = {}
        self._counts: dict[str, int] = {}

    def define(self, hint: str, node: Node) -> Node:
        """A reference to this part; what is as short as a reference stays as it is."""
        if isinstance(node, Text | Ref | Chars) or node == NEVER:
            return node
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = self._fresh(hint)
            self.named[name] = node
        return Ref(name)

    def _fresh(self, hint: str) -> str:
        """A name of letters, digits and dashes, which is what the strictest syntax allows."""
        plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in hint).strip("-").lower()
        plain = plain if plain[:1].isalpha() else f"x-{plain}".rstrip("-")
        while True:
            count = self._counts[plain] = self._counts.get(plain, 0) + 1
            name = plain if count == 1 else f"{plain}-{count}"
            if name not in self.named and name != "root":
                return name


class Tree(Struct, frozen=True):
    """A whole grammar: where it starts, and its named parts."""

    root: Node
    rules: dict[str, Node]

    def reachable(self) -> dict[str, Node]:
        """The named parts that are needed, in the order of their making."""
        needed: set[str] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Ref):
                if node.name not in needed:
                    needed.add(node.name)
                    waiting.append(self.rules[node.name])
            elif isinstance(node, Row):
                waiting.extend(node.parts)
            elif isinstance(node, Choice):
                waiting.extend(node.ways)
            elif isinstance(node, Repeat):
                waiting.append(node.part)
            elif isinstance(node, Free) and node.escape is not None:
                waiting.append(node.escape)
        return {name: node for name, node in self.rules.items() if name in needed}
