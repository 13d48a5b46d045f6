"""The prices of a user's file: rows like those that ship, or in short `[prices."provider:model"]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.providers.prices import Prices
from dragoman.providers.provider import plain_name
from dragoman.types import Usage


def read_prices(rows: Mapping[str, Any], below: Prices | None = None) -> Prices:
    """The prices that ship with the package, with these rows over them. Raises ConfigError for a row that is none."""
    known = Prices.default() if below is None else below
    return known.with_rows(_expand(rows)) if rows else known


def _expand(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The rows in full: `"openai:gpt-5*"` is a row for that provider, and a `*` stands for anything in the model."""
    # An exact name counts before a pattern that also fits it.
    ordered = sorted(rows.items(), key=lambda row: "*" in row[0])
    return {name: _in_full(name, row) for name, row in ordered}


def _in_full(name: str, row: Any) -> Any:
    provider, colon, model = name.partition(":")
    if not colon or not isinstance(row, Mapping) or "match" in row:
        return row
    pattern = re.escape(plain_name(model)).replace(r"\*", ".*")
    return {"providers": [provider], "match": [pattern], **row}


def price_by(
    rows: Mapping[str, Any], provider: str, below: Callable[[Usage, str], float | None] | None = None
) -> Callable[[Usage, str], float | None]:
    """A function from usage and model to dollars at one provider; `below` is asked where no price is known."""
    prices = read_prices(rows)

    def price(usage: Usage, model: str) -> float | None:
        known = prices.cost(provider, model, usage)
        return below(usage, model) if known is None and below is not None else known

    return price
