"""Which calls of the kernel a command in a box may make, as a filter that the kernel runs.

The filter is a list of what is refused, not of what is allowed: a box runs arbitrary programs. What is refused is what
looks into other processes, changes the system or the file system's shape, opens further namespaces (inside them a
plain user is root, and half of the kernel's bugs become reachable), and sockets of kinds that the box has no use for.
"""

from __future__ import annotations

import errno
import platform
import struct

# The numbers of the calls on x86_64 and on aarch64; -1 where there is no such call.
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
# These are said not to exist, because programs then do the same in another way that the filter can look into.
_MISSING: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# These are said to have been done: whoever leaves the group of its launcher would outlive it.
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
    """Whether the numbers of this machine's kernel calls are known."""
    return platform.machine() in _ARCHITECTURES and struct.pack("=I", 1) == struct.pack("<I", 1)


def make_filter(
    *, families: tuple[int, ...], stay_in_group: bool = False, spared: tuple[int, ...] = (), machine: str | None = None
) -> bytes:
    """The filter as the kernel takes it.

    `families` are the kinds of sockets that may be opened (pairs that are connected to each other always may).
    `stay_in_group` answers setsid and setpgid without doing them. `spared` are processes that get no signals.
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
    for number in _numbers(_REFUSED, column):
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for number in _numbers(_MISSING, column):
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS)]
    for number in _numbers(_PRETENDED, column) if stay_in_group else ():
        program += [_step(_EQUAL, number, 0, 1), _refuse(0)]
    for call in (_CLONE, _UNSHARE):
        program += _when(call[column], [_load(_FIRST_ARGUMENT), *_refuse_bits(_NEW_NAMESPACES)])
    program += _when(_IOCTL[column], [_load(_SECOND_ARGUMENT), *_refuse_values((_TIOCSTI, _TIOCLINUX))])
    program += _when(_SOCKET[column], [_load(_FIRST_ARGUMENT), *_allow_only(families)])
    if spared:
        program += [_step(_EQUAL, _PIDFD_SEND_SIGNAL, 0, 1), _refuse(errno.EPERM)]
    for number in _numbers(_SIGNALS, column) if spared else ():
        program += _when(number, [_load(_FIRST_ARGUMENT), *_refuse_values(tuple(p & 0xFFFFFFFF for p in spared))])
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _numbers(calls: dict[str, tuple[int, int]], column: int) -> list[int]:
    return [numbers[column] for numbers in calls.values() if numbers[column] >= 0]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _load(offset: int) -> bytes:
    """The lower half of an argument: the kernel looks at no more of a flag, a family or a request."""
    return _step(_LOAD, offset)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Do `body` for one call; whoever comes to its end is allowed, so the number needs no loading again."""
    return [_step(_EQUAL, number, 0, len(body) + 1), *body, _step(_RETURN, _ALLOW)]


def _refuse_bits(bits: int) -> list[bytes]:
    return [_step(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM)]


def _refuse_values(values: tuple[int, ...]) -> list[bytes]:
    return [part for value in values for part in (_step(_EQUAL, value, 0, 1), _refuse(errno.EPERM))]


def _allow_only(values: tuple[int, ...]) -> list[bytes]:
    allowed = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW))]
    return [*allowed, _refuse(errno.EACCES)]
