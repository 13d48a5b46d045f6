"""A Stage takes pieces in and gives events out; it does no I/O and remembers what it needs.

`feed(piece)` may be called any number of times, then `close()` once. Whole-text parsing is `feed(text)` and
`close()`: there is no second implementation, so any chunking gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Piece = TypeVar("Piece")


class Stage(Protocol[In_contra, Out]):
    def feed(self, piece: In_contra, /) -> list[Out]: ...

    def close(self) -> list[Out]: ...


class Pipe:
    """Stages joined end to end, itself a Stage: what one gives out, the next takes in. A gateway is made of these."""

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self._stages = stages

    def feed(self, piece: Any, /) -> list[Any]:
        return self._push([piece], 0)

    def close(self) -> list[Any]:
        out: list[Any] = []
        for position, stage in enumerate(self._stages):
            # The earlier stages have already pushed their last pieces through this one; only its own tail is left.
            out += self._push(stage.close(), position + 1)
        return out

    def _push(self, pieces: list[Any], start: int) -> list[Any]:
        for stage in self._stages[start:]:
            pieces = [event for piece in pieces for event in stage.feed(piece)]
        return pieces


def collect(stage: Stage[Piece, Out], pieces: Iterable[Piece]) -> list[Out]:
    """Feed every piece, close, and return all events."""
    events: list[Out] = []
    for piece in pieces:
        events.extend(stage.feed(piece))
    events.extend(stage.close())
    return events
