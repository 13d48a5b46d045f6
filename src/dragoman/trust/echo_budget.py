"""A bound on the work of one search, so that no text can make the guard slow."""

from __future__ import annotations


class Exhausted(Exception):
    """A text holds so many places that nearly are the call that looking at all of them would take too long."""


class Budget:
    """What may be spent on one text, in units of about a microsecond. It grows with the text, so that all is linear."""

    __slots__ = ("_left", "spent")

    def __init__(self) -> None:
        self._left = 0
        self.spent = 0

    def grant(self, length: int) -> None:
        self._left = 20_000 + length // 4

    def spend(self, units: int) -> None:
        self.spent += units
        self._left -= units
        if self._left < 0:
            raise Exhausted
