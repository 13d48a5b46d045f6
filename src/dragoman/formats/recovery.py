"""What to do with a call that turns out to be past mending: find its end, so that its neighbours live."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from dragoman.formats.cursor import Cursor, Cut, Reader, Spoilt
from dragoman.formats.jsonbody import run_to
from dragoman.formats.markers import Markers

Read = TypeVar("Read")


def read_or_skip(
    cursor: Cursor, reading: Generator[None, None, Read], closers: Markers, stops: Markers | None = None
) -> Generator[None, None, Read]:
    """Let a reader run. If it spoils a call it has committed to, move on to the end of that call before giving up."""
    try:
        return (yield from reading)
    except Cut:
        raise
    except Spoilt:
        if cursor.committed:
            yield from skip_broken(cursor, closers, stops or closers)
        raise


def skip_broken(cursor: Cursor, closers: Markers, stops: Markers | None) -> Reader:
    """A broken call reaches to its closer, or to one of the stops, such as the opener of the next one."""
    cursor.quiet = None
    yield from run_to(cursor, stops)
    marker, _ = closers.at(cursor.text, cursor.position, final=True)
    if marker is not None:
        cursor.position += len(marker)
