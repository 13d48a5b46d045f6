"""The cost of a run: prices of tokens by provider and model, from a table that the user can override.

An unknown price is None and never an estimate: an incomplete cost is worse than none.
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
"""US dollars per million tokens."""

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
    """Other prices for requests with more than `tokens` input tokens."""

    tokens: int
    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    cache_write: Dollars | None = None


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """One row: the prices of a model at some providers, in US dollars per million tokens."""

    shown_only: ClassVar = frozenset({"name", "as_of", "notes"})
    """The columns without an effect; they are for people."""

    name: str
    match: tuple[str, ...]
    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    """For input tokens from the cache; None: the same as for the others."""
    cache_write: Dollars | None = None
    """For input tokens that were written to the cache; None: the same as for the others."""
    above: tuple[Tier, ...] = ()
    regional: Dollars | None = None
    """The factor of the price for a region in the id of a model."""
    providers: tuple[str, ...] = ()
    """The providers with this price; empty means all."""
    as_of: str = ""
    notes: str = ""

    def fits(self, provider: str, name: str) -> bool:
        """Whether a plain model name at a provider has this price."""
        return (not self.providers or provider in self.providers) and match_any(self.match, _DECORATION)(
            name
        ) is not None

    def cost(self, usage: Usage, factor: float = 1.0) -> float:
        """Return the cost of these tokens. The input tokens include cached and cache-writing tokens."""
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
    """All rows; the first match counts. It is immutable: `with_rows` returns a new value."""

    rows: tuple[Price, ...] = ()

    @classmethod
    def default(cls) -> Prices:
        """Return the rows that ship with the package."""
        return _shipped()

    def with_rows(self, rows: str | Mapping[str, Any]) -> Prices:
        """Return these prices with the rows of a configuration before them: TOML, or its tables.

        The rows are under `prices`, or are the whole mapping. A row with a known name changes that row.
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
                words = f"price {price.name}: {price.match} are not regular expressions: {error}"
                raise ConfigError(words, hint=_FIELDS) from None
        names = {price.name for price in added}
        return Prices((*added, *(price for price in self.rows if price.name not in names)))

    def find(self, provider: str | Provider | Endpoint, model: str = "") -> Price | None:
        """Return the row for a model at a provider, or None."""
        name, wanted = _names(provider, model)
        found: dict[tuple[str, str], Price | None] = self.__dict__.setdefault("found", {})
        # Lookups of one model are frequent, and a hundred patterns are slow.
        if (name, wanted) not in found:
            plain = plain_name(wanted)
            found[name, wanted] = next((price for price in self.rows if price.fits(name, plain)), None)
        return found[name, wanted]

    def cost(self, provider: str | Provider | Endpoint, model: str, usage: Usage) -> float | None:
        """Return the cost of a request in US dollars; None if the price is unknown. A local model costs nothing."""
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
    """Whether the model runs on the user's own server. Such a server may also forward to a cloud."""
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
    # Patterns are slow to compile, and most of them are never used.
    return Prices(tuple(_read(name, row, None) for name, row in rows.items()))
