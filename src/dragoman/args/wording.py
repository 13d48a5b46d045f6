"""Faults in plain words, short enough for a model to read and to act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.errors import nearest

_LONGEST_VALUE = 60
_LONGEST_MESSAGE = 200
_SHOWN_CHOICES = 20
_SHOWN_NAMES = 100


def show(value: Any) -> str:
    """A value as a message shows it: scalars short and quoted, structures by their kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return repr(value[: _LONGEST_VALUE - 3] + "...")
    return repr(value)


def join_words(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def describe(error: Any, schema: dict[str, Any]) -> list[str]:
    """The words for one error of the validator; several where it speaks of several things at once."""
    kind = error.kind
    if kind.name == "additionalProperties":
        known = [name for name in schema.get("properties", {}) if name not in error.instance]
        return [_describe_unexpected(name, known) for name in kind.unexpected[:_SHOWN_NAMES]]
    words = _WORDS.get(kind.name)
    return [words(kind.value, error.instance) if words is not None else _shorten(error.message)]


def _describe_unexpected(name: str, known: list[str]) -> str:
    guess = nearest(name, known) if len(name) <= _LONGEST_VALUE else None
    return f"unexpected {show(name)}" + (f", did you mean {guess!r}?" if guess else "")


def _describe_choices(choices: Sequence[Any], _: Any) -> str:
    shown = ", ".join(map(show, choices[:_SHOWN_CHOICES]))
    return f"not one of {shown}" + (", ..." if len(choices) > _SHOWN_CHOICES else "")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


_WORDS: dict[str, Callable[[Any, Any], str]] = {
    "type": lambda kinds, value: f"expected {join_words(kinds)}, got {show(value)}",
    "required": lambda name, _: f"missing required {show(name)}",
    "enum": _describe_choices,
    "const": lambda constant, _: f"must be {show(constant)}",
    "falseSchema": lambda *_: "nothing is allowed here",
    "minimum": lambda limit, value: f"must be at least {limit}, got {show(value)}",
    "maximum": lambda limit, value: f"must be at most {limit}, got {show(value)}",
    "exclusiveMinimum": lambda limit, value: f"must be more than {limit}, got {show(value)}",
    "exclusiveMaximum": lambda limit, value: f"must be less than {limit}, got {show(value)}",
    "multipleOf": lambda unit, value: f"must be a multiple of {unit:g}, got {show(value)}",
    "minLength": lambda limit, _: f"must have at least {limit} characters",
    "maxLength": lambda limit, _: f"must have at most {limit} characters",
    "minItems": lambda limit, _: f"must have at least {limit} items",
    "maxItems": lambda limit, _: f"must have at most {limit} items",
    "minProperties": lambda limit, _: f"must have at least {limit} members",
    "maxProperties": lambda limit, _: f"must have at most {limit} members",
    "uniqueItems": lambda *_: "has the same item more than once",
    "pattern": lambda pattern, _: _shorten(f"does not match the pattern {pattern}"),
}
