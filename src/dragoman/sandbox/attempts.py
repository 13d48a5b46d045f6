"""The script that tries to break out of a box. It runs inside a box, and reports the result of every attempt.

It is a separate script that uses only the standard library. Successful attempts do no harm: they touch only files
that the probe prepared.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import sys
import time
from types import FunctionType
from typing import Any

_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_NEW_USER = 0x10000000
_TIOCSTI = 0x5412
_IO_URING_SETUP = 425
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _write(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("planted")


def _holds(path: str, secret: str) -> None:
    with open(path, "rb") as file:
        if secret.encode() not in file.read(1 << 16):
            raise OSError("the secret is not in it")


def link_file_in(plan: dict[str, Any]) -> None:
    os.link(f"{plan['outside']}/target", "linked")


def change_mode_outside(plan: dict[str, Any]) -> None:
    os.chmod(f"{plan['outside']}/target", 0o640)


def read_system_secrets(plan: dict[str, Any]) -> None:
    with open("/etc/shadow", "rb") as file:
        if not file.read(1):
            raise OSError("it is empty")


def read_environment(plan: dict[str, Any]) -> None:
    if not any(name in os.environ for name in plan["names"]):
        raise OSError("it contains no variable of the launching process")


def reach_through_proc(plan: dict[str, Any]) -> None:
    for process in (1, plan["victim"]):
        try:
            return _holds(f"/proc/{process}/root{plan['home']}/.ssh/id_canary", plan["secret"])
        except OSError as error:
            last = error
    raise last


def connect_tcp(plan: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(("127.0.0.1", plan["tcp"]))


def send_udp(plan: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.sendto(b"planted", ("127.0.0.1", plan["udp"]))


def connect_unix(plan: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(plan["unix"])


def connect_abstract(plan: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("\0" + plan["abstract"])


def create_startup_file(plan: dict[str, Any]) -> None:
    if os.path.lexists(".bashrc"):
        os.unlink(".bashrc")
    _write(".bashrc")


def create_watched_file(plan: dict[str, Any]) -> None:
    os.makedirs(".vscode", exist_ok=True)
    _write(".vscode/tasks.json")


def move_protected(plan: dict[str, Any]) -> None:
    os.rename(".git", "moved")
    os.makedirs(".git/hooks")
    _write(".git/hooks/pre-rebase")


def trace_process(plan: dict[str, Any]) -> None:
    _checked(_libc.ptrace(_PTRACE_SEIZE, plan["victim"], None, None))
    _libc.ptrace(_PTRACE_DETACH, plan["victim"], None, None)


def new_user_namespace(plan: dict[str, Any]) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if _libc.unshare(_NEW_USER) == 0 else ctypes.get_errno())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


def mount_something(plan: dict[str, Any]) -> None:
    os.makedirs("mounted", exist_ok=True)
    _checked(_libc.mount(b"none", b"mounted", b"tmpfs", 0, None))
    _libc.umount2(b"mounted", 2)


def open_kernel_settings(plan: dict[str, Any]) -> None:
    """Open settings for writing, and write nothing: the probe must not change a setting of the host."""
    for top in ("/proc/sysrq-trigger", "/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/sys"):
        for folder, _, names in [("", (), [top]), *os.walk(top)]:
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.isfile(path):
                    continue
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                    return
                except OSError:
                    continue
    raise OSError("none of them opens")


def use_capabilities(plan: dict[str, Any]) -> None:
    with open("/proc/self/status", encoding="ascii") as file:
        held = [line.split() for line in file if line.startswith("Cap")]
    if not any(int(value, 16) for name, value in held if name != "CapBnd:" or os.getuid() == 0):
        raise OSError("there are none")


def share_memory(plan: dict[str, Any]) -> None:
    """Create a segment of System V memory, and remove it. In its own namespace, no process outside can see it."""
    if os.readlink("/proc/self/ns/ipc") != plan["ipc"]:
        raise OSError("no process outside shares it")
    segment = _checked(_libc.shmget(0, 4096, 0o600))
    _libc.shmctl(segment, 0, None)


def connect_in_workspace(plan: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("socket")


def type_into_terminal(plan: dict[str, Any]) -> None:
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, _TIOCSTI, b"x")
    finally:
        os.close(master)
        os.close(slave)


def queue_kernel_calls(plan: dict[str, Any]) -> None:
    os.close(_checked(_libc.syscall(_IO_URING_SETUP, 4, ctypes.create_string_buffer(120))))


def take_memory(plan: dict[str, Any]) -> None:
    mmap.mmap(-1, plan["memory"], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


def write_large_file(plan: dict[str, Any]) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with open("large", "wb") as file:
            os.truncate(file.fileno(), plan["file"])
    finally:
        if os.path.exists("large"):
            os.unlink("large")


def start_many_processes(plan: dict[str, Any]) -> None:
    children: list[int] = []
    try:
        while len(children) < plan["processes"]:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                signal.pause()
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def kill_process(plan: dict[str, Any]) -> None:
    os.kill(plan["victim"], signal.SIGKILL)


def outlive(plan: dict[str, Any]) -> None:
    """Start a daemon that holds a lock while it lives; the probe checks whether the lock is free."""
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        descriptor = os.open("alive", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, str(os.getpid()).encode())
        os.write(told, b"x")
        time.sleep(plan["patience"])
        os._exit(0)
    os.close(told)
    os.read(ready, 1)


_WRITTEN = {
    "write_outside": "{outside}/planted",
    "follow_link_out": "link/through_link",
    "change_hook": ".git/hooks/pre-push",
    "create_hook": ".git/hooks/pre-commit",
    "change_config": "dragoman.toml",
}
"""Attempts to write a file."""
_READ = {
    "read_home": "{home}/.ssh/id_canary",
    "read_environment_of_process": "/proc/{victim}/environ",
    "read_file_of_process": "/proc/{victim}/fd/{victim_file}",
}
"""Attempts to read the secret in a file."""
# Every function above without an underscore is an attempt.
_FUNCTIONS = {
    name: made for name, made in list(globals().items()) if isinstance(made, FunctionType) and not name.startswith("_")
}
ATTEMPTS = [*_WRITTEN, *_READ, *_FUNCTIONS]


def _attempt(name: str, plan: dict[str, Any]) -> None:
    if name in _WRITTEN:
        _write(_WRITTEN[name].format(**plan))
    elif name in _READ:
        _holds(_READ[name].format(**plan), plan["secret"])
    else:
        _FUNCTIONS[name](plan)


def main() -> None:
    """Run all attempts of the plan in the first argument, and print one line of JSON for each."""
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)  # noqa: TID251
    for attempt in ATTEMPTS:
        stopped = ""
        try:
            _attempt(attempt, plan)
        except (OSError, ValueError, MemoryError) as error:
            stopped = getattr(error, "strerror", None) or str(error) or "refused"
        print(json.dumps([attempt, stopped]), flush=True)


if __name__ == "__main__":
    main()
