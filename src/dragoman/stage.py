"""A Stage takes pieces in and gives events out; it does no I/O and remembers what it needs.

`feed(piece)` may be called any number of times, then `close()` once. Whole-text parsing is `feed(text)` and
`close()`: there is no second implementation, so any chunking gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Piece = TypeVar("Piece")


class Stage(Protocol[In_contra, Out]):
    def feed(self, piece: In_contra, /) -> list[Out]: ...

    def close(self) -> list[Out]: ...


def collect(stage: Stage[Piece, Out], pieces: Iterable[Piece]) -> list[Out]:
    """Feed every piece, close, and return all events."""
    events: list[Out] = []
    for piece in pieces:
        events.extend(stage.feed(piece))
    events.extend(stage.close())
    return events
