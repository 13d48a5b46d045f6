"""Private keys that fill many lines: from their first line to their last, or as far as the key was printed."""

from __future__ import annotations

import re
from typing import Final

from dragoman.scrubbing.view import TOKEN, Span, View

# No private key is longer.
LONGEST: Final = 65_536

_BEGIN = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"|Private-Lines: \d{1,3}"
)
_END = re.compile(
    r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
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
_FULL: Final = 40
# More than a break between lines, a header and the last line together.
_MARGIN: Final = 1000


class Unfinished(Exception):
    """The key may go on: more text has to come before its end is known."""


def key_block(view: View, position: int, *, final: bool) -> list[Span]:
    """The private key whose first line begins at `position`. Raises `Unfinished` when its end may still come.

    A key in several strings, as a list of lines, gives one span for each string: the quotes between them stay.
    """
    text = view.text
    stop = min(len(text), position + LONGEST)
    whole = final or stop - position == LONGEST
    begin = _BEGIN.match(text, position, stop)
    if begin is None:
        if not whole and stop - position < _MARGIN:
            raise Unfinished
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
            raise Unfinished
        if line is None or not (_follows(text, end, line) and (last or _belongs(text, line, stop))):
            break
        _add_line(spans, text, line)
        if last:
            return spans
        if len(line.group()) < _FULL and not _HEADER.fullmatch(line.group()) and not _ends_next(text, line.end(), stop):
            break
    end = spans[-1].end
    if not whole and stop - end < _MARGIN:
        raise Unfinished
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
