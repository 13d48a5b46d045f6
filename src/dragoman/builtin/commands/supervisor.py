"""The supervisor process of a command: it ends all processes of the command, even if dragoman is killed.

Run as a script of its own, with nothing but the standard library, so that it starts fast and inherits nothing. It is
told over one pipe what to run, and tells over another what became of it. Every orphan below it becomes its child, so
that a daemon is found as well; when the first pipe closes, for whatever reason, all of them are killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any

_ASK_TO_END = b"T"
_PATIENCE = 5.0
"""Seconds for the last of them to die; what is stuck in the kernel longer is reported and left."""
_FREEZING_ROUNDS = 20
_MOST_NAMES = 8
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_RESTORED = ("SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP")


class Supervisor:
    """One command and everything below it."""

    def __init__(self, control: int, status: int) -> None:
        self._control = control
        self._status = status
        self._main = 0
        self._code: int | None = None
        self._over = False
        self._awake, waking = os.pipe()
        for end in (self._awake, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def serve(self, parent: int) -> None:
        """Run the command until it is over, or until nobody wants it any more."""
        signal.signal(signal.SIGCHLD, _ignore)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._give_up)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            return  # It died before it could be watched.
        folder, argv, environment, files = read_order(self._control)
        self._main = os.fork()
        if self._main == 0:
            self._become(folder, argv, environment, files)
        # The command alone holds the pipe of its output, so that its end can be seen.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        self.tell("began", self._main)
        self._wait()
        self._end_all()

    def tell(self, *words: object) -> None:
        with contextlib.suppress(OSError):
            os.write(self._status, " ".join(map(str, words)).encode() + b"\n")

    def _become(self, folder: str, argv: list[bytes], environment: dict[bytes, bytes], files: list[bytes]) -> None:
        """In the child: turn into the command, in a session of its own."""
        place = "folder"
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for name in _RESTORED:
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.close(self._control)
            os.set_inheritable(self._status, False)
            os.chdir(folder)
            place = "files"
            if any(_has_changed(*file.split(b" ", 2)) for file in files):
                raise OSError(116, "a file that it runs has changed")
            place = "program"
            os.execve(argv[0], argv, environment)
        except BaseException as problem:
            self.tell("failed", getattr(problem, "errno", None) or 0, place)
        finally:
            os._exit(127)

    def _give_up(self, *_: Any) -> None:
        self._over = True

    def _wait(self) -> None:
        while not self._over:
            ready, _, _ = select.select((self._control, self._awake), (), ())
            if self._awake in ready:
                self._drain()
                self._reap()
            if self._control in ready:
                said = os.read(self._control, 1)
                if said != _ASK_TO_END:
                    return
                for process in self._living():
                    _send(process, signal.SIGTERM)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._awake, 4096)

    def _reap(self) -> bool:
        """Take note of whoever has ended; whether anybody is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, code = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return True
                if process == self._main:
                    self._code = code
                    self.tell("exited", code)
        return False

    def _end_all(self) -> None:
        """Kill everything below, and say what was left when the command itself had ended."""
        if not self._reap():
            return
        left = self._living()
        if self._code is not None and left:
            names = [_name_of(abs(process)) for process in list(left)[:_MOST_NAMES]]
            self.tell("left", len(left), *(name.hex() or "00" for name in names))
        until, frozen, rounds = time.monotonic() + _PATIENCE, set[int](), 0
        while (self._reap() or left) and time.monotonic() < until:
            fresh = left - frozen
            # What is stopped begins nothing new. A command that forks without end is killed as it comes.
            is_freezing = bool(fresh) and rounds < _FREEZING_ROUNDS
            for process in fresh if is_freezing else left:
                _send(process, signal.SIGSTOP if is_freezing else signal.SIGKILL)
            frozen |= left
            rounds += 1
            if not is_freezing:
                select.select((self._awake,), (), (), 0.05)
                self._drain()
            left = self._living()
        if left:
            self.tell("stuck", len(left))

    def _living(self) -> set[int]:
        """Every process below this one that still runs; where the system does not tell, the group of the command."""
        try:
            parents = parents_of_all()
        except OSError:
            return {-self._main} if _send(-self._main, 0) else set()
        below: dict[int, list[int]] = {}
        for process, (parent, _) in parents.items():
            below.setdefault(parent, []).append(process)
        found: set[int] = set()
        waiting = [os.getpid()]
        while waiting:
            for process in below.get(waiting.pop(), ()):
                waiting.append(process)
                if parents[process][1] not in b"ZX":
                    found.add(process)
        return found


def read_order(control: int) -> tuple[str, list[bytes], dict[bytes, bytes], list[bytes]]:
    """What to run: a length in a line, then the folder, the numbers of arguments and of files, these, the environment.

    Each file is what a person or a rule has agreed to: its identity, its digest and its path.
    """
    length = b""
    while not length.endswith(b"\n"):
        length += _read(control, 1)
    body = _read(control, int(length))
    folder, numbers, *rest = body.split(b"\0")
    words, files = map(int, numbers.split())
    pairs = (each.partition(b"=") for each in rest[words + files :])
    return os.fsdecode(folder), rest[:words], {name: value for name, _, value in pairs}, rest[words : words + files]


def _has_changed(identity: bytes, digest: bytes, path: bytes) -> bool:
    """Whether a file is another one than was agreed to, or has another content. It is opened once."""
    import hashlib

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return identity != b"-"
    except OSError:
        return digest != b"-"
    try:
        status = os.fstat(descriptor)
        if b"%d:%d" % (status.st_dev, status.st_ino) != identity:
            return True
        found = hashlib.sha256()
        while digest != b"-" and (piece := os.read(descriptor, 1 << 20)):
            found.update(piece)
        return digest not in (b"-", found.hexdigest().encode())
    finally:
        os.close(descriptor)


def _read(descriptor: int, length: int) -> bytes:
    pieces = b""
    while len(pieces) < length:
        piece = os.read(descriptor, length - len(pieces))
        if not piece:
            raise SystemExit(1)
        pieces += piece
    return pieces


def parents_of_all() -> dict[int, tuple[int, bytes]]:
    """Of every process: its parent and its state."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name of a program stands in round brackets and may hold anything, round brackets too.
                state, parent = _content(f"/proc/{name}/stat").rpartition(b")")[2].split(None, 2)[:2]
                found[int(name)] = (int(parent), state)
    if os.getpid() not in found:
        raise FileNotFoundError("/proc is that of others")
    return found


def _name_of(process: int) -> bytes:
    try:
        return _content(f"/proc/{process}/comm").strip()
    except OSError:
        return b""


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _send(process: int, number: int) -> bool:
    try:
        os.kill(process, number)
        return True
    except OSError:
        return False


def _ignore(*_: Any) -> None:
    """A signal has to have a handler to wake anybody."""


def _prctl(option: int, value: int) -> None:
    """Linux alone has this; elsewhere the process group has to do."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    Supervisor(int(sys.argv[1]), int(sys.argv[2])).serve(int(sys.argv[3]))
