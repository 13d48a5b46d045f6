"""Finds the value after a separator: quoted in any depth of escaping, or bare up to where the value must end."""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.scrubbing.view import VALUE


class Value(NamedTuple):
    """Where the text of a value begins and ends, without its quotes."""

    start: int
    end: int
    quoted: bool


_QUOTE = re.compile(r"(?:[fFrRbBuU@$L]{0,2})(\\{0,7})([\"'`])")
_IN_DOUBLE = re.compile(r"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+")
_IN_SINGLE = re.compile(r"[^'\\\n]*+(?:\\.[^'\\\n]*+)*+")
_IN_BACKTICK = re.compile(r"[^`\n]*+")
_PLAIN = {'"': _IN_DOUBLE, "'": _IN_SINGLE, "`": _IN_BACKTICK}

# The end of a string of JSON or of code: a quote, then what separates it from the next thing.
_CROSSES = re.compile(r"(?<!\\)\"\s*(?:[,:}\])]|\Z)")
_UNESCAPED = re.compile(r"(?<!\\)\"")
# Begins like what stands between two strings: the "quoted" text is not a value at all.
_BETWEEN = re.compile(r"\s*[,:\]})]|\s+[+;.]")

# A bare value ends at a blank, at a quote, at an escape that stands for one, and before the next `, name=`.
_BARE = re.compile(
    r"""[^\s\"'`\\<>,;&|]*+
        (?:(?:\\(?![nrtbfu\"'\\/])|[,;&|](?![\w.\-\[\]%]{0,64}[=:]|[\s\"'\\]|\Z))[^\s\"'`\\<>,;&|]*+)*+""",
    re.VERBOSE,
)
# In an environment file and on a command line nothing but a blank ends it.
_BARE_LITERAL = re.compile(r"[^\s\"'`\\]*+(?:\\(?![nrtbfu\"'\\/])[^\s\"'`\\]*+)*+")
_TRAILERS = ",;)}]"


def find_value(text: str, start: int, stop: int, *, literal: bool = False) -> Value | None:
    """The value that begins at `start`, if one does."""
    quote = _QUOTE.match(text, start, stop)
    if quote:
        found = _find_quoted(text, quote, stop)
        if found is not None:
            return found
        start = quote.end()
    return find_bare(text, start, stop, literal=literal)


def find_bare(text: str, start: int, stop: int, *, literal: bool = False) -> Value | None:
    """A value without quotes, without the commas and brackets that follow it."""
    bare = (_BARE_LITERAL if literal else _BARE).match(text, start, stop)
    end = min(bare.end(), start + VALUE) if bare else start
    while end > start and text[end - 1] in _TRAILERS and not _is_balanced(text[start:end]):
        end -= 1
    return Value(start, end, quoted=False) if end > start else None


def _is_balanced(value: str) -> bool:
    """Whether the closing bracket at the end of a bare value was opened inside it."""
    openers = {")": "(", "]": "[", "}": "{"}
    opener = openers.get(value[-1])
    return opener is not None and opener in value


def _find_quoted(text: str, quote: re.Match[str], stop: int) -> Value | None:
    start, depth, mark = quote.end(), quote.group(1), quote.group(2)
    if _BETWEEN.match(text, start, stop):
        return None
    if depth:
        end = text.find(depth + mark, start, min(stop, start + VALUE))
        inner = text[start:end] if end >= 0 else ""
        if end < 0 or "\n" in inner or _UNESCAPED.search(inner):
            return None
        return Value(start, end - _trailing_backslashes(inner), quoted=True)
    found = _PLAIN[mark].match(text, start, stop)
    if found is None:
        return None
    end = min(found.end(), start + VALUE)
    if end - start < VALUE and not text.startswith(mark, end):
        return None
    if mark != '"' and _CROSSES.search(text, start, end):
        return None
    return Value(start, end, quoted=True)


def _trailing_backslashes(inner: str) -> int:
    return len(inner) - len(inner.rstrip("\\"))
