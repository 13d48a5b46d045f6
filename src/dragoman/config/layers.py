"""A layer is what one source says: a file, the environment, the arguments. Nothing here reads any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from dragoman.config.places import find_lines, line_of
from dragoman.config.settings import PREFIX, SETTINGS, Setting
from dragoman.errors import ConfigError, nearest

Source = Literal["default", "project", "user", "environment", "argument", "managed"]

OTHER_VARIABLES = frozenset({"DRAGOMAN_CONFIG", "DRAGOMAN_PROJECT", "DRAGOMAN_MANAGED", "DRAGOMAN_DEBUG"})
"""Variables that are not settings and mean something all the same."""
_MOST_FAULTS = 20
_INNER = tuple(dict.fromkeys(name.partition(".")[0] for name in SETTINGS if "." in name))
"""The tables that hold settings."""


class Origin(Struct, frozen=True):
    """Where a value was said."""

    kind: Source
    path: str = ""
    """The file, where it was a file."""
    line: int | None = None
    variable: str = ""
    """The environment variable, where it was one."""

    def __str__(self) -> str:
        if self.path:
            return self.path if self.line is None else f"{self.path}:{self.line}"
        return f"${self.variable}" if self.variable else self.kind


class Said(Struct, frozen=True):
    """One value for a setting, and who said it."""

    value: Any
    origin: Origin


class Layer(Struct, frozen=True):
    """What one source says, by the name of the setting, and what is wrong with it."""

    kind: Source
    said: dict[str, Said] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What cannot be used; a configuration with a fault is refused."""
    warnings: list[str] = field(default_factory=list)


def defaults(changed: Mapping[str, Any] | None = None) -> Layer:
    """The layer below all others."""
    values = {name: setting.default for name, setting in SETTINGS.items()} | dict(changed or {})
    origin = Origin("default")
    return Layer("default", {name: Said(value, origin) for name, value in values.items()})


def from_tables(tables: Mapping[str, Any], kind: Source, path: str, text: str) -> Layer:
    """The layer of a file: its tables, and its text to find the lines."""
    layer = Layer(kind)
    lines = find_lines(text)
    for place, value in _leaves(tables):
        name = ".".join(place)
        origin = Origin(kind, path, line_of(lines, place))
        setting = SETTINGS.get(name)
        if setting is None:
            layer.faults.append(f"{origin}: {_unknown(name)}")
        elif kind == "project" and not setting.in_project:
            layer.warnings.append(f"{origin}: {_refusal(setting, value)}")
        else:
            _read(layer, setting, value, origin)
    return layer


def from_environment(environment: Mapping[str, str]) -> Layer:
    """The layer of the environment. An empty variable says nothing; an unknown one is only warned about."""
    layer = Layer("environment")
    by_variable = {setting.variable: setting for setting in SETTINGS.values() if setting.variable}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not environment[variable]:
            continue
        setting = by_variable.get(variable)
        if setting is None:
            guess = nearest(variable, [*by_variable, *OTHER_VARIABLES])
            layer.warnings.append(f"${variable} means nothing" + (f"; did you mean ${guess}?" if guess else ""))
            continue
        origin = Origin("environment", variable=variable)
        try:
            value = setting.kind.from_text(environment[variable].strip())
        except ValueError:
            layer.faults.append(f"{origin}: {_mismatch(setting, 'something else')}")
            continue
        if value in setting.deliberate:
            # A file that comes with a project can set variables, for shells that read such files.
            words = f"`{setting.name}` is not set to {value!r} by a variable; say it in your own file or as an argument"
            layer.warnings.append(f"{origin}: {words}")
            continue
        _read(layer, setting, value, origin)
    return layer


def from_arguments(arguments: Mapping[str, Any]) -> Layer:
    """The layer of the arguments, by dotted name or in nested mappings; None says nothing."""
    layer = Layer("argument")
    origin = Origin("argument")
    for place, value in _leaves(_unfold(arguments)):
        name = ".".join(place)
        if value is None:
            continue
        setting = SETTINGS.get(name)
        if setting is None:
            layer.faults.append(f"{origin}: {_unknown(name)}")
        else:
            _read(layer, setting, value, origin)
    return layer


def refuse(layers: list[Layer]) -> None:
    """Raise ConfigError for everything that is wrong in any of them, at once."""
    faults = [fault for layer in layers for fault in layer.faults]
    if not faults:
        return
    shown = faults[:_MOST_FAULTS]
    if len(faults) > len(shown):
        shown.append(f"... and {len(faults) - len(shown)} more")
    raise ConfigError("\n".join(shown), hint="`dragoman config init` writes a file with every setting in it")


# ---- reading one value ---------------------------------------------------------------------------------------------


def _read(layer: Layer, setting: Setting, value: Any, origin: Origin) -> None:
    try:
        layer.said[setting.name] = Said(setting.kind.read(value), origin)
    except ValueError as error:
        layer.faults.append(f"{origin}: {_mismatch(setting, str(error) or _type_in_words(value))}")


def _mismatch(setting: Setting, found: str) -> str:
    # The value is not shown: whatever was mistyped here may be a key.
    return f"`{setting.name}` is {setting.kind.words}; found {found}"


def _type_in_words(value: Any) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    return words.get(type(value), "a table" if isinstance(value, Mapping) else "something else") + (
        " that does not fit" if type(value) in words else ""
    )


def _refusal(setting: Setting, value: Any) -> str:
    names = f" ({', '.join(sorted(value)[:3])})" if isinstance(value, Mapping) and value else ""
    return (
        f"`{setting.name}`{names} may not be set by a project, only in your own file, and is passed over: "
        "a project comes with the code of others, so it may tighten and never decide where data goes or what runs"
    )


def _unknown(name: str) -> str:
    if name in _INNER:
        return f"`{name}` is a table of settings"
    guess = nearest(name, [*SETTINGS, *_INNER])
    if guess is None:
        # Written at the top instead of in its table: `turns` for `limits.turns`.
        last = name.rpartition(".")[2]
        guess = next((known for known in SETTINGS if known.rpartition(".")[2] == last), None)
    return f"there is no setting `{name}`" + (f"; did you mean `{guess}`?" if guess else "")


# ---- walking -------------------------------------------------------------------------------------------------------


def _leaves(tables: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    """The values of the settings: one level down in the tables that hold settings, the whole value elsewhere."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in tables.items():
        if name in _INNER and isinstance(value, Mapping):
            found += [((name, inner), each) for inner, each in value.items()]
        else:
            found.append(((name,), value))
    return found


def _unfold(arguments: Mapping[str, Any]) -> dict[str, Any]:
    unfolded: dict[str, Any] = {}
    for name, value in arguments.items():
        table, dot, inner = name.partition(".")
        if dot and table in _INNER:
            unfolded.setdefault(table, {})[inner] = value
        elif name in _INNER and isinstance(value, Mapping):
            unfolded.setdefault(name, {}).update(value)
        else:
            unfolded[name] = value
    return unfolded
