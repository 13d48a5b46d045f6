"""Sums that a model wrote where a number was wanted: `2*3`, `1/2`, `(5 + 1) ** 2`."""

from __future__ import annotations

import re

from dragoman.args.decode import MAX_DIGITS

Number = int | float

_SUM = re.compile(r"[\d.+\-*/%()\s_eE]{1,80}", re.ASCII)
_TOKEN = re.compile(r"\s*(?:((?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?)|(\*\*|//|[-+*/%()]))", re.ASCII)
# Dates, months and telephone numbers are no sums: 2024-12-25, 1/2/2024, 2024-12, 555-123-4567.
_NOT_A_SUM = re.compile(r"\d+(?:([-/.])\d+)(?:\1\d+)+|(?:19|20)\d\d-(?:0[1-9]|1[0-2])", re.ASCII)
_LARGEST = 10**MAX_DIGITS
_MOST_PARENTHESES = 10


def evaluate(source: str) -> Number | None:
    """The value of a small sum, or None if the text is anything else or has no finite value."""
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

    def _terms(self) -> Number:
        value = self._factors()
        while (operator := self._take("+", "-")) is not None:
            other = self._factors()
            value = _bounded(value + other if operator == "+" else value - other)
        return value

    def _factors(self) -> Number:
        value = self._signed()
        while (operator := self._take("*", "/", "//", "%")) is not None:
            value = _bounded(_apply(operator, value, self._signed()))
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
        return _bounded(float(token))


def _apply(operator: str, left: Number, right: Number) -> Number:
    if operator == "*":
        return left * right
    if operator == "/":
        return left / right
    return left // right if operator == "//" else left % right


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if value - value != 0:
            raise ValueError("no finite number")
    elif abs(value) >= _LARGEST:
        raise ValueError("number too large")
    return value
