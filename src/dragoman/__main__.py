"""The `dragoman` command. Without the `cli` extra it prints how to install that extra."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
from typing import Any, NoReturn

_PARTS = ("typer", "rich", "prompt_toolkit", "markdown_it")
_EXTRAS = {
    **dict.fromkeys(("serve", "launch"), ("server",)),
    **dict.fromkeys(("demo", "local"), ("local",)),
    **dict.fromkeys(("worker", "submit", "status", "cancel"), ("durable",)),
}
"""The other extra that a command always needs."""
_INTERRUPTED = 130
_TERMINATED = 143
_FIRST_COLLECTION = 200_000
"""New objects before the first garbage collection; `dragoman run` creates 90,000 before its first request."""
_USUAL_THRESHOLD = gc.get_threshold()


class Terminated(BaseException):
    """SIGTERM without another handler. The exception lets `finally` blocks end child processes, such as MCP servers."""


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        _open_streams()
        _take_sigterm()
        _postpone_collection()
        from dragoman.cli.app import run

        return run()
    except Terminated:
        return _TERMINATED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        return _ask_for_extras(sys.argv[1:])
    except KeyboardInterrupt:
        return _INTERRUPTED


def _ask_for_extras(arguments: list[str]) -> int:
    """Without the extra `cli`, there is only `--version`. Anything else prints how to install what it needs."""
    if arguments == ["--version"]:
        from dragoman import __version__

        print(f"dragoman {__version__}")
        return 0
    from dragoman.extras import install_command

    wanted = install_command("cli", *_EXTRAS.get(arguments[0] if arguments else "", ()))
    print(f"error: the commands of dragoman need packages that are not installed\nhint: {wanted}", file=sys.stderr)
    return 2


class _LossyFile(io.FileIO):
    """Standard error. A message that cannot be written is lost; it must not change what the command does."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def _open_streams() -> None:
    """Make the three standard streams usable: a closed one is the null device.

    A file that is opened later would get the number of a closed stream, and what is printed would be written to it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is sys.__stderr__:
        encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
        buffer = io.BufferedWriter(_LossyFile(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=True)


def _take_sigterm() -> None:
    def end(number: int, frame: object) -> NoReturn:
        # A second SIGTERM must not interrupt the cleanup of the first: the servers would keep running.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and hasattr(signal, "SIGTERM") and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


def _postpone_collection() -> None:
    """Postpone garbage collection while modules are loaded: it would scan them repeatedly and free nothing."""
    if _resume_collection not in gc.callbacks and gc.get_threshold() == _USUAL_THRESHOLD:
        gc.callbacks.append(_resume_collection)
        gc.set_threshold(_FIRST_COLLECTION, *_USUAL_THRESHOLD[1:])


def _resume_collection(phase: str, info: object) -> None:
    """After the first collection, exclude the objects that survived it, and restore the usual thresholds."""
    if phase == "stop":
        gc.callbacks.remove(_resume_collection)
        gc.freeze()
        gc.set_threshold(*_USUAL_THRESHOLD)


if __name__ == "__main__":
    sys.exit(main())
