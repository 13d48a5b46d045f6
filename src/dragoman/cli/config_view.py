"""The settings as people and programs see them: each with its value, and who said it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dragoman.cli.screen import Screen
from dragoman.config import SECTIONS, Config, Origin, mask
from dragoman.config.files import shorten

_NOTHING = "-"


def as_data(config: Config, names: list[str]) -> dict[str, Any]:
    """The configuration for a program."""
    return {
        "files": {
            "managed": config.managed_file and str(config.managed_file),
            "user": config.user_file and str(config.user_file),
            "project": config.project_file and str(config.project_file),
        },
        "settings": [_setting_as_data(config, name) for name in names],
        "warnings": list(config.warnings),
    }


def _setting_as_data(config: Config, name: str) -> dict[str, Any]:
    settled = config.settled[name]
    return {
        "name": name,
        "value": mask(name, settled.value),
        "origin": _origin_as_data(settled.origin),
        "also": [_origin_as_data(origin) for origin in settled.also],
        "overridden": [
            {"value": mask(name, each.said.value), "origin": _origin_as_data(each.said.origin), "why": each.why}
            for each in settled.overridden
        ],
    }


def _origin_as_data(origin: Origin) -> dict[str, Any]:
    return {
        "kind": origin.kind,
        "path": origin.path or None,
        "line": origin.line,
        "variable": origin.variable or None,
    }


def is_set(config: Config, name: str) -> bool:
    settled = config.settled[name]
    return settled.origin.kind != "default" or any(each.said.origin.kind != "default" for each in settled.overridden)


# ---- drawing -------------------------------------------------------------------------------------------------------


def draw(screen: Screen, config: Config, names: list[str]) -> None:
    files = [("your file", config.user_file), ("project", config.project_file)]
    if config.managed_file is not None:
        files.insert(0, ("managed", config.managed_file))
    for title, found in files:
        screen.line((f"{title}: ", "yellow"), shorten(found, os.environ) if found else "none")
    for title, settings in SECTIONS.items():
        listed = [setting.name for setting in settings if setting.name in names]
        if not listed:
            continue
        screen.heading(title)
        width = max(map(len, listed))
        for name in listed:
            settled = config.settled[name]
            origins = ", ".join(_place(origin) for origin in (*settled.also, settled.origin))
            style = "dim" if settled.origin.kind == "default" else "green"
            screen.line(f"  {name.ljust(width)}  {_value(name, settled.value)}", (f"  {origins}", style))
            for each in settled.overridden:
                if each.said.origin.kind != "default":
                    said = f"{_value(name, each.said.value)}  {_place(each.said.origin)}: {each.why}"
                    screen.line((f"  {' ' * width}  not {said}", "dim"))


def _place(origin: Origin) -> str:
    if not origin.path:
        return str(origin)
    shown = shorten(Path(origin.path), os.environ)
    return shown if origin.line is None else f"{shown}:{origin.line}"


def _value(name: str, value: Any) -> str:
    from dragoman.config.files import to_toml

    shown = mask(name, value)
    if shown is None or shown in ((), [], {}):
        return _NOTHING
    if isinstance(shown, dict):
        return "{ " + ", ".join(f"{key} = {_inner(each)}" for key, each in shown.items()) + " }"
    return to_toml(shown)


def _inner(value: Any) -> str:
    return _value("", value)


# ---- writing -------------------------------------------------------------------------------------------------------
