"""The chain of checksums of a run: each covers its record and the one before, so no record can change or go unseen."""

from __future__ import annotations

from hashlib import blake2b
from struct import pack

SIZE = 16


def seed(run_id: str, session: str, begun: float, parent: str | None, copied_from: str | None) -> bytes:
    """The checksum before the first record: it ties the chain to its run."""
    texts = [text.encode() for text in (run_id, session, parent or "", copied_from or "")]
    lengths = pack(">dIIII", begun, *map(len, texts))
    return blake2b(lengths + b"".join(texts), digest_size=SIZE).digest()


def link(previous: bytes, number: int, at: float, kind: str, call_id: str, calls: str, body: bytes) -> bytes:
    """The checksum of one record that stands behind the one with checksum `previous`."""
    texts = [text.encode() for text in (kind, call_id, calls)]
    # The lengths keep two different records from giving the same bytes.
    head = previous + pack(">QdIII", number, at, *map(len, texts)) + b"".join(texts)
    digest = blake2b(head, digest_size=SIZE)
    digest.update(body)
    return digest.digest()
