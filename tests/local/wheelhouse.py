"""A model that is none, for everything that does not load it."""

from __future__ import annotations

import hashlib

from dragoman.local import Entry

CONTENT = b"GGUF" + bytes(range(256)) * 40


def make_entry(content: bytes = CONTENT, **changes: object) -> Entry:
    values = {
        "name": "tiny",
        "title": "A tiny model",
        "package": "tiny-model",
        "version": "1.0",
        "member": "tiny_model/tiny.gguf",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "download": len(content),
        "licence": "MIT",
    }
    return Entry(**(values | changes))  # type: ignore[arg-type]
