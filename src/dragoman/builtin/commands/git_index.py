"""The folders that a repository keeps as repositories of their own: git looks into them, with their settings."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_LINK = struct.pack(">I", 0o160000)
_VERSIONS = (2, 3, 4)
_STAT = 40
"""Bytes of an entry before the name of its object; the mode is at 24."""
_EXTENDED = 0x4000


class OddIndex(Exception):
    """An index in a form that is not read here."""


def find_links(content: bytes) -> list[str]:
    """The paths of the submodules in an index; OddIndex where they cannot be told."""
    if content.find(_LINK) < 0:
        return []
    # The four bytes may also be part of a time or a digest; what does not work out with one length of digest may with
    # the other.
    for size in (20, 32):
        try:
            return [path.decode("utf-8", "surrogateescape") for path in _links(content, size)]
        except (struct.error, ValueError, IndexError):
            continue
    raise OddIndex


def _links(content: bytes, digest_size: int) -> Iterator[bytes]:
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in _VERSIONS:
        raise ValueError(version)
    position, name = 12, b""
    for _ in range(count):
        start = position
        flags = struct.unpack_from(">H", content, start + _STAT + digest_size)[0]
        position = start + _STAT + digest_size + (4 if flags & _EXTENDED else 2)
        kept = 0
        if version == 4:
            dropped, position = _read_number(content, position)
            if dropped > len(name):
                raise ValueError(dropped)
            kept = len(name) - dropped
        end = content.index(b"\0", position)
        name = name[:kept] + content[position:end]
        if len(name) != flags & 0xFFF and flags & 0xFFF != 0xFFF:
            raise ValueError(name)
        position = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        if content[start + 24 : start + 28] == _LINK:
            if not name:
                raise ValueError("a name that stands in another index")
            yield name


def _read_number(content: bytes, position: int) -> tuple[int, int]:
    value = content[position] & 0x7F
    while content[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (content[position] & 0x7F)
        if value > 1 << 20:
            raise ValueError(value)
    return value, position + 1
