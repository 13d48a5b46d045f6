"""Finds the places where a secret may be, and the rule to ask there. No rule runs anywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dragoman.scrubbing.addresses import address_spans
from dragoman.scrubbing.commands import (
    OPTION,
    dsn_spans,
    echo_spans,
    identified_spans,
    option_spans,
    pgpass_spans,
    phrase_spans,
    secure_string_spans,
)
from dragoman.scrubbing.contexts import in_query, key_spans
from dragoman.scrubbing.headers import authorization_spans, bearer_spans, cookie_spans
from dragoman.scrubbing.keys import is_query_secret, weigh_key
from dragoman.scrubbing.tokens import may_be_token, token_heads, token_spans
from dragoman.scrubbing.view import RUN, Span, View

Rule = Callable[[View, int, int, int], Iterable[Span]]
# The place, the rule to ask there, and how far before the place a name begins.
Hit = tuple[int, Rule, int]

# The shortest token of a vendor.
_SHORTEST: Final = 20
_RUN: Final = b"a" * _SHORTEST

# What follows a name that is followed by a value: a sign, the word `value`, or something long.
_FOLLOWS: Final = rb"""(?=
         [\\"'`\])]{0,9}[ \t]{0,48}(?:[=:|,(>?]|%3|\\u003|\\t)
       | [\\"',]{0,9}\s{1,64}["'\\]{0,8}(?:[a-z]{0,16}value|content|default)
       | </key> | "[ ]\{\s | \\{0,3}["'][^<>\n]{1,48}>
       | [ \t]{1,8}(?:(?:is|was|are|to|for[ \t]\S{1,32}[ \t]is):?[ \t]+)?(?:["'`(]?[\w+/=.\-]{12}|["'`]\S{4})
       | [ \t]+\*?[a-z_][\w.\[\]]{0,24}[ \t]*:?=
       | [ \t]+\S+[ \t]*(?:\n|\Z|[ \t]m))"""
# Values that are refused at once: they are the most frequent ones, and none is a secret.
_REFUSED: Final = rb"""(?!
       ["'\]\\]{0,4}[ \t]{0,8}[=:][ \t]{0,8}["'\\]{0,3}
        (?:\$[{(a-z_] | <[%a-z/] | \*{3} | x{5} | \{\{ | (?:process|os|config|self|this|settings)\.[a-z]
         | (?:null|none|true|false|""|undefined|str|string)(?![\w-]|[ \t]*=)))"""
_TELLING: Final = b"pass pwd secret token key auth cred cookie sess"
# Each word is searched by itself: one expression for all of them would be many times slower.
_NAMES: Final = (
    *(re.compile(word + rb"[a-z0-9_.\-]{0,64}+" + _FOLLOWS + _REFUSED, re.VERBOSE) for word in _TELLING.split()),
    re.compile(rb"sig(?:nature)?="),
    re.compile(rb"code="),
    re.compile(rb"psk[\"' ]{0,2}[=:]"),
    re.compile(rb"bindpw[ \t=:]"),
    re.compile(
        rb"-(?<=[\s\"'\[(,=]-)-?[a-z0-9_.\-]{0,48}?(?:"
        + _TELLING.replace(b" ", b"|")
        + rb")[a-z0-9_\-]{0,48}+(?=[\\\"',]{0,3}[ \t])"
    ),
)


def name_spans(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    """The value of the field or header whose name contains the word at `position`."""
    low = view.low
    start, end = position - back, view.run_end(position, stop)
    if low.endswith(b"authorization", start, end):
        return authorization_spans(view, end, stop)
    if low.endswith((b"cookie", b"cookies"), start, end):
        return cookie_spans(view, end, stop, setting=low.find(b"set", start, end) >= 0)
    return key_spans(view, start, end, stop)


def _token(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return token_spans(view, position, stop)


def _address(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return address_spans(view, position, stop)


def _option(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return option_spans(view, position, stop)


def _pgpass(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return pgpass_spans(view, position, stop)


def _bearer(view: View, position: int, stop: int, back: int) -> Iterator[Span]:
    yield from bearer_spans(view, position + len("bearer"), stop, basic=False)
    yield from key_spans(view, view.run_start(position), view.run_end(position, stop), stop)


def _basic(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return bearer_spans(view, position + len("basic"), stop, basic=True)


def _identified(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return identified_spans(view, position + len("identified"), stop)


def _echo(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return echo_spans(view, position, stop)


def _secure(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return secure_string_spans(view, position + len("securestring"), stop)


def _dsn(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    return dsn_spans(view, position)


def _phrase(view: View, position: int, stop: int, back: int) -> Iterator[Span]:
    end = view.run_end(position, stop)
    yield from phrase_spans(view, end, stop)
    yield from key_spans(view, view.run_start(position), end, stop)


def block_spans(view: View, position: int, stop: int, back: int) -> Iterable[Span]:
    """Stands for a private key: its end is not found by lines, so `blocks` is asked instead of this."""
    return ()


_RULES: Final[tuple[tuple[bytes, Rule], ...]] = (
    (b"bearer", _bearer),
    (b"basic ", _basic),
    (b"identified", _identified),
    (b"echo ", _echo),
    (b"securestring", _secure),
    (b"@tcp(", _dsn),
    (b"phrase", _phrase),
    (b"mnemonic", _phrase),
    (b"://", _address),
    (b"-----begin ", block_spans),
    (b"private-lines:", block_spans),
)
_WORDS: Final = (*_TELLING.split(), b"sig", b"code=", b"psk", b"bindpw", *(word for word, _ in _RULES))
_PATTERNS: Final[tuple[tuple[re.Pattern[bytes], Rule], ...]] = (
    (OPTION, _option),
    (re.compile(rb":(?:[0-9]{3,5}|\*):[\w.*$-]{1,64}:[\w.@*$-]{1,64}:"), _pgpass),
)
_LONGEST: Final = 200


def find_hits(view: View, first: int, last: int) -> list[Hit]:
    """The places from `first` to before `last` where a rule has to look, in order."""
    hits = _find_names(view, first, last)
    low = view.low
    for word, rule in _RULES:
        end = min(len(low), last + len(word) - 1)
        at = low.find(word, first, end)
        while at >= 0:
            hits.append((at, rule, 0))
            at = low.find(word, at + len(word), end)
    for pattern, rule in _PATTERNS:
        for found in pattern.finditer(low, first, min(len(low), last + _LONGEST)):
            if found.start() < last:
                hits.append((found.start(), rule, 0))
    hits.extend(_find_runs(view, first, last))
    hits.sort(key=_by_place)
    return hits


def _find_names(view: View, first: int, last: int) -> list[Hit]:
    """The telling words whose names promise a secret; each name once."""
    hits: list[Hit] = []
    runs, text, low = view.runs, view.text, view.low
    seen: set[int] = set()
    for pattern in _NAMES:
        for found in pattern.finditer(low, first):
            at = found.start()
            if at >= last:
                break
            start = runs.rfind(b" ", at - RUN if at > RUN else 0, at) + 1 or max(0, at - RUN)
            if start in seen:
                continue
            seen.add(start)
            stop = runs.find(b" ", at)
            key = text[start:stop] if stop >= 0 else text[start:]
            if weigh_key(key) or _is_telling(view, start, key):
                hits.append((at, name_spans, at - start))
    return hits


def first_anchor(view: View, first: int, last: int) -> int:
    """The first place from `first` to before `last` that may call for a rule; `last` if there is none."""
    low = view.low
    for word in _WORDS:
        found = low.find(word, first, last)
        if found >= 0:
            last = found
    found = view.runs.find(_RUN, first)
    if 0 <= found < last:
        last = found
    for pattern, _ in _PATTERNS:
        match = pattern.search(low, first)
        if match and match.start() < last:
            last = match.start()
    return last


def _by_place(hit: Hit) -> int:
    return hit[0]


def _is_telling(view: View, start: int, key: str) -> bool:
    """Whether a name that says nothing by itself stands for a header or in a link, or begins with an escape."""
    if key[-13:].lower() == "authorization" or "ookie" in key:
        return True
    inner = view.skip_escape(start)
    if inner != start and weigh_key(key[inner - start :]):
        return True
    return in_query(view.text, start) and is_query_secret(key)


def _find_runs(view: View, first: int, last: int) -> Iterator[Hit]:
    runs, text = view.runs, view.text
    heads, marks, size = token_heads(), _MARKS, len(runs)
    if first and runs[first - 1 : first] == b"a":
        # The middle of a run that was looked at from its beginning.
        first = runs.find(b" ", first)
        if first < 0:
            return
    at = runs.find(_RUN, first)
    while 0 <= at < last:
        end = runs.find(b" ", at + _SHORTEST)
        if end < 0:
            end = size
        # Most long runs are hashes: they are dropped here, before anything is called.
        plain = end - at < 50 and text[at - 1 : at] not in marks and text[at:end].isalnum()
        if (not plain or text[at : at + 2] in heads) and may_be_token(text, at, end):
            yield at, _token, 0
        at = runs.find(_RUN, end)


# After one of these a token may begin elsewhere than its run.
_MARKS: Final = frozenset("\\%[;~:/")
