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

    __slots__ = (
        "_full",
        "_full_at",
        "_line_gate",
        "_line_words",
        "_partial_at",
        "_wakes",
        "extendable",
        "literals",
    )

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
        self._wakes: _Search | None = None

    def _compile(self) -> _Search:
        # On first use: of the many markers of the catalogue, one reply needs few.
        trie = _grow(self.literals - {"\n"} if self._line_gate is not None else self.literals)
        whole, growing = _branches(trie, partial=False), _branches(trie, partial=True)
        if self._line_gate is not None:
            words = _grow(self._line_words)
            gates = [*self._line_gate, *_branches(words, partial=False)]
            growing_gates = [rf"\S{{0,{_LINE_START}}}\Z", *self._line_gate, *_branches(words, partial=True)]
            whole += [rf"\n(?=[ \t]*(?:{'|'.join(gates)}))"] if gates else []
            growing.append(rf"\n(?=[ \t]*(?:{'|'.join(growing_gates)}))")
        # Every branch begins with a literal character: the search can skip to the next one that matters.
        full, partial = re.compile("|".join(whole)), re.compile("|".join(growing))
        self._full, self._full_at = full.search, full.match
        self._partial_at = partial.match
        self._wakes = partial.search
        return self._wakes

    @property
    def wakes(self) -> _Search:
        """Finds whatever in a piece of text is, or may become, a marker; None means that the piece may pass."""
        return self._wakes or self._compile()

    def find_within(self, text: str, start: int, end: int) -> tuple[int, str | None] | None:
        """As `find`, but no further than `end`, which lies inside the text."""
        if self._wakes is None:
            self._compile()
        match = self._full(text, start, end)
        return None if match is None else (match.start(), match.group())

    def find(self, text: str, start: int, *, final: bool) -> tuple[int, str | None] | None:
        """The first marker from `start` on as (place, marker); (place, None) if the text ends in what may be one."""
        search = self._wakes or self._compile()
        match = (self._full if final else search)(text, start)
        if match is None:
            return None
        found = match.group()
        if found not in self.literals or (not final and match.end() == len(text) and found in self.extendable):
            return match.start(), None
        return match.start(), found

    def at(self, text: str, position: int, *, final: bool) -> tuple[str | None, bool]:
        """The marker that stands exactly here, and whether more text may still make it one or another."""
        if self._wakes is None:
            self._compile()
        match = (self._full_at if final else self._partial_at)(text, position)
        if match is None:
            return None, False
        found = match.group()
        if not final and match.end() == len(text) and (found not in self.literals or found in self.extendable):
            return None, True
        return found, False

    def __iter__(self) -> Iterator[str]:
        return iter(self.literals)
