"""Boxes made of what the kernel offers to everybody: Landlock for files, seccomp for calls, limits for the rest.

Landlock only adds rights along a path and never takes any away. So the folders that a box shows are named one by one,
and what must not change inside the workspace cannot be held: it is remembered, and put back when the command is over.
"""

from __future__ import annotations

import ctypes
import functools
import marshal
import os
import resource
import stat
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.errors import ConfigError
from dragoman.sandbox.boxes import Box, BoxLimits, Launch, check_box, full_environment, in_memory
from dragoman.sandbox.guarding import Guard
from dragoman.sandbox.private import PrivateFolder
from dragoman.sandbox.sandboxes import Sandbox, bounded_launch
from dragoman.sandbox.seccomp import AF_INET, AF_INET6, AF_NETLINK, can_filter, make_filter
from dragoman.sandbox.shields import plan_shields
from dragoman.sandbox.system import SYSTEM_FOLDERS, is_below, secrets_below, system_secrets

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _DEVICE_REQUEST = 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_REQUEST
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_OLDEST, _WITH_NETWORK, _WITH_REQUESTS, _WITH_SCOPES = 3, 4, 5, 6
_MARKS = (0xD12A6011, 0xD12A6012)


def landlock_version() -> int:
    """Which version of Landlock the kernel has; 0 where there is none."""
    try:
        return max(0, int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))
    except (OSError, AttributeError):
        return 0


def why_no_landlock() -> str:
    """What is in the way of boxes of this kind; empty where nothing is."""
    version = landlock_version()
    if version == 0:
        return "the kernel has no Landlock, or it is switched off"
    if version < _OLDEST:
        return f"the kernel's Landlock is version {version}; {_OLDEST} is needed, which comes with Linux 6.2"
    return "" if can_filter() else f"the calls of {os.uname().machine} are not known"


class LandlockSandbox(Sandbox):
    """Runs commands through a small script that gives its rights away before it becomes the command."""

    tier = "landlock"

    def __init__(self, version: int | None = None) -> None:
        self.version = landlock_version() if version is None else version

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        box = check_box(box)
        _refuse_what_cannot_be_hidden(box)
        shields = plan_shields(box.workspace, box.protected, box.watched)
        guard = Guard(box.workspace, [*shields.fixed, *shields.absent, *shields.guarded], box.aside)
        private = PrivateFolder()
        try:
            settings = self._settings(box, private.path) | {
                "argv": list(argv),
                "environment": full_environment(box, home=box.home or private.home, temporary=private.path),
                "cwd": box.cwd,
            }
            descriptor = in_memory("settings", marshal.dumps(settings, 2))
        except BaseException:
            private.remove()
            raise
        enter = os.path.join(os.path.dirname(os.path.abspath(__file__)), "enter.py")
        return bounded_launch(
            (sys.executable, "-I", "-S", enter, str(descriptor)),
            box.limits.processes,
            descriptors=[descriptor],
            endings=(private.remove, guard.put_back),
        )

    def _settings(self, box: Box, private: str) -> dict[str, Any]:
        own = [*box.writable, *([box.home] if box.home else []), private, box.workspace]
        rules = [*_system_rules()]
        hidden = [*box.hidden, *secrets_below(box.readable, box.hidden)]
        rules += [rule for path in (*box.readable, "/proc") for rule in _grant(path, _READ, hidden)]
        rules += [rule for path in own for rule in _grant(path, self._all_rights & ~_MAKE_DEVICES, ())]
        for name in _DEVICES:
            rules += _grant(f"/dev/{name}", (_READ_FILE | _WRITE_FILE | _DEVICE_REQUEST) & self._all_rights, ())
        if box.network:
            rules += _grant("/etc/resolv.conf", _READ, ())
        scopes = self.version >= _WITH_SCOPES
        families = (AF_INET, AF_INET6, AF_NETLINK) if box.network else ()
        return {
            "handled_files": self._all_rights,
            "handled_network": 3 if self.version >= _WITH_NETWORK and not box.network else 0,
            "scoped": 3 if scopes else 0,
            "ruleset_size": 24 if scopes else 16 if self.version >= _WITH_NETWORK else 8,
            "rules": rules,
            "filter": make_filter(
                families=families, stay_in_group=True, spared=() if scopes else (os.getpid(), -1, *_MARKS)
            ),
            "marks": () if scopes else _MARKS,
            "limits": _limits(box.limits),
            "processes": box.limits.processes,
        }

    @property
    def _all_rights(self) -> int:
        """Everything that this version of Landlock can take away."""
        return (1 << 16) - 1 if self.version >= _WITH_REQUESTS else (1 << 15) - 1


def _grant(path: str, rights: int, but: Iterable[str]) -> list[tuple[str, int]]:
    """The rules that give `rights` on everything below `path`, but not on what lies in `but`."""
    path = os.path.realpath(path)
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return []
    if not stat.S_ISDIR(mode):
        return [(path, rights & _OF_FILES)]
    inside = [each for each in but if is_below(each, path)]
    if path in inside:
        return []
    if not inside:
        return [(path, rights)]
    rules = [(path, rights & _READ_FOLDER)]
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in inside and not entry.is_symlink():
                rules += _grant(entry.path, rights, inside)
    return rules


@functools.cache
def _system_rules() -> tuple[tuple[str, int], ...]:
    secrets = system_secrets()
    return tuple(dict.fromkeys(rule for path in SYSTEM_FOLDERS for rule in _grant(path, _READ, secrets)))


def _refuse_what_cannot_be_hidden(box: Box) -> None:
    shown = [*box.writable, box.workspace]
    seen = secrets_below(shown, box.hidden)
    if seen:
        raise ConfigError(
            f"this kind of sandbox cannot hide {seen[0]} from a box that may write to a folder above it",
            hint="choose a workspace that holds no secrets, or install bubblewrap",
        )


def _limits(limits: BoxLimits) -> list[tuple[int, int]]:
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ]
    return [(which, int(amount)) for which, amount in wanted if amount is not None]
