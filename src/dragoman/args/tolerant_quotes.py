"""Which quote ends a string: the one that is followed by what fits the place where the string stands.

After a member of an object comes a comma and another key, or a closing brace; a quote that is followed by anything
else is content that the model forgot to escape. Every look ahead is bounded, so the search stays linear.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

Place = Literal["key", "member", "item", "argument", "alone", "whole"]
"""Where a string stands. `alone` is a value with any text after it, `whole` one that should reach the end."""

CLOSING_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "“”", "”": "”", "‘": "‘’", "’": "’", "„": "“”"}
_FAR = 80  # how many characters of a key the look-ahead reads


def _key_ahead(quotes: str) -> str:
    """A key in these quotes and its colon, or the beginning of one too long to look at."""
    inside = rf"[^{quotes}\\\n]"
    return rf"[{quotes}](?:{inside}{{0,{_FAR}}}+(?:[{quotes}]\s*+[:=]|\\)|{inside}{{{_FAR + 1}}})"


_COMMENT = r"(?:\#|//|/\*)"
_ANY_KEY = "|".join(_key_ahead(quotes) for quotes in ('"', "'", "“”"))
_BARE_KEY = rf"(?:[\w$]|\\_)[\w$.\\-]{{0,{_FAR}}}+\s*+(?::(?!//)|=(?!=))"
_LITERAL = r"(?:true|false|null|undefined|True|False|None)\b"
_VALUE = rf"[\"'“‘`\d+.\[{{(-]|[rbfuRBFU]{{1,2}}[\"']|{_LITERAL}"
_PYTHON_NAME = r"(?:lambda|not)\b|[^\W\d][\w.]{0,80}+\s*+[,)\]}(\[]|\*\*?[\w{(\[]"
_INNER_END = r"(?=\s*+(?:[,}\]):<`]|\Z)|[ \t]*+(?:[\r\n]|\#|//|/\*))"


@cache
def _fitting(place: Place, quote: str, outermost: bool, names: bool) -> str:
    """What must follow a closing quote, as a pattern."""
    closing = "".join(CLOSING_QUOTES[quote])
    # The bracket that ends the whole value may be followed by anything but more of the string: `print("}")`.
    end = rf"(?![{closing}]\S)" if outermost else _INNER_END
    name = f"|{_PYTHON_NAME}" if names else ""
    comment = rf"[ \t]++{_COMMENT}"
    match place:
        case "member":
            after_comma = rf"{_ANY_KEY}|{_BARE_KEY}|[}}\]]|\Z|{_COMMENT}|,"
            return rf"\s*+(?:,\s*+(?:{after_comma})|\}}{end}|\]{_INNER_END}|\Z|{_ANY_KEY})|{comment}"
        case "item":
            after_comma = rf"{_VALUE}|[\]}}]|\Z|{_COMMENT}{name}"
            joined = rf"|[+]\s*+[{closing}]" if names else ""
            closers = rf"\]{end}|[}})]{_INNER_END}|\Z"
            next_line = r"[ \t]*+\r?\n\s*+[\[{]"
            return rf"\s*+(?:,\s*+(?:{after_comma})|{closers}|[{quote}](?=\S){joined})|{next_line}|{comment}"
        case "argument":
            after_comma = rf"{_BARE_KEY}|{_VALUE}|\)|\Z|{_COMMENT}{name}"
            joined = r"[+]?\s*+[rbfuRBFU]{0,2}[\"'](?=\S)|[+%]\s*+[\w(]|\.\w++\("
            closers = rf"[)]{end}|[\]}}]{_INNER_END}|\Z"
            return rf"\s*+(?:,\s*+(?:{after_comma})|{closers}|{joined})|[ \t]*+\r?\n\s*+{_BARE_KEY}|{comment}"
        case "whole":
            return r"[\s}\])]*+\Z"
        case _:
            return ""


@cache
def fits(place: Place, quote: str, outermost: bool, names: bool) -> re.Pattern[str]:
    """Matches right after a quote if it may be the end of its string."""
    return re.compile(_fitting(place, quote, outermost, names))


@cache
def plain_string(place: Place, quote: str, outermost: bool, names: bool) -> re.Pattern[str]:
    """A string without escapes, control characters or doubts: most strings are read by this one match."""
    closing = CLOSING_QUOTES[quote]
    ahead = _fitting(place, quote, outermost, names)
    return re.compile(rf"[{quote}]([^{closing}\\\x00-\x1f]*+)[{closing}](?!{quote})(?={ahead})")


@cache
def string_body(closing: str) -> re.Pattern[str]:
    """From any place in a string up to the next quote that is not escaped."""
    return re.compile(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*+", re.DOTALL)


# ---- quotes that were forgotten --------------------------------------------------------------------------------------

_ARGUMENT_BEGINS = re.compile(r"[,(]\s*+[^\W\d]\w*+\s*+=\s*+\Z")
_WITHOUT_QUOTE = re.compile(r"[^()\"']*?(?=\)|,\s*+[^\W\d]\w*+\s*+=)")
_KEY_BEGINS = re.compile(_ANY_KEY)


def forgotten_end(text: str, start: int, quote_at: int, place: Place, fitting: re.Pattern[str]) -> int | None:
    """Where a string ends whose closing quote was forgotten, if the next quote opens another string; else None.

    `a='Paris, b='Rome')` and `['Paris, 'Rome']`. In an object the quote may as well be content: -1, no answer.
    """
    before = text[max(start, quote_at - _FAR) : quote_at]
    last = before.rstrip()[-1:]
    if place == "argument" and last == "=" and _ARGUMENT_BEGINS.search(before):
        found = _WITHOUT_QUOTE.match(text, start, quote_at)
        return start + len(found[0].rstrip()) if found is not None else None
    if last != ",":
        return None
    if place == "member":
        return -1 if _KEY_BEGINS.match(text, quote_at) else None
    partner = string_body(text[quote_at]).match(text, quote_at + 1, quote_at + 1 + _FAR)
    if place != "item" or partner is None or text[partner.end() : partner.end() + 1] != text[quote_at]:
        return None
    if fitting.match(text, partner.end() + 1) is None:
        return None
    return start + len(text[start:quote_at].rstrip()[:-1].rstrip())
