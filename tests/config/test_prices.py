"""Costs come from the rows of the user's file, and where it says nothing from those that ship."""

from __future__ import annotations

import pytest
from tests.config.conftest import Place

from dragoman.config.settings import read_prices
from dragoman.errors import ConfigError
from dragoman.providers.prices import Prices
from dragoman.types import Usage

ROWS = {
    "openai:gpt-9*": {"input": 10.0, "output": 20.0},
    "openai:gpt-9-mini": {"input": 1.0, "output": 2.0, "cached": 0.1},
    "house": {"match": ["house-.*"], "input": 3.0, "output": 3.0},
}


@pytest.mark.parametrize(
    ("provider", "model", "usage", "cost"),
    [
        ("openai", "gpt-9-mini", Usage(1_000_000, 500_000), 2.0),
        ("openai", "gpt-9-large", Usage(1_000_000, 1_000_000), 30.0),
        ("openai", "gpt-9-mini", Usage(1_000_000, 0, cached_tokens=500_000), 0.55),
        ("azure", "gpt-9-mini", Usage(1, 1), None),
        ("groq", "house-small", Usage(1_000_000, 0), 3.0),
        ("ollama", "qwen3", Usage(1_000_000, 0), 0.0),
    ],
)
def test_a_price_by_name_by_pattern_or_by_row(provider: str, model: str, usage: Usage, cost: float | None) -> None:
    found = read_prices(ROWS).cost(provider, model, usage)
    assert found == (None if cost is None else pytest.approx(cost))


def test_a_row_of_the_user_is_over_the_row_that_ships(place: Place) -> None:
    shipped = next(row for row in Prices.default().rows if row.providers)
    config = place.load(f"[prices.{shipped.name}]\ninput = 77\n")
    mine = next(row for row in config.prices().rows if row.name == shipped.name)
    assert (mine.input, mine.output) == (77.0, shipped.output)
    assert place.load("").prices() is Prices.default()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("inptu = 1\noutput = 1", "inptu"),
        ('input = "1"\noutput = 1', "input"),
        ("input = -1\noutput = 1", "input"),
        ("input = 1", "output"),
        ('match = ["("]\ninput = 1\noutput = 1', "not regular expressions"),
    ],
)
def test_a_row_that_is_none_is_told_with_its_place(place: Place, row: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        place.load(f'\n[prices."openai:gpt-9-mini"]\n{row}\n')
    assert str(caught.value).startswith(f"{place.user_file}:2: `prices` must be ")
    assert words in str(caught.value)
