"""Coercion: changes a value so that it satisfies its schema, without loss of information."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import Undecodable, decode, is_rounded
from dragoman.args.tolerant import repair
from dragoman.jsonschema.fit import (
    MAX_DEPTH,
    MOST_EXACT,
    Memo,
    Shape,
    Steps,
    fits,
    fits_plainly,
    is_choice,
    reading_kinds,
    shape_of,
    vocabulary,
)
from dragoman.jsonschema.keywords import KIND_OF_TYPE, child_path
from dragoman.toolset import fold
from dragoman.types import Change, JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Coercion changes a value only if the schema rejects it, and only without loss.
#
# A fraction for an integer, a nested list for a flat one or an enum member inside a sentence stay unchanged: validation
# reports them as faults. Coercion does not guess.

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,399}))\.0+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_WORDS: dict[str, dict[str, Any]] = {"null": {"null": None, "none": None}, "boolean": {"true": True, "false": False}}
_LONGEST_WORD = 2000
"""Longer text is never a number, boolean or null; it is not parsed."""

_READ_PER_STEP = 16
"""How many characters are read in the time of one step."""

_EXACT_TEXT_BITS = 13_000  # Python refuses to convert larger integers to text.

MISSING: Any = object()
"""No conversion was found. (None is a value.)"""


class Coerced(Struct, frozen=True):
    """A value coerced as far as possible without loss, and all changes."""

    value: Any
    changes: tuple[Change, ...] = ()


class Coercer:
    """One run of coercion: the changes so far, and cached results for places that are reached several times."""

    __slots__ = ("_known", "_steps", "_structures", "_wrapped", "changes", "drop_extra")

    def __init__(self, *, drop_extra: bool = False) -> None:
        self.changes: list[Change] = []
        self.drop_extra = drop_extra
        self._known: dict[tuple[str, int, int], tuple[Any, Any, list[Change]]] = {}
        self._steps = Steps()
        self._structures: dict[str, tuple[Any, tuple[str, ...]]] = {}
        self._wrapped: set[str] = set()

    def _fits(self, shape: Shape, value: Any) -> bool:
        return fits(shape, value, 0, Memo(self._steps))

    def note(self, path: str, rule: str, before: Any, after: Any) -> Any:
        self.changes.append(Change(path, rule, before, after))
        return after

    def cast(self, shape: Shape, value: Any, path: str, depth: int = 0, names: frozenset[str] | None = None) -> Any:
        """Return the value, changed where the shape rejects it. `names` are the keys of the enclosing schemas."""
        self._steps.left -= 2
        if (
            depth > MAX_DEPTH
            or self._steps.left <= 0
            or (self._fits(shape, value) and not (self.drop_extra and depth == 0))
        ):
            return value
        if not shape.unions and not shape.parts:
            return self._cast_own(shape, value, path, depth, names)
        key = (path, id(shape), id(value))
        known = self._known.get(key)
        if known is None:
            mark = len(self.changes)
            self._known[key] = (value, value, [])
            result = self._cast_combined(shape, value, path, depth, names)
            known = self._known[key] = (value, result, self.changes[mark:])
        else:
            self.changes.extend(known[2])
        return known[1]

    def _cast_combined(self, shape: Shape, value: Any, path: str, depth: int, names: frozenset[str] | None) -> Any:
        names = vocabulary(shape) if names is None else names
        value = self._cast_own(shape, value, path, depth, names)
        for part in shape.parts:
            value = self.cast(part, value, path, depth + 1, names)
        for union in shape.unions:
            value = self._cast_union(union, value, path, depth + 1, names)
        return value

    def _cast_union(
        self, union: tuple[Shape, ...], value: Any, path: str, depth: int, names: frozenset[str] | None
    ) -> Any:
        """Return the result that fits a branch with the fewest changes; if two are equal, the earlier branch."""
        mark = len(self.changes)
        best: Any = MISSING
        best_changes: list[Change] = []
        for branch in union:
            if self._fits(branch, value):
                return value
        for branch in union:
            result = self.cast(branch, value, path, depth, names)
            changes = self.changes[mark:]
            del self.changes[mark:]
            if self._fits(branch, result) and (best is MISSING or _weight(changes) < _weight(best_changes)):
                best, best_changes = result, changes
        if best is not MISSING:
            self.changes.extend(best_changes)
            return best
        # No branch fits. If only one branch is possible, the value is coerced to it as far as possible.
        meant = _meant_branch(union, value)
        return value if meant is None else self.cast(meant, value, path, depth, names)

    def _cast_own(self, shape: Shape, value: Any, path: str, depth: int, names: frozenset[str] | None) -> Any:
        """Coerce the value to the keywords of the shape itself, without its parts and unions."""
        if shape.types is not None and type(value) not in shape.types:
            value = self._convert(shape, value, path, depth)
            if type(value) not in shape.types:
                return value
        if shape.choices is not None:
            return self._choose(shape, value, path)
        if type(value) is dict:
            return self._cast_object(shape, value, path, depth, names)
        if type(value) is list and (shape.items is not None or shape.prefix):
            return self._cast_array(shape, value, path, depth)
        return value

    def _convert(self, shape: Shape, value: Any, path: str, depth: int) -> Any:
        """Convert a value to another type, if one of the wanted types can hold exactly the same value."""
        kind = type(value)
        if kind is str:
            found = self._convert_text(shape, value, path)
            if found is not MISSING:
                return found
            if value.lstrip()[:1] in ("[", "{"):
                return value  # Text that looks like a malformed structure: a list around it would hide the fault.
        elif kind is float and "integer" in shape.kinds and value.is_integer() and abs(value) < MOST_EXACT:
            return self.note(path, "whole_number", value, int(value))
        elif "string" in shape.kinds:
            text = scalar_text(value)
            if text is not None:
                return self.note(path, "boolean_to_string" if kind is bool else "number_to_string", value, text)
        if "array" in shape.kinds and value is not None and kind is not list:
            return self._wrap(shape, value, path, depth)
        return value

    def _convert_text(self, shape: Shape, text: str, path: str) -> Any:
        found, rule = read_scalar(text, shape.kinds)
        if found is not MISSING:
            return self.note(path, rule, text, found)
        if "object" not in shape.kinds and "array" not in shape.kinds:
            return MISSING
        found, repairs = self._read_structure(text)
        if (
            type(found) is dict
            and "object" not in shape.kinds
            and shape.items is not None
            and self._fits(shape.items, found)
        ):
            self.note(path, "double_encoded", text, found)
            return self.note(path, "wrapped_in_list", found, [found])
        if type(found) not in (shape.types or ()):
            return MISSING
        self.note(path, "double_encoded", text, found)
        for rule in repairs:
            self.note(path, rule, text, found)
        return found

    def _read_structure(self, text: str) -> tuple[Any, tuple[str, ...]]:
        """Read a text once, however many branches of a union try to."""
        known = self._structures.get(text)
        if known is None:
            self._steps.left -= len(text) // _READ_PER_STEP
            known = self._structures[text] = read_structure(text)
        return known

    def _wrap(self, shape: Shape, value: Any, path: str, depth: int) -> Any:
        """Put a single item into a list, if the list accepts such items."""
        if len(shape.prefix) > 1 or path in self._wrapped:
            return value  # A list around the only item of a list that was added here is no plain conversion.
        items = shape.prefix[0] if shape.prefix else shape.items
        mark = len(self.changes)
        item = value
        if items is not None:
            place = child_path(path, 0)
            self._wrapped.add(place)
            item = self.cast(items, value, place, depth + 1)
            self._wrapped.discard(place)
            if not self._fits(items, item):
                del self.changes[mark:]
                return value
        self.changes.insert(mark, Change(path, "wrapped_in_list", value, [value]))
        return [item]

    def _choose(self, shape: Shape, value: Any, path: str) -> Any:
        """Return the member of an enum that the value matches, if it matches exactly one."""
        if is_choice(shape, value, self._steps):
            return value
        if type(value) is str:
            wanted = value.strip().lower()
            self._steps.left -= len(shape.texts)
            found = [text for text in shape.texts if text.strip().lower() == wanted]
            if len(found) == 1:
                return self.note(path, "enum_case", value, found[0])
            number, rule = read_scalar(value, ("null", "boolean", "integer", "number"))
            if not found and number is not MISSING and is_choice(shape, number):
                return self.note(path, rule, value, number)
            return value
        text = scalar_text(value)
        if text is not None and text in shape.texts:
            return self.note(path, "boolean_to_string" if type(value) is bool else "number_to_string", value, text)
        return value

    def _cast_object(
        self, shape: Shape, value: dict[str, Any], path: str, depth: int, names: frozenset[str] | None
    ) -> dict[str, Any]:
        lists_names = isinstance(shape.schema, dict) and isinstance(shape.schema.get("properties"), dict)
        dropping = self.drop_extra and depth == 0 and not shape.open_to_extra and lists_names
        renamed = _renamed_keys(shape, value, names, refuse_extra=dropping)
        result: dict[str, Any] = {}
        same_as_before = True
        for key, item in value.items():
            name = renamed.get(key, key)
            child = shape.properties.get(name)
            if child is None and dropping and name not in (names or ()):
                self.note(child_path(path, key), "dropped_extra", item, None)
                same_as_before = False
                continue
            child = shape.additional if child is None else child
            if name != key:
                self.note(child_path(path, key), "renamed_key", key, name)
                same_as_before = False
            if child is not None and not (child.leaf is not None and type(item) in child.leaf):
                changed = self.cast(child, item, child_path(path, name), depth + 1)
                same_as_before = same_as_before and changed is item
                item = changed
                if item is None and name in shape.properties.keys() - shape.required and not self._fits(child, None):
                    self.note(child_path(path, name), "null_to_absent", None, None)
                    same_as_before = False
                    continue
            result[name] = item
        return value if same_as_before else result

    def _cast_array(self, shape: Shape, value: list[Any], path: str, depth: int) -> list[Any]:
        result: list[Any] = []
        same_as_before = True
        for position, item in enumerate(value):
            child = shape.prefix[position] if position < len(shape.prefix) else shape.items
            if child is not None and not (child.leaf is not None and type(item) in child.leaf):
                changed = self.cast(child, item, child_path(path, position), depth + 1)
                same_as_before = same_as_before and changed is item
                item = changed
            result.append(item)
        return value if same_as_before else result


def _weight(changes: list[Change]) -> int:
    # A list around a value adds a structure that the model did not write, so a plain conversion is preferred.
    return sum(3 if change.rule == "wrapped_in_list" else 1 for change in changes)


def _meant_branch(union: tuple[Shape, ...], value: Any) -> Shape | None:
    branches = [branch for branch in union if branch.kinds != ("null",)]
    if len(branches) == 1:
        return branches[0]
    if not isinstance(value, dict | list):
        return None
    branches = [branch for branch in branches if branch.types is None or type(value) in branch.types]
    return branches[0] if len(branches) == 1 else None


def _renamed_keys(
    shape: Shape, value: dict[str, Any], names: frozenset[str] | None, *, refuse_extra: bool
) -> dict[str, str]:
    """Return keys in another spelling of a property (`userID` for `user_id`), if the schema rejects them unchanged."""
    spelled: dict[str, list[str]] = {}
    for key, item in value.items():
        if key in shape.properties or (names is not None and key in names) or not isinstance(key, str):
            continue
        name = shape.folded.get(fold(key))
        if name is None or name in value:
            continue
        refused = refuse_extra or (shape.additional is not None and not fits(shape.additional, item))
        if refused or name in shape.required:
            spelled.setdefault(name, []).append(key)
    return {keys[0]: name for name, keys in spelled.items() if len(keys) == 1}


def scalar_text(value: Any) -> str | None:
    """Return a number or boolean as JSON text; None for anything else, and for a value that JSON cannot hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _EXACT_TEXT_BITS else None
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    return None


def read_scalar(text: str, kinds: tuple[str, ...]) -> tuple[Any, str]:
    """Return the scalar that the text is, of the first kind that can read it, and the rule; otherwise MISSING."""
    word = text.strip() if len(text) <= _LONGEST_WORD else ""
    if not word:
        return MISSING, ""
    for kind in kinds:
        read = _SCALAR_READERS.get(kind)
        found = MISSING if read is None else read(word)
        if found is not MISSING:
            return found, f"string_to_{kind}"
    return MISSING, ""


def _read_integer(word: str) -> Any:
    if _INTEGER.fullmatch(word):
        return int(word)
    whole = _WHOLE.fullmatch(word)
    return int(whole[1]) if whole else MISSING


def _read_number(word: str) -> Any:
    if _INTEGER.fullmatch(word):
        return int(word)
    if not _NUMBER.fullmatch(word):
        return MISSING
    number = float(word)
    return number if math.isfinite(number) and not is_rounded(word, number) else MISSING


_SCALAR_READERS: dict[str, Callable[[str], Any]] = {
    "null": lambda word: _WORDS["null"].get(word.lower(), MISSING),
    "boolean": lambda word: _WORDS["boolean"].get(word.lower(), MISSING),
    "integer": _read_integer,
    "number": _read_number,
}


def read_structure(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return the object or list in the text, and the repairs; MISSING if there is none."""
    if text.lstrip()[:1] not in ("{", "[", "("):
        return MISSING, ()
    try:
        return decode(text), ()
    except Undecodable:
        pass
    if '\\"' in text:
        try:  # The content of a JSON string without its quotes: `{\\"a\\": 1}`.
            return decode(decode(f'"{text}"')), ("double_encoded",)
        except Undecodable:
            pass
    repaired = repair(text)
    if (
        repaired.error is not None
        or not isinstance(repaired.value, dict | list)
        or "surrounding_text" in repaired.rules
    ):
        return MISSING, ()  # Text around a structure would be lost.
    return repaired.value, repaired.rules


# --------------------------------------------------------------------------------------------------------------------
# Values from formats that write every argument as plain text: the schema determines the type.

_STRING_ONLY = frozenset({str})
_PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}


def read_text(text: str, schema: JsonObject | None, *, root: JsonObject | None = None, path: str = "$") -> Coerced:
    """Convert a text to a value according to its schema; return the text if that fails, and validation reports it.

    Text for a string is kept exactly. To read "5" as 5 for an integer is how such a format works, and not a change;
    everything else (Python spellings in a structure, an enum in another case) is reported as a change.
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
    """Convert an argument that no schema describes: JSON and Python's constants are read, quoted text stays text.

    Most servers do the same, and most models expect it. A tool that needs `007` as text declares a string.
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
    """Read a union with strings: `null` is null, a fitting structure is read, and the first listed scalar type wins."""
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
    """Read the text as one of the kinds, and coerce its parts; MISSING if it is none of them."""
    found, _ = read_scalar(text, kinds)
    repairs: tuple[str, ...] = ()
    if found is MISSING and ("object" in kinds or "array" in kinds):
        found, repairs = read_structure(text)
        if KIND_OF_TYPE.get(type(found)) not in kinds:
            return MISSING, ()
    if found is MISSING or (not repairs and fits(shape, found)):
        return found, ()
    caster = Coercer()
    for rule in repairs:
        caster.note(path, rule, text, found)
    return caster.cast(shape, found, path), tuple(caster.changes)


def _settle_for_text(text: str, shape: Shape, path: str) -> Coerced:
    caster = Coercer()
    value = caster.cast(shape, text, path)
    return Coerced(value, tuple(caster.changes))


# --------------------------------------------------------------------------------------------------------------------
# Values with types.


def coerce(
    value: Any, schema: JsonObject, *, path: str = "$", root: JsonObject | None = None, drop_extra: bool = False
) -> Coerced:
    """Coerce a value to a schema: change it only where the schema rejects it, without loss, and report every change.

    A value that fits is returned as the same object. What cannot be coerced stays unchanged, and `validate` reports
    it. `root` is the schema in which references are resolved, by default the schema itself. `drop_extra` removes
    arguments that the schema does not name, unless the schema allows additional ones.
    """
    if not drop_extra and isinstance(value, dict) and fits_plainly(value, schema):
        return Coerced(value)
    try:
        shape = shape_of(schema, root)
        if not drop_extra and fits(shape, value):
            return Coerced(value)
        caster = Coercer(drop_extra=drop_extra)
        changed = caster.cast(shape, value, path)
    except RecursionError:  # Depth is bounded here; only a caller near the end of its own stack gets this far.
        return Coerced(value)
    return Coerced(changed, tuple(caster.changes))
