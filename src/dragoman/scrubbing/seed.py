"""The older and simpler rule of the seed style: whatever stands behind one of six words is cut to four characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.scrubbing.keys import kind_of
from dragoman.scrubbing.likeness import is_placeholder, split_words
from dragoman.scrubbing.values import find_value
from dragoman.scrubbing.view import CONTEXT, Span, View

_WORDS = ("token", "apikey", "password", "secret", "bearer", "credential")
_ASSIGN = re.compile(r"(?P<close>\\{0,7}[\"'])?[ \t]{0,8}[:=](?!//)[ \t]{0,8}")
_BARE = re.compile(r"[A-Za-z0-9_\-./+=%~$@!?]{1,4096}")
_NUMBER = re.compile(r"-?\d[\d.eE+-]*(?=\s*[,}\]])")


def seed_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The value behind the word at `position`, if it is one of the six."""
    text = view.text
    start = view.skip_escape(view.run_start(position))
    end = view.run_end(position, stop)
    key = text[start:end]
    words = split_words(key)
    if not words or not "".join(words[-2:]).endswith(_WORDS):
        return
    assign = _ASSIGN.match(text, end, stop)
    if assign is None:
        return
    at = assign.end()
    number = _NUMBER.match(text, at, stop) if assign["close"] else None
    if number:
        yield Span(at, number.end(), kind_of(key), CONTEXT, bare=True)
        return
    value = find_value(text, at, stop)
    if value is not None and value.quoted:
        inner = text[value.start : value.end]
        if inner and not _is_hidden(inner):
            yield Span(value.start, value.end, kind_of(key), CONTEXT)
        return
    bare = _BARE.match(text, at, stop)
    if bare and not text.startswith("*[REDACTED]", bare.end()) and not (assign["close"] or _is_hidden(bare.group())):
        yield Span(bare.start(), bare.end(), kind_of(key), CONTEXT)


def _is_hidden(value: str) -> bool:
    return "[REDACTED]" in value or "[redacted:" in value or (len(value) > 1 and is_placeholder(value))
