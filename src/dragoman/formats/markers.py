"""Many literal markers, searched for at once, also when the text may stop in the middle of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

_Trie = dict[str, "_Trie"]
_Search = Callable[..., re.Match[str] | None]
_END = ""
_LINE_START = 100


def _grow(markers: Iterable[str]) -> _Trie:
    trie: _Trie = {}
    for marker in markers:
        node = trie
        for character in marker:
            node = node.setdefault(character, {})
        node[_END] = {}
    return trie


def _branches(node: _Trie, *, partial: bool) -> list[str]:
    """The ways to go on from a node, each as a regular expression that begins with a literal."""
    branches: list[str] = []
    for character, child in sorted(node.items()):
        if character == _END:
            continue
        run = character
        # A chain without forks is one literal, unless the text may stop inside it.
        while not partial and len(child) == 1 and _END not in child:
            ((character, child),) = child.items()
            run += character
        only_end = len(child) == 1 and _END in child
        branches.append(re.escape(run) + ("" if only_end else _pattern(child, partial=partial)))
    return branches


def _pattern(node: _Trie, *, partial: bool) -> str:
    """What may follow an inner node; with `partial`, also the end of the text."""
    branches = _branches(node, partial=partial)
    if partial:
        branches.append(r"\Z")
    if _END in node:
        branches.append("")
    return branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"


class Markers:
    """A set of literals. `find` gives the first one in a text, `at` the one at a place; both know unfinished ones.

    With a `line_gate`, line breaks are markers where one of its patterns, or one of the `line_words`, begins the next
    line, or where too little of that line is known; most lines are passed over without a stop.
    """

    __slots__ = ("_full", "_growing", "_line_gate", "_line_words", "extendable", "literals")

    def __init__(
        self, literals: Iterable[str], *, line_gate: Sequence[str] | None = None, line_words: Iterable[str] = ()
    ) -> None:
        self.literals = frozenset(literals)
        self._line_gate = line_gate
        self._line_words = tuple(line_words)
        if not self.literals or "" in self.literals:
            raise ValueError("markers must be literals of at least one character")
        self.extendable = frozenset(
            short for short in self.literals if any(long != short and long.startswith(short) for long in self.literals)
        )
        # Both are compiled on first use: of the many markers of the catalogue, one reply needs few, and a text that
        # has arrived whole needs none that grow.
        self._full: re.Pattern[str] | None = None
        self._growing: re.Pattern[str] | None = None

    def _compile(self, *, partial: bool) -> re.Pattern[str]:
        gated = self._line_gate is not None
        branches = _branches(_grow(self.literals - {"\n"} if gated else self.literals), partial=partial)
        if self._line_gate is not None:
            gates = [*self._line_gate, *_branches(_grow(self._line_words), partial=partial)]
            if partial:
                gates.insert(0, rf"\S{{0,{_LINE_START}}}\Z")
            branches += [rf"\n(?=[ \t]*(?:{'|'.join(gates)}))"] if gates else []
        # Every branch begins with a literal character: the search can skip to the next one that matters.
        pattern = re.compile("|".join(branches))
        if partial:
            self._growing = pattern
        else:
            self._full = pattern
        return pattern

    @property
    def wakes(self) -> _Search:
        """Finds whatever in a piece of text is, or may become, a marker; None means that the piece may pass."""
        return (self._growing or self._compile(partial=True)).search

    def find_within(self, text: str, start: int, end: int) -> tuple[int, str | None] | None:
        """As `find`, but no further than `end`, which lies inside the text."""
        match = (self._full or self._compile(partial=False)).search(text, start, end)
        return None if match is None else (match.start(), match.group())

    def find(self, text: str, start: int, *, final: bool) -> tuple[int, str | None] | None:
        """The first marker from `start` on as (place, marker); (place, None) if the text ends in what may be one."""
        if final:
            match = (self._full or self._compile(partial=False)).search(text, start)
            return None if match is None else (match.start(), match.group())
        match = (self._growing or self._compile(partial=True)).search(text, start)
        if match is None:
            return None
        found = match.group()
        if found not in self.literals or (match.end() == len(text) and found in self.extendable):
            return match.start(), None
        return match.start(), found

    def at(self, text: str, position: int, *, final: bool) -> tuple[str | None, bool]:
        """The marker that stands exactly here, and whether more text may still make it one or another."""
        if final:
            match = (self._full or self._compile(partial=False)).match(text, position)
            return (None if match is None else match.group()), False
        match = (self._growing or self._compile(partial=True)).match(text, position)
        if match is None:
            return None, False
        found = match.group()
        if match.end() == len(text) and (found not in self.literals or found in self.extendable):
            return None, True
        return found, False

    def __iter__(self) -> Iterator[str]:
        return iter(self.literals)
