"""The jobs of adapters that look for secrets. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from benchmarks.peers.adapters.protocol import Job

Findings = list[list[Any]]
"""What a scanner reports: [number of the line, counted from 1, the value]."""


def scanner_jobs(scan: Callable[[str], Findings]) -> dict[str, Callable[[Job], Job]]:
    """The jobs `scan`, with the findings in each text, and `time`, with the CPU seconds of one text."""

    def run(job: Job) -> Job:
        return {"findings": [scan(text) for text in job["texts"]]}

    def time(job: Job) -> Job:
        started = process_time()
        scan(job["text"])
        return {"seconds": process_time() - started}

    return {"scan": run, "time": time}
