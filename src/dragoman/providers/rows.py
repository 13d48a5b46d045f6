"""Rows as they are written in TOML, made into Providers and Profiles."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from dragoman.errors import ConfigError, UnknownProvider
from dragoman.providers.capabilities import from_mapping
from dragoman.providers.endpoint import read_quirks
from dragoman.providers.profile import Profile
from dragoman.providers.provider import OWN, WIRES, Provider

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


def as_row(value: Provider | Profile) -> dict[str, Any]:
    """A Provider or Profile as the row that would give it."""
    row: dict[str, Any] = msgspec.to_builtins(value)
    return row


def expand(name: str, row: object, groups: Row, known: Mapping[str, Provider]) -> dict[str, Any]:
    """A row with everything that it takes from the row it is `like`, the row that it changes, and its group."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"provider {name}: a row is a table, not {type(row).__name__}")
    like = row.get("like")
    below: Row = {}
    if like is not None:
        if not isinstance(like, str) or like not in known:
            raise UnknownProvider(str(like), known, hint=f"provider {name} is `like` a row that stands before it")
        below = {key: value for key, value in as_row(known[like]).items() if key not in _NOT_INHERITED}
    elif name in known:
        below = as_row(known[name])
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


def read_profiles(rows: Row) -> list[Profile]:
    """Profiles in the order of the rows."""
    found = []
    for name, row in rows.items():
        if not isinstance(row, Mapping):
            raise ConfigError(f"profile {name}: a row is a table, not {type(row).__name__}")
        profile = _convert({**row, "name": name}, Profile, f"profile {name}")
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
    if len(profile.thinking) not in (0, 2):
        raise ConfigError(f"{where}: `thinking` is an opening and a closing tag")
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
