"""The report of the peer tests: what passed, what failed, and what was unavailable."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from benchmarks.support.environments import Unavailable

Status = Literal["passed", "failed", "known", "unavailable"]


class Row(NamedTuple):
    """The result of one check."""

    peer: str
    check: str
    status: Status
    why: str = ""
    seconds: float = 0.0


class Report:
    """Collects the results. A failed check does not stop the others."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    @contextmanager
    def check(self, peer: str, check: str, *, known: str = "") -> Iterator[None]:
        """Record how the block ends. `known` names a fault that is documented: then a failure is not a new one."""
        started = time.monotonic()
        status: Status = "passed"
        why = ""
        try:
            yield
        except Unavailable as reason:
            status, why = "unavailable", str(reason)
        except Exception as error:
            status, why = ("known", known) if known else ("failed", _describe(error))
        self.rows.append(Row(peer, check, status, why, time.monotonic() - started))

    def leave_out(self, peer: str, reason: str) -> None:
        """Record a peer that is unavailable as a whole."""
        self.rows.append(Row(peer, "everything", "unavailable", reason))

    @property
    def code(self) -> int:
        """The exit code: 1 if a check failed. A peer that is unavailable is no failure."""
        return 1 if any(row.status == "failed" for row in self.rows) else 0

    def table(self) -> str:
        """Return the rows as text, and a line with the totals."""
        cells = [("peer", "check", "result", "reason")]
        cells += [(row.peer, row.check, row.status, row.why) for row in self.rows]
        widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
        lines = ["  ".join((*map(str.ljust, cell[:3], widths), cell[3])).rstrip() for cell in cells]
        counts = {status: sum(row.status == status for row in self.rows) for status in Status.__args__}
        totals = ", ".join(f"{count} {status}" for status, count in counts.items() if count or status != "known")
        return "\n".join([*lines, "", f"{totals} in {sum(row.seconds for row in self.rows):.0f} s"])


def _describe(error: Exception) -> str:
    """Return the first line of an error, and the line of the peer test that raised it."""
    words = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "peers" in frame.filename]
    place = f" ({ours[-1].filename.rpartition('/')[2]}:{ours[-1].lineno})" if ours else ""
    return f"{words}{place}"
