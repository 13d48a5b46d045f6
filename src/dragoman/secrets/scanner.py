"""Find the places where a secret may be, and apply the rule for each, in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final

from dragoman.secrets.contexts import (
    OPTION,
    address_spans,
    authorization_spans,
    basic_spans,
    bearer_spans,
    column_spans,
    cookie_spans,
    dsn_spans,
    echo_spans,
    find_value,
    foreign_spans,
    identified_spans,
    in_query,
    key_spans,
    option_spans,
    phrase_spans,
    secure_string_spans,
)
from dragoman.secrets.fields import is_placeholder, is_query_secret, kind_of, split_words, weigh_key
from dragoman.secrets.registered import Secrets
from dragoman.secrets.spans import AHEAD, BEHIND, CONTEXT, RUN, VALUE, RedactedOutput, Render, Span, View
from dragoman.secrets.tokens import LONGEST_BLOCK, IncompleteBlock, key_block, may_be_token, token_heads, token_spans

# --------------------------------------------------------------------------------------------------------------------
# The older and simpler rule of the seed style: the value after one of six words is cut to four characters.

_SEED_WORDS = ("token", "apikey", "password", "secret", "bearer", "credential")
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
    if not words or not "".join(words[-2:]).endswith(_SEED_WORDS):
        return
    assign = _ASSIGN.match(text, end, stop)
    if assign is None:
        return
    at = assign.end()
    number = _NUMBER.match(text, at, stop) if assign["close"] else None
    if number:
        yield Span(at, number.end(), kind_of(key), CONTEXT, bare=True)
        return
    value = find_value(view, at, stop)
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


# --------------------------------------------------------------------------------------------------------------------
# Find the places where a secret may be, and the rule for each. Rules run only there.

# The view, where the rule begins, and up to where it may look.
Rule = Callable[[View, int, int], Iterable[Span]]
# The place, the rule to ask there, and where that rule begins.
Hit = tuple[int, Rule, int]

# The shortest token of a vendor.
_SHORTEST: Final = 20
_RUN: Final = b"a" * _SHORTEST

# What follows a name that is followed by a value: a sign, the word `value`, or something long.
_FOLLOWS: Final = rb"""(?=
         [\\"'`\])]{0,9}[ \t]{0,48}(?:[=:|,(>?]|%3|\\u003|\\t|[\t\x1b$])
       | [\\"',]{0,9}\s{1,64}["'\\]{0,8}(?:[a-z]{0,16}value|content|default)
       | \]{1,2}[ \t]{0,8}\n[ \t]{0,8}["']?(?:value|val|data|secret|raw|plain|text|content|string|payload)
       | </key> | "[ ]\{\s | \\{0,3}["'][^<>\n]{1,48}>
       | [ \t]{1,8}(?:(?:is|was|are|to|for[ \t]\S{1,32}[ \t]is):?[ \t]+)?
         (?:["'`(]?(?:[\w+/=.\-]{12}|\w{0,24}[!#$%^&*~+]\w)|["'`]\S{4})
       | [ \t]+\*?[a-z_][\w.\[\]]{0,24}[ \t]*:?=
       | [ \t]+\S+[ \t]*(?:\n|\Z|[ \t][mp])
       | [ \t](?:is|was|for|of)[ \t][^\n:]{1,96}:\s)"""
# Values that are refused at once: they are the most frequent ones, and none is a secret.
_REFUSED: Final = rb"""(?!
       ["'\]\\]{0,4}[ \t]{0,8}[=:][ \t]{0,8}["'\\]{0,3}
        (?:\$[{(a-z_] | <[%a-z/] | \*{3} | x{5} | \{\{ | (?:process|os|config|self|this|settings)\.[a-z]
         | (?:null|none|true|false|""|undefined|str|string)(?![\w-]|[ \t]*=)))"""
_TELLING: Final = b"pass pwd secret token key auth cred cookie sess"
# Each word is searched by itself: one expression for all of them would be many times slower.
_TOLD: Final = tuple(
    (word, re.compile(word + rb"[a-z0-9_.\-]{0,64}+" + _FOLLOWS + _REFUSED, re.VERBOSE)) for word in _TELLING.split()
)
_NAMES: Final = (
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


def name_spans(view: View, start: int, stop: int) -> Iterable[Span]:
    """The value of the field or header whose name begins at `start`."""
    low, end = view.low, view.run_end(start, stop)
    if low.endswith(b"authorization", start, end):
        return authorization_spans(view, end, stop)
    if low.endswith((b"cookie", b"cookies"), start, end):
        return cookie_spans(view, end, stop, setting=low.find(b"set", start, end) >= 0)
    return key_spans(view, start, end, stop)


def _bearer(view: View, position: int, stop: int) -> Iterator[Span]:
    yield from bearer_spans(view, position + len("bearer"), stop)
    yield from key_spans(view, view.run_start(position), view.run_end(position, stop), stop)


def _phrase(view: View, position: int, stop: int) -> Iterator[Span]:
    end = view.run_end(position, stop)
    yield from phrase_spans(view, end, stop)
    yield from key_spans(view, view.run_start(position), end, stop)


def block_spans(view: View, position: int, stop: int) -> Iterable[Span]:
    """Stands for a private key: its end is not found by lines, so `blocks` is asked instead of this."""
    return ()


# The word, the rule for it, and whether the rule begins behind the word.
_RULES: Final[tuple[tuple[bytes, Rule, bool], ...]] = (
    (b"bearer", _bearer, False),
    (b"basic ", basic_spans, True),
    (b"identified", identified_spans, True),
    (b"echo ", echo_spans, False),
    (b"securestring", secure_string_spans, True),
    (b"@tcp(", dsn_spans, False),
    (b"phrase", _phrase, False),
    (b"mnemonic", _phrase, False),
    (b"://", address_spans, False),
    (b"-----begin ", block_spans, False),
    (b"private-lines:", block_spans, False),
)
_WORDS: Final = (*_TELLING.split(), b"sig", b"code=", b"psk", b"bindpw", *(word for word, _, _ in _RULES))
_PATTERNS: Final[tuple[tuple[re.Pattern[bytes], Rule], ...]] = (
    (OPTION, option_spans),
    # One pattern for two rules: both begin with the same sign, which is found fast.
    (re.compile(rb":(?=[0-9*t])(?:(?:[0-9]{3,5}|\*):[\w.*$-]{1,64}:[\w.@*$-]{1,64}:|thin:)"), column_spans),
)
# Names of passwords that are not written in ASCII, each with a character that most texts do not have. To search a text
# for one character is many times faster than for a word.
_FOREIGN: Final = (
    ("码", "密码"),
    ("碼", "密碼"),
    ("令", "口令"),
    ("ワ", "パスワード"),
    ("호", "비밀번호"),
    ("п", "пароль"),
    ("П", "Пароль"),
    ("ñ", "contraseña"),
    ("ñ", "Contraseña"),
)
_LONGEST: Final = 200


def find_hits(view: View, first: int, last: int) -> list[Hit]:
    """The places from `first` to before `last` where a rule has to look, in order."""
    hits = _find_names(view, first, last)
    low = view.low
    for word, rule, behind in _RULES:
        end = min(len(low), last + len(word) - 1)
        at = low.find(word, first, end)
        while at >= 0:
            hits.append((at, rule, at + len(word) if behind else at))
            at = low.find(word, at + len(word), end)
    for pattern, rule in _PATTERNS:
        for found in pattern.finditer(low, first, min(len(low), last + _LONGEST)):
            if found.start() < last:
                hits.append((found.start(), rule, found.start()))
    hits.extend((at, foreign_spans, end) for at, end in _find_foreign(view, first, last))
    hits.extend(_find_runs(view, first, last))
    hits.sort(key=itemgetter(0))
    return hits


def _find_names(view: View, first: int, last: int) -> list[Hit]:
    """The telling words whose names promise a secret; each name once."""
    hits: list[Hit] = []
    runs, text = view.runs, view.text
    seen: set[int] = set()
    for at in _find_words(view.low, first, last):
        start = runs.rfind(b" ", at - RUN if at > RUN else 0, at) + 1 or max(0, at - RUN)
        if start in seen:
            continue
        seen.add(start)
        stop = runs.find(b" ", at, at + 2 * RUN)
        key = text[start : stop if stop >= 0 else at + 2 * RUN]
        if weigh_key(key) or _is_telling(view, start, key):
            hits.append((at, name_spans, start))
    return hits


def _find_words(low: bytes, first: int, last: int) -> Iterator[int]:
    """Where a word begins that a value may follow. What it looks at ends soon after `last`."""
    size = len(low)
    # A search with the pattern is faster, but it goes on behind `last` to the next match.
    is_most = size - last < (last - first) // 2
    for word, pattern in _TOLD:
        if is_most:
            yield from _starts(pattern, low, first, last, size)
            continue
        end = min(size, last + len(word) - 1)
        at = low.find(word, first, end)
        while at >= 0:
            found = pattern.match(low, at)
            if found:
                yield at
            at = low.find(word, found.end() if found else at + 1, end)
    for pattern in _NAMES:
        yield from _starts(pattern, low, first, last, min(size, last + _LONGEST))


def _find_foreign(view: View, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Where the names of passwords in other languages begin and end that begin from `first` to before `last`."""
    text = view.text
    if text.isascii():
        return
    for mark, word in _FOREIGN:
        end = min(len(text), last + len(word) - 1)
        at = text.find(word, first, end) if text.find(mark, first, end) >= 0 else -1
        while at >= 0:
            yield at, at + len(word)
            at = text.find(word, at + 1, end)


def _starts(pattern: re.Pattern[bytes], low: bytes, first: int, last: int, end: int) -> Iterator[int]:
    for found in pattern.finditer(low, first, end):
        if found.start() >= last:
            break
        yield found.start()


def first_anchor(view: View, first: int, last: int) -> int:
    """The first place from `first` to before `last` that may call for a rule; `last` if there is none."""
    low = view.low
    for word in _WORDS:
        found = low.find(word, first, last)
        if found >= 0:
            last = found
    last = min([last, *(at for at, _ in _find_foreign(view, first, last))])
    found = view.runs.find(_RUN, first, last + _SHORTEST)
    if 0 <= found < last:
        last = found
    for pattern, _ in _PATTERNS:
        match = pattern.search(low, first, last + _LONGEST)
        if match and match.start() < last:
            last = match.start()
    return last


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
            yield at, token_spans, at
        at = runs.find(_RUN, end)


# After one of these a token may begin elsewhere than its run.
_MARKS: Final = frozenset("\\%[;~:/")


# --------------------------------------------------------------------------------------------------------------------
# A quick check of a whole text: whether it needs a full scan. Most texts do not.


def may_hide(text: str, secrets: Secrets) -> bool:
    """Return False only if redaction would not change the text."""
    if not text:
        return False
    return secrets.may_occur(text) or first_anchor(View(text), 0, len(text)) < len(text)


# --------------------------------------------------------------------------------------------------------------------
# Hide the matches of the rules, in text that arrives in pieces: every split gives the same result.

# Longer pieces are taken in steps of this size, so that memory does not grow with them.
_STEP: Final = 131_072
# The farthest that a span begins before the place that gave it away; it never begins before a blank.
_BACK: Final = 160
# How much has to arrive before a text that does not come to an end is looked at again.
_PATIENCE: Final = 2048
# A place inside a hidden span that is longer than this, and not at its end, is not looked at: all of it is hidden.
_LONG: Final = 1024

_BLANKS: Final = " \t\n\r"
_BLANK = re.compile(r"[ \t\n\r]")
_LINE = re.compile(r"\n")
_REST = re.compile(r"[^\s\"'\\]*")


class RuleStage:
    """Hides the matches of the rules.

    A rule reads at most to the end of the next line, or a fixed number of characters if lines are long. So a place is
    decided when that much text has arrived. Text without a place for a rule is released word by word.
    """

    def __init__(self, render: Render, *, seed: bool = False, extend: Callable[[str], object] = len) -> None:
        self._extend = extend
        self._box = RedactedOutput(render)
        self._seed = seed
        self._scanned = 0
        self._patient_until = 0
        self._wakes: re.Pattern[str] = _LINE
        self._swallowing = False

    def feed(self, piece: str) -> str:
        return "".join([self._take(piece[at : at + _STEP]) for at in range(0, len(piece), _STEP)])

    def close(self) -> str:
        return self._advance(final=True)

    def _take(self, piece: str) -> str:
        if self._swallowing:
            piece = self._swallow(piece)
            if not piece:
                return ""
        self._box.text += piece
        if len(self._box.text) < self._patient_until and not self._wakes.search(piece):
            return ""
        return self._advance(final=False)

    def _advance(self, *, final: bool) -> str:
        box = self._box
        size = len(box.text)
        view = View(box.text)
        certain = size if final else self._find_certain(size)
        decided = self._decide(view, certain, final=final)
        self._patient_until = 0
        self._wakes = _LINE
        if decided == certain and not final:
            decided = self._find_harmless(view, certain)
        elif not final and not self._swallowing:
            self._patient_until = size + max(_PATIENCE, (size - decided) // 4)
        self._scanned = decided
        limit = size if final or self._swallowing else self._before(decided)
        out, shift = box.release(limit)
        self._scanned -= shift
        self._patient_until -= shift
        return out

    def _find_certain(self, size: int) -> int:
        """Up to where every place has the text that its rules may look at."""
        text = self._box.text
        line = text.rfind("\n", self._scanned)
        previous = text.rfind("\n", self._scanned, line) if line >= 0 else -1
        return max(previous + 1, size - AHEAD, self._scanned)

    def _find_harmless(self, view: View, certain: int) -> int:
        """Up to where the text after the certain part can go as well, because nothing in it calls for a rule."""
        text = view.text
        blank = max([text.rfind(mark, certain) for mark in _BLANKS])
        if blank < certain:
            # Nothing goes before a blank comes, or before the text is certain.
            self._patient_until = max(len(text), certain + AHEAD) + _PATIENCE
            self._wakes = _BLANK
            return certain
        anchor = first_anchor(view, certain, blank + 1)
        if anchor <= blank:
            # Nothing goes before the text behind the anchor is certain: at the end of a line, or when enough came.
            self._patient_until = anchor + AHEAD + _PATIENCE
        return anchor

    def _decide(self, view: View, certain: int, *, final: bool) -> int:
        """Ask the rules at all places that are certain; returns up to where everything is decided."""
        text = view.text
        skip = -1
        horizon = _Horizon(text)
        for place, rule, start in find_hits(view, self._scanned, certain):
            if place < skip:
                continue
            stop = horizon.stop(place)
            if rule is block_spans:
                try:
                    spans: Iterable[Span] = key_block(view, place, final=final)
                except IncompleteBlock:
                    return place
            else:
                spans = rule(view, start, stop)
            if self._seed:
                spans = (*spans, *seed_spans(view, place, stop))
            for span in spans:
                skip = max(skip, self._keep(span, text, final=final))
        return len(text) if self._swallowing else max(certain, skip)

    def _keep(self, span: Span, text: str, *, final: bool) -> int:
        """Hide a span; one that is longer than any value takes all that follows it, up to the next blank."""
        reached = -1
        if VALUE <= span.end - span.start < LONGEST_BLOCK:
            rest = _REST.match(text, span.end)
            reached = rest.end() if rest else span.end
            self._swallowing = reached == len(text) and not final
            span = span._replace(end=reached)
        elif span.end - span.start > _LONG:
            reached = span.end - _BACK
        self._box.spans.append(span)
        return reached

    def _before(self, place: int) -> int:
        """The last position that no span of a place from here on can reach back to."""
        lowest = max(self._box.done, place - _BACK)
        blank = max([self._box.text.rfind(mark, lowest, place) for mark in _BLANKS])
        return blank + 1 if blank >= 0 else lowest

    def _swallow(self, piece: str) -> str:
        """Drop the beginning of a piece that belongs to a value too long to hold."""
        rest = _REST.match(piece)
        end = rest.end() if rest else 0
        self._extend(piece[:end])
        self._swallowing = end == len(piece)
        box = self._box
        box.text = (box.text + piece[:end])[-BEHIND:]
        box.done = self._scanned = len(box.text)
        return piece[end:]


class _Horizon:
    """Up to where the rules at a place may look: to the end of the next line, or a fixed number of characters."""

    __slots__ = ("_line", "_next", "_read", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = self._next = -1  # The first end of a line behind the last place, and the one behind it.
        self._read = 0  # Up to where there are no other ends of lines.

    def stop(self, place: int) -> int:
        """Up to where the rules at this place may look. Places come in order."""
        farthest = place + AHEAD
        if self._line < place:
            self._line, self._next = self._next, -1
        if self._line < place:
            self._line = self._find(place, farthest)
        if self._line >= 0 and self._next < 0:
            self._next = self._find(self._line + 1, farthest)
        return self._next if 0 <= self._next < farthest else min(farthest, len(self._text))

    def _find(self, start: int, farthest: int) -> int:
        """The next end of a line, read from where the last search ended."""
        start = max(start, self._read)
        found = self._text.find("\n", start, farthest)
        self._read = max(start, farthest) if found < 0 else found + 1
        return found
