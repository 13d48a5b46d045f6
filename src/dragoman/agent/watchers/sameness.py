"""One tool that answers the same whatever it is asked: other arguments will not help either."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from dragoman.agent.watchers.fingerprints import Digest

_LEAST_ARGUMENTS = 2


class _Seen(Struct, frozen=True):
    turn: int
    name: str
    call: Digest
    result: Digest


class Sameness:
    """Counts turns in which a tool gave one same result for different arguments, among the last calls.

    Calls of other tools in between do not matter; another result of the same tool starts the count anew.
    """

    def __init__(self, window: int) -> None:
        self._seen: deque[_Seen] = deque(maxlen=window)

    def foresee(self, turn: int, name: str, call: Digest) -> tuple[int, Digest] | None:
        """The count with this call, if its result is the one that the tool gives anyway; and that result."""
        result = next((seen.result for seen in reversed(self._seen) if seen.name == name), None)
        if result is None:
            return None
        count = self._count(name, result, _Seen(turn, name, call, result))
        return (count, result) if count else None

    def add(self, turn: int, name: str, call: Digest, result: Digest) -> int:
        """The count with this result, 0 as long as the arguments were the same as well."""
        self._seen.append(_Seen(turn, name, call, result))
        return self._count(name, result)

    def _count(self, name: str, result: Digest, next_one: _Seen | None = None) -> int:
        turns: set[int] = set()
        calls: set[Digest] = set()
        for seen in [*([next_one] if next_one else ()), *reversed(self._seen)]:
            if seen.name != name:
                continue
            if seen.result != result:
                break
            turns.add(seen.turn)
            calls.add(seen.call)
        return len(turns) if len(calls) >= _LEAST_ARGUMENTS else 0
