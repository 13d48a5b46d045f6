"""The same calls with the same results, over and over: one call that repeats, or several that take turns."""

from __future__ import annotations

from msgspec import Struct

from dragoman.agent.watchers.fingerprints import Digest
from dragoman.agent.watchers.settings import Steps

Pair = tuple[Digest, Digest]
"""The fingerprints of a call and of its result."""
_UNKNOWN = b""


class Circle(Struct, frozen=True):
    """A round of `period` calls, gone `count` times in full; `whole` when the last round has just been closed."""

    period: int
    count: int
    whole: bool = True


class Circles:
    """Remembers what was called, and sees when it goes round. A round of one call is a plain repetition."""

    def __init__(self, repeats: Steps | None, cycles: Steps | None, longest: int) -> None:
        self._steps = [repeats, *([cycles] * (longest - 1))]  # by period, less one
        given = [step for steps in (repeats, cycles) if steps for step in (steps.warn, steps.block, steps.end) if step]
        self._most = longest * (max(given, default=1) + 1)
        self._pairs: list[Pair] = []  # of the turns before this one
        self._now: dict[Digest, Pair] = {}  # of this turn, in the order of the calls: the result, or the one to expect
        self._settled: set[Digest] = set()

    def steps(self, circle: Circle) -> Steps:
        steps = self._steps[circle.period - 1]
        assert steps is not None, "a circle is only found where it is looked for"
        return steps

    def foresee(self, call: Digest) -> tuple[Circle, Pair] | None:
        """The circle that this call would close or go on with, if its result is the one of last time."""
        expected = self._now.setdefault(call, self._expect(call))
        for circle in self._find(self._until(call)):
            if self.steps(circle).blocks(circle.count):
                return circle, expected
        return None

    def add(self, pair: Pair) -> Circle | None:
        """The circle that this call and result belong to, if there is one to speak of.

        Calls of one turn may be answered in any order; what counts is the order in which they were made.
        """
        key = pair[0] if pair[0] not in self._settled else pair[0] + pair[1]
        self._now[key] = pair
        self._settled.add(key)
        return max(self._find(self._until(key)), key=self._severity, default=None)

    def forget(self, call: Digest) -> None:
        """Nothing is expected of the call any more: it failed."""
        if call not in self._settled:
            self._now.pop(call, None)

    def close_turn(self) -> None:
        self._pairs += [pair for key, pair in self._now.items() if key in self._settled]
        if len(self._pairs) > 2 * self._most:
            del self._pairs[: -self._most]
        self._now = {}
        self._settled = set()

    def _until(self, key: Digest) -> list[Pair]:
        pairs = self._pairs[-self._most :]
        for other, pair in self._now.items():
            pairs.append(pair)
            if other == key:
                break
        return pairs

    def _severity(self, circle: Circle) -> int:
        steps, count = self.steps(circle), circle.count
        return 2 * steps.ends(count) + steps.warns(count)

    def _expect(self, call: Digest) -> Pair:
        return next((pair for pair in reversed(self._pairs) if pair[0] == call), (call, _UNKNOWN))

    def _find(self, pairs: list[Pair]) -> list[Circle]:
        found = []
        for period, steps in enumerate(self._steps, start=1):
            if steps is None:
                continue
            length = _run(pairs, period)
            if length >= 2 * period and _is_smallest(pairs, period):
                found.append(Circle(period, length // period, length % period == 0))
        return found


def _run(pairs: list[Pair], period: int) -> int:
    """How many pairs at the end repeat with this period."""
    place = len(pairs) - 1
    while place >= period and pairs[place] == pairs[place - period]:
        place -= 1
    # What stopped the search belongs to the first round, with the others of that round before it.
    return len(pairs) - 1 - place + period if place < len(pairs) - 1 else 0


def _is_smallest(pairs: list[Pair], period: int) -> bool:
    """Whether a round is no repetition itself: `A A` is one call twice, and not a round of two."""
    last = pairs[-period:]
    return not any(
        period % part == 0 and all(last[place] == last[place - part] for place in range(part, period))
        for part in range(1, period)
    )
