"""Checksums that vendors put into their tokens, so that a look-alike can be told from the real thing."""

from __future__ import annotations

import zlib
from typing import Final

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIZE: Final = 6


def base62(number: int, width: int = _SIZE) -> str:
    """A number in base 62, digits before capitals before small letters, filled up with zeros."""
    digits = []
    while number:
        number, rest = divmod(number, 62)
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits)).rjust(width, "0")


def has_crc32(body: str) -> bool:
    """Whether the last six characters are the CRC-32 of those before them: GitHub and npm tokens."""
    if len(body) <= _SIZE or not body.isascii():
        return False
    return base62(zlib.crc32(body[:-_SIZE].encode("ascii"))) == body[-_SIZE:]
