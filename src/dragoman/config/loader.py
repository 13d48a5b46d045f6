"""Load the configuration from files, environment and arguments, and the keys that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from dragoman.config import files
from dragoman.config.files import is_private
from dragoman.config.layers import (
    Config,
    Layer,
    ResolvedSetting,
    SettingValue,
    Source,
    defaults,
    from_arguments,
    from_environment,
    merge,
    refuse,
)
from dragoman.config.settings import SETTINGS
from dragoman.config.tool_sources import is_file
from dragoman.errors import ConfigError, MissingKey
from dragoman.journal import is_address
from dragoman.paths import JOURNAL_FILE, current_folder, expand, state_folder, user_file
from dragoman.providers import Registry
from dragoman.state_files import read_text

# --------------------------------------------------------------------------------------------------------------------
# Load the configuration: the files, the environment and the arguments.


def load(
    directory: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Config:
    """Load the configuration for a directory. Arguments override the environment, which overrides the files. A managed
    file, if the machine has one, overrides all.

    `arguments` are settings by dotted name; None means not set. Raises ConfigError with all faults, each with its file,
    line and key.
    """
    around = os.environ if environment is None else environment
    here = current_folder(around) if directory is None else Path(directory)
    user = _existing(user_file(around), must_exist=bool(around.get("DRAGOMAN_CONFIG")))
    project = files.project_file(here, around)
    if project is not None and user is not None and _same(project, user):
        project = None
    state = state_folder(around)
    layers = [defaults({"journal.path": str(state / JOURNAL_FILE)} if state is not None else {})]
    if project is not None:
        layers.append(files.read_layer(project, "project"))
    if user is not None:
        layers.append(_own_layer(user, "user", around))
    layers.append(_with_paths(from_environment(around), here, around))
    layers.append(_with_paths(from_arguments(arguments or {}), here, around))
    managed = files.managed_file(around)
    if managed is not None:
        layers.append(_managed_layer(managed, around))
    refuse(layers)
    merged = merge(layers)
    warnings = [warning for layer in layers for warning in layer.warnings]
    return Config(merged, user, project, (*warnings, *_tell_refused(merged)), managed)


def _tell_refused(merged: Mapping[str, ResolvedSetting]) -> list[str]:
    """Return a warning for each project value that is too loose. For limits, `config show` is enough."""
    return [
        f"{lost.said.origin}: `{name}` is {lost.why}, so it is ignored"
        for name, settled in merged.items()
        for lost in settled.overridden
        if lost.is_refused and SETTINGS[name].merge != "lower"
    ]


def _existing(path: Path | None, *, must_exist: bool) -> Path | None:
    if path is None:
        return None
    try:
        path.lstat()
    except FileNotFoundError:
        # A named file that does not exist is an error, not an empty configuration.
        return path if must_exist else None
    except OSError:
        pass
    return path


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _managed_layer(path: Path, environment: Mapping[str, str]) -> Layer:
    # A managed file that any user can write is an error: to use it and to ignore it could both help an attacker.
    meddlers = files.find_meddlers(path) if path == files.MANAGED_FILE else ""
    if meddlers:
        raise ConfigError(f"the managed settings are not trustworthy: {meddlers}", hint=f"chown root, chmod 644 {path}")
    return _own_layer(path, "managed", environment)


def _own_layer(path: Path, kind: Source, environment: Mapping[str, str]) -> Layer:
    layer = _with_paths(files.read_layer(path, kind), path.parent, environment)
    said = layer.said.get("keys")
    if said is None or files.is_private(path):
        return layer
    written = [name for name, source in said.value.items() if isinstance(source, str)]
    if not written:
        return layer
    kept = {name: source for name, source in said.value.items() if name not in written}
    warning = f"{path} contains keys ({', '.join(written)}) and others can read it; they are ignored: chmod 600 {path}"
    return structs.replace(
        layer, said={**layer.said, "keys": SettingValue(kept, said.origin)}, warnings=[*layer.warnings, warning]
    )


def _with_paths(layer: Layer, folder: Path, environment: Mapping[str, str]) -> Layer:
    """Return the layer with absolute paths: a relative path in a file starts at the folder of that file."""

    def whole(path: str) -> str:
        return path if is_address(path) else str(expand(path, folder, environment))

    said = dict(layer.said)
    for name, each in layer.said.items():
        if not SETTINGS[name].kind.folder_matters or not each.value:
            continue
        if isinstance(each.value, str):
            value: Any = whole(each.value)
        elif isinstance(each.value, dict):
            value = {
                key: {"file": whole(source["file"])} if isinstance(source, dict) and "file" in source else source
                for key, source in each.value.items()
            }
        else:
            value = tuple(whole(entry) if is_file(entry) else entry for entry in each.value)
        said[name] = SettingValue(value, each.origin)
    return structs.replace(layer, said=said)


# --------------------------------------------------------------------------------------------------------------------
# The keys that a user's file names. They are read only when needed, and never shown.


def read_key(config: Config, provider: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the key for a provider from the configuration, or None if the configuration has none.

    This function does not check the usual variables of a provider (`OPENAI_API_KEY`): they are the fallback.
    """
    sources = config["keys"]
    if provider not in sources:
        return None
    source = sources[provider]
    if isinstance(source, str):
        return source
    around = os.environ if environment is None else environment
    if "env" in source:
        found = around.get(source["env"], "").strip()
        if not found:
            raise MissingKey(f"{config.origin('keys')}: the key of {provider} is in ${source['env']}, which is not set")
        return found
    return _read_key_file(Path(source["file"]), provider)


def read_keys(
    config: Config, environment: Mapping[str, str] | None = None, problems: list[str] | None = None
) -> dict[str, str]:
    """Return every readable key, by provider. Logs must not contain these values.

    A key that cannot be read affects only its own provider; the reason is appended to `problems`.
    """
    found = {}
    for provider in config["keys"]:
        try:
            key = read_key(config, provider, environment)
        except ConfigError as error:
            if problems is not None:
                problems.append(str(error))
            continue
        if key:
            found[provider] = key
    return found


def _read_key_file(path: Path, provider: str) -> str:
    text = read_text(path).strip()
    if not text:
        raise MissingKey(f"{path}, the file with the key of {provider}, is empty", hint="write the key into it")
    if len(text.splitlines()) > 1:
        raise ConfigError(f"{path}, the file with the key of {provider}, has several lines", hint="one key, one line")
    if not is_private(path):
        raise ConfigError(
            f"{path} contains the key of {provider} and others can read it; it is ignored", hint=f"chmod 600 {path}"
        )
    return text


def keys_by_variable(
    config: Config,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
    problems: list[str] | None = None,
) -> dict[str, str]:
    """Return the keys of the configuration, by the variables in which the client looks for them."""
    known = config.registry() if registry is None else registry
    found = {}
    for provider, key in read_keys(config, environment, problems).items():
        names = known.get(provider).key if provider in known else ()
        if not names:
            raise ConfigError(
                f"{config.origin('keys')}: {provider!r} is not a provider that uses a key",
                hint="`dragoman providers` lists the providers; your own row names its variable with `key`",
            )
        found[names[0]] = key
    return found
