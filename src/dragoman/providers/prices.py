"""What a run costs: prices of tokens by provider and model, from a table that the user can override.

A price that is not known is None and never a guess: half of a bill is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct, structs

from dragoman.errors import ConfigError
from dragoman.providers.endpoint import Endpoint
from dragoman.providers.provider import Provider, match_any, plain_name
from dragoman.providers.registry import read_toml
from dragoman.types import Usage

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
"""US dollars for a million tokens."""

_MILLION = 1_000_000
_FIELDS = "the fields are described in providers/prices.toml"
# What may follow a name without making it another model: a date, a version of the id, `latest` or `preview`.
_DECORATION = (
    r"(?:-(?:\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{8}|\d{6}|\d{4}|\d{3}|v\d+(?:-\d+)?|latest|preview|default))*\Z"
)
_region = re.compile(r"(?:us|eu|apac|au|jp|ca|sa|us-gov)\.").match
_GOVERNMENT = "us-gov."
_cloud = re.compile(r".*[:-]cloud\Z").match


class Tier(Struct, frozen=True, forbid_unknown_fields=True):
    """Other prices for requests that read more than `tokens`."""

    tokens: int
    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    cache_write: Dollars | None = None


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """One row: what the tokens of a model cost at some providers, in US dollars for a million."""

    shown_only: ClassVar = frozenset({"name", "as_of", "notes"})
    """The columns that only people read; every other one has an effect."""

    name: str
    match: tuple[str, ...]
    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    """Of input tokens that came from the cache; None: they cost as much as the others."""
    cache_write: Dollars | None = None
    """Of input tokens that were written to the cache; None: they cost as much as the others."""
    above: tuple[Tier, ...] = ()
    regional: Dollars | None = None
    """What a region in the id of a model multiplies the price by."""
    providers: tuple[str, ...] = ()
    """The providers that ask this price; empty means all."""
    as_of: str = ""
    notes: str = ""

    def fits(self, provider: str, name: str) -> bool:
        """Whether a plain model name at a provider has this price."""
        return (not self.providers or provider in self.providers) and match_any(self.match, _DECORATION)(
            name
        ) is not None

    def cost(self, usage: Usage, factor: float = 1.0) -> float:
        """What this many tokens cost. Cached and cache-writing tokens are among the input tokens."""
        reached = [tier for tier in self.above if usage.input_tokens > tier.tokens]
        tier: Price | Tier = max(reached, key=lambda tier: tier.tokens, default=self)
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        plain = usage.input_tokens - cached - written
        total = plain * tier.input + usage.output_tokens * tier.output
        total += cached * (tier.input if tier.cached is None else tier.cached)
        total += written * (tier.input if tier.cache_write is None else tier.cache_write)
        return factor * total / _MILLION


class Prices(Struct, frozen=True, dict=True):
    """All rows, the first match first. It never changes: adding rows gives another one."""

    rows: tuple[Price, ...] = ()

    @classmethod
    def default(cls) -> Prices:
        """The rows that ship with the package."""
        return _shipped()

    def with_rows(self, rows: str | Mapping[str, Any]) -> Prices:
        """These prices with those of a configuration, which are asked first: TOML, or the tables in it.

        Rows stand under `prices`, or are the whole mapping. A row of a known name changes that row.
        """
        tables = read_toml(rows) if isinstance(rows, str) else dict(rows)
        inner = tables.get("prices")
        given = dict(inner) if isinstance(inner, Mapping) and "match" not in inner else tables
        known = {price.name: price for price in self.rows}
        added = tuple(_read(name, row, known.get(name)) for name, row in given.items())
        for price in added:
            try:
                match_any(price.match, _DECORATION)
            except re.error as error:
                words = f"price {price.name}: {price.match} are no regular expressions: {error}"
                raise ConfigError(words, hint=_FIELDS) from None
        names = {price.name for price in added}
        return Prices((*added, *(price for price in self.rows if price.name not in names)))

    def find(self, provider: str | Provider | Endpoint, model: str = "") -> Price | None:
        """The row for a model at a provider, or None."""
        name, wanted = _names(provider, model)
        found: dict[tuple[str, str], Price | None] = self.__dict__.setdefault("found", {})
        # One model is asked about again and again, and a hundred patterns are no small thing.
        if (name, wanted) not in found:
            plain = plain_name(wanted)
            found[name, wanted] = next((price for price in self.rows if price.fits(name, plain)), None)
        return found[name, wanted]

    def cost(self, provider: str | Provider | Endpoint, model: str, usage: Usage) -> float | None:
        """What a request cost, in US dollars; None where the price is not known. What runs at home costs nothing."""
        price = self.find(provider, model)
        wanted = _names(provider, model)[1]
        if price is None:
            return 0.0 if _is_at_home(provider, wanted) else None
        region = _region(wanted) if price.regional is not None else None
        if region is None or price.regional is None:
            return price.cost(usage)
        return None if region.group() == _GOVERNMENT else price.cost(usage, price.regional)


def _names(provider: str | Provider | Endpoint, model: str) -> tuple[str, str]:
    if isinstance(provider, Endpoint):
        return provider.provider.name, model or provider.model
    if isinstance(provider, Provider):
        return provider.name, model
    known = _provider_of(provider)
    return (known.name if known is not None else provider.partition("@")[0]), model


def _provider_of(name: str) -> Provider | None:
    from dragoman.providers.registry import shipped

    bare = name.partition("@")[0]
    return shipped().get(bare) if bare in shipped() else None


def _is_at_home(provider: str | Provider | Endpoint, model: str) -> bool:
    """Whether the model runs on a server of one's own. Such a server may also lead to somebody's cloud."""
    if isinstance(provider, str) and "@" in provider:
        return False
    if isinstance(provider, Endpoint):
        row: Provider | None = provider.provider
    else:
        row = _provider_of(provider) if isinstance(provider, str) else provider
    if row is None or row.group != "local" or _cloud(model):
        return False
    elsewhere = tuple(row.urls.values())
    return not (isinstance(provider, Endpoint) and elsewhere and provider.base_url.startswith(elsewhere))


def _read(name: str, row: object, known: Price | None) -> Price:
    if not isinstance(row, Mapping):
        raise ConfigError(f"price {name}: a row is a table, not {type(row).__name__}", hint=_FIELDS)
    below = structs.asdict(known) if known is not None else {}
    try:
        return msgspec.convert({**msgspec.to_builtins(below), **row, "name": name}, Price)
    except msgspec.ValidationError as error:
        raise ConfigError(f"price {name}: {error}", hint=_FIELDS) from None


@cache
def _shipped() -> Prices:
    text = (files("dragoman.providers") / "prices.toml").read_text(encoding="utf-8")
    rows = read_toml(text, "prices.toml")["prices"]
    # Patterns take long to compile, and most of these are never asked for.
    return Prices(tuple(_read(name, row, None) for name, row in rows.items()))
