"""A folder for the temporary files of one command, gone afterwards, whatever the command did to it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

_PREFIX = "dragoman-box-"


class PrivateFolder:
    """Made for one command. It is locked for as long as its maker lives, so that others know it is in use."""

    def __init__(self) -> None:
        _sweep_once()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            # Whoever looks whether it is in use holds it for a moment only.
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.home = os.path.join(self.path, "home")
        os.mkdir(self.home)

    def remove(self) -> tuple[str, ...]:
        """Remove the folder with everything in it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _remove(self.path)
        return ()


@functools.cache
def _sweep_once() -> None:
    """Remove what killed processes of this user have left."""
    top = tempfile.gettempdir()
    for name in os.listdir(top):
        path = os.path.join(top, name)
        with contextlib.suppress(OSError):
            if name.startswith(_PREFIX) and os.lstat(path).st_uid == os.getuid() and not _is_in_use(path):
                _remove(path)


def _is_in_use(path: str) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    # One that was made this moment has no lock yet, but is not filled either.
    return not os.path.isdir(os.path.join(path, "home"))


def _remove(path: str) -> None:
    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=_open_up)
    else:
        shutil.rmtree(path, onerror=_open_up)


def _open_up(function: Callable[..., Any], path: str, error: object) -> None:
    """A command may have closed its folders to itself."""
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)
