"""A bound on the number of processes that holds for root as well.

The kernel counts the processes of everybody but root. For root a control group does it, where we may make one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Sequence

_OWN_PROCESSES = 4
"""What a sandbox itself runs beside the command."""
_TRIES = 40
_PAUSE = 0.005
_count = itertools.count()
_JOIN = 'echo 0 > "$1" || exit 125; shift; exec "$@"'


class ProcessBound:
    """A control group for one command; none of its processes can leave it."""

    def __init__(self, folder: str, processes: int) -> None:
        self._folder = os.path.join(folder, f"dragoman-{os.getpid()}-{next(_count)}")
        os.mkdir(self._folder)
        try:
            with open(os.path.join(self._folder, "pids.max"), "w", encoding="ascii") as file:
                file.write(str(processes + _OWN_PROCESSES))
        except OSError:
            os.rmdir(self._folder)
            raise

    def join(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command line that goes into the group and then runs `argv`."""
        return ("/bin/sh", "-c", _JOIN, "dragoman", os.path.join(self._folder, "cgroup.procs"), *argv)

    def remove(self) -> tuple[str, ...]:
        """Remove the group; the last processes of a command may take a moment to be gone."""
        for _ in range(_TRIES):
            try:
                os.rmdir(self._folder)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(_PAUSE)
            else:
                break
        return ()


def bound_processes(processes: int | None) -> ProcessBound | None:
    """A bound for one command, where one is wanted, the usual limit does not do, and it can be had."""
    if processes is None or os.geteuid() != 0:
        return None
    for folder in _folders():
        _sweep(folder)
        with contextlib.suppress(OSError):
            return ProcessBound(folder, processes)
    return None


@functools.cache
def _folders() -> tuple[str, ...]:
    """Where a group that counts processes may be made: in our own group, or in one above it."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ()
    found: list[str] = []
    for mount in mounts:
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        for number, names, path in groups:
            if (kind == "cgroup" and "pids" in options and "pids" in names.split(",")) or (
                kind == "cgroup2" and number == "0" and not names
            ):
                found += _upwards(mount[4], os.path.relpath(path, mount[3]), every=kind == "cgroup2")
    return tuple(found)


def _upwards(top: str, below: str, *, every: bool) -> list[str]:
    """Our own group, and those above it; in the second version only those that count processes of their children."""
    if below.startswith(".."):
        below = "."
    here = os.path.normpath(os.path.join(top, below))
    folders = [here]
    while every and here != top:
        here = os.path.dirname(here)
        folders.append(here)
    return [folder for folder in folders if not every or _counts(folder)]


def _counts(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "cgroup.subtree_control"), encoding="ascii") as file:
            return "pids" in file.read().split()
    except OSError:
        return False


def _sweep(folder: str) -> None:
    """Remove the empty groups of processes that were killed before they could do it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            owner = name.removeprefix("dragoman-").partition("-")[0]
            if name.startswith("dragoman-") and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(folder, name))
