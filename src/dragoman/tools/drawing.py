"""What a generator gives, up to a bound: one that never ends would take all the memory there is."""

from __future__ import annotations

from typing import Any

MOST_CHARACTERS = 4_000_000
"""Taken from one generator; the model is shown far fewer in any case."""
MOST_ITEMS = 100_000


def draw(items: Any) -> list[Any]:
    """The items of a generator; one that goes on too long is ended."""
    drawn = _Drawn()
    for item in items:
        if drawn.add(item):
            items.close()
            break
    return drawn.items


async def adraw(items: Any) -> list[Any]:
    """The same for an async one."""
    drawn = _Drawn()
    async for item in items:
        if drawn.add(item):
            await items.aclose()
            break
    return drawn.items


class _Drawn:
    """What was given so far."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._size = 0

    def add(self, item: Any) -> bool:
        """Keep an item; whether it was the last one that is taken. That more was left out is said."""
        self.items.append(item)
        self._size += len(item) if isinstance(item, str | bytes | bytearray) else 1
        if self._size < MOST_CHARACTERS and len(self.items) < MOST_ITEMS:
            return False
        if all(isinstance(each, str) for each in self.items):
            self.items.append(f"\n[the tool went on, and the rest was left out: {self._size} characters are the most]")
        return True
