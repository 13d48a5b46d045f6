"""Run one command as processes of the system, for a limited time, and end all of its processes.

A thread of its own waits for the pipes: it needs no event loop, no main thread and no watcher of children, and a
flood of output does not keep the loop from its other work. The command itself runs below `supervisor.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.own_code import loader_environment, read_script, script_command

if TYPE_CHECKING:
    from dragoman.sandbox import Launch

_PIECE = 1 << 16
GRACE = 2.0
"""Seconds between asking a command to end and ending it."""
MOMENT = 0.5
"""Seconds that output is waited for after the command itself has ended: somebody else may hold the pipe for ever."""
_MOST_PIECES_IN_A_PIPE = 64
_SUPERVISOR = read_script(__name__, "supervisor.py")
_LAST_WAIT = 7.0
"""Seconds for the supervisor to end everything; a little more than it allows itself."""


class CommandSpec(Struct, frozen=True):
    """What to run, and in which surroundings."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    pass_fds: tuple[int, ...] = ()
    seconds: float = 120.0
    grace: float = GRACE
    writable: tuple[str, ...] = ()
    """Folders that commands may change: what watches over them is not taken from there."""
    files: tuple[tuple[str, str, str], ...] = ()
    """What the command runs, each as identity, digest and path: looked at again directly before the start."""

    def encode(self) -> bytes:
        """As the supervisor reads it."""
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        files = [f"{identity or '-'} {digest or '-'} {path}" for identity, digest, path in self.files]
        fields = (self.folder, f"{len(self.argv)} {len(files)}", *self.argv, *files, *pairs)
        if any("\0" in field for field in fields):
            raise ValueError("a NUL character cannot be part of a command")
        raw = os.fsencode("\0".join(fields))
        return b"%d\n" % len(raw) + raw


class Ended(Struct, frozen=True):
    """How a command ended."""

    code: int | None = None
    """Its exit code; None where a signal ended it, or where it is not known."""
    signal: str = ""
    """The name of the signal that ended it."""
    seconds: float = 0.0
    timed_out: bool = False
    left: tuple[str, ...] = ()
    """Names of processes that it had left in the background; they were ended."""
    left_count: int = 0
    stuck: int = 0
    """How many processes could not be ended."""
    failure: int | None = None
    """The number of the error for which it could not be started."""
    folder_failed: bool = False
    """Whether that was because of the folder to start in."""
    files_changed: bool = False
    """Whether that was because a file that it runs had changed."""
    put_back: tuple[str, ...] = ()
    """Protected paths that it had changed, and that are as before again."""


Prepare = Callable[[], tuple[CommandSpec, "Launch | None"]]
"""Called in the thread, right before the start; whatever it raises, nothing is started."""


class RunningCommand:
    """One command. `run` blocks until it is over; `stop` may be called from any thread."""

    def __init__(self, prepare: Prepare, listen: Callable[[bytes], None]) -> None:
        self._prepare = prepare
        self._listen = listen
        self._words = bytearray()
        self._timed_out = False
        self._output_ended = self._supervisor_ended = False
        self._lock = threading.Lock()
        self._stopped = False
        self._waking = -1

    def stop(self) -> None:
        """End the command and everything that it began, at once."""
        with self._lock:
            self._stopped = True
            if self._waking >= 0:
                os.write(self._waking, b"x")

    def run(self) -> Ended:
        """Run it to its end, or to the end of its time. OSError and ValueError: it could not be begun."""
        order, launch = self._prepare()
        put_back: tuple[str, ...] = ()
        try:
            ended = self._run(order, launch)
        finally:
            if launch is not None:
                put_back = launch.finish()
        return replace(ended, put_back=put_back)

    def _run(self, order: CommandSpec, launch: Launch | None) -> Ended:
        raw = order.encode()
        if self._stopped:
            return Ended()
        begun = monotonic()
        pipes = _Pipes()
        supervisor = None
        try:
            output, printing = pipes.make()
            told, telling = pipes.make()
            hearing, control = pipes.make()
            awake, waking = pipes.make()
            with self._lock:
                self._waking = waking
            supervisor = _supervise(hearing, telling, printing, order)
            pipes.close(hearing, telling, printing)
            if launch is not None:
                launch.started()
            _write(control, raw)
            with selectors.DefaultSelector() as selector:
                for end in (output, told, awake):
                    os.set_blocking(end, False)
                    selector.register(end, selectors.EVENT_READ)
                self._follow(selector, order, output, told, control)
                seconds = monotonic() - begun
                _write(control, b"E")
                self._see_out(selector, output, told)
        finally:
            with self._lock:
                self._waking = -1
            # Should this be reached by a failure, the supervisor notices that the pipe is closed, and kills as well.
            pipes.close()
            if supervisor is not None:
                _await_end(supervisor)
        return self._ended(seconds)

    def _follow(
        self, selector: selectors.BaseSelector, order: CommandSpec, output: int, told: int, control: int
    ) -> None:
        """Listen until the command has ended and its output too, until its time is over, or until it is stopped."""
        over, asked = monotonic() + order.seconds, False
        drained = float("inf")
        while not (self._supervisor_ended or self._stopped):
            now = monotonic()
            if drained == float("inf") and self._find("exited") is not None:
                drained = now + MOMENT
            if now >= drained or (self._output_ended and drained < float("inf")):
                return
            if now >= over and drained == float("inf"):
                if asked:
                    return
                asked = self._timed_out = True
                over = now + order.grace
                _write(control, b"T")
            next_look = over if drained == float("inf") else drained
            for key, _ in selector.select(max(0.0, next_look - now)):
                self._take(selector, key.fd, output, told)

    def _see_out(self, selector: selectors.BaseSelector, output: int, told: int) -> None:
        """Listen to what is still in the pipes while everything ends."""
        until = monotonic() + _LAST_WAIT
        while not self._supervisor_ended and monotonic() < until:
            for key, _ in selector.select(max(0.0, until - monotonic())):
                self._take(selector, key.fd, output, told)
        for _ in range(_MOST_PIECES_IN_A_PIPE):
            if self._output_ended or not self._read_output(selector, output):
                break

    def _take(self, selector: selectors.BaseSelector, ready: int, output: int, told: int) -> None:
        if ready == output:
            self._read_output(selector, output)
        elif ready == told:
            said = os.read(told, _PIECE)
            self._words += said
            if not said:
                self._supervisor_ended = True
                selector.unregister(told)
        else:
            selector.unregister(ready)  # It has done its work: somebody asked to stop.

    def _read_output(self, selector: selectors.BaseSelector, output: int) -> bool:
        """Take one piece; False where there is none at the moment."""
        try:
            piece = os.read(output, _PIECE)
        except BlockingIOError:
            return False
        if piece:
            self._listen(piece)
            return True
        self._output_ended = True
        selector.unregister(output)
        return False

    def _find(self, word: str) -> list[str] | None:
        """What the supervisor said after a word, if it did."""
        for line in bytes(self._words).decode("ascii", "replace").split("\n")[:-1]:
            first, *rest = line.split(" ")
            if first == word:
                return rest
        return None

    def _ended(self, seconds: float) -> Ended:
        exited, left, began = self._find("exited"), self._find("left"), self._find("began")
        failed, stuck = self._find("failed"), self._find("stuck")
        if self._supervisor_ended and exited is None and began is not None and not self._stopped:
            end_session(int(began[0]))
        code = os.waitstatus_to_exitcode(int(exited[0])) if exited else None
        return Ended(
            code=code if code is None or code >= 0 else None,
            signal=_signal_name(-code) if code is not None and code < 0 else "",
            seconds=seconds,
            timed_out=self._timed_out,
            left=tuple(bytes.fromhex(name).decode("utf-8", "replace") for name in left[1:]) if left else (),
            left_count=int(left[0]) if left else 0,
            stuck=int(stuck[0]) if stuck else 0,
            failure=int(failed[0]) if failed else None,
            folder_failed=failed is not None and failed[1:] == ["folder"],
            files_changed=failed is not None and failed[1:] == ["files"],
        )


class _Pipes:
    """Pipes that are all closed in the end, whatever happens."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def make(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def close(self, *ends: int) -> None:
        """Close some, or all that are still open."""
        for end in ends or tuple(self._open):
            self._open.discard(end)
            os.close(end)


async def run_async(running: RunningCommand) -> Ended:
    """Run a command in a thread of its own. If this is cancelled, the command is stopped, and waited for."""
    done: concurrent.futures.Future[Ended] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # From here on it cannot be cancelled, only stopped.
    future = asyncio.wrap_future(done)

    def work() -> None:
        try:
            done.set_result(running.run())
        except BaseException as problem:
            done.set_exception(problem)

    threading.Thread(target=work, name="dragoman-command", daemon=True).start()
    try:
        await asyncio.wait((future,))
    except asyncio.CancelledError:
        running.stop()
        while not future.done():
            # Whoever is impatient does not make it faster; the wait has an end in any case.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((future,))
        future.exception()
        raise
    return future.result()


def end_session(leader: int) -> None:
    """Kill what a command left when its supervisor was killed itself: all that stayed in its session."""
    with contextlib.suppress(OSError):
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int(Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[3]) == leader:
                    os.kill(int(name), signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)


def _supervise(hearing: int, telling: int, printing: int, order: CommandSpec) -> subprocess.Popen[bytes]:
    """Start the supervisor; it gets nothing of our environment but what its interpreter may need to be loaded."""
    numbers = (str(hearing), str(telling), str(os.getpid()))
    return subprocess.Popen(
        (*script_command(_SUPERVISOR, *order.writable), *numbers),
        stdin=subprocess.DEVNULL,
        stdout=printing,
        stderr=printing,
        cwd="/",
        env=loader_environment(*order.writable),
        pass_fds=(hearing, telling, *order.pass_fds),
        start_new_session=True,
    )


def _await_end(supervisor: subprocess.Popen[bytes]) -> None:
    try:
        supervisor.wait(_LAST_WAIT)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()


def _write(control: int, raw: bytes) -> None:
    """Tell the supervisor something. One that has ended is noticed where its words are read."""
    view = memoryview(raw)
    with contextlib.suppress(BrokenPipeError):
        while view:
            view = view[os.write(control, view) :]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
