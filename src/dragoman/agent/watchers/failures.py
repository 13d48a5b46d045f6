"""One tool that fails with the same error again and again: what failed so is not tried in the same way once more."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from dragoman.agent.watchers.fingerprints import Digest

_MOST_CALLS = 200
_Key = TypeVar("_Key", str, Digest)


class _Streak(Struct):
    """Turns in a row that ended with the same error."""

    error: Digest
    turn: int
    count: int = 1

    def goes_on(self, error: Digest, turn: int) -> None:
        if error != self.error:
            self.error, self.count = error, 1
        elif turn != self.turn:
            self.count += 1
        self.turn = turn


class Failures:
    """Counts failures per tool and per call. Only a call that itself failed is ever blocked; others may be tried."""

    def __init__(self) -> None:
        self._tools: dict[str, _Streak] = {}
        self._calls: dict[Digest, _Streak] = {}

    def add(self, turn: int, name: str, call: Digest, error: Digest) -> int:
        """How often in a row this tool, or this very call, has now failed with this error."""
        tool = _go_on(self._tools, name, error, turn)
        own = _go_on(self._calls, call, error, turn)
        if len(self._calls) > _MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        return max(tool.count, own.count)

    def succeed(self, name: str, call: Digest) -> None:
        self._tools.pop(name, None)
        self._calls.pop(call, None)

    def foresee(self, name: str, call: Digest) -> tuple[int, Digest] | None:
        """How often in a row the error of this call has come, and that error; None for a call that has not failed."""
        own = self._calls.get(call)
        if own is None:
            return None
        tool = self._tools.get(name)
        return max(own.count, tool.count if tool is not None and tool.error == own.error else 0), own.error


def _go_on(streaks: dict[_Key, _Streak], key: _Key, error: Digest, turn: int) -> _Streak:
    known = streaks.get(key)
    if known is None:
        known = streaks[key] = _Streak(error, turn)
    else:
        known.goes_on(error, turn)
    return known
