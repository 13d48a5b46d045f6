"""Nodes that hold the names of absent protected paths while commands run, and are gone afterwards.

A mount needs something to be mounted on, and a command must not be able to create what is absent. So an empty node is
put there for as long as a command runs in the workspace. It is a socket that nobody listens on: git, tar and search
tools pass over sockets, opening one fails, and one of these names can only be ours, so that whoever comes next removes
what a killed process left behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time

from dragoman.errors import ConfigError
from dragoman.sandbox.shields import is_placeholder

_TRIES = 200
_PAUSE = 0.005


class Placeholders:
    """The placeholders of one launch. Several launches in one workspace share the nodes; the last removes them."""

    def __init__(self, workspace: str, paths: list[str], stale: list[str]) -> None:
        self._stale = stale
        self.held: list[str] = []
        """The paths that have a node now. The others are in folders that nobody can write to."""
        self._alone = False
        self._folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._alone = not self._lock(fcntl.LOCK_SH, tries=_TRIES)
            self.held += [path for path in paths if _put(path)]
        except BaseException:
            self.remove()
            raise

    def remove(self) -> tuple[str, ...]:
        """Remove the nodes, unless another launch still needs them."""
        if self._folder >= 0:
            try:
                if self._alone or self._lock(fcntl.LOCK_EX, tries=1):
                    for path in self.held + self._stale:
                        _take(path)
            finally:
                os.close(self._folder)
                self._folder = -1
        return ()

    def _lock(self, kind: int, *, tries: int) -> bool:
        """The lock is on the folder itself, so that it leaves nothing behind either. False: there are no locks here."""
        for attempt in range(tries):
            try:
                fcntl.flock(self._folder, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt + 1 < tries:
                    time.sleep(_PAUSE)
            except OSError:
                return False
            else:
                return True
        if tries == 1:
            return False
        raise ConfigError("the workspace is locked by another program", hint="wait for it, or end it")


def _put(path: str) -> bool:
    for kind in (stat.S_IFSOCK, stat.S_IFREG):
        try:
            os.mknod(path, kind)
        except FileExistsError:
            if is_placeholder(os.lstat(path)):
                return True
            raise ConfigError(f"{path} appeared while a command was being started", hint="try again") from None
        except OSError as error:
            # Where we may not create anything, the command may not either.
            if error.errno in (errno.EACCES, errno.EROFS):
                return False
            if kind == stat.S_IFREG and error.errno == errno.EPERM:
                return False
            if kind == stat.S_IFREG:
                raise ConfigError(f"cannot protect {path}: {error.strerror}", hint="look at its folder") from None
        else:
            return True
    return False


def _take(path: str) -> None:
    with contextlib.suppress(OSError):
        if is_placeholder(os.lstat(path)):
            os.unlink(path)
