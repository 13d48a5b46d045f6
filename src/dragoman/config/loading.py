"""Reading a configuration from where it is: the files, the environment and the arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from dragoman.config import files
from dragoman.config.effective import Config
from dragoman.config.layers import Layer, Said, Source, defaults, from_arguments, from_environment, refuse
from dragoman.config.merging import Settled, merge
from dragoman.config.settings import SETTINGS
from dragoman.config.toolboxes import is_file
from dragoman.errors import ConfigError

_JOURNAL = "journal.db"


def load(
    directory: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration that holds in a directory: arguments over the environment over the files, and under a managed
    file, if the machine has one.

    `arguments` are settings by dotted name; None in it says nothing. Raises ConfigError, which names every fault with
    its file, line and key.
    """
    around = os.environ if environment is None else environment
    here = Path.cwd() if directory is None else Path(directory)
    user = _existing(files.user_file(around), must_exist=bool(around.get("DRAGOMAN_CONFIG")))
    project = files.project_file(here, around)
    if project is not None and user is not None and _same(project, user):
        project = None
    layers = [defaults(_places(around))]
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


def _places(environment: Mapping[str, str]) -> dict[str, Any]:
    """Defaults that depend on the machine."""
    folder = files.state_folder(environment)
    return {} if folder is None else {"journal.path": str(folder / _JOURNAL)}


def _tell_refused(merged: Mapping[str, Settled]) -> list[str]:
    """A warning for each value of a project that is looser than it may be; of limits, the table of settings tells."""
    return [
        f"{lost.said.origin}: `{name}` is {lost.why}, so it is passed over"
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
        # A file that was named and is not there is a mistake, not an empty configuration.
        return path if must_exist else None
    except OSError:
        return path
    return path


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _managed_layer(path: Path, environment: Mapping[str, str]) -> Layer:
    # One that anybody could have written is neither obeyed nor passed over: both could be what somebody wants.
    meddlers = files.find_meddlers(path) if path == files.MANAGED_FILE else ""
    if meddlers:
        raise ConfigError(f"the managed settings cannot be trusted: {meddlers}", hint=f"chown root, chmod 644 {path}")
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
    warning = f"{path} holds keys ({', '.join(written)}) and others can read it; they are not used: chmod 600 {path}"
    return structs.replace(
        layer,
        said={**layer.said, "keys": Said(kept, said.origin)},
        warnings=[*layer.warnings, warning],
    )


def _with_paths(layer: Layer, folder: Path, environment: Mapping[str, str]) -> Layer:
    """The layer with its relative paths made whole: what is named in a file is sought beside that file."""

    def whole(path: str) -> str:
        return str(files.expand(path, folder, environment))

    said = dict(layer.said)
    for name, each in layer.said.items():
        if not SETTINGS[name].kind.folder_matters or not each.value:
            continue
        if isinstance(each.value, str):
            value: Any = whole(each.value)
        elif isinstance(each.value, dict):
            value = {key: _whole_source(source, whole) for key, source in each.value.items()}
        else:
            value = tuple(whole(entry) if is_file(entry) else entry for entry in each.value)
        said[name] = Said(value, each.origin)
    return structs.replace(layer, said=said)


def _whole_source(source: Any, whole: Any) -> Any:
    return {"file": whole(source["file"])} if isinstance(source, dict) and "file" in source else source
