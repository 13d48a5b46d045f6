"""Read arguments that are almost JSON, and say by name what was wrong with them.

Text that is JSON is never touched. The rest is read by `Tolerant`, once the wrapping is off: a markdown fence, words
around the one object, a layer of escapes. A repair that would invent something is not made: the result is an error.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from dragoman.args.decode import Undecodable, decode
from dragoman.args.tolerant import Tolerant
from dragoman.args.tolerant_strings import Unreadable

_FENCE = re.compile(r"(?P<fence>```+|~~~+)[ \t]*(?P<label>[\w+.-]*)[ \t]*")
_ESCAPED_START = re.compile(r"[\[{]\s*+(?:[\[{]\s*+)*+\\+\"")
_CLOSERS = re.compile(r"[\s}\])]++")
_ENDINGS = re.compile(r"[\s,;]++")
_VALUE_STARTS = frozenset("{[\"'`“‘(")


class Repaired(Struct, frozen=True):
    """The value and the names of the repairs, in order; or no value, and the reason."""

    value: Any
    rules: tuple[str, ...] = ()
    error: str | None = None


def repair(text: str, *, complete: bool = True) -> Repaired:
    """Read one value from text that may not quite be JSON. Never raises; `error` says why there is no value.

    `complete` says that the end of the call was seen. Only then are brackets and a quote that are missing at the end
    added: otherwise the text may have been cut, and what is missing is unknown.
    """
    try:
        return Repaired(decode(text))
    except Undecodable:
        pass
    rules: dict[str, None] = {}
    try:
        value = _read(text, complete, rules)
    except Unreadable as error:
        return Repaired(None, error=str(error))
    # Nothing else was wrong, so it was the white space: blanks that JSON does not know.
    return Repaired(value, tuple(rules) or ("unusual_blanks",))


def _read(text: str, complete: bool, rules: dict[str, None]) -> Any:
    start, end = _unfence(text, rules)
    if _ESCAPED_START.match(text, start, end) is not None:
        body = _unescape(text[start:end])
        if body is not None:
            rules["double_encoded"] = None
            return _read_body(body, 0, complete, rules)
    return _read_body(text[:end], start, complete, rules)


def _read_body(text: str, start: int, complete: bool, rules: dict[str, None]) -> Any:
    """Read the value in text[start:], with or without words around it."""
    if rules:
        try:
            return decode(text[start:])
        except Undecodable:
            pass
    start = _find_value(text, start, rules)
    reader, value, end = _read_value(text, start, complete)
    for rule in reader.rules:
        rules[rule] = None
    _judge_rest(text, end, value, rules)
    return value


def _read_value(text: str, start: int, complete: bool) -> tuple[Tolerant, Any, int]:
    reader = Tolerant(text, closing=complete)
    try:
        value, end = reader.value(start, whole=True)
    except Unreadable as error:
        if error.cut or not text.startswith(("{", "["), start):
            raise
        reader = Tolerant(text, closing=complete, expressions=True)
        value, end = reader.value(start, whole=True)
    return reader, value, end


def _unfence(text: str, rules: dict[str, None]) -> tuple[int, int]:
    """The part of the text inside a markdown fence, or all of it but the blanks at both ends."""
    start, end = _trim(text, 0, len(text))
    opening = _FENCE.match(text, start, end)
    if opening is None:
        return start, end
    fence = opening["fence"]
    rules["markdown_fence"] = None
    inside = opening.end()
    closing = text.rfind(fence, inside, end)
    if closing >= 0 and not text[closing:end].strip(fence[0]):
        end = closing
    return _trim(text, inside, end)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    stripped = inner.lstrip("\ufeff \t\r\n\f\v\u00a0")
    start += len(inner) - len(stripped)
    return start, start + len(stripped.rstrip())


def _unescape(body: str) -> str | None:
    """Take off one layer of string escapes from text that was encoded twice and lost its outer quotes."""
    try:
        value, _ = Tolerant('"' + body + '"').value(0)
    except Unreadable:
        return None
    return value if isinstance(value, str) else None


def _find_value(text: str, start: int, rules: dict[str, None]) -> int:
    """Where the value begins: here, or at the first brace if words or a fence come before it."""
    if text[start : start + 1] in _VALUE_STARTS:
        return start
    brace = text.find("{", start)
    if brace < 0 or text.startswith(("/", "#"), start):
        return start
    rules["surrounding_text"] = None
    fence = text.rfind("```", start, brace)
    if fence >= 0 and not text[fence:brace].strip("`").strip().strip("abcdefghijklmnopqrstuvwxyz_-"):
        rules["markdown_fence"] = None
    return brace


def _judge_rest(text: str, end: int, value: Any, rules: dict[str, None]) -> None:
    """Accept what comes after the value only if it can be no second value."""
    rest = text[end:]
    if not rest.strip():
        return
    if _ENDINGS.fullmatch(rest):
        rules["trailing_comma" if "," in rest else "surrounding_text"] = None
        return
    if _CLOSERS.fullmatch(rest) and isinstance(value, dict | list):
        rules["extra_closers"] = None
        return
    # A quote and a bracket right after the value: a string was closed too early.
    if not isinstance(value, dict) or "{" in rest or (rest[0] in "\"'" and "}" in rest):
        raise Unreadable("text after the value", end)
    rules["surrounding_text"] = None
