"""Values out of formats that write every argument as plain text: the schema says what the text stands for."""

from __future__ import annotations

from typing import Any

from dragoman.args.casting import MISSING, Caster, Coerced, read_scalar, read_structure
from dragoman.args.decode import Undecodable, decode
from dragoman.args.fitting import fits
from dragoman.args.schemas import KIND_OF_TYPE, Shape, reading_kinds, shape_of
from dragoman.types import Change, JsonObject

_STRING_ONLY = frozenset({str})
_PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}


def read_text(text: str, schema: JsonObject | None, *, root: JsonObject | None = None, path: str = "$") -> Coerced:
    """The value that a text stands for by its schema; the text itself, for validation to fault, when it is none.

    Text is kept to the letter where a string is wanted. Reading "5" as 5 where an integer is wanted is how such a
    format works and no change; what goes beyond (python spellings in a structure, an enum by case) is reported.
    """
    if schema is None:
        return Coerced(read_untyped(text))
    try:
        return _read_by(shape_of(schema, root), text, path)
    except RecursionError:  # Depth is bounded here; only a caller near the end of its own stack gets this far.
        return Coerced(text)


def _read_by(shape: Shape, text: str, path: str) -> Coerced:
    if shape.leaf == _STRING_ONLY:
        return Coerced(text)
    kinds = reading_kinds(shape)
    if not kinds:
        return Coerced(read_untyped(text))
    if "string" in kinds:
        return _read_string_or_other(text, shape, kinds, path)
    found, changes = _read_typed(text, shape, kinds, path)
    if found is not MISSING:
        return Coerced(found, changes)
    return _settle_for_text(text, shape, path)


def read_untyped(text: str) -> Any:
    """The value of an argument that no schema describes: JSON and python's constants are read, quoted text stays text.

    Most servers do so, and most models mean it so. Whoever needs `007` as text declares a string.
    """
    if text in _PYTHON_CONSTANTS:
        return _PYTHON_CONSTANTS[text]
    if text.lstrip()[:1] == '"':
        return text
    try:
        return decode(text)
    except Undecodable:
        return text


def _read_string_or_other(text: str, shape: Shape, kinds: tuple[str, ...], path: str) -> Coerced:
    """A union with strings: `null` means null, a structure that fits is one, and among scalars the first named wins."""
    if text in shape.texts:
        return Coerced(text)
    if "null" in kinds and text.strip() == "null" and fits(shape, None):
        return Coerced(None)
    text_fits = fits(shape, text)
    if "object" in kinds or "array" in kinds:
        found, repairs = read_structure(text)
        if found is not MISSING and not repairs and fits(shape, found):
            return Coerced(found)
    scalars = tuple(kind for kind in kinds if kind in ("integer", "number", "boolean"))
    if scalars and not (text_fits and kinds.index("string") < kinds.index(scalars[0])):
        found, _ = read_scalar(text, scalars)
        if found is not MISSING and fits(shape, found):
            return Coerced(found)
    return Coerced(text) if text_fits else _settle_for_text(text, shape, path)


def _read_typed(text: str, shape: Shape, kinds: tuple[str, ...], path: str) -> tuple[Any, tuple[Change, ...]]:
    """The text as one of the kinds, made to fit inside; MISSING when it spells none of them."""
    found, _ = read_scalar(text, kinds)
    repairs: tuple[str, ...] = ()
    if found is MISSING and ("object" in kinds or "array" in kinds):
        found, repairs = read_structure(text)
        if KIND_OF_TYPE.get(type(found)) not in kinds:
            return MISSING, ()
    if found is MISSING or (not repairs and fits(shape, found)):
        return found, ()
    caster = Caster()
    for rule in repairs:
        caster.note(path, rule, text, found)
    return caster.cast(shape, found, path), tuple(caster.changes)


def _settle_for_text(text: str, shape: Shape, path: str) -> Coerced:
    caster = Caster()
    value = caster.cast(shape, text, path)
    return Coerced(value, tuple(caster.changes))
