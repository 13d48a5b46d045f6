"""Make this process look like Windows or macOS to dragoman, for `tests/project/test_platforms.py`.

What is emulated is what is absent: modules of the standard library, functions, flags, signals, and what event loops and
subprocesses refuse. What cannot be emulated here is the behaviour of another kernel: paths with drives and backslashes,
file locks, and renaming of open files. The standard library and the dependencies are imported before the change,
because their own code for another platform cannot be loaded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import os
import pathlib
import platform
import select
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from types import ModuleType
from typing import Any

BEFORE = """
    ctypes getpass glob http.server importlib.metadata inspect logging.handlers mimetypes multiprocessing platform
    selectors shutil sqlite3 ssl stat tempfile tomllib typer.testing unittest.mock urllib.request uuid webbrowser
    zipfile docstring_parser httptools jsonschema_rs markdown_it msgspec prompt_toolkit.shortcuts rich.live
    rich.logging rich.markdown rich.progress rich.prompt rich.table rich.traceback starlette.applications
    uvicorn.config
"""
POSIX_MODULES = "curses fcntl grp pty pwd readline resource syslog termios tty uvloop"
WINDOWS_FLAGS = "O_APPEND O_CREAT O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY"
WINDOWS_SIGNALS = "SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL SIG_IGN"
NOT_ON_WINDOWS: dict[ModuleType, str] = {
    os: """WNOHANG chown chroot eventfd fchdir fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg
    getpgid getpgrp getpriority getresuid getsid getuid getxattr killpg lchown listxattr lockf memfd_create mkfifo mknod
    nice openpty pidfd_open pipe2 posix_fallocate posix_spawn pread preadv pwrite pwritev sched_getaffinity
    sched_setaffinity sendfile set_blocking setgid setpgid setsid setuid setxattr statvfs sysconf tcgetpgrp tcsetpgrp
    ttyname uname wait wait3 wait4 waitid""",
    signal: "alarm getitimer pause pidfd_send_signal pthread_kill pthread_sigmask setitimer siginterrupt sigwait",
    socket: "AF_UNIX SO_PEERCRED SO_REUSEPORT recv_fds send_fds",
    select: "epoll kqueue poll",
}
NOT_ON_MACOS: dict[ModuleType, str] = {
    os: """O_PATH O_TMPFILE eventfd getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fallocate
    sched_getaffinity sched_setaffinity setxattr""",
    signal: "pidfd_send_signal",
    socket: "SO_PEERCRED",
    select: "epoll",
}


class _Absent:
    """Finds no module of POSIX."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in POSIX_MODULES.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def become_windows() -> None:
    """Remove what Windows does not have, and change the names of the platform."""
    _load_dependencies()
    # Loops wake themselves with a pair of sockets. Windows makes it of two TCP sockets.
    socket.socketpair = functools.partial(socket.socketpair, socket.AF_UNIX)  # type: ignore[assignment]
    for name in POSIX_MODULES.split():
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Absent)  # type: ignore[arg-type]
    _remove(NOT_ON_WINDOWS)
    _remove({os: " ".join(name for name in dir(os) if name.startswith("O_") and name not in WINDOWS_FLAGS.split())})
    _remove(
        {signal: " ".join(name for name in dir(signal) if name[:3] == "SIG" and name not in WINDOWS_SIGNALS.split())}
    )
    for kind in (os.supports_dir_fd, os.supports_fd, os.supports_effective_ids):
        kind.clear()
    _refuse_what_loops_of_windows_refuse()
    # `Path` looks for the class in the module that defines it, which is another one in some versions.
    vars(sys.modules[pathlib.Path.__module__])["WindowsPath"] = pathlib.PosixPath
    sys.platform, os.name = "win32", "nt"


def become_macos() -> None:
    """Remove what macOS does not have, and change the name of the platform."""
    _load_dependencies()
    _remove(NOT_ON_MACOS)
    sys.platform = "darwin"


def _load_dependencies() -> None:
    for name in BEFORE.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Both are computed once.
    sysconfig.get_config_vars()
    platform.uname()


def _remove(absent: dict[ModuleType, str]) -> None:
    # Since 3.13. It uses `sched_getaffinity` where the interpreter was built with it.
    os.process_cpu_count = os.cpu_count  # type: ignore[attr-defined]
    for module, names in absent.items():
        for name in _there(module, names.split()):
            delattr(module, name)


def _there(module: ModuleType, names: Iterable[str]) -> list[str]:
    return [name for name in names if hasattr(module, name)]


def _refuse_what_loops_of_windows_refuse() -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    for name in ("add_signal_handler", "remove_signal_handler", "add_reader"):
        setattr(asyncio.SelectorEventLoop, name, refuse)
    start = subprocess.Popen.__init__

    def start_as_on_windows(
        self: Any, *given: Any, preexec_fn: object = None, pass_fds: tuple[int, ...] = (), **named: Any
    ) -> None:
        if preexec_fn is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        assert not pass_fds, "pass_fds not supported on Windows."
        start(self, *given, **{name: value for name, value in named.items() if name != "start_new_session"})

    subprocess.Popen.__init__ = start_as_on_windows  # type: ignore[method-assign]
