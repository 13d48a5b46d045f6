"""Providers by name. A Registry never changes: adding a row gives another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from msgspec import Struct, structs

from dragoman.errors import ConfigError, UnknownModel, UnknownProvider
from dragoman.providers.capabilities import Capabilities
from dragoman.providers.endpoint import Endpoint, settle
from dragoman.providers.facts import Facts
from dragoman.providers.profile import Profile, find
from dragoman.providers.provider import WIRES, Provider
from dragoman.providers.rows import check_profile, check_provider, read_profiles, read_providers, read_toml

ENTRY_POINTS = "dragoman.providers"
_TABLES = ("providers", "profiles")


class EntryPoint(Protocol):
    """What `importlib.metadata` gives for an installed package that names a provider."""

    @property
    def name(self) -> str: ...

    def load(self) -> Any: ...


class Registry(Struct, frozen=True):
    """The providers and the profiles that are known, and what went wrong with those that should have been."""

    rows: dict[str, Provider]
    profiles: tuple[Profile, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def default(cls, entry_points: Iterable[EntryPoint] | None = None) -> Registry:
        """The rows that ship with the package, and those of installed packages (group `dragoman.providers`)."""
        registry = shipped()
        for point in _installed() if entry_points is None else entry_points:
            registry = registry._with_entry_point(point)
        return registry

    # ---- looking up ---------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Every name that a provider goes by, aliases after the names proper."""
        return [*self.rows, *(alias for provider in self for alias in provider.aliases)]

    def get(self, name: str) -> Provider:
        """The provider of that name or alias. The name of a wire gives its vendor, speaking that wire."""
        found = self._find(name)
        if found is None:
            known = self.names()
            raise UnknownProvider(name, known, hint=f"known are {', '.join([*self.rows, *WIRES])}")
        return found

    def _find(self, name: str) -> Provider | None:
        if name in self.rows:
            return self.rows[name]
        folded = _fold(name)
        for provider in self:
            if folded in map(_fold, (provider.name, *provider.aliases)):
                return provider
        vendor = self.rows.get("openai")
        if vendor is None or name not in WIRES:
            return None
        return structs.replace(vendor, wires=(name, *(set(vendor.wires) - {name})), wire_per_model=False)

    def profile(self, model: str | None) -> Profile:
        """The family of a model; the first that fits."""
        return find(self.profiles, model)

    def resolve(
        self,
        provider: str | Provider,
        model: str | None = None,
        *,
        wire: str = "",
        base_url: str = "",
        place: str = "",
        variables: Mapping[str, str] | None = None,
        quirks: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | Capabilities | None = None,
        facts: Facts | None = None,
    ) -> Endpoint:
        """Decide everything for `provider:model`, or for a provider and a model.

        `provider@place:model` takes another address of the row, as `place=` does. `base_url` is the user's own
        address, `variables` fill the holes of the row's; `quirks` and `capabilities` win over the rows.
        """
        if isinstance(provider, str):
            name, model = self._split(provider, model)
            name, _, at = name.partition("@")
            row = self.get(name)
            place = place or at
        else:
            row = provider
        wanted = model or ""
        return settle(
            row,
            wanted,
            profile=self.profile(wanted),
            wire=wire,
            base_url=base_url,
            place=place,
            variables=variables,
            quirks=quirks,
            overrides=capabilities,
            facts=facts,
        )

    def _split(self, name: str, model: str | None) -> tuple[str, str]:
        """`provider:model` in its two parts. Only the first colon counts: models have colons of their own."""
        if model is not None:
            return name, model
        provider, _, rest = name.partition(":")
        if not rest:
            known = self._find(provider.partition("@")[0])
            rest = known.model if known is not None else ""
        if not rest:
            raise UnknownModel(name, hint="write it as provider:model, for example ollama:qwen3")
        return provider, rest

    def __iter__(self) -> Iterator[Provider]:
        return iter(self.rows.values())

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    # ---- adding -------------------------------------------------------------------------------------------------

    def with_provider(self, provider: Provider) -> Registry:
        """This registry with one more provider; one of the same name is replaced."""
        check_provider(provider)
        return structs.replace(self, rows={**self.rows, provider.name: provider})

    def with_profile(self, profile: Profile) -> Registry:
        """This registry with one more family, which is asked before all others."""
        check_profile(profile)
        others = tuple(other for other in self.profiles if other.name != profile.name)
        return structs.replace(self, profiles=(profile, *others))

    def with_rows(self, rows: str | Mapping[str, Any]) -> Registry:
        """This registry with the rows of a configuration: TOML, or the tables in it.

        Rows stand under `providers` and `profiles`; a mapping of neither is taken for providers by name. A row of a
        known name changes that provider, and `like` takes everything else from another.
        """
        tables = read_toml(rows) if isinstance(rows, str) else dict(rows)
        if not any(isinstance(tables.get(name), Mapping) for name in _TABLES):
            tables = {"providers": tables}
        providers = read_providers(_table(tables, "providers"), _shipped_groups(), self.rows)
        registry = structs.replace(self, rows=providers)
        for profile in reversed(read_profiles(_table(tables, "profiles"))):
            registry = registry.with_profile(profile)
        return registry

    def _with_entry_point(self, point: EntryPoint) -> Registry:
        # Somebody else's package: whatever it does wrong is told, and costs only its own row.
        try:
            loaded = point.load()
            given = loaded() if callable(loaded) else loaded
            if isinstance(given, str | Mapping):
                return self._refuse_shadows(self.with_rows(given), point.name)
            registry = self
            for provider in [given] if isinstance(given, Provider) else list(given):
                if not isinstance(provider, Provider):
                    raise ConfigError(f"it gave {type(provider).__name__}, not a Provider")
                registry = self._refuse_shadows(registry.with_provider(provider), point.name)
            return registry
        except Exception as error:
            problem = f"entry point {point.name!r} of {ENTRY_POINTS}: {type(error).__name__}: {error}"
            return structs.replace(self, problems=(*self.problems, problem))

    def _refuse_shadows(self, changed: Registry, point: str) -> Registry:
        """An installed package adds rows; to change where a known name leads is left to the user."""
        for name, provider in self.rows.items():
            if changed.rows[name] != provider:
                raise ConfigError(f"{name!r} is already a provider", hint=f"{point} has to choose another name")
        return changed


@cache
def shipped() -> Registry:
    """The rows that ship with the package."""
    table = _read_resource("table.toml")
    profiles = read_profiles(_read_resource("profiles.toml")["profiles"])
    return Registry(read_providers(table["providers"], table["groups"], {}), tuple(profiles))


@cache
def installed() -> Registry:
    """The rows that ship with the package and those of installed packages, looked for once."""
    return Registry.default()


def _installed() -> Iterable[EntryPoint]:
    # Looking through all installed packages is slow, and needed only when a name is not ours.
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def _shipped_groups() -> Mapping[str, Any]:
    groups: Mapping[str, Any] = _read_resource("table.toml")["groups"]
    return groups


@cache
def _read_resource(name: str) -> dict[str, Any]:
    return read_toml((files("dragoman.providers") / name).read_text(encoding="utf-8"), name)


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"`{name}` is a table of rows by name, not {type(table).__name__}")
    return table


def _fold(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
