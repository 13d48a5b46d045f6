"""detect-secrets with its default plugins and filters, on files, as its command scans them."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.adapters.protocol import serve
from benchmarks.peers.adapters.scanner_jobs import Findings, scanner_jobs


def open_scanner(folder: Path) -> Any:
    collection = import_module("detect_secrets").SecretsCollection
    settings = import_module("detect_secrets.settings").default_settings
    path = folder / "output.txt"

    def scan(text: str) -> Findings:
        path.write_text(text, encoding="utf-8")
        with settings():
            found = collection()
            found.scan_file(str(path))
        return [[secret.line_number, secret.secret_value or ""] for _, secret in found]

    return scan


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        serve(["detect-secrets"], scanner_jobs(open_scanner(Path(place))))
