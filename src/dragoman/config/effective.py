"""What holds in the end: every setting with its value, and where that came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.agent.result import Limits
from dragoman.client.transport import Timeouts
from dragoman.config.layers import Origin
from dragoman.config.merging import Overridden, Settled
from dragoman.config.prices import read_prices
from dragoman.config.settings import SETTINGS
from dragoman.errors import ConfigError, nearest
from dragoman.providers import Registry
from dragoman.providers import default as default_registry
from dragoman.providers.prices import Prices


class Config(Struct, frozen=True):
    """A configuration that was read and merged. Values are found by the dotted name of their setting."""

    settled: dict[str, Settled]
    user_file: Path | None = None
    """The user's own file, None if there is none."""
    project_file: Path | None = None
    """The project's file, None if there is none."""
    warnings: tuple[str, ...] = ()
    """What is odd and did not stop anything: a key in a file that others can read, a variable that means nothing."""
    managed_file: Path | None = None
    """The file that nobody overrules, None if there is none."""

    @property
    def values(self) -> dict[str, Any]:
        """Every setting by name. None is `not set`, and for a limit `no limit`."""
        return {name: settled.value for name, settled in self.settled.items()}

    def __getitem__(self, name: str) -> Any:
        return self._find(name).value

    def origin(self, name: str) -> Origin:
        """Who said the value that counts."""
        return self._find(name).origin

    def overridden(self, name: str) -> tuple[Overridden, ...]:
        """The values that were said and do not count."""
        return self._find(name).overridden

    def section(self, table: str) -> dict[str, Any]:
        """The settings of a table by their short names: `section("limits")["turns"]`."""
        start = table + "."
        found = {name[len(start) :]: each.value for name, each in self.settled.items() if name.startswith(start)}
        if not found:
            raise _unknown(table)
        return found

    @property
    def options(self) -> dict[str, Any]:
        """The options of every request, as `Request.options` wants them."""
        set_ones = {name: value for name, value in self.section("options").items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in set_ones.items()}

    @property
    def limits(self) -> Limits:
        """The bounds of a run."""
        return Limits(**self.section("limits"))

    @property
    def timeouts(self) -> Timeouts:
        """The waiting times of a connection."""
        return Timeouts(**self.section("timeouts"))

    def registry(self, below: Registry | None = None) -> Registry:
        """The providers and families that are known, with the rows of the user's file."""
        registry = default_registry() if below is None else below
        rows = {name: self[name] for name in ("providers", "profiles") if self[name]}
        if not rows:
            return registry
        try:
            return registry.with_rows(rows)
        except ConfigError as error:
            origin = self.origin(next(iter(rows)))
            raise ConfigError(f"{origin.path or origin}: {error}", hint=error.next_step) from None

    def prices(self) -> Prices:
        """What tokens cost: the rows of the user's file over those that ship."""
        return read_prices(self["prices"])

    def _find(self, name: str) -> Settled:
        if name not in self.settled:
            raise _unknown(name)
        return self.settled[name]


def _unknown(name: str) -> ConfigError:
    guess = nearest(name, SETTINGS)
    return ConfigError(f"there is no setting {name!r}" + (f"; did you mean {guess!r}?" if guess else ""))
