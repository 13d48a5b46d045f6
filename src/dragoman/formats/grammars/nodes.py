"""The nodes of a grammar, the notations of values, and the automaton that excludes markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from dragoman.errors import CannotExpress
from dragoman.formats.notation import GemmaNotation, PythonNotation, is_plain_key, write_strict_json

# --------------------------------------------------------------------------------------------------------------------
# The nodes of a grammar, independent of its syntax.
#
# Every grammar here has a finite depth and finite repeats, so it is a regular language, which each engine accepts.
# `NEVER` accepts nothing. So parts that cannot be written disappear: an optional part that contains it is left out, and
# a choice loses that alternative.


class Text(Struct, frozen=True):
    """Exactly this text."""

    text: str


class Chars(Struct, frozen=True):
    """One character of some ranges; negated, any other character."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


class Concatenation(Struct, frozen=True):
    """One part after the other."""

    parts: tuple[Node, ...]


class Choice(Struct, frozen=True):
    """One of these. Without any, nothing is accepted."""

    ways: tuple[Node, ...]


class Repeat(Struct, frozen=True):
    """The same part several times; `most` None means without limit."""

    part: Node
    least: int
    most: int | None


class Ref(Struct, frozen=True):
    """A rule by its name."""

    name: str


class FreeText(Struct, frozen=True):
    """Text that contains none of the markers.

    It consists of characters that are not barred, and of escapes if there are any; each counts as one.
    """

    markers: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    exact: bool = False
    """Whether `most` must be exact (a limit of the schema), or only prevents text without end."""
    barred: str = "\0"
    """Characters that do not occur unescaped; the character with number 0 never occurs, since no tool expects it."""
    escape: Node | None = None
    starts_visible: bool = False
    """The first character is not white space."""


Node = Text | Chars | Concatenation | Choice | Repeat | Ref | FreeText

NEVER = Choice(())
EMPTY = Text("")
DIGIT = Chars((("0", "9"),))


def row(*parts: Node) -> Node:
    """Concatenate nodes; adjacent texts become one."""
    flat: list[Node] = []
    for part in parts:
        for each in part.parts if type(part) is Concatenation else (part,):
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
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def choice(ways: Iterable[Node]) -> Node:
    """Return a choice of these nodes, without duplicates."""
    flat: dict[Node, None] = {}
    for way in ways:
        flat.update(dict.fromkeys(way.ways if isinstance(way, Choice) else (way,)))
    found = tuple(flat)
    return found[0] if len(found) == 1 else Choice(found)


def repeat(part: Node, least: int, most: int | None) -> Node:
    """Return the part, repeated `least` to `most` times."""
    if most is not None and most < least:
        return NEVER
    if part == NEVER:
        return NEVER if least else EMPTY
    if most == 0 or part == EMPTY:
        return EMPTY
    return part if least == most == 1 else Repeat(part, least, most)


def maybe(part: Node) -> Node:
    """Return the part or nothing."""
    return repeat(part, 0, 1)


def chars(spec: str, *, negated: bool = False) -> Chars:
    """Return a character class from pairs of ends: `chars("az09")` is a letter or a digit."""
    return Chars(tuple(zip(spec[::2], spec[1::2], strict=True)), negated)


def runs(characters: str) -> tuple[tuple[str, str], ...]:
    """Return the ranges of these characters, adjacent ones joined."""
    found: list[tuple[str, str]] = []
    for character in sorted(set(characters)):
        if found and ord(found[-1][1]) + 1 == ord(character):
            found[-1] = (found[-1][0], character)
        else:
            found.append((character, character))
    return tuple(found)


class Rules:
    """The named parts of a grammar, in the order of their creation. Equal parts share a name."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self._names: dict[Node, str] = {}
        self._counts: dict[str, int] = {}

    def define(self, hint: str, node: Node) -> Node:
        """Return a reference to this part; a part as short as a reference is returned unchanged."""
        if isinstance(node, Text | Ref | Chars) or node == NEVER:
            return node
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = self._fresh(hint)
            self.named[name] = node
        return Ref(name)

    def _fresh(self, hint: str) -> str:
        """Return a new name of letters, digits and dashes, which the strictest syntax allows."""
        plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in hint).strip("-").lower()
        plain = plain if plain[:1].isalpha() else f"x-{plain}".rstrip("-")
        while True:
            count = self._counts[plain] = self._counts.get(plain, 0) + 1
            name = plain if count == 1 else f"{plain}-{count}"
            if name not in self.named and name != "root":
                return name


class Tree(Struct, frozen=True):
    """A whole grammar: its start, and its named parts."""

    root: Node
    rules: dict[str, Node]

    def reachable(self) -> dict[str, Node]:
        """Return the named parts that are used, in the order of their creation."""
        needed: set[str] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Ref):
                if node.name not in needed:
                    needed.add(node.name)
                    waiting.append(self.rules[node.name])
            elif isinstance(node, Concatenation):
                waiting.extend(node.parts)
            elif isinstance(node, Choice):
                waiting.extend(node.ways)
            elif isinstance(node, Repeat):
                waiting.append(node.part)
            elif isinstance(node, FreeText) and node.escape is not None:
                waiting.append(node.escape)
        return {name: node for name, node in self.rules.items() if name in needed}


# --------------------------------------------------------------------------------------------------------------------
# The limits of a grammar if a schema states none, and the losses.


class Limits(Struct, frozen=True):
    """Limits of everything that repeats, because small models repeat without end if they may."""

    calls: int = 4
    items: int = 16
    """Items of a list, and members of a free object, if the schema states no limit."""
    characters: int | None = 1000
    """Characters of a string without `maxLength`. None: no limit."""
    reply: int | None = None
    """Characters of a plain reply. None: no limit; the caller's token limit ends it."""
    depth: int = 3
    """Levels of free JSON, and of recursive references."""


class Loss(Struct, frozen=True):
    """A part of a schema that the grammar does not enforce; validation must check it afterwards."""

    tool: str
    path: str
    keyword: str
    why: str

    def __str__(self) -> str:
        return f"{self.tool} {self.path}: {self.keyword}: {self.why}"


# --------------------------------------------------------------------------------------------------------------------
# An automaton that searches for markers one character at a time: the transitions, and those that complete a marker.


class Transition(Struct, frozen=True):
    """The characters that lead to another state; negated, all others."""

    characters: str
    negated: bool
    state: int


class Automaton:
    """The states of a search for markers. State 0: no marker has begun. No move completes a marker."""

    def __init__(self, markers: tuple[str, ...]) -> None:
        self._heads = [""]
        known = {"": 0}
        for marker in markers:
            for end in range(1, len(marker)):
                if marker[:end] not in known:
                    known[marker[:end]] = len(self._heads)
                    self._heads.append(marker[:end])
        self._known = known
        self._markers = frozenset(markers)
        self._alphabet = "".join(sorted({character for marker in markers for character in marker}))
        self._moves: dict[tuple[int, str], list[Transition]] = {}

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def is_plain(self) -> bool:
        """Whether no marker contains the first character of a marker, so that no match begins inside another."""
        first = {marker[0] for marker in self._markers}
        return not any(character in first for marker in self._markers for character in marker[1:])

    def goes_on(self, state: int, move: Transition) -> bool:
        """Whether a move leads one character deeper into the same marker."""
        return len(self._heads[move.state]) == len(self._heads[state]) + 1

    def moves(self, state: int, barred: str) -> list[Transition]:
        """Return the transitions for one more character; first the one back to the start, then the others."""
        key = (state, barred)
        if key not in self._moves:
            self._moves[key] = self._find_moves(state, barred)
        return self._moves[key]

    def _find_moves(self, state: int, barred: str) -> list[Transition]:
        targets: dict[int, str] = {}
        elsewhere = ""
        for character in self._alphabet:
            target = self._step(self._heads[state], character)
            if target != 0:
                elsewhere += character
                if target is not None and character not in barred:
                    targets[target] = targets.get(target, "") + character
        away = "".join(sorted({*barred, *elsewhere}))
        others = [Transition(characters, False, target) for target, characters in sorted(targets.items())]
        return [Transition(away, True, 0), *others]

    def _step(self, head: str, character: str) -> int | None:
        """Return the state after one more character; None if it completes a marker."""
        text = head + character
        for start in range(len(text)):
            if text[start:] in self._markers:
                return None
        for start in range(len(text) + 1):
            if text[start:] in self._known:
                return self._known[text[start:]]
        return 0


# --------------------------------------------------------------------------------------------------------------------
# The notation of values inside a call: as JSON, as JSON between tags, as plain text between tags, as Python.

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


class Notation(Struct, frozen=True):
    """The notation of one family of formats."""

    name: str
    write: Callable[[Any], str]
    """Writes a value: a key, a member of an enum or a constant."""
    true: str = "true"
    false: str = "false"
    null: str = "null"
    colon: str = ": "
    comma: str = ", "
    quotes: tuple[str, str] = ('"', '"')
    markers: tuple[str, ...] = ()
    """What a string must not contain, escaped or not."""
    barred: str = '"\\' + _CONTROLS
    escape: Node | None = _JSON_ESCAPE
    bare_keys: bool = False

    def text(self, least: int, most: int | None, *, exact: bool) -> Node:
        """Return a string of some length, with its quotes."""
        opening, closing = self.quotes
        # A marker of one character is barred as a character, which also excludes every marker that contains it.
        barred = "".join(marker for marker in self.markers if len(marker) == 1)
        markers = tuple(marker for marker in self.markers if not set(marker) & set(barred))
        inner: Node = EMPTY if most == 0 else FreeText(markers, least, most, exact, self.barred + barred, self.escape)
        return row(Text(opening), inner, Text(closing))

    def form(self, node: Node) -> Node:
        """Return a string of a known form; forms contain nothing that needs an escape."""
        opening, closing = self.quotes
        return row(Text(opening), node, Text(closing))

    def key(self, key: str) -> Node | None:
        """Return the key of a member; None if it contains a marker."""
        return Text(key) if self.bare_keys and is_plain_key(key) else self.literal(key)

    def literal(self, value: Any) -> Node | None:
        """Return a constant; None if it cannot be written or contains a marker."""
        try:
            text = self.write(value)
        except (CannotExpress, TypeError, ValueError):
            return None
        return None if any(marker in text for marker in self.markers) else Text(text)


JSON = Notation("json", write_strict_json)


def json_between(markers: tuple[str, ...]) -> Notation:
    """JSON inside tags: its strings must not contain the tags. The part of a tag before a quote is sufficient."""
    heads = (marker.partition('"')[0] for marker in markers)
    return Notation("inner", write_strict_json, markers=tuple(dict.fromkeys(head for head in heads if head)))


def plain_between(markers: tuple[str, ...]) -> Notation:
    """Strings without quotes, up to the next tag."""
    return Notation("plain", str, quotes=("", ""), markers=markers, barred="\0", escape=None)


def python(markers: tuple[str, ...]) -> Notation:
    """Python literals, in double quotes."""
    return Notation(
        "python",
        PythonNotation(markers).write,
        "True",
        "False",
        "None",
        markers=markers,
        barred='"\\\x7f' + _CONTROLS,
        escape=_PYTHON_ESCAPE,
    )


def gemma(quote: str, closers: tuple[str, ...]) -> Notation:
    """Gemma's notation: bare keys, strings between two tokens and without escapes."""
    return _Gemma(
        "gemma",
        GemmaNotation(quote, closers).write,
        colon=":",
        comma=",",
        quotes=(quote, quote),
        markers=(quote, *closers),
        barred="\0",
        escape=None,
        bare_keys=True,
    )


class _Gemma(Notation, frozen=True):
    def literal(self, value: Any) -> Node | None:
        """Return a value whose strings contain neither of the two tokens; `write` refuses the others."""
        try:
            return Text(self.write(value))
        except CannotExpress:
            return None
