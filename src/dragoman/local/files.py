"""Files that appear whole or not at all, and hashes of what was written."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import ConfigError

Progress = Callable[[str, int, int], object]
"""Told what is going on, how many bytes are done and how many there are (0: nobody knows)."""

MAGIC = b"GGUF"
_TEMPORARY = ".fetching-"
_STALE = 24 * 3600.0


@contextmanager
def workplace(root: Path) -> Iterator[Path]:
    """A folder beside the models, which is gone afterwards however it ends."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(root)
        folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=root))
    except OSError as error:
        raise ConfigError(
            f"no model can be kept in {root}: {(error.strerror or str(error)).lower()}",
            hint="set XDG_CACHE_HOME to a folder that can be written",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(root: Path) -> None:
    """Remove what a process left behind that was killed; one that is still at work has touched its folder lately."""
    for folder in root.glob(f"{_TEMPORARY}*"):
        try:
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def need_space(folder: Path, bytes: int) -> None:
    """Raise where the disk has no room for so much, before anything is fetched."""
    free = shutil.disk_usage(folder).free
    if free < bytes:
        raise ConfigError(
            f"{folder} has {free / 1e6:.0f} MB left, and {bytes / 1e6:.0f} MB are needed",
            hint="make room, or set XDG_CACHE_HOME to a larger disk",
        )


def write_hashed(pieces: Iterable[bytes], target: Path, tell: Callable[[int], object]) -> str:
    """Write pieces into a file that is complete on the disk afterwards; gives its sha256. `tell` hears of each size."""
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
