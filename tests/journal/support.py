"""Helpers of the tests of the journal: a clock, and functions that write runs."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.journal import Entry, Journal


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def turn(*calls: str) -> list[Entry]:
    """Return the entries of a reply whose calls all ran."""
    steps = [Entry("reply", b'{"text":"..."}', calls=calls)]
    for call in calls:
        steps += [Entry("approved", call_id=call), Entry("started", call_id=call), Entry("finished", b'"ok"', call)]
    return [*steps, Entry("delivered", calls=calls)] if calls else steps


async def record_run(journal: Journal, run_id: str, session: str | None, entries: Sequence[Entry], **more: str) -> None:
    """Write a run with these entries, and release it."""
    token = await journal.begin(run_id, session, b'{"task":"tidy up"}', **more)
    if entries:
        await journal.append(run_id, entries, token=token)
    await journal.release(run_id, token=token)
