"""Tokens that their own shape gives away: a vendor's prefix, an alphabet, a length and sometimes a checksum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from dragoman.scrubbing.checksums import has_crc32
from dragoman.scrubbing.likeness import is_mixed, is_placeholder, is_random, is_wordy
from dragoman.scrubbing.vendors import FAMILIES, VENDORS
from dragoman.scrubbing.view import TOKEN, Span, View

# Longer than any token in use; what follows a token that long is taken with it, see `scrubber`.
LONGEST: Final = 16_384

_ALPHABETS: Final = {
    "alnum": "A-Za-z0-9",
    "word": r"A-Za-z0-9_\-",
    "dotted": r"A-Za-z0-9_\-.",
    "hex": "0-9a-fA-F",
    "upper": "A-Z0-9",
    "base32": "A-Z2-7",
    "base64": r"A-Za-z0-9+/_\-=",
    "lower": "a-z0-9",
    "digits": "0-9",
    "uuid": r"0-9a-fA-F\-",
}


class Token(NamedTuple):
    """One shape: what follows the prefix, and what it has to be like."""

    kind: str
    prefix: str
    pattern: re.Pattern[str]
    demand: str
    checked: bool
    bare: bool


def _compile(kind: str, prefix: str, body: str, demand: str) -> Token:
    body = re.sub(r"<percent (\d+)\+>", rf"(?:[A-Za-z0-9_\\-=.]|%(?:3[Dd]|2[BbFf])){{\1,{LONGEST}}}", body)
    pattern = re.sub(
        r"<(\w+) (\d+)(\+?)>",
        lambda found: f"[{_ALPHABETS[found[1]]}]{{{found[2]}{f',{LONGEST}' if found[3] else ''}}}",
        body,
    )
    checked = demand == "crc32"
    bare = len(prefix) < 7 and prefix.isalnum() and "(?!" not in body
    return Token(kind, prefix, re.compile(pattern), "some" if checked else demand, checked, bare)


@lru_cache(maxsize=1)
def _by_prefix() -> dict[str, tuple[Token, ...]]:
    """The shapes by the first three characters of their prefix, or two if it has no more; the longest prefix first."""
    table: dict[str, list[Token]] = {}
    for kind, prefixes, body, demand in VENDORS:
        for prefix in prefixes.split():
            table.setdefault(prefix[:3], []).append(_compile(kind, prefix, body, demand))
    return {start: tuple(sorted(rows, key=lambda row: -len(row.prefix))) for start, rows in table.items()}


@lru_cache(maxsize=1)
def token_heads() -> frozenset[str]:
    """The first two characters of all prefixes."""
    return frozenset(start[:2] for start in _by_prefix())


def may_be_token(text: str, start: int, end: int) -> bool:
    """Whether a run of characters is worth a look: a cheap question that never says no wrongly."""
    known = _by_prefix()
    if text[start : start + 3] in known or text[start : start + 2] in known:
        return True
    before = text[start - 1] if start else " "
    if before in "\\%[;~" or (before == ":" and text.startswith("AA", start)):
        return True
    if before == "/" and text.endswith("1//", 0, start):
        return True
    run = text[start:end]
    if run.isalnum():
        # Tokens without a prefix and without signs have lengths of their own.
        return len(run) == 50 or len(run) >= 76
    return HINT.search(run) is not None


@lru_cache(maxsize=1)
def _families() -> tuple[tuple[str, str, re.Pattern[str], Callable[[str], bool]], ...]:
    demands: dict[str, Callable[[str], bool]] = {
        "mixed": is_mixed,
        "random": is_random,
        "any": lambda body: not is_placeholder(body),
    }
    return tuple((kind, part, re.compile(pattern), demands[demand]) for kind, part, pattern, demand in FAMILIES)


# A run of characters that begins with no known prefix may be a token if one of these occurs in it.
HINT = re.compile(
    r"""[._-](?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-ant-|sk-proj-|sk_live_|AKIA|AIza|npm_|hf_|ey|[._-])
      | (?:sk|pat|key|token|secret|api|live|prod|auth|pw|pass|access|admin|svc|test|v\d)[_-][A-Za-z0-9]{20}
      | ey[A-Za-z0-9_-]{8,64}\.\w | [MNO][\w-]{22,28}\.[\w-]{6}\. | -us\d | \.atlasv1\. | _mmk""",
    re.VERBOSE,
)
_GLUED = re.compile(
    r"(?<=[._-])(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-ant-|sk-proj-|sk_live_|AKIA|AIza|npm_|hf_|ey)"
)
_HIDDEN = re.compile(r"\[redacted:[\w#-]{1,80}\]\Z|\*\[REDACTED\]\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{20}")
_DIGITS = re.compile(r"\d{5,16}:\Z")


def token_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The token that the run of characters at `position` begins with."""
    text = view.text
    start = view.skip_escape(position)
    end = view.run_end(position, stop)
    if is_beside_hidden(text, start, end):
        return
    while start < stop and text[start] in "._-":
        start += 1
    found = _match(text, start, end, stop)
    if found is None and text[position - 1 : position] == "~":
        start = view.skip_escape(view.run_start(position - 1))
        found = match_family(text, start, stop, text[start:end])
    glued = None if found else _GLUED.search(text, start, end)
    if glued:
        start = glued.start()
        found = _match(text, start, end, stop)
    if found is None:
        return
    end, kind = found
    if kind == "telegram_token":
        digits = _DIGITS.search(text, max(0, start - 20), start)
        if digits is None:
            return
        start = digits.start()
    # What hangs on a token goes with it: it is a longer form of the token, or would look like another one alone.
    hanging = view.run_end(end, stop) if end > position else end
    yield Span(start, hanging - len(text[end:hanging]) + len(text[end:hanging].rstrip("._-")), kind, TOKEN)


def is_beside_hidden(text: str, start: int, end: int) -> bool:
    """Whether a run of characters touches something that was hidden before: it was looked at then."""
    if text.startswith(("[redacted:", "*[REDACTED]"), end):
        return True
    return text[start - 1 : start] == "]" and _HIDDEN.search(text, max(0, start - 96), start) is not None


def _match(text: str, start: int, end: int, stop: int) -> tuple[int, str] | None:
    return match_token(text, start, stop) or match_family(text, start, stop, text[start:end])


def match_token(text: str, start: int, end: int) -> tuple[int, str] | None:
    """Where the token that begins at `start` ends, and its kind; None if none begins there."""
    known = _by_prefix()
    for row in (*known.get(text[start : start + 3], ()), *known.get(text[start : start + 2], ())):
        if text.startswith(row.prefix, start) and not (row.bare and _is_inside_base64(text, start)):
            # Four dashes are no part of a token: they begin something else.
            dashes = text.find("----", start, end)
            found = row.pattern.match(text, start + len(row.prefix), end if dashes < 0 else dashes)
            if found and _is_wanted(row, found.group()):
                return found.end(), row.kind
    return None


def match_family(text: str, start: int, end: int, run: str) -> tuple[int, str] | None:
    """Where a token of a shape without a fixed prefix ends, and its kind; `run` is the run of characters it begins."""
    for kind, part, pattern, demand in _families():
        if part in run:
            found = pattern.match(text, start, end)
            if found and demand(found["body"]):
                return found.end(), kind
    return None


def _is_inside_base64(text: str, start: int) -> bool:
    """Whether a run of characters goes on a longer text in base64: a few letters prove nothing there."""
    if text[start - 1 : start] not in {"+", "/"}:
        return False
    hidden = _HIDDEN.search(text, max(0, start - 96), start - 1)
    return hidden is not None or _BASE64.fullmatch(text, max(0, start - 20), start) is not None


def _is_wanted(row: Token, body: str) -> bool:
    if row.checked and has_crc32(body):
        return True
    if is_placeholder(body) or len(set(body)) < 6:
        return False
    if row.demand == "some":
        return True
    if row.demand == "mixed":
        return is_mixed(body)
    return not is_wordy(body) and is_random(body)
