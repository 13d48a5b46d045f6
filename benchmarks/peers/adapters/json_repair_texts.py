"""json-repair with its default settings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import serve
from benchmarks.peers.adapters.text_jobs import text_jobs

if __name__ == "__main__":
    loads: Any = import_module("json_repair").loads
    serve(["json-repair"], text_jobs(loads))
