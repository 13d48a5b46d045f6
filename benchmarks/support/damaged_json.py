"""JSON objects with one fault each, as models write them, and what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Value = dict[str, Any]
VALUES: tuple[Value, ...] = (
    {"city": "Paris", "days": 3},
    {"city": "Aix-en-Provence", "days": 2, "exact": True, "tags": ["warm", "dry"]},
    {"city": "Lund", "note": "two cafés, one open: 9-17", "exact": False},
    {"city": "Oslo", "note": "price < 5, weight > 2; see https://example.org/a?b=1#c", "tags": []},
    {"city": "Bergen", "note": "it's raining, isn't it?", "days": 1},
    {"city": "Nîmes", "note": "if (a[0] == {}) { return; }", "tags": ["x, y", "z: 1"]},
    {"city": "大阪", "days": 14, "note": "焼きそば 🍜"},
    {"city": "Graz", "note": "first line\nsecond line\n\tindented", "days": 5},
)


class Damaged(NamedTuple):
    """A text and the value that the writer meant; None: it cannot be known."""

    fault: str
    text: str
    value: Value | None


def make_rows() -> list[Damaged]:
    return list(_make_rows())


def _make_rows() -> Iterator[Damaged]:
    for value in VALUES:
        text = json.dumps(value, ensure_ascii=False)
        yield Damaged("none", text, value)
        for fault, damage in FAULTS.items():
            if (damaged := damage(text, value)) not in (None, text):
                yield Damaged(fault, str(damaged), value)
        for fault, cut in CUTS.items():
            if (rest := cut(text)) is not None:
                yield Damaged(fault, rest, None)


def _python(text: str, value: Value) -> str:
    return repr(value)


def _single_quotes(text: str, value: Value) -> str | None:
    return None if "'" in text else text.replace('"', "'")


def _missing_comma(text: str, value: Value) -> str:
    return re.sub(r', ("\w+": )', r" \1", text, count=1)


def _raw_newlines(text: str, value: Value) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


FAULTS: dict[str, Callable[[str, Value], str | None]] = {
    "trailing comma": lambda text, value: text[:-1] + ",}",
    "single quotes": _single_quotes,
    "a Python dict": _python,
    "keys without quotes": lambda text, value: re.sub(r'"(\w+)": ', r"\1: ", text),
    "missing comma": _missing_comma,
    "missing last bracket": lambda text, value: text[:-1],
    "one bracket too many": lambda text, value: text + "}",
    "a comment": lambda text, value: text[:-1] + " // as asked\n}",
    "typographic quotes": lambda text, value: re.sub(r'"([^"\\]*)"', "“\\1”", text),
    "raw line breaks in a string": _raw_newlines,
    "a code block": lambda text, value: f"```json\n{text}\n```",
    "JSON inside JSON": lambda text, value: json.dumps(text, ensure_ascii=False),
    "equals signs": lambda text, value: re.sub(r'"(\w+)": ', r'"\1" = ', text),
    "Python constants": lambda text, value: re.sub(r": (true|false)", lambda m: ": " + m[1].title(), text),
}
CUTS: dict[str, Callable[[str], str | None]] = {
    "cut inside a string": lambda text: text[: text.index('"', 10) - 2],
    "cut behind a colon": lambda text: text[: text.rindex('": ') + 2],
    "cut inside a key": lambda text: text[: text.rindex('": ') - 1],
}
