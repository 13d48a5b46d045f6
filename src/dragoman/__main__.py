"""The `dragoman` command. On a plain install it says how to get the part that draws on terminals."""

from __future__ import annotations

import signal
import sys
import threading
from typing import NoReturn

_PARTS = ("typer", "rich")
_INTERRUPTED = 130
_TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM, where nothing else takes it: what was started is ended on the way out, servers of tools above all."""


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        _take_sigterm()
        from dragoman.cli import run

        return run()
    except Terminated:
        return _TERMINATED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        print("the `dragoman` command needs the cli extra: pip install 'dragoman[cli]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


def _take_sigterm() -> None:
    def end(number: int, frame: object) -> NoReturn:
        # A second one must not cut short what the first began: then the servers would be left behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and hasattr(signal, "SIGTERM") and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


if __name__ == "__main__":
    sys.exit(main())
