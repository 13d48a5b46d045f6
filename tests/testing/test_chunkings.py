"""Chunkings lose nothing, repeat nothing, and are the same for the same seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.testing import chunkings, every_split


@given(st.text(max_size=200) | st.binary(max_size=200), st.integers(0, 9), st.integers(1, 80))
def test_every_chunking_is_the_data_in_order_and_has_no_empty_piece(data: str | bytes, seed: int, most: int) -> None:
    made = list(chunkings(data, seed=seed, most=most))
    assert 1 <= len(made) <= most
    assert len({tuple(map(len, pieces)) for pieces in made}) == len(made)
    for pieces in made:
        assert data[:0].join(pieces) == data  # type: ignore[arg-type]
        assert all(pieces)
    assert made == list(chunkings(data, seed=seed, most=most))


def test_short_data_is_cut_in_every_place() -> None:
    made = list(chunkings(b"abcdef"))
    assert made[:2] == [[b"abcdef"], [b"a", b"b", b"c", b"d", b"e", b"f"]]
    assert all(split in made for split in every_split(b"abcdef"))


def test_another_seed_gives_other_random_cuts() -> None:
    assert list(chunkings("x" * 500, seed=1)) != list(chunkings("x" * 500, seed=2))


@pytest.mark.parametrize(("data", "splits"), [("", []), ("a", []), ("abc", [["a", "bc"], ["ab", "c"]])])
def test_every_split(data: str, splits: list[list[str]]) -> None:
    assert list(every_split(data)) == splits
