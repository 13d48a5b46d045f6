"""dragoman's redaction with its default settings; no secret is registered. It returns text, and reports no values."""

from __future__ import annotations

from benchmarks.peers.adapters.protocol import Job, serve
from benchmarks.peers.adapters.scanner_jobs import scanner_jobs

from dragoman import scrub


def redact(job: Job) -> Job:
    return {"texts": [scrub(text) for text in job["texts"]]}


def spend(text: str) -> list[list[object]]:
    scrub(text)
    return []


if __name__ == "__main__":
    serve([], {**scanner_jobs(spend), "redact": redact})
