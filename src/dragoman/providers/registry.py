"""The registry of providers and profiles, the rows in TOML, and the meanings of quirks."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from importlib.resources import files
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from dragoman.entry_points import EntryPoint, find_entry_points
from dragoman.errors import ConfigError, UnknownModel, UnknownProvider, nearest
from dragoman.providers.endpoint import Endpoint, read_quirks, settle
from dragoman.providers.facts import Facts
from dragoman.providers.provider import (
    OWN,
    UNKNOWN,
    WIRES,
    Capabilities,
    Profile,
    Provider,
    find,
    from_mapping,
    normalise_base_url,
)
from dragoman.wire import registry as wire_registry
from dragoman.wire.quirks import DEFAULTS, Quirks

# --------------------------------------------------------------------------------------------------------------------
# Providers and Profiles from rows in TOML.

Row = Mapping[str, Any]
_Kind = TypeVar("_Kind", Provider, Profile)

_NOT_INHERITED = ("name", "title", "aliases", "like")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z").match


def read_toml(text: str, where: str = "the configuration") -> dict[str, Any]:
    """Parse a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from None


def overlay(below: Row, above: Row) -> dict[str, Any]:
    """Return a table with another one over it: tables in both are merged, every other value is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = overlay(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def expand(name: str, row: object, groups: Row, known: Mapping[str, Provider]) -> dict[str, Any]:
    """Return a row with the values of the row in `like`, of the row that it changes, and of its group."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"provider {name}: a row is a table, not {type(row).__name__}")
    like = row.get("like")
    below: Row = {}
    if like is not None:
        if not isinstance(like, str) or like not in known:
            raise UnknownProvider(str(like), known, hint=f"`like` of provider {name} has to name an earlier row")
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
    """Return the known providers and those of the rows, by name."""
    found = dict(known)
    for name, row in rows.items():
        provider = _convert(expand(name, row, groups, found), Provider, f"provider {name}")
        check_provider(provider)
        _check_transport(provider, known)
        found[name] = provider
    return found


def read_profiles(rows: Row, *, check: bool = True) -> list[Profile]:
    """Return the profiles in the order of the rows."""
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
    """Raise ConfigError for an error in the row that would otherwise fail later, during a conversation."""
    where = f"provider {provider.name}"
    for name in (provider.name, *provider.aliases):
        if not _NAME(name):
            raise ConfigError(
                f"{where}: {name!r} is not a valid name", hint="use lower-case letters, digits, _ . and -"
            )
    if not provider.wires:
        raise ConfigError(f"{where} has no wire", hint=f"wires are {', '.join(WIRES)}")
    _check_wires(where, [*provider.wires, *provider.wire_urls, *provider.wire_quirks, *provider.body])
    _check_flags(where, provider.quirks, provider.wire_quirks)
    from_mapping(provider.declared)


def _check_transport(provider: Provider, known: Mapping[str, Provider]) -> None:
    """A transport is code, and a settings file must not name code: it may use the transport of a shipped row."""
    if known and provider.transport and provider.transport not in {row.transport for row in known.values()}:
        raise ConfigError(
            f"provider {provider.name}: a row cannot name the transport {provider.transport!r}",
            hint='copy it from another row (like = "local"), or define the provider in code (Registry.with_provider)',
        )


def check_profile(profile: Profile) -> None:
    """Raise ConfigError for what would otherwise fail in the middle of a conversation."""
    where = f"profile {profile.name}"
    for pattern in profile.match:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{where}: {pattern!r} is not a regular expression: {error}") from None
    _check_wires(where, [*filter(None, [profile.wire]), *profile.wire_quirks])
    _check_flags(where, profile.quirks, profile.wire_quirks)
    from_mapping(profile.declared)


def _check_wires(where: str, wires: Iterable[str]) -> None:
    for wire in wires:
        if wire != OWN and not wire_registry.knows(wire, installed=True):
            raise ConfigError(
                f"{where}: there is no wire {wire!r}", hint=f"wires are {', '.join(wire_registry.names())}"
            )


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
# Providers by name. A Registry is immutable: its `with_` methods return a new one.

ENTRY_POINTS = "dragoman.providers"
_TABLES = ("providers", "profiles")
_SERVER_HINT = (
    "write it as provider:model, for example ollama:qwen3; for a server of your own, give its address, too: base_url "
    "(--base-url)"
)
_ALIKE = 0.75
"""How similar a name without a sign is to that of a provider, if it is not rather the name of a model."""
_ADDRESS_HINT = (
    "an address is no model: name the model, and give the address with base_url (--base-url); "
    "`dragoman models ADDRESS` lists its models"
)


class Registry(Struct, frozen=True):
    """The known providers and profiles, and the problems of those that could not be loaded."""

    rows: dict[str, Provider]
    profiles: tuple[Profile, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def default(cls, entry_points: Iterable[EntryPoint] | None = None) -> Registry:
        """Return the rows that ship with the package, and those of installed packages (group `dragoman.providers`)."""
        if entry_points is None:
            entry_points = find_entry_points(ENTRY_POINTS)
        return reduce(cls._with_entry_point, entry_points, shipped())

    # ---- looking up ---------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all providers, followed by their aliases."""
        return [*self.rows, *(alias for provider in self for alias in provider.aliases)]

    def get(self, name: str) -> Provider:
        """Return the provider of that name or alias. The name of a wire returns its vendor with that wire."""
        found = self._find(name)
        if found is None:
            raise UnknownProvider(name, self.names())
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
        """Return the profile of a model: the first that matches."""
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
        """Return the endpoint for `provider:model` (see `split` for other spellings), or for a provider and a model.

        `provider@place:model` selects another base URL of the row, as `place=` does. `base_url` is the user's own URL,
        `variables` fill the placeholders of the row's URL; `quirks` and `capabilities` override the rows.
        """
        if isinstance(provider, str):
            name, model = (provider, model) if model is not None else self._require_model(provider, base_url)
            name, _, at = name.partition("@")
            row = self.get(name)
            place = place or at
            wire = wire or (name if name in WIRES and name not in self.rows else "")
        else:
            row = provider
        if base_url and row.transport and base_url != row.base_url:
            hint = "omit base_url (--base-url), or name the provider of the server at this address"
            raise ConfigError(f"{row.name} runs in this process and has no address {base_url}", hint=hint)
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

    def split(self, name: str, base_url: str = "") -> tuple[str, str]:
        """Split the name of a model into provider (with its place) and model. The model is empty if none is named.

        `provider:model` and `provider/model` are equivalent; names of models may contain both signs. A name without a
        provider belongs to the vendor of its family, if nobody else serves it, or to the server at `base_url`. Raises
        UnknownProvider or UnknownModel, which suggest a name.
        """
        if name.lower().startswith(("http://", "https://")):
            raise UnknownModel(name, hint=_ADDRESS_HINT)
        if not base_url and name.strip() and any(sign.isspace() for sign in name):
            # No vendor has such names, and a request with one would only fail.
            meant = self.suggest_model(name)
            raise UnknownModel(name, [meant] if meant else (), hint=f"write it as {meant}" if meant else None)
        found = self._split_at(name, ":") or (
            self._split_at(name, "/") if self._means_provider(name, base_url) else None
        )
        if found is not None:
            return found
        family, first = self.profile(name), re.split("[:/@]", name)[0]
        is_family = family.name != UNKNOWN.name
        if base_url and (is_family or ":" not in name):
            return "custom", name
        if family.vendor in self.rows and first == name:
            return family.vendor, name
        if (first != name or nearest(name, self.names(), _ALIKE)) and (family.vendor or not is_family):
            raise UnknownProvider(first, self.names())
        if not is_family:
            meant = self.suggest_model(name)
            raise UnknownModel(name, [meant] if meant else (), hint=f"write it as {meant}" if meant else _SERVER_HINT)
        vendor = family.name.partition("_")[0]
        places = " or ".join(f"{place}:{name}" for place in (vendor, "ollama", "openrouter") if place in self)
        raise UnknownModel(name, hint=f"several providers have this model: name one, for example {places}")

    def suggest_model(self, name: str) -> str:
        """Return the name that was probably meant by one with blanks, missing hyphens or a typing error; or nothing."""
        place, sign, model = name.strip().rpartition(":")
        model = re.sub(r"\s+", "-", model.strip())
        first = re.split(r"[\W\d_]", model.lower())[0]
        known = nearest(first, {each.name.partition("_")[0] for each in self.profiles}) or first
        spelled = known + model[len(first) :]
        spaced = re.sub(rf"^{re.escape(known)}(?=\d)", f"{known}-", spelled)
        found = next((each for each in (model, spaced, spelled) if self.profile(each).name != UNKNOWN.name), "")
        suggested = f"{place.strip()}{sign}{found}" if found else ""
        return "" if suggested == name else suggested

    def _split_at(self, name: str, sign: str) -> tuple[str, str] | None:
        provider, _, rest = name.partition(sign)
        known = "/" not in provider and self._find(provider.partition("@")[0]) is not None
        return (provider, rest) if known else None

    def _means_provider(self, name: str, base_url: str) -> bool:
        """Whether the text before a slash is a provider. It may also be the first part of the model's own name.

        Such names begin with the vendor (`openai/gpt-oss-20b`, `meta-llama/...`), and servers of one's own have them.
        So the spelling of the provider counts.
        """
        first = name.partition("/")[0].partition("@")[0]
        row = self._find(first)
        if row is None or first not in (row.name, *row.aliases, *WIRES):
            return False
        return not base_url or row.group not in ("first_party", "host") or _host(base_url) == _host(row.base_url)

    def _require_model(self, name: str, base_url: str) -> tuple[str, str]:
        provider, model = self.split(name, base_url)
        row = self.get(provider.partition("@")[0])
        if not model and not row.model:
            raise UnknownModel(name, hint=f"{row.name} is a provider: name a model, too, as {row.name}:MODEL")
        return provider, model or row.model

    def __iter__(self) -> Iterator[Provider]:
        return iter(self.rows.values())

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    # ---- adding -------------------------------------------------------------------------------------------------

    def with_provider(self, provider: Provider) -> Registry:
        """Return a registry with one more provider; one of the same name is replaced."""
        check_provider(provider)
        return structs.replace(self, rows={**self.rows, provider.name: provider})

    def with_profile(self, profile: Profile) -> Registry:
        """Return a registry with one more profile, which has priority over all others."""
        check_profile(profile)
        others = tuple(other for other in self.profiles if other.name != profile.name)
        return structs.replace(self, profiles=(profile, *others))

    def with_rows(self, rows: str | Mapping[str, Any]) -> Registry:
        """Return a registry with the rows of a configuration: TOML, or its tables.

        The rows are under `providers` and `profiles`; a mapping without both contains providers by name. A row with a
        known name changes that provider, and `like` copies all other values from another provider.
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
        # An error in an installed package is reported, and affects only its own row.
        try:
            loaded = point.load()
            given = loaded() if callable(loaded) else loaded
            if isinstance(given, str | Mapping):
                return self._refuse_shadows(self.with_rows(given), point.name)
            registry = self
            for provider in [given] if isinstance(given, Provider) else list(given):
                if not isinstance(provider, Provider):
                    raise ConfigError(f"it returned {type(provider).__name__}, not a Provider")
                registry = self._refuse_shadows(registry.with_provider(provider), point.name)
            return registry
        except Exception as error:
            problem = f"entry point {point.name!r} of {ENTRY_POINTS}: {type(error).__name__}: {error}"
            return structs.replace(self, problems=(*self.problems, problem))

    def _refuse_shadows(self, changed: Registry, point: str) -> Registry:
        """An installed package may add rows; only the user may change a known name."""
        for name, provider in self.rows.items():
            if changed.rows[name] != provider:
                raise ConfigError(f"{name!r} is already a provider", hint=f"{point} has to choose another name")
        return changed


@cache
def shipped() -> Registry:
    """Return the rows that ship with the package."""
    table = _read_resource("table.toml")
    # A test checks these rows. To compile their patterns at every start would be slower than to read them.
    profiles = read_profiles(_read_resource("profiles.toml")["profiles"], check=False)
    return Registry(read_providers(table["providers"], table["groups"], {}), tuple(profiles))


@cache
def installed() -> Registry:
    """Return the shipped rows and those of installed packages. The search happens once."""
    return Registry.default()


@cache
def _read_resource(name: str) -> dict[str, Any]:
    return read_toml((files("dragoman.providers") / name).read_text(encoding="utf-8"), name)


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"`{name}` is a table of rows by name, not {type(table).__name__}")
    return table


def _host(url: str) -> str | None:
    return urlsplit(normalise_base_url(url)).hostname


def _fold(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


# --------------------------------------------------------------------------------------------------------------------
# The meanings of the quirks: the docstrings of the flags.


@cache
def quirk_meanings() -> dict[str, str]:
    """Return the docstring of every flag, by name. Python drops docstrings of fields, so it parses the source."""
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
    """Return the default of every flag, by name."""
    return msgspec.structs.asdict(DEFAULTS)


def changed_quirks(quirks: Quirks) -> dict[str, Any]:
    """Return the flags that differ from their default."""
    usual = quirk_defaults()
    return {name: value for name, value in msgspec.structs.asdict(quirks).items() if value != usual[name]}
