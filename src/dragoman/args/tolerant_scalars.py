"""The scalars of the tolerant reader: strings, numbers, words and arithmetic."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from dragoman.args.decoder import (
    MAX_DEPTH,
    MAX_DIGITS,
    Undecodable,
    has_surrogate,
    raw_decode,
    read_float,
    read_integer,
)

# --------------------------------------------------------------------------------------------------------------------
# Arithmetic in place of a number: `2*3`, `1/2`, `(5 + 1) ** 2`.

Number = int | float

_SUM = re.compile(r"[\d.+\-*/%()\s_eE]{1,80}", re.ASCII)
_TOKEN = re.compile(r"\s*(?:((?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?)|(\*\*|//|[-+*/%()]))", re.ASCII)
# Dates, months and telephone numbers are not arithmetic: 2024-12-25, 1/2/2024, 2024-12, 555-123-4567.
_NOT_A_SUM = re.compile(r"\d+(?:([-/.])\d+)(?:\1\d+)+|(?:19|20)\d\d-(?:0[1-9]|1[0-2])", re.ASCII)
_OPERATORS: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod},
)
"""From the weakest to the strongest; a sign binds more strongly, and a power more strongly still."""
_LARGEST = 10**MAX_DIGITS
_MOST_PARENTHESES = 10


def evaluate(source: str) -> Number | None:
    """Return the value of an arithmetic expression; None if the text is anything else or has no finite value."""
    source = source.strip()
    if _SUM.fullmatch(source) is None or _NOT_A_SUM.fullmatch(source) is not None:
        return None
    if source.count("(") > _MOST_PARENTHESES:
        return None
    try:
        return _Sum(source).total()
    except (ValueError, ArithmeticError):
        return None


class _Sum:
    """Precedence climbing over the tokens of a sum."""

    def __init__(self, source: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(source):
            token = _TOKEN.match(source, position)
            if token is None:
                raise ValueError("no number or operator")
            self._tokens.append(token[1] or token[2])
            position = token.end()
        self._tokens.append("")
        self._next = 0

    def total(self) -> Number:
        value = self._terms()
        if self._tokens[self._next] != "":
            raise ValueError("text after the sum")
        return value

    def _take(self, *wanted: str) -> str | None:
        token = self._tokens[self._next]
        if token not in wanted:
            return None
        self._next += 1
        return token

    def _terms(self, level: int = 0) -> Number:
        """Everything that binds at least as strongly as the operators of this level."""
        if level == len(_OPERATORS):
            return self._signed()
        value = self._terms(level + 1)
        while (sign := self._take(*_OPERATORS[level])) is not None:
            value = _bounded(_OPERATORS[level][sign](value, self._terms(level + 1)))
        return value

    def _signed(self) -> Number:
        negative = False
        while (sign := self._take("-", "+")) is not None:
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Number:
        base = self._atom()
        if self._take("**") is None:
            return base
        exponent = self._signed()
        if abs(exponent) > 1000 or abs(base) > 10**9:
            raise ValueError("power too large")
        result = base**exponent
        if isinstance(result, complex):
            raise ValueError("no real number")
        return _bounded(result)

    def _atom(self) -> Number:
        if self._take("(") is not None:
            value = self._terms()
            if self._take(")") is None:
                raise ValueError("no closing parenthesis")
            return value
        token = self._tokens[self._next]
        self._next += 1
        if token.replace("_", "").isdigit():
            if len(token) > 1 and token[0] == "0":
                raise ValueError("a leading zero says that this is no number")
            return int(token)
        return read_float(token.replace("_", ""))


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if value - value != 0:
            raise ValueError("no finite number")
    elif abs(value) >= _LARGEST:
        raise ValueError("number too large")
    return value


# --------------------------------------------------------------------------------------------------------------------
# The quote that ends a string: the first one that is followed by text that fits the place of the string.
#
# After a member of an object comes a comma and another key, or a closing brace. A quote before anything else is content
# that the model did not escape. Every look-ahead is bounded, so the search is linear.

Place = Literal["key", "member", "item", "argument", "alone", "whole"]
"""The place of a string. `alone` is a value with any text after it, `whole` one that should extend to the end."""

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
    """Return the pattern of what must follow a closing quote."""
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
    """Matches a string without escapes, control characters or ambiguity, as most strings are."""
    closing = CLOSING_QUOTES[quote]
    ahead = _fitting(place, quote, outermost, names)
    return re.compile(rf"[{quote}]([^{closing}\\\x00-\x1f]*+)[{closing}](?!{quote})(?={ahead})")


@cache
def string_body(closing: str) -> re.Pattern[str]:
    """From any place in a string up to the next quote that is not escaped."""
    return re.compile(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*+", re.DOTALL)


# ---- missing quotes --------------------------------------------------------------------------------------------------

_ARGUMENT_BEGINS = re.compile(r"[,(]\s*+[^\W\d]\w*+\s*+=\s*+\Z")
_WITHOUT_QUOTE = re.compile(r"[^()\"']*?(?=\)|,\s*+[^\W\d]\w*+\s*+=)")
_KEY_BEGINS = re.compile(_ANY_KEY)


def forgotten_end(text: str, start: int, quote_at: int, place: Place, fitting: re.Pattern[str]) -> int | None:
    """Return the end of a string without a closing quote, if the next quote opens another string; otherwise None.

    `a='Paris, b='Rome')` and `['Paris, 'Rome']`. In an object, the quote may also be content: the result is -1.
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


# --------------------------------------------------------------------------------------------------------------------
# Strings as models write them: any quotes, raw newlines, escapes that do not exist, quotes that were not escaped.
#
# The section above decides which quote ends a string; this one reads its content.

_QUOTE_RULES = {"'": "single_quotes", "`": "backtick_quotes"}
_RAW_CONTROL = re.compile(r"[\x00-\x1f]")

_lenient = json.JSONDecoder(strict=False)
_lenient_scan: Callable[[str, int], tuple[Any, int]] = _lenient.scan_once  # type: ignore[attr-defined]


class Unreadable(ValueError):
    """No value can be read at `position`; `why` is the reason, and `cut` says that the text ended too early."""

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
    """Read the string whose opening quote is at `position`; add repairs to `rules`; return the string and its end.

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
    """Return the end of the content, whether quotes were skipped as content, and where the text continues.

    The first and the last are equal if a quote is missing; both are -1 if the end is ambiguous.
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
    """Whether the text contains an unescaped newline, tab or other control character."""
    return _RAW_CONTROL.search(text, start, end) is not None


def _read_json(text: str, position: int, end: int, rules: dict[str, None]) -> str | None:
    """Read a double-quoted string with the fast scanner of the standard library, if its escapes are valid."""
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


# --------------------------------------------------------------------------------------------------------------------
# Python expressions in place of a value: their end, and their value.

# The commas of a lambda belong to it. A backslash takes the next character along, so that a quote that never closes
# is looked at once only.
_LAMBDA = re.compile(r"\s*+lambda\b[^:()\[\]{}\n]{0,200}+:")
_PIECE = re.compile(
    r"(?:[^,()\[\]{}\"'\n\\]++|\\.)++"
    r"|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\""
    r"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'"
    r"|.",
    re.DOTALL,
)
NOT_FINITE = frozenset(("nan", "inf", "infinity"))


def expression_end(text: str, start: int) -> int:
    """Return the end of the expression at `start`: before a comma, closing bracket or newline that is not inside it."""
    header = _LAMBDA.match(text, start)
    position = header.end() if header is not None else start
    depth = 0
    while (piece := _PIECE.match(text, position)) is not None:
        char = text[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return position
            depth -= 1
        elif char in ",\n" and depth == 0:
            return position
        position = piece.end()
    if depth:
        raise Unreadable("expression without end", start, cut=True)
    return position


_control_token = re.compile(r"<\|[^|<>\n]{0,40}\|?>").search
_escaped_words = re.compile(r"(?:\w|\\_|[.\-])+").fullmatch


def read_expression(text: str, start: int, rules: dict[str, None]) -> tuple[Any, int]:
    """Read an expression: arithmetic gives a number, anything else its own source as text."""
    end = expression_end(text, start)
    source = text[start:end].strip()
    if not source:
        raise Unreadable("expected a value", start, cut=end >= len(text))
    if source.lstrip("+-").lower() in NOT_FINITE:
        raise Unreadable("not a finite number", start)
    if source in ("...", "…"):
        raise Unreadable("a placeholder, not a value", start)
    if source.startswith("<|") or ("<|" in source and _control_token(source) is not None):
        raise Unreadable("a control token, not a value", start)
    number = evaluate(source)
    if number is not None:
        rules["evaluated_arithmetic"] = None
        return number, end
    if has_surrogate(source):
        raise Unreadable("lone surrogate", start)
    rules["expression_as_text"] = None
    if "\\_" in source and _escaped_words(source) is not None:
        # Markdown escapes underscores, and a name with them is no expression of another kind.
        rules["bad_escape"] = None
        source = source.replace("\\_", "_")
    return source, end


# --------------------------------------------------------------------------------------------------------------------
# The state of a tolerant reader, and the values without parts: strings, numbers, words; and the text between values.

_blanks = re.compile(r"\s*+").match
_comments = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?s:.*?)\*/)*+").match
_plain_number = re.compile(
    r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?=[ \t\r\n]*+[,\])}]|\Z)"
).match
_odd_number = re.compile(
    r"[+-]?(?:(?P<base>0[xX][0-9a-fA-F_]++|0[oO][0-7_]++|0[bB][01_]++)"
    r"|(?=\.?[0-9])[0-9]*+(?:_[0-9]++)*+(?P<fraction>(?:\.[0-9_]*+)?(?:[eE][+-]?[0-9]++)?))(?!\w)"
).match
_word = re.compile(r"[^\W\d]\w*+").match
_prefix = re.compile(r"[rbfuRBFU]{1,2}(?=[\"'])").match
_quote_token = re.compile(r'<\|"\|?>|<escape>').match
"""Matches the token that Gemma writes for a quote, also without its second bar."""
_embeds = re.compile(r"\"\s*+[\[{][\[{\s]*+\"").match
_string_continues = re.compile(r"\s*+(?:\+\s*+)?(?=[rbfuRBFU]{0,2}[\"'])").match
# What may follow a value if it is not the beginning of an expression. `7 // 2` is a sum, `7 // seven` is commented.
value_ends = re.compile(r"[ \t]*+(?:[,)\]}\r\n#]|/\*|//(?!\s*+[\d(])|\Z)").match

_JSON_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS = {
    **_JSON_LITERALS,
    **{"True": True, "False": False, "None": None, "undefined": None, "TRUE": True, "FALSE": False, "NULL": None},
}
_ENDS = frozenset(",)]}")
_INSIDE = frozenset(("member", "item", "argument"))


class ScalarReader:
    """Reads everything but lists and objects; collects the repairs in `_rules`."""

    __slots__ = ("_ascii", "_closing", "_embeddable", "_expressions", "_open", "_python", "_rules", "max_depth", "text")

    def __init__(
        self,
        text: str,
        *,
        max_depth: int = MAX_DEPTH,
        python: bool = False,
        expressions: bool | None = None,
        closing: bool = False,
    ) -> None:
        self.text = text
        self.max_depth = max_depth
        self._python = python
        self._expressions = python if expressions is None else expressions
        self._closing = closing
        self._rules: dict[str, None] = {}
        self._open: list[str] = []
        self._ascii = text.isascii()
        self._embeddable = 0

    @property
    def rules(self) -> list[str]:
        """The names of the repairs used so far, in order, each once."""
        return list(self._rules)

    def _skip(self, position: int) -> int:
        """Skip blanks and comments."""
        text = self.text
        blanks = _blanks(text, position)
        end = blanks.end() if blanks is not None else position
        char = text[end : end + 1]
        if char != "/" and char != "#":
            return end
        comments = _comments(text, end)
        if comments is None or comments.end() == end:
            return end
        if char == "/" or not self._python:
            self._rules["comment"] = None
        return comments.end()

    # ---- strings -----------------------------------------------------------------------------------------------------

    def _string(self, position: int, place: Place, depth: int, raw: bool = False) -> tuple[str, int]:
        text = self.text
        quote = text[position]
        plain = plain_string(place, quote, depth == 1, self._expressions).match(text, position)
        if plain is None:
            value, end = self._odd_string(position, place, depth, raw)
        else:
            value = plain[1]
            end = plain.end()
            if quote == "'":
                if not self._python:
                    self._rules["single_quotes"] = None
            elif quote != '"':
                self._rules["backtick_quotes" if quote == "`" else "smart_quotes"] = None
            if not self._ascii and has_surrogate(value):
                raise Unreadable("lone surrogate", position)
        if text[end : end + 1] not in _ENDS and (place == "argument" or self._expressions):
            return self._continued(position, value, end, place, depth)
        return value, end

    def _token_string(self, position: int) -> tuple[str, int] | None:
        """Read a string between two quotes that are tokens, `<|"|>Oslo<|"|>`; None if there is none here."""
        quote = _quote_token(self.text, position)
        if quote is None:
            return None
        end = self.text.find(quote[0], quote.end())
        if end < 0:
            raise Unreadable("string without end", position, cut=True)
        self._rules["quote_tokens"] = None
        return self.text[quote.end() : end], end + len(quote[0])

    def _odd_string(self, position: int, place: Place, depth: int, raw: bool) -> tuple[str, int]:
        embedded = self._embedded_json(position, place, depth)
        if embedded is not None:
            return embedded
        return read_string(
            self.text,
            position,
            place,
            rules=self._rules,
            outermost=depth == 1,
            python=self._python,
            names=self._expressions,
            raw=raw,
            closers="".join(reversed(self._open)) if self._closing else None,
        )

    def _embedded_json(self, position: int, place: Place, depth: int) -> tuple[str, int] | None:
        """Read a string that contains JSON with unescaped quotes: `"{"a": 1}"`. None if there is none here."""
        text = self.text
        if position < self._embeddable or place not in _INSIDE or _embeds(text, position) is None:
            return None
        try:
            _, end = raw_decode(text, position + 1)
        except Undecodable as error:
            # A failed attempt is not repeated, so the work stays linear.
            self._embeddable = error.position if error.position > position + 1 else len(text)
            return None
        blanks = _blanks(text, end)
        end = blanks.end() if blanks is not None else end
        if text[end : end + 1] != '"' or fits(place, '"', depth == 1, self._expressions).match(text, end + 1) is None:
            self._embeddable = end
            return None
        self._rules["escaped_quotes"] = None
        if has_control(text, position, end):
            self._rules["raw_newline"] = None
        return text[position + 1 : end], end + 1

    def _prefixed_string(self, position: int, place: Place, depth: int) -> tuple[str, int] | None:
        """Read a string with one of Python's prefixes, `r"\\d"`; None if there is none here."""
        prefix = _prefix(self.text, position)
        if prefix is None:
            return None
        if not self._python:
            self._rules["python_literals"] = None
        return self._string(prefix.end(), place, depth, "r" in prefix[0].lower())

    def _continued(self, start: int, value: str, end: int, place: Place, depth: int) -> tuple[str, int]:
        """Join adjacent strings, as Python does inside parentheses; `"a" + "b"` is one string everywhere."""
        text = self.text
        pieces = [value]
        while place in ("argument", "item"):
            joint = _string_continues(text, end)
            if joint is None or (place == "item" and "+" not in joint[0]):
                break
            prefix = _prefix(text, joint.end())
            quote = joint.end() if prefix is None else prefix.end()
            value, end = self._odd_string(quote, place, depth, prefix is not None and "r" in prefix[0].lower())
            pieces.append(value)
        if len(pieces) > 1:
            if not self._python:
                self._rules["joined_strings"] = None
            value = "".join(pieces)
        if self._expressions and place in _INSIDE and value_ends(text, end) is None:
            expression, end = read_expression(text, start, self._rules)
            return str(expression), end
        return value, end

    # ---- numbers and words -------------------------------------------------------------------------------------------

    def _word_or_number(self, position: int) -> tuple[Any, int]:
        text = self.text
        plain = _plain_number(text, position)
        try:
            if plain is not None:
                return (read_float(plain[0]) if plain[2] else read_integer(plain[1])), plain.end()
            word = _word(text, position)
            if word is not None:
                if word[0] in _LITERALS and (not self._expressions or value_ends(text, word.end()) is not None):
                    return self._literal(word[0]), word.end()
            else:
                odd = _odd_number(text, position)
                if odd is not None and (not self._expressions or value_ends(text, odd.end()) is not None):
                    return self._read_odd_number(odd), odd.end()
        except ValueError as error:
            raise Unreadable(str(error), position) from None
        if self._expressions:
            return read_expression(text, position, self._rules)
        if word is not None and word[0].lower() in NOT_FINITE:
            raise Unreadable("not a finite number", position)
        raise Unreadable("expected a value", position, cut=position >= len(text))

    def _literal(self, name: str) -> bool | None:
        if not self._python and name not in _JSON_LITERALS:
            self._rules["python_literals"] = None
        return _LITERALS[name]

    def _read_odd_number(self, found: re.Match[str]) -> int | float | str:
        digits = found[0].replace("_", "")
        unsigned = digits.lstrip("+-")
        if len(unsigned) > 1 and unsigned[0] == "0" and unsigned.isdigit():
            # A postal code or an identifier: as a number it would lose its zeros.
            self._rules["expression_as_text"] = None
            return found[0]
        if not self._python and _plain_number(found[0]) is None:
            self._rules["number_spelling"] = None
        if found["base"] is not None:
            value = int(digits, 0)
            if abs(value) >= _LARGEST:
                raise ValueError(f"integer of more than {MAX_DIGITS} digits")
            return value
        return read_float(digits) if found["fraction"] else read_integer(digits)
