"""Layers of settings: files, environment and arguments, merged into one configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from dragoman.agent.result import Limits
from dragoman.client.transport import Timeouts
from dragoman.config.settings import PREFIX, SETTINGS, Setting, read_prices
from dragoman.errors import ConfigError, did_you_mean, nearest
from dragoman.providers import Registry
from dragoman.providers import default as default_registry
from dragoman.providers.prices import Prices

# --------------------------------------------------------------------------------------------------------------------
# The line of every key of a TOML text. The parser of the standard library returns values, but no lines.
#
# The text is known to be valid TOML, so the scan only skips strings, brackets and comments. The rest at the outermost
# level are headers of tables and keys.

KeyPath = tuple[str, ...]

_KEY = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))\s*""").match
# The tokens that can contain a bracket, a quote or the end of a line inside a value.
_NEXT = re.compile(r'"""|\'\'\'|"|\'|#|\n|[\[{]|[\]}]').search
_ENDS = {
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL).match,
    "'''": re.compile(r"(?:[^']|'(?!''))*'''").match,
    '"': re.compile(r'(?:[^"\\\n]|\\.)*"').match,
    "'": re.compile(r"[^'\n]*'").match,
}


def find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every table header and every key that is not inside a value."""
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    position, line = 0, 1
    while position < len(text):
        if text[position] in " \t\r":
            position += 1
            continue
        if text[position] == "\n":
            position, line = position + 1, line + 1
            continue
        start = line
        if text[position] == "[":
            opening = 2 if text.startswith("[[", position) else 1
            table, _ = _read_path(text, position + opening)
            _note(found, (), table, start)
            position = _end_of_line(text, position)
        elif text[position] == "#":
            position = _end_of_line(text, position)
        else:
            path, after = _read_path(text, position)
            _note(found, table, path, start)
            end = _skip_value(text, after)
            line += text.count("\n", position, end)
            position = max(end, position + 1)
    return found


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _note(found: dict[KeyPath, int], table: KeyPath, path: KeyPath, line: int) -> None:
    # A dotted key defines all tables in it. The paths of a long key have quadratic size, so only the first few count.
    whole = (*table, *path)
    for length in range(len(table) + 1, min(len(whole), len(table) + 8) + 1):
        found.setdefault(whole[:length], line)


def _read_path(text: str, position: int) -> tuple[KeyPath, int]:
    names: list[str] = []
    while match := _KEY(text, position):
        names.append(next((group for group in match.groups() if group is not None), ""))
        position = match.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(names), position


def _skip_value(text: str, position: int) -> int:
    """Return the end of the line on which the value ends."""
    depth = 0
    while match := _NEXT(text, position):
        mark, position = match.group(), match.end()
        if mark == "#":
            position = _end_of_line(text, position)
        elif mark == "\n":
            if depth <= 0:
                return match.start()
        elif mark in _ENDS:
            end = _ENDS[mark](text, position)
            position = len(text) if end is None else end.end()
        else:
            depth += 1 if mark in "[{" else -1
    return len(text)


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


# --------------------------------------------------------------------------------------------------------------------
# A layer holds the settings of one source: a file, the environment, the arguments. This code reads none of them.

Source = Literal["default", "project", "user", "environment", "argument", "managed"]

OTHER_VARIABLES = {
    "DRAGOMAN_CONFIG": "the path of your own file; `off` reads none",
    "DRAGOMAN_PROJECT": "`off` ignores the file of the project",
    "DRAGOMAN_MANAGED": "the path of a managed file, if the machine has none",
    "DRAGOMAN_FACTS": "`off` keeps what is learned about endpoints in memory only",
    "DRAGOMAN_DEBUG": "`1` shows tracebacks, and the bytes of requests and answers without secrets",
}
"""Variables of dragoman that are not settings."""
OF_GATEWAYS = "DRAGOMAN_GATEWAY_"
"""Variables that begin like this are options of `dragoman serve`."""
REMOVED = {
    "approvals": 'use `ask`, which takes the same rules; `ask = ["*"]` is for all tools',
    "park": "its name is `defer_approvals`",
}
"""Settings of earlier versions, and their replacements. To ignore an old rule would make the policy less strict."""
_MOST_FAULTS = 20
_INNER = tuple(dict.fromkeys(name.partition(".")[0] for name in SETTINGS if "." in name))
"""The tables that hold settings."""


class Origin(Struct, frozen=True):
    """Where a value was set."""

    kind: Source
    path: str = ""
    """The file, if it was a file."""
    line: int | None = None
    variable: str = ""
    """The environment variable, if it was one."""

    def __str__(self) -> str:
        if self.path:
            return self.path if self.line is None else f"{self.path}:{self.line}"
        return f"${self.variable}" if self.variable else self.kind


class SettingValue(Struct, frozen=True):
    """One value for a setting, and its origin."""

    value: Any
    origin: Origin


class Layer(Struct, frozen=True):
    """The settings of one source, by name, and the faults in them."""

    kind: Source
    said: dict[str, SettingValue] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Values that cannot be used; a configuration with a fault is rejected."""
    warnings: list[str] = field(default_factory=list)


def defaults(changed: Mapping[str, Any] | None = None) -> Layer:
    """Return the layer with the lowest priority."""
    values = {name: setting.default for name, setting in SETTINGS.items()} | dict(changed or {})
    origin = Origin("default")
    return Layer("default", {name: SettingValue(value, origin) for name, value in values.items()})


def from_tables(tables: Mapping[str, Any], kind: Source, path: str, text: str) -> Layer:
    """Return the layer of a file. The text is needed for the lines of the keys."""
    layer = Layer(kind)
    lines = find_lines(text)
    for place, value in _leaves(tables):
        name = ".".join(place)
        origin = Origin(kind, path, line_of(lines, place))
        setting = SETTINGS.get(name)
        if setting is not None and kind == "project" and not setting.in_project:
            layer.warnings.append(f"{origin}: {_refusal(setting, value)}")
        else:
            _read(layer, name, value, origin)
    return layer


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Return the layer of the environment. Empty variables are ignored; an unknown one causes a warning."""
    layer = Layer("environment")
    by_variable = {setting.variable: setting for setting in SETTINGS.values() if setting.variable}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not environment[variable]:
            continue
        if variable.startswith(OF_GATEWAYS):
            continue
        setting = by_variable.get(variable)
        removed = variable.removeprefix(PREFIX).lower()
        if removed in REMOVED:
            layer.faults.append(f"${variable}: {_unknown(removed)}")
            continue
        if setting is None:
            guess = nearest(variable, [*by_variable, *OTHER_VARIABLES])
            layer.warnings.append(f"${variable} is not a setting" + (f"; did you mean ${guess}?" if guess else ""))
            continue
        origin = Origin("environment", variable=variable)
        try:
            value = setting.kind.from_text(environment[variable].strip())
        except ValueError:
            layer.faults.append(f"{origin}: {_mismatch(setting, 'something else')}")
            continue
        if value in setting.deliberate:
            # A project can set variables with files that some shells read.
            words = f"a variable cannot set `{setting.name}` to {value!r}; use your own file or an argument"
            layer.warnings.append(f"{origin}: {words}")
            continue
        _read(layer, setting.name, value, origin)
    return layer


def from_arguments(arguments: Mapping[str, Any]) -> Layer:
    """Return the layer of the arguments, by dotted name or in nested mappings. None means not set."""
    layer = Layer("argument")
    unfolded: dict[str, Any] = {}
    for name, value in arguments.items():
        table, dot, inner = name.partition(".")
        if dot and table in _INNER:
            unfolded.setdefault(table, {})[inner] = value
        elif name in _INNER and isinstance(value, Mapping):
            unfolded.setdefault(name, {}).update(value)
        else:
            unfolded[name] = value
    for place, value in _leaves(unfolded):
        if value is not None:
            _read(layer, ".".join(place), value, Origin("argument"))
    return layer


def refuse(layers: list[Layer]) -> None:
    """Raise one ConfigError with all faults of all layers, if there are any."""
    faults = [fault for layer in layers for fault in layer.faults]
    if not faults:
        return
    shown = faults[:_MOST_FAULTS]
    if len(faults) > len(shown):
        shown.append(f"... and {len(faults) - len(shown)} more")
    is_typed = all(line.startswith("argument: ") for line in shown)
    hint = (
        "--help explains the options" if is_typed else "`dragoman config init` writes a file with every setting in it"
    )
    raise ConfigError("\n".join(shown), hint=hint)


# ---- reading one value ---------------------------------------------------------------------------------------------


def _read(layer: Layer, name: str, value: Any, origin: Origin) -> None:
    setting = SETTINGS.get(name)
    if setting is None:
        layer.faults.append(f"{origin}: {_unknown(name)}")
        return
    try:
        layer.said[name] = SettingValue(setting.kind.read(value), origin)
    except ValueError as error:
        layer.faults.append(f"{origin}: {_mismatch(setting, str(error) or _type_in_words(value))}")


def _mismatch(setting: Setting, found: str) -> str:
    # The message does not show the value: it may be a key.
    return f"`{setting.name}` must be {setting.kind.words}; found {found}"


def _type_in_words(value: Any) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    if type(value) in words:
        return f"{words[type(value)]} that does not fit"
    return "a table" if isinstance(value, Mapping) else "something else"


def _refusal(setting: Setting, value: Any) -> str:
    names = f" ({', '.join(sorted(value)[:3])})" if isinstance(value, Mapping) and value else ""
    return (
        f"`{setting.name}`{names} is ignored: a project cannot set it, only your own file. "
        "A project contains code of others, so it may tighten settings, but not decide where data goes or what runs"
    )


def _unknown(name: str) -> str:
    if name in REMOVED:
        return f"the setting `{name}` was removed: {REMOVED[name]}"
    if name in _INNER:
        return f"`{name}` is a table of settings"
    guess = nearest(name, [*SETTINGS, *_INNER])
    if guess is None:
        # The key is at the top level instead of in its table: `turns` for `limits.turns`.
        last = name.rpartition(".")[2]
        guess = next((known for known in SETTINGS if known.rpartition(".")[2] == last), None)
    return f"there is no setting `{name}`" + (f"; did you mean `{guess}`?" if guess else "")


# ---- walking -------------------------------------------------------------------------------------------------------


def _leaves(tables: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    """Return the values of the settings: one level down in the tables of settings, the whole value elsewhere."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in tables.items():
        if name in _INNER and isinstance(value, Mapping):
            found += [((name, inner), each) for inner, each in value.items()]
        else:
            found.append(((name,), value))
    return found


# --------------------------------------------------------------------------------------------------------------------
# Merge the layers into one value per setting. Pure: this code reads no files and no environment.
#
# Later layers override earlier ones, in this order: default, project, user, environment, arguments. There are three
# exceptions. A project may only tighten: its value counts only if it is stricter than the user's, per setting. An entry
# in a list of forbidden or guarded tools stays there, in whichever layer it is: a new entry never removes another. And
# a managed file overrides all other layers; for settings that can be tightened it is the upper bound.

ORDER: tuple[Source, ...] = ("default", "project", "user", "environment", "argument", "managed")


class Overridden(Struct, frozen=True):
    """A value that was set and does not count, and the reason."""

    said: SettingValue
    why: str
    is_refused: bool = False
    """Whether a project set a value that it may not set."""


class ResolvedSetting(Struct, frozen=True):
    """The effective value of a setting."""

    value: Any
    origin: Origin
    """The origin of the value; for a list that several layers extended, the last of them."""
    overridden: tuple[Overridden, ...] = ()
    also: tuple[Origin, ...] = ()
    """The other layers that extended the list."""
    parts: tuple[SettingValue, ...] = ()
    """The entries of each of them."""


def merge(layers: Sequence[Layer]) -> dict[str, ResolvedSetting]:
    """Return the effective value of every setting."""
    ranked = sorted(layers, key=lambda layer: ORDER.index(layer.kind))
    return {
        name: settle(setting, [layer.said[name] for layer in ranked if name in layer.said])
        for name, setting in SETTINGS.items()
    }


def settle(setting: Setting, said: Sequence[SettingValue]) -> ResolvedSetting:
    """Return the effective value of one setting. `said` is in the order of `ORDER` and not empty."""
    if setting.merge in ("union", "user_union"):
        return _unite(said)
    settled = _settle_own(setting, [each for each in said if each.origin.kind != "managed"])
    managed = next((each for each in said if each.origin.kind == "managed"), None)
    return settled if managed is None else _bind(setting, managed, settled)


def is_tighter(setting: Setting, one: Any, other: Any) -> bool:
    """Whether `one` allows less than `other`. None means no limit."""
    if setting.merge == "lower":
        return one is not None and (other is None or bool(one < other))
    if setting.merge == "stricter":
        return setting.rank(one) < setting.rank(other)
    return setting.merge == "narrow" and set(one) < set(other)


def _settle_own(setting: Setting, said: Sequence[SettingValue]) -> ResolvedSetting:
    """Return the value without the managed file: the user's value, or the project's if it is tighter."""
    own = [each for each in said if each.origin.kind != "project"]
    project = next((each for each in said if each.origin.kind == "project"), None)
    winner = own[-1]
    beaten = [Overridden(each, f"{winner.origin} has priority") for each in own[:-1]]
    if project is None:
        return ResolvedSetting(winner.value, winner.origin, tuple(beaten))
    if _project_counts(setting, project, winner):
        why = f"the project's {project.origin} is tighter" if winner.origin.kind == "user" else "a default"
        value = _narrow(winner.value, project.value) if setting.merge == "narrow" else project.value
        return ResolvedSetting(value, project.origin, (*beaten, Overridden(winner, why)))
    return ResolvedSetting(winner.value, winner.origin, (*beaten, _pass_over(setting, project, winner)))


def _pass_over(setting: Setting, project: SettingValue, winner: SettingValue) -> Overridden:
    if winner.origin.kind in ("default", "user") and setting.merge in ("lower", "stricter", "narrow"):
        if project.value == winner.value:
            return Overridden(project, f"the same as {winner.origin}")
        return Overridden(project, f"looser than {winner.origin}; a project may only tighten", is_refused=True)
    return Overridden(project, f"{winner.origin} has priority")


def _project_counts(setting: Setting, project: SettingValue, winner: SettingValue) -> bool:
    # The user who starts the program decides: the environment and the arguments override both files.
    if winner.origin.kind in ("environment", "argument"):
        return False
    if setting.merge == "suggest":
        return winner.origin.kind == "default"
    if setting.merge == "narrow":
        return len(_narrow(winner.value, project.value)) < len(winner.value)
    return is_tighter(setting, project.value, winner.value)


def _bind(setting: Setting, managed: SettingValue, settled: ResolvedSetting) -> ResolvedSetting:
    """Return the value under a managed file."""
    own = SettingValue(settled.value, settled.origin)
    value = _narrow(managed.value, own.value) if setting.merge == "narrow" else managed.value
    beaten = ""
    if setting.merge == "narrow" and value == own.value:
        beaten = "wider"
    elif setting.merge in ("lower", "stricter") and not is_tighter(setting, value, own.value):
        beaten = "no tighter"
    if beaten:
        lost = Overridden(managed, f"{beaten} than {settled.origin}")
        return ResolvedSetting(settled.value, settled.origin, (*settled.overridden, lost))
    lost = Overridden(own, f"{managed.origin} is managed and has priority")
    return ResolvedSetting(value, managed.origin, (*settled.overridden, lost))


def _narrow(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in others)


def _unite(said: Sequence[SettingValue]) -> ResolvedSetting:
    # An empty default adds nothing, so it is not listed.
    adding = [each for each in said if each.value] or list(said[:1])
    entries = tuple(dict.fromkeys(entry for each in adding for entry in each.value))
    origins = [each.origin for each in adding]
    return ResolvedSetting(entries, origins[-1], (), tuple(origins[:-1]), tuple(adding))


# --------------------------------------------------------------------------------------------------------------------
# The configuration: every setting with its value and its origin.


class Config(Struct, frozen=True):
    """A merged configuration. Values are looked up by the dotted name of their setting."""

    settled: dict[str, ResolvedSetting]
    user_file: Path | None = None
    """The user's file, or None."""
    project_file: Path | None = None
    """The project's file, or None."""
    warnings: tuple[str, ...] = ()
    """Problems that are not errors: a key in a file that others can read, a variable that is not a setting."""
    managed_file: Path | None = None
    """The managed file, or None."""

    @property
    def values(self) -> dict[str, Any]:
        """Every setting by name. None means not set, and for a limit no limit."""
        return {name: settled.value for name, settled in self.settled.items()}

    def __getitem__(self, name: str) -> Any:
        return self._find(name).value

    def origin(self, name: str) -> Origin:
        """Return the origin of the effective value."""
        return self._find(name).origin

    def overridden(self, name: str) -> tuple[Overridden, ...]:
        """Return the values that were set and do not count."""
        return self._find(name).overridden

    def section(self, table: str) -> dict[str, Any]:
        """Return the settings of a table by their short names: `section("limits")["turns"]`."""
        start = table + "."
        found = {name[len(start) :]: each.value for name, each in self.settled.items() if name.startswith(start)}
        if not found:
            raise _unknown_setting(table)
        return found

    @property
    def options(self) -> dict[str, Any]:
        """The options of every request, in the form of `Request.options`."""
        set_ones = {name: value for name, value in self.section("options").items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in set_ones.items()}

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(**self.section("limits"))

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of a connection."""
        return Timeouts(**self.section("timeouts"))

    def registry(self, known: Registry | None = None) -> Registry:
        """The known providers and model profiles, with the rows of the user's file."""
        registry = default_registry() if known is None else known
        rows = {name: self[name] for name in ("providers", "profiles") if self[name]}
        if not rows:
            return registry
        try:
            return registry.with_rows(rows)
        except ConfigError as error:
            origin = self.origin(next(iter(rows)))
            raise ConfigError(f"{origin.path or origin}: {error}", hint=error.next_step) from None

    def prices(self) -> Prices:
        """The prices of tokens: the rows of the user's file override the shipped ones."""
        return read_prices(self["prices"])

    def _find(self, name: str) -> ResolvedSetting:
        if name not in self.settled:
            raise _unknown_setting(name)
        return self.settled[name]


def _unknown_setting(name: str) -> ConfigError:
    return ConfigError(f"there is no setting {name!r}{did_you_mean(name, SETTINGS)}")
