"""The `dragoman` command. On a plain install it says how to get the part that draws on terminals."""

from __future__ import annotations

import sys

_PARTS = ("typer", "rich")
_INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from dragoman.cli import run

        return run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        print("the `dragoman` command needs the cli extra: pip install 'dragoman[cli]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
