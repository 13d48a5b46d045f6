"""What the journal costs: appends per second, on the disk or not, alone and with many runs at once.

The measure is what the disk itself takes to put a small piece of a file in safety (`fsync`): nothing that is durable
can be faster, unless many share one such wait.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from dragoman.journal import Entry, Kind, SqliteJournal

BODY = b'{"result":"' + b"x" * 500 + b'"}'


def plain_fsync(folder: Path, count: int) -> float:
    """Seconds for one small append to a plain file that is put on the disk."""
    descriptor = os.open(folder / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    began = perf_counter()
    for _ in range(count):
        os.write(descriptor, BODY)
        os.fsync(descriptor)
    seconds = perf_counter() - began
    os.close(descriptor)
    return seconds / count


async def appends(path: Path, kind: Kind, runs: int, count: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor for one append, with so many runs at once."""
    with SqliteJournal(path) as journal:
        tokens = [await journal.begin(f"run-{number}", "s", b"{}") for number in range(runs)]

        async def one(number: int) -> None:
            for _ in range(count // runs):
                await journal.append(f"run-{number}", [Entry(kind, BODY, "call")], token=tokens[number])

        began, busy = perf_counter(), process_time()
        await asyncio.gather(*(one(number) for number in range(runs)))
        seconds, spent = perf_counter() - began, process_time() - busy
    return seconds / count, spent / count


async def reading(path: Path, count: int) -> float:
    """Seconds to read a record back and prove it."""
    with SqliteJournal(path) as journal:
        token = await journal.begin("run", None, b"{}")
        await journal.append("run", [Entry("input", BODY)] * count, token=token)
        began = perf_counter()
        assert len(await journal.read("run")) == count + 1
        return (perf_counter() - began) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="appends per row")
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        fsync = plain_fsync(folder, min(count, 500))
        print(f"plain write and fsync: {fsync * 1e6:.0f} us\n")
        print(f"{'appends':<28}{'per second':>12}{'us':>8}{'CPU us':>8}{'fsyncs':>8}")
        for kind, runs in (("started", 1), ("started", 20), ("started", 200), ("input", 1), ("input", 200)):
            path = folder / f"{kind}-{runs}.db"
            seconds, spent = asyncio.run(appends(path, kind, runs, count))  # type: ignore[arg-type]
            words = f"{'durable' if kind == 'started' else 'not durable'}, {runs} run{'s' if runs > 1 else ''}"
            print(f"{words:<28}{1 / seconds:>12,.0f}{seconds * 1e6:>8.0f}{spent * 1e6:>8.0f}{seconds / fsync:>8.2f}")
        print(f"\nread and prove a record: {asyncio.run(reading(folder / 'read.db', count)) * 1e6:.1f} us")


if __name__ == "__main__":
    main()
