"""Strings as models write them: any quotes, raw newlines, escapes that do not exist, quotes that were not escaped.

Which quote ends a string is decided in `tolerant_quotes`; here is what the string then holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dragoman.args.decode import has_surrogate
from dragoman.args.tolerant_quotes import CLOSING_QUOTES, Place, fits, forgotten_end, string_body

_QUOTE_RULES = {"'": "single_quotes", "`": "backtick_quotes"}
_RAW_CONTROL = re.compile(r"[\x00-\x1f]")

_lenient = json.JSONDecoder(strict=False)
_lenient_scan: Callable[[str, int], tuple[Any, int]] = _lenient.scan_once  # type: ignore[attr-defined]


class Unreadable(ValueError):
    """No value can be read at `position`, and `why`; `cut` says that the text ended too early."""

    def __init__(self, why: str, position: int, *, cut: bool = False) -> None:
        super().__init__(f"{why} at position {position}")
        self.why = why
        self.position = position
        self.cut = cut


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_string(
    text: str,
    position: int,
    place: Place,
    *,
    rules: dict[str, None],
    outermost: bool = True,
    python: bool = False,
    names: bool = False,
    raw: bool = False,
    closers: str | None = None,
) -> tuple[str, int]:
    """Read the string whose opening quote is at `position`, add what was repaired to `rules`, say where it ends.

    With `names` a bare name may follow a comma. `closers` are the brackets that are still open: if given, a string
    that never ends is closed at the end of the text.
    """
    quote = text[position]
    if text.startswith(quote * 3, position) and quote in "\"'`":
        end = text.find(quote * 3, position + 3)
        if end >= 0:
            if not python:
                rules["triple_quotes"] = None
            return _content(text, position + 3, end, rules, python=True, raw=raw), end + 3
    if not python or quote not in "\"'":
        rule = _QUOTE_RULES.get(quote) or ("smart_quotes" if quote != '"' else None)
        if rule is not None:
            rules[rule] = None
    end, inner, after = _find_end(text, position, place, outermost, names)
    if end < 0:
        if closers is None or inner or after < 0:
            raise Unreadable("string without end", position, cut=True)
        end = after = len(text) - (len(closers) if text.endswith(closers) else 0)
    if end == after:
        rules["closed_string"] = None
    if inner:
        rules["escaped_quotes"] = None
    elif quote == '"' and not python and end < after:
        quick = _read_json(text, position, end, rules)
        if quick is not None:
            return quick, after
    return _content(text, position + 1, end, rules, python=python, raw=raw), after


def _find_end(text: str, position: int, place: Place, outermost: bool, names: bool) -> tuple[int, bool, int]:
    """The end of the content, or -1; whether quotes were passed over as content; and where the text goes on.

    The first and the last are the same where a quote was forgotten; both are -1 where there is no telling.
    """
    quote = text[position]
    body = string_body(CLOSING_QUOTES[quote])
    fitting = fits(place, quote, outermost, names)
    start = position + 1
    inner = False
    while True:
        found = body.match(text, start)
        end = found.end() if found is not None else start
        if end >= len(text) or text[end] == "\\":
            return -1, inner, 0
        if fitting.match(text, end + 1) is not None:
            return end, inner, end + 1
        if not inner:
            forgotten = forgotten_end(text, start, end, place, fitting)
            if forgotten is not None:
                return forgotten, False, forgotten
        inner = True
        start = end + 1


def has_control(text: str, start: int, end: int) -> bool:
    """Whether a newline, a tab or another control character stands there as it is."""
    return _RAW_CONTROL.search(text, start, end) is not None


def _read_json(text: str, position: int, end: int, rules: dict[str, None]) -> str | None:
    """Read a double-quoted string with the fast scanner of the standard library, if its escapes are good ones."""
    try:
        value, after = _lenient_scan(text, position)
    except ValueError:
        return None
    if after != end + 1 or not isinstance(value, str):
        return None
    if has_surrogate(value):
        raise Unreadable("lone surrogate", position)
    if has_control(text, position, end):
        rules["raw_newline"] = None
    return value


# ---- escapes ---------------------------------------------------------------------------------------------------------

_ESCAPE = re.compile(
    r"\\(?:"
    r"(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<code>u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]{1,6}\})"
    r"|(?P<octal>[0-7]{1,3})|(?P<line>\r?\n)|(?P<other>.)|\Z)",
    re.DOTALL,
)
_JSON_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_ESCAPES = {**_JSON_ESCAPES, "'": "'", "a": "\a", "v": "\v"}
del _PYTHON_ESCAPES["/"]
# A backslash before one of these was meant to protect it; before anything else (a regular expression, a path of
# Windows) it is content.
_NEEDLESS = frozenset("'`$_“”‘’")


def _content(text: str, start: int, end: int, rules: dict[str, None], *, python: bool, raw: bool) -> str:
    source = text[start:end]
    if not python and has_control(source, 0, len(source)):
        rules["raw_newline"] = None
    value = _unescape(source, start, rules, python) if not raw and "\\" in source else source
    if has_surrogate(value):
        raise Unreadable("lone surrogate", start)
    return value


def _unescape(source: str, start: int, rules: dict[str, None], python: bool) -> str:
    known = _PYTHON_ESCAPES if python else _JSON_ESCAPES
    bad = False

    def replace(found: re.Match[str]) -> str:
        nonlocal bad
        other = found["other"]
        if other is not None and other in known:
            return known[other]
        pair, code = found["pair"], found["code"]
        if pair is not None:
            return chr(0x10000 + ((int(pair[1:5], 16) & 0x3FF) << 10) + (int(pair[7:11], 16) & 0x3FF))
        if code is not None:
            number = int(code[1:].strip("{}"), 16)
            if number > 0x10FFFF:
                raise Unreadable("no such character", start + found.start())
            bad = bad or (not python and code[0] != "u")
            return chr(number)
        if python and found["octal"] is not None:
            return chr(int(found["octal"], 8))
        if python and found["line"] is not None:
            return ""
        bad = True
        return other if other in _NEEDLESS else found[0]

    value = _ESCAPE.sub(replace, source)
    if bad:
        rules["bad_escape"] = None
    return value
