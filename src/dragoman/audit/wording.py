"""How values stand in the log: names in harmless characters and cut to a length, everything else as a digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

MOST_OF_A_NAME = 200
MOST_OF_A_LIST = 16
_DIGEST = "sha256:"
_PLAIN = (bool, int, float, type(None))


def digest_of(value: Any) -> str:
    """The digest of a value: SHA-256 of its JSON with the keys in order. 1, 1.0, true and "1" are four values."""
    try:
        written = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_name_other)
    except (ValueError, TypeError, RecursionError) as error:
        # A log that fails on what a model wrote could be switched off by a model.
        return f"unwritable:{type(error).__name__}"
    return _DIGEST + sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def escape(text: str, most: int = MOST_OF_A_NAME) -> str:
    """The text on one line, in characters that do nothing: others as \\uXXXX, and a backslash as two."""
    # Only what can be kept is looked at: a name may be of any length.
    written = "".join(map(_escape_one, text[:most]))
    left_out = max(0, len(text) - most)
    return f"{written}...(+{left_out} characters)" if left_out else written


def put_down(value: Any) -> Any:
    """A field as the log keeps it: a text escaped, numbers as they are, a list of texts, a digest of anything else."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, _PLAIN):
        # JSON has no word for these two, nor for "not a number".
        return str(value) if isinstance(value, float) and value - value != 0 else value
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        kept = [escape(each) for each in value[:MOST_OF_A_LIST]]
        return [*kept, f"...(+{len(value) - len(kept)})"] if len(value) > len(kept) else kept
    return digest_of(value)


def _escape_one(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _name_other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return {"bytes": sha256(value).hexdigest()}
    return {type(value).__name__: repr(value)}
