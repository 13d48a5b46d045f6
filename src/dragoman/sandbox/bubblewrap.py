"""The bubblewrap sandbox: its own file system, process tree and network, without privileges."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from dragoman.errors import ConfigError
from dragoman.own_code import find_program, is_outside, own_paths
from dragoman.sandbox.boxes import (
    SYSTEM_FOLDERS,
    Box,
    Launch,
    Sandbox,
    bounded_launch,
    check_box,
    find_user,
    fit_to_user,
    full_environment,
    in_memory,
    limit,
    secrets_below,
    sockets_below,
    system_secrets,
)
from dragoman.sandbox.landlock import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, can_filter, make_filter
from dragoman.sandbox.protection import PathProtection, PathSnapshot, Placeholders, open_below, plan_protection

_HOME = "/tmp/home"


class BubblewrapSandbox(Sandbox):
    """Runs commands through `bwrap`."""

    tier = "bubblewrap"

    def __init__(self, program: str) -> None:
        self.program = program
        self._options = _known_options(program)

    def check(self, box: Box) -> Box:
        box = check_box(box)
        if not is_outside(self.program, (box.workspace, *box.writable)):
            raise ConfigError(
                f"{self.program} is in a folder that commands may change", hint="install bubblewrap in another folder"
            )
        return box

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        box = self.check(box)
        user = find_user(box.workspace)
        box = fit_to_user(box, user)
        protection = plan_protection(box.workspace, box.protected, (*box.watched, *own_paths(box.workspace)))
        guard = PathSnapshot(box.workspace, protection.guarded, box.aside, protection.repositories)
        placeholders = Placeholders(box.workspace, protection.absent, protection.guarded)
        descriptors: list[int] = []
        try:
            options = [*self._isolation(box), *_visible(box)]
            options += self._shield(protection, placeholders.held, box.workspace, descriptors)
            options += _cover(set(sockets_below(box)) - set(placeholders.held))
            options += _cover(secrets_below([*box.readable, *box.writable, box.workspace], box.hidden))
            if can_filter():
                families = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
                descriptors.append(in_memory("filter", make_filter(families=families)))
                options += ["--seccomp", str(descriptors[-1])]
            descriptors.append(in_memory("options", b"".join(os.fsencode(each) + b"\0" for each in options)))
        except BaseException:
            placeholders.remove()
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        # The options are passed in memory, so that a process list shows neither them nor the environment.
        command = (self.program, "--args", str(descriptors[-1]), "--", *limit(argv, box.limits))
        return bounded_launch(
            command if user is None else user.run(command, (box.workspace, *box.writable)),
            box.limits,
            descriptors=descriptors,
            endings=(guard.put_back, placeholders.remove),
        )

    def _shield(self, protection: PathProtection, held: list[str], workspace: str, descriptors: list[int]) -> list[str]:
        """Mount the protected paths over themselves: a mount point cannot be changed, removed or moved.

        They are named by descriptor if possible. With a path, another command in the same workspace could create a link
        there in the meantime, and its target would become visible in the box.
        """
        options: list[str] = []
        wanted = [("--bind", path) for path in protection.anchors]
        wanted += [("--ro-bind", path) for path in protection.fixed + held]
        for option, path in wanted:
            if f"{option}-fd" in self._options:
                descriptors.append(open_below(workspace, path))
                options += [f"{option}-fd", str(descriptors[-1]), path]
            else:
                options += [option, path, path]
        return options

    def _isolation(self, box: Box) -> list[str]:
        options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"]
        options += ["--share-net"] if box.network else []
        options += ["--disable-userns"] if "--disable-userns" in self._options else []
        options += ["--hostname", "box", "--cap-drop", "ALL"]
        for name, value in full_environment(box, home=box.home or _HOME, temporary="/tmp").items():
            options += ["--setenv", name, value]
        return [*options, "--chdir", box.cwd or box.workspace]


def _visible(box: Box) -> list[str]:
    """Return the mounts: the system, read-only, then the paths of the box; later ones cover earlier ones."""
    options: list[str] = []
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    options += [
        "--proc",
        "/proc",
        *_fix_kernel_settings(),
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--dir",
        "/var/tmp",
        "--dir",
        "/run",
    ]
    options += ["--dir", _HOME] if box.home is None else []
    options += _cover(system_secrets())
    resolver = os.path.realpath("/etc/resolv.conf")
    if box.network and os.path.exists(resolver):
        options += ["--ro-bind", resolver, resolver]
    for path in sorted(box.readable):
        options += ["--ro-bind", path, path]
    for path in sorted(box.writable):
        options += ["--bind", path, path]
        for own in own_paths(path) if os.path.isdir(path) else ():
            options += ["--ro-bind", os.path.join(path, own), os.path.join(path, own)]
    options += ["--bind", box.home, box.home] if box.home else []
    return [*options, "--bind", box.workspace, box.workspace]


def _fix_kernel_settings() -> list[str]:
    """Make everything in /proc read-only, except the folders of processes.

    These are settings of the host. Root owns them, so their modes do not stop a command of root.
    """
    options: list[str] = []
    with os.scandir("/proc") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.isdigit() or entry.is_symlink():
                continue
            if entry.is_dir() or entry.stat().st_mode & 0o222:
                options += ["--ro-bind-try", entry.path, entry.path]
    return options


def _cover(paths: Iterable[str]) -> list[str]:
    options: list[str] = []
    for path in paths:
        options += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    return options


def _known_options(program: str) -> frozenset[str]:
    """Return the supported options; older versions lack some."""
    try:
        ran = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=10, env={}, check=False)
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(word for word in (ran.stdout + ran.stderr).split() if word.startswith("--"))


def find_bubblewrap(workspace: str) -> str | None:
    """Return the full path of `bwrap`, if it is installed outside the workspace."""
    return find_program("bwrap", workspace)
