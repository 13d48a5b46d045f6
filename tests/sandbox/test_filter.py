"""The filter of kernel calls, run by a small interpreter: which calls it refuses, on each kind of machine."""

from __future__ import annotations

import errno
import struct

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.sandbox.landlock import AF_INET, AF_UNIX, make_filter

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = -1


def decide(program: bytes, number: int, *arguments: int, architecture: int = ARCHITECTURES["x86_64"]) -> int:
    """The error that the call gets, or ALLOWED."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", program))
    place = accumulator = 0
    while True:
        code, when_true, when_false, value = steps[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
        else:
            holds = {0x15: accumulator == value, 0x45: bool(accumulator & value), 0x35: accumulator >= value}[code]
            place += when_true if holds else when_false


CALLS = {
    # name: number and arguments on x86_64, on aarch64, the error
    "read": ((0,), (63,), ALLOWED),
    "execve": ((59,), (221,), ALLOWED),
    "ptrace": ((101,), (117,), errno.EPERM),
    "mount": ((165,), (40,), errno.EPERM),
    "keyctl": ((250,), (219,), errno.EPERM),
    "bpf": ((321,), (280,), errno.EPERM),
    "setns": ((308,), (268,), errno.EPERM),
    "io_uring": ((425,), (425,), errno.ENOSYS),
    "clone3": ((435,), (435,), errno.ENOSYS),
    "fork by clone": ((56, 17), (220, 17), ALLOWED),
    "thread by clone": ((56, 0x3D0F00), (220, 0x3D0F00), ALLOWED),
    "clone into a user namespace": ((56, 0x10000011), (220, 0x10000011), errno.EPERM),
    "unshare of files": ((272, 0x400), (97, 0x400), ALLOWED),
    "unshare of mounts": ((272, 0x20000), (97, 0x20000), errno.EPERM),
    "window size": ((16, 0, 0x5413), (29, 0, 0x5413), ALLOWED),
    "typing into a terminal": ((16, 0, 0x5412), (29, 0, 0x5412), errno.EPERM),
    "the same with upper bits": ((16, 0, 0x1_0000_5412), (29, 0, 0x1_0000_5412), errno.EPERM),
    "unix socket": ((41, 1, 1), (198, 1, 1), ALLOWED),
    "internet socket": ((41, 2, 1), (198, 2, 1), errno.EACCES),
    "packet socket": ((41, 17, 3), (198, 17, 3), errno.EACCES),
    "pair of sockets": ((53, 1, 1), (199, 1, 1), ALLOWED),
    "setsid": ((112,), (157,), 0),
}


@each_row("machine", ARCHITECTURES)
@each_row("name", CALLS)
def test_each_call_is_answered_as_meant(name: str, machine: str) -> None:
    program = make_filter(families=(AF_UNIX,), stay_in_group=True, machine=machine)
    call = CALLS[name][list(ARCHITECTURES).index(machine)]

    assert decide(program, *call, architecture=ARCHITECTURES[machine]) == CALLS[name][2]


def test_calls_of_another_kind_of_program_are_refused() -> None:
    program = make_filter(families=(AF_UNIX,), machine="x86_64")

    assert decide(program, 11, architecture=0x40000003) == errno.ENOSYS  # 32 bits
    assert decide(program, 0x40000000 | 101) == errno.ENOSYS  # x32, by which ptrace has another number


def test_spared_processes_get_no_signals() -> None:
    program = make_filter(families=(), spared=(4711, -1), machine="x86_64")

    assert decide(program, 62, 4711, 9) == errno.EPERM
    assert decide(program, 62, 0xFFFFFFFF_FFFFFFFF, 9) == errno.EPERM
    assert decide(program, 62, 4712, 9) == ALLOWED
    assert decide(program, 424, 5, 9) == errno.EPERM


@given(family=st.integers(0, 2**64 - 1), more=st.booleans())
def test_only_the_named_families_open_sockets(family: int, more: bool) -> None:
    families = (AF_UNIX, AF_INET) if more else (AF_UNIX,)
    answer = decide(make_filter(families=families, machine="x86_64"), 41, family)

    assert (answer == ALLOWED) is (family & 0xFFFFFFFF in families)


@given(number=st.integers(0, 2**32 - 1), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_every_call_gets_an_answer(number: int, arguments: list[int]) -> None:
    program = make_filter(families=(AF_UNIX,), stay_in_group=True, spared=(1,), machine="x86_64")

    assert decide(program, number, *arguments) in (ALLOWED, 0, errno.EPERM, errno.ENOSYS, errno.EACCES)
