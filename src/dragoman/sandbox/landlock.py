"""The sandbox of Landlock, seccomp and resource limits."""

from __future__ import annotations

import ctypes
import errno
import functools
import marshal
import os
import platform
import stat
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.errors import ConfigError
from dragoman.own_code import environment_paths, is_below, own_paths, read_script, script_command
from dragoman.sandbox.boxes import (
    SYSTEM_FOLDERS,
    Box,
    BoxLimits,
    Launch,
    PrivateFolder,
    Sandbox,
    bounded_launch,
    check_box,
    find_user,
    fit_to_user,
    full_environment,
    in_memory,
    secrets_below,
    system_secrets,
)
from dragoman.sandbox.protection import PathSnapshot, plan_protection

# --------------------------------------------------------------------------------------------------------------------
# The system calls that a command in a box may make, as a seccomp filter.
#
# The filter lists the denied calls, not the allowed ones, because a box runs arbitrary programs. It denies calls that
# inspect other processes, or that change the system or its mounts. It denies new namespaces: a normal user is root in
# them, and can reach many bugs of the kernel. It denies sockets of kinds that the box does not need.

# The numbers of the calls on x86_64 and on aarch64; -1 if the architecture has no such call.
_REFUSED: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
}
# Shared memory, semaphores and message queues. A box without its own IPC namespace shares them with the host.
_SHARED: dict[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# These calls report that they do not exist. Programs then use older calls, whose arguments the filter can read.
_MISSING: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# These calls report success without an effect. A process that leaves its process group could outlive the command.
_PRETENDED: dict[str, tuple[int, int]] = {"setsid": (112, 157), "setpgid": (109, 154)}
_SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
_PIDFD_SEND_SIGNAL = 424
_CLONE, _UNSHARE, _SOCKET, _IOCTL = (56, 220), (272, 97), (41, 198), (16, 29)

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020080  # user, mount, pid, net, ipc, uts, cgroup and time
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24


def can_filter() -> bool:
    """Whether the system call numbers of this machine are known."""
    return platform.machine() in _ARCHITECTURES and struct.pack("=I", 1) == struct.pack("<I", 1)


def make_filter(
    *,
    families: tuple[int, ...],
    stay_in_group: bool = False,
    spared: tuple[int, ...] = (),
    shares_ipc: bool = False,
    machine: str | None = None,
) -> bytes:
    """Return the filter as bytes for the kernel.

    `families` are the address families of sockets that a command may open. Socket pairs are always allowed. With
    `stay_in_group`, setsid and setpgid have no effect. `spared` are processes that the command may not signal. With
    `shares_ipc`, the filter denies System V IPC and message queues, for boxes that share them with the host.
    """
    column, architecture = _ARCHITECTURES[machine or platform.machine()]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, 1, 0),
        _refuse(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]
    if column == 0:
        program += [_step(_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    no, allowed = _refuse(errno.EPERM), _step(_RETURN, _ALLOW)
    # The lower half of an argument. The kernel ignores the upper half of a flag, a family and a request.
    first, second = _step(_LOAD, _FIRST_ARGUMENT), _step(_LOAD, _SECOND_ARGUMENT)
    program += _for_each(_numbers(_REFUSED, column), no)
    program += _for_each(_numbers(_SHARED, column), no) if shares_ipc else []
    program += _for_each(_numbers(_MISSING, column), _refuse(errno.ENOSYS))
    program += _for_each(_numbers(_PRETENDED, column), _refuse(0)) if stay_in_group else []
    for call in (_CLONE, _UNSHARE):
        program += _when(call[column], [first, _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), no])
    program += _when(_IOCTL[column], [second, *_for_each((_TIOCSTI, _TIOCLINUX), no)])
    program += _when(_SOCKET[column], [first, *_for_each(families, allowed), _refuse(errno.EACCES)])
    program += _for_each((_PIDFD_SEND_SIGNAL,), no) if spared else []
    for number in _numbers(_SIGNALS, column) if spared else ():
        program += _when(number, [first, *_for_each((process & 0xFFFFFFFF for process in spared), no)])
    return b"".join([*program, allowed])


def _numbers(calls: dict[str, tuple[int, int]], column: int) -> list[int]:
    return [numbers[column] for numbers in calls.values() if numbers[column] >= 0]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` for one call. The end of the body allows the call, so the number is not loaded again."""
    return [_step(_EQUAL, number, 0, len(body) + 1), *body, _step(_RETURN, _ALLOW)]


def _for_each(values: Iterable[int], answer: bytes) -> list[bytes]:
    """Return this answer if the loaded value is one of the values."""
    return [part for value in values for part in (_step(_EQUAL, value, 0, 1), answer)]


# --------------------------------------------------------------------------------------------------------------------
# A sandbox that needs no privileges: Landlock for files, seccomp for system calls, limits for the rest.
#
# A rule of Landlock grants rights on everything below a path. No rule removes a right. So each visible folder gets its
# own rule, and a protected path inside the workspace cannot be made read-only. dragoman saves such paths before the
# command, and restores them afterwards.

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _DEVICE_REQUEST = 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_REQUEST
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_OLDEST, _WITH_NETWORK, _WITH_REQUESTS, _WITH_SCOPES = 3, 4, 5, 6
_MARKS = (0xD12A6011, 0xD12A6012)
_ENTER = read_script(__name__, "enter.py")


def landlock_version() -> int:
    """Return the version of Landlock in the kernel; 0 if there is none."""
    try:
        return max(0, int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))
    except (OSError, AttributeError):
        return 0


def why_no_landlock() -> str:
    """Return why this sandbox does not work; empty if it does."""
    version = landlock_version()
    if version == 0:
        return "the kernel has no Landlock, or it is switched off"
    if version < _OLDEST:
        return f"the kernel's Landlock is version {version}; {_OLDEST} is needed, which comes with Linux 6.2"
    return "" if can_filter() else f"the system calls of {os.uname().machine} are unknown"


class LandlockSandbox(Sandbox):
    """Runs commands through a small script that drops its rights before it runs the command."""

    tier = "landlock"

    def __init__(self, version: int | None = None) -> None:
        self.version = landlock_version() if version is None else version

    def check(self, box: Box) -> Box:
        box = check_box(box)
        _refuse_visible_secrets(box)
        _refuse_own_environment(box)
        return box

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        box = self.check(box)
        user = find_user(box.workspace)
        box = fit_to_user(box, user)
        command = script_command(_ENTER, box.workspace, *box.writable)
        protection = plan_protection(box.workspace, box.protected, (*box.watched, *own_paths(box.workspace)))
        paths = [*protection.fixed, *protection.absent, *protection.guarded]
        guard = PathSnapshot(box.workspace, paths, box.aside, protection.repositories)
        private = PrivateFolder(user)
        try:
            settings = self._settings(box, private.path) | {
                "argv": list(argv),
                "environment": full_environment(box, home=box.home or private.home, temporary=private.temporary),
                "cwd": box.cwd,
                "user": None if user is None else (user.uid, user.gid),
            }
            descriptor = in_memory("settings", marshal.dumps(settings, 2))
        except BaseException:
            private.remove()
            raise
        return bounded_launch(
            (*command, str(descriptor)),
            box.limits,
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
                families=families,
                stay_in_group=True,
                spared=() if scopes else (os.getpid(), -1, *_MARKS),
                shares_ipc=True,
            ),
            "marks": () if scopes else _MARKS,
            "limits": _limits(box.limits),
            "processes": box.limits.processes,
        }

    @property
    def _all_rights(self) -> int:
        """Return all rights that this version of Landlock can restrict."""
        return (1 << 16) - 1 if self.version >= _WITH_REQUESTS else (1 << 15) - 1


def _grant(path: str, rights: int, but: Iterable[str]) -> list[tuple[str, int]]:
    """Return the rules that grant `rights` on everything below `path`, except below the paths in `but`."""
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


def _refuse_visible_secrets(box: Box) -> None:
    if seen := secrets_below([*box.writable, box.workspace], box.hidden):
        raise ConfigError(
            f"Landlock cannot hide {seen[0]} from commands that may write to a folder above it",
            hint="choose a workspace without secrets, or install bubblewrap",
        )


def _refuse_own_environment(box: Box) -> None:
    """Refuse a workspace that contains the environment of dragoman, which runs outside the box the next time.

    An environment is too large to be saved and restored. Rules for everything beside it would not allow a command to
    create a file directly in the workspace: the right to create files in a folder applies to all folders below it.
    """
    for folder in (box.workspace, *filter(os.path.isdir, box.writable)):
        if kept := environment_paths(folder):
            raise ConfigError(
                f"dragoman runs from {os.path.join(folder, kept[0])}, and Landlock cannot protect it from commands",
                hint="install bubblewrap, or install dragoman outside the workspace, with `pipx` or `uv tool`",
            )


def _limits(limits: BoxLimits) -> list[tuple[int, int]]:
    import resource  # Windows has no such module.

    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ]
    return [(which, int(amount)) for which, amount in wanted if amount is not None]
