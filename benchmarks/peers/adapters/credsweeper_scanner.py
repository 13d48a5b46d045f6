"""CredSweeper with its default rules, filters and its model, on texts in memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import serve
from benchmarks.peers.adapters.scanner_jobs import Findings, scanner_jobs


def open_scanner() -> Any:
    sweeper = import_module("credsweeper.app").CredSweeper()
    provide = import_module("credsweeper.file_handler.byte_content_provider").ByteContentProvider

    def scan(text: str) -> Findings:
        sweeper.credential_manager.set_credentials(sweeper.file_scan(provide(text.encode())))
        sweeper.post_processing()
        found = sweeper.credential_manager.get_credentials()
        return [[line.line_num, line.value or ""] for candidate in found for line in candidate.line_data_list]

    return scan


if __name__ == "__main__":
    serve(["credsweeper"], scanner_jobs(open_scanner()))
