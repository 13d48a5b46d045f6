"""What `Annotated` says beside the type: a description, and limits.

Limits are known by their attributes (`ge`, `max_length`, `pattern`, ...), so annotated_types, pydantic's `Field` and
msgspec's `Meta` all count, and none of them is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dragoman.args.loader import show
from dragoman.tools.forms import MISSING, Form, Reader, Reading
from dragoman.tools.plain import exactly
from dragoman.types import JsonObject

Check = tuple[Callable[[Any], bool], str]
"""Whether a Python value may pass, and the words for one that may not."""

_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "ge": ("minimum", lambda value, bound: value >= bound, "must be at least"),
    "gt": ("exclusiveMinimum", lambda value, bound: value > bound, "must be more than"),
    "le": ("maximum", lambda value, bound: value <= bound, "must be at most"),
    "lt": ("exclusiveMaximum", lambda value, bound: value < bound, "must be less than"),
    "multiple_of": ("multipleOf", lambda value, bound: value % bound == 0, "must be a multiple of"),
}
_LENGTHS = {"min_length": "at least", "max_length": "at most"}
_LENGTH_WORDS = {"string": "Length", "array": "Items", "object": "Properties"}


def is_validator(note: Any) -> bool:
    """Whether a note is code that only pydantic runs; leaving it out would let values pass that it refuses."""
    return hasattr(note, "__get_pydantic_core_schema__") and not any(
        hasattr(note, name) for name in (*_BOUNDS, *_LENGTHS, "pattern", "description")
    )


def annotate(form: Form, notes: Iterable[Any]) -> Form:
    """The form with everything that the notes add to it."""
    schema: JsonObject = dict(form.schema)
    checks: list[Check] = []
    for note in _flatten(notes):
        _describe(schema, note)
        _bound(schema, checks, note)
        _limit_length(schema, checks, note)
        pattern = getattr(note, "pattern", None)
        if isinstance(note, re.Pattern) or pattern is not None:
            source = note if isinstance(note, re.Pattern) else pattern
            schema["pattern"] = source.pattern if isinstance(source, re.Pattern) else str(source)
        if type(note).__name__ == "Predicate" and callable(getattr(note, "func", None)):
            checks.append((note.func, f"does not pass {getattr(note.func, '__name__', 'its check')}"))
    return Form(schema, _checked(form.read, checks) if checks else form.read)


def _flatten(notes: Iterable[Any]) -> Iterator[Any]:
    """Pydantic's `Field` keeps its limits in a list of their own."""
    for note in notes:
        yield note
        inner = getattr(note, "metadata", None)
        if isinstance(inner, list | tuple):
            yield from _flatten(inner)


def _describe(schema: JsonObject, note: Any) -> None:
    if isinstance(note, str):
        schema["description"] = note
        return
    for name in ("description", "documentation"):
        words = getattr(note, name, None)
        if isinstance(words, str) and words:
            schema["description"] = words
    examples = getattr(note, "examples", None)
    if isinstance(examples, list | tuple) and examples:
        written = exactly(list(examples), MISSING)
        if written is not MISSING:
            schema["examples"] = written
    for name in ("extra_json_schema", "json_schema_extra"):
        extra = getattr(note, name, None)
        if isinstance(extra, dict):
            schema.update(extra)


def _bound(schema: JsonObject, checks: list[Check], note: Any) -> None:
    for name, (keyword, holds, words) in _BOUNDS.items():
        bound = getattr(note, name, None)
        if bound is None or isinstance(note, type | str):
            continue
        if isinstance(bound, int | float) and schema.get("type") != "string":
            schema[keyword] = bound
        else:
            # A date or a decimal number is text in JSON, where no schema can compare it.
            checks.append((lambda value, holds=holds, bound=bound: holds(value, bound), f"{words} {bound}"))  # type: ignore[misc]


def _limit_length(schema: JsonObject, checks: list[Check], note: Any) -> None:
    for name, words in _LENGTHS.items():
        limit = getattr(note, name, None)
        if not isinstance(limit, int) or isinstance(limit, bool):
            continue
        kind = _kind_of(schema)
        if kind in _LENGTH_WORDS and "format" not in schema:
            schema[name[:3] + _LENGTH_WORDS[kind]] = limit
        elif name == "min_length":
            checks.append((lambda value, limit=limit: len(value) >= limit, f"must have {words} {limit} items"))  # type: ignore[misc]
        else:
            checks.append((lambda value, limit=limit: len(value) <= limit, f"must have {words} {limit} items"))  # type: ignore[misc]


def _kind_of(schema: JsonObject) -> str:
    """The kind of value that a length speaks of: in `list[int] | None` the list."""
    for branch in (schema, *schema.get("anyOf", ())):
        kind = branch.get("type")
        if isinstance(kind, str) and kind != "null":
            return kind
    return ""


def _checked(read: Reader, checks: list[Check]) -> Reader:
    def read_checked(value: Any, path: str, reading: Reading) -> Any:
        before = len(reading.faults)
        found = read(value, path, reading)
        if len(reading.faults) > before:
            return found
        for passes, words in checks:
            try:
                good = passes(found)
            except Exception:  # A bound of another kind, or a predicate that fails: not passed.
                good = False
            if not good:
                reading.fault(path, f"{words}, got {show(value)}")
        return found

    return read_checked
