"""Providers by name: rows read from TOML, and what their quirks mean."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from importlib.resources import files
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, structs

from dragoman.errors import ConfigError, UnknownModel, UnknownProvider
from dragoman.providers.endpoint import Endpoint, read_quirks, settle
from dragoman.providers.facts import Facts
from dragoman.providers.provider import OWN, WIRES, Capabilities, Profile, Provider, find, from_mapping
from dragoman.wire.quirks import DEFAULTS, Quirks

# --------------------------------------------------------------------------------------------------------------------
# Rows as they are written in TOML, made into Providers and Profiles.

Row = Mapping[str, Any]
_Kind = TypeVar("_Kind", Provider, Profile)

_NOT_INHERITED = ("name", "title", "aliases", "like")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z").match


def read_toml(text: str, where: str = "the configuration") -> dict[str, Any]:
    """The tables of a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from None


def overlay(below: Row, above: Row) -> dict[str, Any]:
    """A row over another: tables are merged, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = overlay(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def expand(name: str, row: object, groups: Row, known: Mapping[str, Provider]) -> dict[str, Any]:
    """A row with everything that it takes from the row it is `like`, the row that it changes, and its group."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"provider {name}: a row is a table, not {type(row).__name__}")
    like = row.get("like")
    below: Row = {}
    if like is not None:
        if not isinstance(like, str) or like not in known:
            raise UnknownProvider(str(like), known, hint=f"provider {name} is `like` a row that stands before it")
        below = {key: value for key, value in msgspec.to_builtins(known[like]).items() if key not in _NOT_INHERITED}
    elif name in known:
        below = msgspec.to_builtins(known[name])
    else:
        group = groups.get(str(row.get("group", "custom")), {})
        below = group if isinstance(group, Mapping) else {}
    expanded = overlay(below, {**row, "name": name})
    expanded.pop("like", None)
    return expanded


def read_providers(rows: Row, groups: Row, known: Mapping[str, Provider]) -> dict[str, Provider]:
    """Providers by name, in the order of the rows, added to those that are known already."""
    found = dict(known)
    for name, row in rows.items():
        provider = _convert(expand(name, row, groups, found), Provider, f"provider {name}")
        check_provider(provider)
        _check_transport(provider, known)
        found[name] = provider
    return found


def read_profiles(rows: Row, *, check: bool = True) -> list[Profile]:
    """Profiles in the order of the rows."""
    found = []
    for name, row in rows.items():
        if not isinstance(row, Mapping):
            raise ConfigError(f"profile {name}: a row is a table, not {type(row).__name__}")
        profile = _convert({**row, "name": name}, Profile, f"profile {name}")
        if check:
            check_profile(profile)
        found.append(profile)
    return found


def check_provider(provider: Provider) -> None:
    """Raise ConfigError for what would otherwise fail in the middle of a conversation."""
    where = f"provider {provider.name}"
    for name in (provider.name, *provider.aliases):
        if not _NAME(name):
            raise ConfigError(f"{where}: {name!r} is no name", hint="use small letters, digits, _ . and -")
    if not provider.wires:
        raise ConfigError(f"{where} speaks no wire", hint=f"wires are {', '.join(WIRES)}")
    _check_wires(where, [*provider.wires, *provider.wire_urls, *provider.wire_quirks, *provider.body])
    _check_flags(where, provider.quirks, provider.wire_quirks)
    from_mapping(provider.declared)


def _check_transport(provider: Provider, known: Mapping[str, Provider]) -> None:
    """A transport is code, and a file of settings cannot bring code: it may take the transport of a row that ships."""
    if known and provider.transport and provider.transport not in {row.transport for row in known.values()}:
        raise ConfigError(
            f"provider {provider.name}: a row cannot name the transport {provider.transport!r}",
            hint='take it from another row (like = "local"), or give the provider in code (Registry.with_provider)',
        )


def check_profile(profile: Profile) -> None:
    """Raise ConfigError for what would otherwise fail in the middle of a conversation."""
    where = f"profile {profile.name}"
    for pattern in profile.match:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{where}: {pattern!r} is no regular expression: {error}") from None
    _check_wires(where, [*filter(None, [profile.wire]), *profile.wire_quirks])
    _check_flags(where, profile.quirks, profile.wire_quirks)
    from_mapping(profile.declared)


def _check_wires(where: str, wires: Iterable[str]) -> None:
    for wire in wires:
        if wire not in WIRES and wire != OWN:
            raise ConfigError(f"{where}: there is no wire {wire!r}", hint=f"wires are {', '.join(WIRES)}")


def _check_flags(where: str, quirks: Row, wire_quirks: Mapping[str, Row]) -> None:
    read_quirks(quirks, where)
    for wire, flags in wire_quirks.items():
        read_quirks(flags, f"{where} on {wire}")


def _convert(row: Row, kind: type[_Kind], where: str) -> _Kind:
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", hint="the fields are described in providers/table.toml") from None


# --------------------------------------------------------------------------------------------------------------------
# Providers by name. A Registry never changes: adding a row gives another one.

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
        if entry_points is None:
            # Looking through all installed packages is slow, and needed only when a name is not ours.
            from importlib import metadata

            entry_points = metadata.entry_points(group=ENTRY_POINTS)
        return reduce(cls._with_entry_point, entry_points, shipped())

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
        providers = read_providers(_table(tables, "providers"), _read_resource("table.toml")["groups"], self.rows)
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
    # A test checks these rows. To compile their patterns at every start would cost more than to read them.
    profiles = read_profiles(_read_resource("profiles.toml")["profiles"], check=False)
    return Registry(read_providers(table["providers"], table["groups"], {}), tuple(profiles))


@cache
def installed() -> Registry:
    """The rows that ship with the package and those of installed packages, looked for once."""
    return Registry.default()


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


# --------------------------------------------------------------------------------------------------------------------
# What the quirks mean, in the words that stand beside them in the code.


@cache
def quirk_meanings() -> dict[str, str]:
    """The docstring of every flag, by its name. Python forgets docstrings of fields, so the source is read."""
    text = (files("dragoman.wire") / "quirks.py").read_text(encoding="utf-8")
    body = next(
        node.body for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == Quirks.__name__
    )
    meanings = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            meanings[node.target.id] = " ".join(str(words).split())
    return meanings


def quirk_defaults() -> dict[str, Any]:
    """The default of every flag, by its name."""
    return msgspec.structs.asdict(DEFAULTS)


def changed_quirks(quirks: Quirks) -> dict[str, Any]:
    """The flags that are not at their default."""
    usual = quirk_defaults()
    return {name: value for name, value in msgspec.structs.asdict(quirks).items() if value != usual[name]}
