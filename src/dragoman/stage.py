"""Stage: the interface of every translator. A stage takes pieces, returns events, keeps its own state and does no I/O.

Call `feed(piece)` any number of times, then `close()` once. To parse a whole text, call `feed(text)` and `close()`:
there is no second implementation, so every way to split the input gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Piece = TypeVar("Piece")


class Stage(Protocol[In_contra, Out]):
    """A translator: it takes pieces, and returns what it recognised in them."""

    def feed(self, piece: In_contra, /) -> list[Out]:
        """Take a piece, and return what is known after it."""
        ...

    def close(self) -> list[Out]:
        """Return the rest at the end of the input. Call it once."""
        ...


class Pipe:
    """A chain of stages that is itself a Stage: each stage receives the output of the one before it."""

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self._stages = stages

    def feed(self, piece: Any, /) -> list[Any]:
        return self._push([piece], 0)

    def close(self) -> list[Any]:
        out: list[Any] = []
        for position, stage in enumerate(self._stages):
            # The earlier stages have already sent their last pieces through this one; only its own rest is left.
            out += self._push(stage.close(), position + 1)
        return out

    def _push(self, pieces: list[Any], start: int) -> list[Any]:
        for stage in self._stages[start:]:
            pieces = [event for piece in pieces for event in stage.feed(piece)]
        return pieces


def collect(stage: Stage[Piece, Out], pieces: Iterable[Piece]) -> list[Out]:
    """Feed every piece, close the stage, and return all events."""
    events: list[Out] = []
    for piece in pieces:
        events.extend(stage.feed(piece))
    events.extend(stage.close())
    return events
