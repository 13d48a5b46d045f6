"""Names of files, and numbers, in the answers of the file tools."""

from __future__ import annotations

import json
import re

# Control characters, line separators and what turns the direction of writing round: a name must stay on its line.
_UNPLAIN = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"]')
_LONGEST = 4096


def quoted(path: str) -> str:
    """A path for one line of an answer: as it is, or in JSON's spelling where it could be misread."""
    if len(path) > _LONGEST:
        path = path[: _LONGEST - 3] + "..."
    return json.dumps(path) if _UNPLAIN.search(path) or path != path.strip() or not path else path


def counted(number: int, word: str, plural: str = "") -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def sized(size: int) -> str:
    """A size in bytes, for people."""
    return counted(size, "byte")
