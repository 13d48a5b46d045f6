"""Secrets recognized by their own shape: vendor tokens and private key blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Final, NamedTuple

from dragoman.secrets.fields import is_mixed, is_placeholder, is_random, is_wordy
from dragoman.secrets.spans import TOKEN, Span, View
from dragoman.secrets.vendors import FAMILIES, VENDORS, has_crc32

# --------------------------------------------------------------------------------------------------------------------
# Tokens that their own shape gives away: a vendor's prefix, an alphabet, a length and sometimes a checksum.

# Longer than any token in use; what follows a token that long is taken with it, see `scrubber`.
LONGEST_TOKEN: Final = 16_384

_ALPHABETS: Final = {
    "alnum": "A-Za-z0-9",
    "word": r"A-Za-z0-9_\-",
    "dotted": r"A-Za-z0-9_\-.",
    "hex": "0-9a-fA-F",
    "upper": "A-Z0-9",
    "base32": "A-Z2-7",
    "aws": "A-Za-z0-9+/",
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


def _expand(body: str) -> str:
    """The regular expression that the body of a row stands for."""
    body = re.sub(r"<percent (\d+)\+>", rf"(?:[A-Za-z0-9_\\-=.]|%(?:3[Dd]|2[BbFf])){{\1,{LONGEST_TOKEN}}}", body)
    return re.sub(
        r"<(\w+) (\d+)(\+?)>",
        lambda found: f"[{_ALPHABETS[found[1]]}]{{{found[2]}{f',{LONGEST_TOKEN}' if found[3] else ''}}}",
        body,
    )


def _compile(kind: str, prefix: str, body: str, demand: str) -> Token:
    checked = demand == "crc32"
    bare = len(prefix) < 7 and prefix.isalnum() and "(?!" not in body
    return Token(kind, prefix, re.compile(_expand(body)), "some" if checked else demand, checked, bare)


@cache
def token_shapes() -> str:
    """One regular expression for the tokens of all vendors, look-alikes included.

    It is for recordings, which are published and in which a false hit costs a word. Shapes are left out that only their
    randomness tells from ordinary words.
    """
    rows = [(prefix, body, demand) for _, prefixes, body, demand in VENDORS for prefix in prefixes.split()]
    # Letters and digits alone also occur inside base64.
    tokens = [
        ("(?<![+/])" if prefix.isalnum() else "") + re.escape(prefix) + _expand(body)
        for prefix, body, demand in sorted(rows, key=lambda row: -len(row[0]))
        if len(prefix) > 2 and (demand != "mixed" or not prefix.isalnum())
    ]
    families = [pattern.replace("?P<body>", "?:") for _, _, pattern, demand in FAMILIES if demand == "any"]
    return rf"(?<![A-Za-z0-9_])(?:{'|'.join([*tokens, *families])})"


@lru_cache(maxsize=1)
def _by_prefix() -> dict[str, list[tuple[str, str, str, str]]]:
    """The arguments of `_compile` by the first three characters of their prefix, or two if it has no more."""
    table: dict[str, list[tuple[str, str, str, str]]] = {}
    for kind, prefixes, body, demand in VENDORS:
        for prefix in prefixes.split():
            table.setdefault(prefix[:3], []).append((kind, prefix, body, demand))
    return table


# Compiled for each prefix when it first occurs: all of them together take longer than most texts.
@cache
def _tokens(start: str) -> tuple[Token, ...]:
    """The shapes whose prefix begins so, a key of `_by_prefix`; the longest prefix first."""
    return tuple(sorted((_compile(*row) for row in _by_prefix()[start]), key=lambda row: -len(row.prefix)))


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
    if before in "\\%[;~!" or (before == ":" and text.startswith("AA", start)):
        return True
    if before == "/" and text.endswith("1//", 0, start):
        return True
    run = text[start:end]
    if run.isalnum():
        # Tokens without a prefix and without signs have lengths of their own.
        return len(run) == 50 or len(run) >= 76
    # No shorter run is one.
    return (len(run) >= 34 and _WHOLE.match(run) is not None) or HINT.search(run) is not None


@lru_cache(maxsize=1)
def _families() -> tuple[tuple[str, str, re.Pattern[str], Callable[[str], bool]], ...]:
    demands: dict[str, Callable[[str], bool]] = {
        "mixed": is_mixed,
        "random": is_random,
        "any": lambda body: not is_placeholder(body),
    }
    return tuple((kind, part, re.compile(pattern), demands[demand]) for kind, part, pattern, demand in FAMILIES)


# Prefixes that are looked for inside a run of characters too, behind a sign.
_STRONG: Final = "gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-ant-|sk-proj-|sk_live_|AKIA|AIza|npm_|hf_|ey"
# A run of characters that begins with no known prefix may be a token if one of these occurs in it.
HINT = re.compile(
    rf"""[._-](?:{_STRONG}|[._-])
      | (?:sk|pat|key|token|secret|api|live|prod|auth|pw|pass|access|admin|svc|test|v\d)[_-][A-Za-z0-9]{{20}}
      | ey[A-Za-z0-9_-]{{8,64}}\.\w | [MNO][\w-]{{22,28}}\.[\w-]{{6}}\. | -us\d | \.atlasv1\. | _mmk""",
    re.VERBOSE,
)
# So does a run that may be one as a whole.
_WHOLE = re.compile(
    r"""[0-9a-f]{32}(?:-[0-9a-f]{8}-[0-9a-f]{8}|\.[A-Za-z0-9]{16})\Z | [123][A-Za-z0-9]{26}_
      | [._-]{0,3}(?:[a-z][a-z0-9]{0,14}_){1,3}[A-Za-z0-9]{32}""",
    re.VERBOSE,
)
_GLUED = re.compile(rf"(?<=[._-])(?:{_STRONG})")
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
        start = position
        for _ in range(3):
            if text[start - 1 : start] == "~":
                start = view.skip_escape(view.run_start(start - 1))
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
    starts = (text[start : start + 3], text[start : start + 2])
    for row in (row for each in starts if each in known for row in _tokens(each)):
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


# --------------------------------------------------------------------------------------------------------------------
# Private keys that fill many lines: from their first line to their last, or as far as the key was printed.

# No private key is longer.
LONGEST_BLOCK: Final = 65_536

_BEGIN = re.compile(
    r"-----BEGIN (?:(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
    r"|Private-Lines: \d{1,3}"
)
_END = re.compile(
    r"-----END (?:(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
    r"|Private-(?:MAC|Hash): [0-9a-f]{8,128}"
)
# Between two lines of a key: breaks, escaped breaks, quotes and signs of code, margins of diffs, mails and listings.
_BREAK = re.compile(
    r"""(?:\s | \\{1,7}[nrt] | [bBfFrRuU]{0,2}\\{0,7}["'],? | [+>|,\#*] | -(?=[A-Za-z0-9+/]) | [.](?=\s)
         | (?:[\w./-]{1,128}[:-])?\d{1,6}[:\t-](?=[A-Za-z0-9+/=]{16}|-----END)){0,200}""",
    re.VERBOSE,
)
# Some writers of JSON escape the signs of base64: `\/`, `\u002B`, `\u003d`.
_SIGN = r"\\{1,7}(?:/|u00(?:2[bBfF]|3[dD]))"
_LINE = re.compile(rf"(?:[A-Za-z0-9+/]|{_SIGN}){{1,4096}}={{0,3}}")
_HEADER = re.compile(
    r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|MessageID|Hash|Subject|X-[\w-]+): ?[^\n\\\"]{0,200}"
    r"|=[A-Za-z0-9+/]{4}(?![A-Za-z0-9+/])"
)
# Behind the name of a field: its quote and the colon.
_NAME_ENDS = re.compile(r"\\{0,7}[\"']\s{0,200}:")
_FULL: Final = 32
# More than a break between lines, a header and the last line together.
_MARGIN: Final = 1000


class IncompleteBlock(Exception):
    """The key may go on: more text has to come before its end is known."""


def key_block(view: View, position: int, *, final: bool) -> list[Span]:
    """The private key whose first line begins at `position`. Raises `IncompleteBlock` if its end may still come.

    A key in several strings, as a list of lines, gives one span for each string: the quotes between them stay.
    """
    text = view.text
    stop = min(len(text), position + LONGEST_BLOCK)
    whole = final or stop - position == LONGEST_BLOCK
    begin = _BEGIN.match(text, position, stop)
    if begin is None:
        if not whole and stop - position < _MARGIN:
            raise IncompleteBlock
        return []
    spans = [Span(position, begin.end(), "private_key", TOKEN)]
    while True:
        end = spans[-1].end
        at = _step_over(text, end, stop)
        last = _END.match(text, at, stop)
        if last and end == begin.end():
            # The marks without a key: a program that looks for keys, or a text about them.
            return []
        line = last or _HEADER.match(text, at, stop) or _LINE.match(text, at, stop)
        if line and line.end() == stop and not whole:
            raise IncompleteBlock
        if line is None or not (_follows(text, end, line) and (last or _belongs(text, line, stop))):
            break
        _add_line(spans, text, line)
        if last:
            return spans
        if len(line.group()) < _FULL and not _HEADER.fullmatch(line.group()) and not _ends_next(text, line.end(), stop):
            break
    end = spans[-1].end
    if not whole and stop - end < _MARGIN:
        raise IncompleteBlock
    return spans if end > begin.end() else []


def _step_over(text: str, at: int, stop: int) -> int:
    found = _BREAK.match(text, at, stop)
    return found.end() if found else at


def _follows(text: str, end: int, line: re.Match[str]) -> bool:
    """Whether a line stands where the key that was read up to `end` can go on.

    After a quote it can go on in the next string only. A comma behind the last quote means that no string was opened:
    `["-----BEGIN PRIVATE KEY-----", 1234]`. And the name of a field is no part of the value before it.
    """
    between = text[end : line.start()]
    quote = _last_quote(between)
    if quote < 0:
        return True
    return "," not in between[quote:] and _NAME_ENDS.match(text, line.end()) is None


def _add_line(spans: list[Span], text: str, line: re.Match[str]) -> None:
    """Hide a line too: together with the lines before it, or by itself when a quote stands between them."""
    last = spans[-1]
    if _last_quote(text[last.end : line.start()]) < 0:
        spans[-1] = last._replace(end=line.end())
    else:
        spans.append(last._replace(start=line.start(), end=line.end()))


def _last_quote(between: str) -> int:
    return max(between.rfind('"'), between.rfind("'"))


def _ends_next(text: str, at: int, stop: int) -> bool:
    return _END.match(text, _step_over(text, at, stop), stop) is not None


def _belongs(text: str, line: re.Match[str], stop: int) -> bool:
    """Whether a line is part of the key: a full one is, a short one only if it cannot be a word."""
    found = line.group()
    if text.startswith(("*[REDACTED]", "[redacted:"), line.end()):
        return False
    if len(found) >= _FULL or _HEADER.fullmatch(found) or _ends_next(text, line.end(), stop):
        return True
    return len(found) % 4 == 0 and (found.endswith("=") or any(map(str.isdigit, found)) or len(found) >= 24)
