"""A process that writes an audit log until it is done or killed. Run by the tests: PATH NAME COUNT [MAX_BYTES]."""

from __future__ import annotations

import resource
import sys

from dragoman.journal.audit import AuditFailed, AuditLog


def main(path: str, name: str, count: int, max_bytes: int | None) -> None:
    log = AuditLog(path, sync=False, max_bytes=max_bytes)
    for number in range(count):
        log.append("decision", run=name, call=f"call_{number}", tool="bash", arguments={"number": number})
        print(number, flush=True)


def fill(path: str, most: int) -> None:
    """Write with a limit on the size of files, which fails like a full disk: in the middle of a line."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    log = AuditLog(path)
    for number in range(10_000):
        try:
            log.append("started", run="filling", call=f"call_{number}", tool="write")
        except AuditFailed as error:
            print(number, error.next_step)
            return


if __name__ == "__main__":
    if sys.argv[2] == "fill":
        fill(sys.argv[1], int(sys.argv[3]))
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
