"""How often a model may get it wrong, or say nothing, before the run is given up."""

from __future__ import annotations

from dragoman.agent.limits import Limits
from dragoman.agent.turns import CallTurn
from dragoman.types import InvalidCall


class Patience:
    """Counts mistakes, repairs and blank replies, each in a row."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.mistakes = 0
        self.repairs = 0
        self.blanks = 0

    def take_words(self) -> None:
        """The model said something, or called something."""
        self.blanks = 0

    def allows_blank(self) -> bool:
        """The model said nothing; whether it may be asked again."""
        self.blanks += 1
        return self.blanks <= self._limits.blanks

    def allows_repair(self) -> bool:
        """A reply has to be mended by its writer; whether he may be asked to."""
        self.repairs += 1
        return self.repairs <= self._limits.repairs

    def allows_calls(self, turn: CallTurn) -> bool:
        """Count a turn, once however many mistakes it held; whether the model may go on.

        A call that ran begins the count anew, whatever came of it. What was denied or blocked is no mistake, and no
        sign of getting better either.
        """
        if any(slot.ran for slot in turn.slots):
            self.mistakes = self.repairs = 0
        elif turn.mistakes:
            self.mistakes += 1
            only_invalid = all(isinstance(slot.call, InvalidCall) for slot in turn.slots)
            self.repairs = self.repairs + 1 if only_invalid else 0
        return self.mistakes < self._limits.mistakes and self.repairs <= self._limits.repairs
