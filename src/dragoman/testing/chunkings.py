"""Ways to split text or bytes into pieces: the result of an incremental parser must not depend on them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

Data = TypeVar("Data", str, bytes)

SIZES = (2, 3, 5, 7, 16, 64, 256, 1024)
"""The fixed sizes of pieces; odd sizes split units of two and four."""


def chunkings(data: Data, *, seed: int = 0, most: int = 64) -> Iterator[list[Data]]:
    """Yield at most `most` ways to split `data`, always the same ones for the same seed.

    First the whole, then single items, then fixed sizes, then splits into two (all of them if they fit into `most`,
    else a selection), then random ones. Empty data has no pieces.
    """
    seen: set[tuple[int, ...]] = set()
    for places in _choose(len(data), random.Random(seed), most):
        if len(seen) >= most:
            return
        if places not in seen:
            seen.add(places)
            yield cut_at(data, places)


def every_split(data: Data) -> Iterator[list[Data]]:
    """Yield every way to split `data` into two pieces that are not empty."""
    for place in range(1, len(data)):
        yield [data[:place], data[place:]]


def cut_at(data: Data, places: Sequence[int]) -> list[Data]:
    """Return the pieces between these positions, which are in order, without empty pieces."""
    edges = [0, *places, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


def _choose(length: int, generator: random.Random, most: int) -> Iterator[tuple[int, ...]]:
    yield ()
    if length < 2:
        return
    yield tuple(range(1, length))
    for size in SIZES:
        if size < length:
            yield tuple(range(size, length, size))
    inner = range(1, length)
    # If not every split into two fits, a third is reserved for the random ones.
    space = max(most - len(SIZES) - 2, 0)
    halves = inner if len(inner) <= space else sorted(generator.sample(inner, space * 2 // 3))
    for place in halves:
        yield (place,)
    for _ in range(most):
        count = generator.randint(1, min(length - 1, 64))
        yield tuple(sorted(generator.sample(inner, count)))
