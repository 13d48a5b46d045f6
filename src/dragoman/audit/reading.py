"""The records of a log, to look at. Whether they are to be believed is for `verify` to say."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.audit.errors import AuditFailed, explain_failure
from dragoman.audit.files import opened, put_aside
from dragoman.audit.lines import MOST_OF_A_LINE, read_link, read_record
from dragoman.audit.wording import escape


def read_records(
    path: str | os.PathLike[str], *, run: str | None = None, last: int | None = None
) -> list[dict[str, Any]]:
    """The records of a log, of one run if it is named, the newest last; `last` keeps only that many of them.

    A line that is not as it was written has `"damaged": true`.
    """
    place = Path(path)
    named = None if run is None else escape(run)
    found: deque[dict[str, Any]] = deque(maxlen=last)
    try:
        files = [*put_aside(place), *([place] if place.exists() else [])]
        if not files:
            raise AuditFailed(f"there is no audit log at {place}", hint="check the path; a run with tools makes one")
        for file in files:
            found.extend(record for record in _read_file(file) if named is None or record.get("run") == named)
    except OSError as error:
        raise explain_failure(place, error) from error
    return list(found)


def _read_file(path: Path) -> Iterator[dict[str, Any]]:
    with opened(path, os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
        while line := file.readline(MOST_OF_A_LINE):
            content = line.removesuffix(b"\n")
            record = read_record(content)
            if read_link(content) is None:
                yield (record or {"bytes": len(line)}) | {"damaged": True}
            elif record is not None:
                yield record
