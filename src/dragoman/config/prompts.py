"""Saved prompts: texts with placeholders, in the user's configuration and in the project.

A prompt is a file `NAME.md` in the folder `prompts` of the user's configuration, or in `.dragoman/prompts` of the
project. `{word}` is a placeholder, and `{task}` is the task. The user's prompt has precedence over the project's of the
same name: a project cannot change the meaning of a name that the user knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.config.files import project_folders
from dragoman.errors import ConfigError, did_you_mean
from dragoman.paths import config_folder

FOLDER = "prompts"
PROJECT_FOLDER = f".dragoman/{FOLDER}"
TASK = "task"
_ENDING = ".md"
_LARGEST = 1_000_000
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}").fullmatch
# `{{word}}` is the text {word}. Other braces, as those of JSON, are text.
_placeholders = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


class Prompt(Struct, frozen=True):
    """A saved prompt."""

    name: str
    path: Path
    text: str
    source: Literal["user", "project"]

    @property
    def placeholders(self) -> list[str]:
        """The names of the placeholders, in their order."""
        return list(dict.fromkeys(found[2] for found in _placeholders.finditer(self.text) if found[2]))

    def fill(self, values: Mapping[str, str], task: str = "") -> str:
        """Return the text with the values. Without a placeholder for it, the task follows the text."""
        names = self.placeholders
        given = {**values, **({TASK: task} if task else {})}
        unknown = next((name for name in values if name not in names), None)
        if unknown is not None:
            known = f"its placeholders are {', '.join(names)}" if names else "it has none"
            guess = did_you_mean(unknown, names)
            raise ConfigError(f"the prompt {self.name} has no placeholder {unknown!r}{guess}", hint=known)
        missing = [name for name in names if name not in given]
        if missing:
            options = " ".join("TASK" if name == TASK else f"--fill {name}=..." for name in missing)
            raise ConfigError(f"the prompt {self.name} needs {', '.join(missing)}", hint=f"add {options}")
        text = _placeholders.sub(lambda found: f"{{{found[1]}}}" if found[1] else given[found[2]], self.text).strip()
        return f"{text}\n\n{task}" if task and TASK not in names else text


def find_prompts(environment: Mapping[str, str], directory: Path) -> dict[str, Prompt]:
    """Return all saved prompts by name, in the order of their names."""
    found: dict[str, Prompt] = {}
    for folder, source in prompt_folders(environment, directory):
        for path in sorted(folder.glob(f"*{_ENDING}")) if folder.is_dir() else []:
            if _is_name(path.stem) and path.stem not in found:
                found[path.stem] = Prompt(path.stem, path, _read(path), source)
    return dict(sorted(found.items()))


def find_prompt(name: str, environment: Mapping[str, str], directory: Path) -> Prompt:
    """Return the prompt of this name. Raises ConfigError with the nearest name and the places that were searched."""
    known = find_prompts(environment, directory)
    if name in known:
        return known[name]
    places = [str(folder) for folder, _ in prompt_folders(environment, directory)]
    hint = "`dragoman prompts` lists the saved prompts" if known else f"save one as {name}.md in {' or '.join(places)}"
    raise ConfigError(f"there is no prompt {name!r}{did_you_mean(name, known)}", hint=hint)


def prompt_folders(environment: Mapping[str, str], directory: Path) -> list[tuple[Path, Literal["user", "project"]]]:
    """Return the folders of prompts: that of the user, and that of the project, nearest first."""
    own = config_folder(environment)
    users: list[tuple[Path, Literal["user", "project"]]] = [(own / FOLDER, "user")] if own is not None else []
    return [*users, *((folder / PROJECT_FOLDER, "project") for folder in project_folders(directory, environment))]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as problem:
        raise ConfigError(f"cannot read the prompt {path}: {problem.strerror}") from None
    if len(data) > _LARGEST:
        raise ConfigError(f"the prompt {path} is larger than {_LARGEST:,} bytes", hint="shorten it")
    return data.decode("utf-8-sig", "replace")
