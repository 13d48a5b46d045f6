"""The jobs of adapters that repair the JSON of arguments. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from benchmarks.peers.adapters.protocol import Job


def text_jobs(repair: Callable[[str], Any]) -> dict[str, Callable[[Job], Job]]:
    """The jobs `repair`, with the value of each text or none, and `time_repair`, with CPU seconds of all texts."""

    def once(text: str) -> Job:
        try:
            return {"value": repair(text)}
        except Exception as error:
            return {"error": type(error).__name__}

    def run(job: Job) -> Job:
        return {"values": [once(text) for text in job["texts"]]}

    def time(job: Job) -> Job:
        started = process_time()
        for text in job["texts"]:
            once(text)
        return {"seconds": process_time() - started}

    return {"repair": run, "time_repair": time}
