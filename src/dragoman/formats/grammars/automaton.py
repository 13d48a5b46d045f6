"""Finding markers in a text one character at a time: which characters lead where, and which would complete one."""

from __future__ import annotations

from msgspec import Struct


class Move(Struct, frozen=True):
    """Characters that lead on to another state; negated: all others."""

    characters: str
    negated: bool
    state: int


class Automaton:
    """The states of a search for markers. State 0: nothing has begun. No move completes a marker."""

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
        self._moves: dict[tuple[int, str], list[Move]] = {}

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def is_plain(self) -> bool:
        """Whether no marker holds a character with which one begins, so that a search never starts inside another."""
        first = {marker[0] for marker in self._markers}
        return not any(character in first for marker in self._markers for character in marker[1:])

    def goes_on(self, state: int, move: Move) -> bool:
        """Whether a move leads one character deeper into the same marker."""
        return len(self._heads[move.state]) == len(self._heads[state]) + 1

    def moves(self, state: int, barred: str) -> list[Move]:
        """Where one more character leads; first the move back to the start, then the others."""
        key = (state, barred)
        if key not in self._moves:
            self._moves[key] = self._find_moves(state, barred)
        return self._moves[key]

    def _find_moves(self, state: int, barred: str) -> list[Move]:
        targets: dict[int, str] = {}
        elsewhere = ""
        for character in self._alphabet:
            target = self._step(self._heads[state], character)
            if target != 0:
                elsewhere += character
                if target is not None and character not in barred:
                    targets[target] = targets.get(target, "") + character
        away = "".join(sorted({*barred, *elsewhere}))
        others = [Move(characters, False, target) for target, characters in sorted(targets.items())]
        return [Move(away, True, 0), *others]

    def _step(self, head: str, character: str) -> int | None:
        """The state behind one more character; None if that completes a marker."""
        text = head + character
        for start in range(len(text)):
            if text[start:] in self._markers:
                return None
        for start in range(len(text) + 1):
            if text[start:] in self._known:
                return self._known[text[start:]]
        return 0
