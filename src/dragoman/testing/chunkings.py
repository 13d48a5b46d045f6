"""The ways in which a text or bytes may arrive: whatever reads them piece by piece must not notice the difference."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

Data = TypeVar("Data", str, bytes)

SIZES = (2, 3, 5, 7, 16, 64, 256, 1024)
"""The fixed sizes of pieces that are tried; odd ones fall into the middle of whatever comes in twos and fours."""


def chunkings(data: Data, *, seed: int = 0, most: int = 64) -> Iterator[list[Data]]:
    """Different ways to cut `data`, at most `most` of them, always the same ones for the same seed.

    First the whole, then one by one, then fixed sizes, then every cut into two (all of them where they fit into `most`,
    else a choice), then random ones. Empty data arrives in no piece at all.
    """
    seen: set[tuple[int, ...]] = set()
    for places in _choose(len(data), random.Random(seed), most):
        if len(seen) >= most:
            return
        if places not in seen:
            seen.add(places)
            yield cut_at(data, places)


def every_split(data: Data) -> Iterator[list[Data]]:
    """Every way to cut `data` into two pieces, neither of them empty."""
    for place in range(1, len(data)):
        yield [data[:place], data[place:]]


def cut_at(data: Data, places: Sequence[int]) -> list[Data]:
    """The pieces between these places, which are in order; empty pieces are left out."""
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
    # A third is left to the random ones where not every cut into two fits.
    space = max(most - len(SIZES) - 2, 0)
    halves = inner if len(inner) <= space else sorted(generator.sample(inner, space * 2 // 3))
    for place in halves:
        yield (place,)
    for _ in range(most):
        count = generator.randint(1, min(length - 1, 64))
        yield tuple(sorted(generator.sample(inner, count)))
