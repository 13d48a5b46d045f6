"""What the library tells while a command waits: a model that is being loaded, for one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from dragoman.cli.screen import show_controls

_SILENT = frozenset({"--json", "--quiet", "-q"})


class _OnStandardError(logging.Handler):
    """Writes to whatever standard error is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        print(show_controls(record.getMessage()), file=sys.stderr, flush=True)


_handler = _OnStandardError(logging.INFO)


def show_notices(arguments: Sequence[str]) -> None:
    """Show the notices of the library on standard error, unless the user asked for silence."""
    log = logging.getLogger("dragoman.local")
    log.removeHandler(_handler)
    log.propagate = False
    log.setLevel(logging.WARNING if _SILENT & set(arguments) else logging.INFO)
    log.addHandler(_handler)
