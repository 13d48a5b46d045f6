"""Python expressions where a value was wanted: where they end, and what they are worth."""

from __future__ import annotations

import re
from typing import Any

from dragoman.args.arithmetic import evaluate
from dragoman.args.decode import has_surrogate
from dragoman.args.tolerant_strings import Unreadable

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
    """Where the expression at `start` ends: before a comma, a closing bracket or a newline that is not inside it."""
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


def read_expression(text: str, start: int, rules: dict[str, None]) -> tuple[Any, int]:
    """Read an expression: a small sum gives its number, anything else its own source as text."""
    end = expression_end(text, start)
    source = text[start:end].strip()
    if not source:
        raise Unreadable("expected a value", start, cut=end >= len(text))
    if source.lstrip("+-").lower() in NOT_FINITE:
        raise Unreadable("not a finite number", start)
    if source in ("...", "…"):
        raise Unreadable("a placeholder, not a value", start)
    number = evaluate(source)
    if number is not None:
        rules["evaluated_arithmetic"] = None
        return number, end
    if has_surrogate(source):
        raise Unreadable("lone surrogate", start)
    rules["expression_as_text"] = None
    return source, end
