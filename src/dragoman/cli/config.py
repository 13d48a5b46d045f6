"""`dragoman config`: show the effective settings and their origins, and write a settings file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.characters import quote_value
from dragoman.cli.options import command_group
from dragoman.cli.screen import Screen, print_line, print_path, print_warnings, write_json
from dragoman.config import PROJECT_FILE, SECTIONS, Config, Origin, load, mask, write_template
from dragoman.config.files import project_file, shorten
from dragoman.errors import ConfigError
from dragoman.paths import current_folder, user_file
from dragoman.state_files import replace_file, to_toml

# ---- settings as data ------------------------------------------------------------------------------------------------

_EMPTY = "-"


def as_data(config: Config, names: list[str]) -> dict[str, Any]:
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
    return {"kind": origin.kind, "path": origin.path or None, "line": origin.line, "variable": origin.variable or None}


def is_set(config: Config, name: str) -> bool:
    settled = config.settled[name]
    return settled.origin.kind != "default" or any(each.said.origin.kind != "default" for each in settled.overridden)


# ---- printing --------------------------------------------------------------------------------------------------------


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
            origins = ", ".join(_origin_text(origin) for origin in (*settled.also, settled.origin))
            style = "dim" if settled.origin.kind == "default" else "green"
            screen.line(f"  {name.ljust(width)}  {_value_text(name, settled.value)}", (f"  {origins}", style))
            for each in settled.overridden:
                if each.said.origin.kind != "default":
                    old_value = f"{_value_text(name, each.said.value)}  {_origin_text(each.said.origin)}: {each.why}"
                    screen.line((f"  {' ' * width}  not {old_value}", "dim"))


def _origin_text(origin: Origin) -> str:
    if not origin.path:
        return str(origin)
    shown = shorten(Path(origin.path), os.environ)
    return shown if origin.line is None else f"{shown}:{origin.line}"


def _value_text(name: str, value: Any) -> str:
    shown = mask(name, value)
    if shown is None or shown in ((), [], {}):
        return _EMPTY
    if isinstance(shown, dict):
        return "{ " + ", ".join(f"{key} = {_value_text('', each)}" for key, each in shown.items()) + " }"
    return to_toml(shown)


# ---- commands --------------------------------------------------------------------------------------------------------

HELP = """Show the settings and the origin of each, or write a settings file.

Settings come from your own file, the file of the project (which may only tighten them), the environment and the
arguments. Later sources override earlier ones. Keys are never shown.

\b
Examples:
  dragoman config show                  show every setting, its value and its origin
  dragoman config show --set            show only settings that are not defaults
  dragoman config init                  write your own file, with every setting commented out
  dragoman config init --project        write the file of the project: dragoman.toml
  $EDITOR "$(dragoman config path)"     edit your own file
  DRAGOMAN_LIMITS_TURNS=3 dragoman ...  change a setting for one command
"""

app = command_group("config", HELP)


@app.command(short_help="Show every setting, its value and its origin.")
def show(
    only_set: Annotated[bool, typer.Option("--set", help="Only settings that are set somewhere.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show every setting, its value and its origin, and below it the values that were overridden."""
    config = load()
    names = [name for name in config.settled if not only_set or is_set(config, name)]
    if as_json:
        write_json(as_data(config, names))
        return
    draw(Screen(), config, names)
    print_warnings(config.warnings)


@app.command(short_help="Write a settings file.")
def init(
    project: Annotated[
        bool, typer.Option("--project", help="Write dragoman.toml in this folder, not your own file.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a file with every setting commented out. Only you can read your own file."""
    path = Path.cwd() / PROJECT_FILE if project else own_file()
    write_file(path, write_template(project=project), private=not project, force=force)
    print_line(f"wrote {quote_value(str(path))}")


@app.command(short_help="Print the path of the file.")
def path(
    project: Annotated[bool, typer.Option("--project", help="The project's file, if there is one.")] = False,
) -> None:
    """Print the path of your own file, whether it exists or not."""
    found = project_file(current_folder(os.environ), os.environ) if project else own_file()
    if found is None:
        raise ConfigError("this project has no settings file", hint="dragoman config init --project writes one")
    print_path(str(found))


def own_file() -> Path:
    """The path of the user's own file, whether it exists or not."""
    path = user_file(os.environ)
    if path is None:
        raise ConfigError("there is no folder for your own file", hint="set HOME, or set DRAGOMAN_CONFIG to a path")
    return path


def write_file(path: Path, text: str, *, private: bool, force: bool) -> None:
    """Write a new file, completely or not at all. An existing file is replaced only with `force`."""
    try:
        path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        if force:
            replace_file(path, text, private=private)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(path, flags, 0o600 if private else 0o666), "w", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} already exists", hint="--force replaces it") from None
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        raise ConfigError(f"cannot write {path}: {why}", hint="check the folder and its permissions") from None
