"""Conversion of parameter annotations to forms."""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from dragoman.args.loader import show
from dragoman.errors import InvalidTool
from dragoman.tools import forms
from dragoman.tools.forms import MISSING, Form, Reader, ReadState, anything, literal_form, scalar_form
from dragoman.tools.introspection import Names, resolve, substitute, variables_of
from dragoman.tools.json_values import exactly
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The metadata of `Annotated`: a description, and limits.
#
# Limits are recognised by their attributes (`ge`, `max_length`, `pattern`, ...), so annotated_types, pydantic's `Field`
# and msgspec's `Meta` all work, and none of them is imported.

Check = tuple[Callable[[Any], bool], str]
"""A check of a Python value, and the message for a value that fails it."""

_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "ge": ("minimum", operator.ge, "must be at least"),
    "gt": ("exclusiveMinimum", operator.gt, "must be more than"),
    "le": ("maximum", operator.le, "must be at most"),
    "lt": ("exclusiveMaximum", operator.lt, "must be less than"),
    "multiple_of": ("multipleOf", lambda value, bound: value % bound == 0, "must be a multiple of"),
}
_LENGTHS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "min_length": (lambda value, limit: len(value) >= limit, "at least"),
    "max_length": (lambda value, limit: len(value) <= limit, "at most"),
}
_LENGTH_WORDS = {"string": "Length", "array": "Items", "object": "Properties"}


def is_validator(note: Any) -> bool:
    """Whether a piece of metadata is code that only pydantic runs; without it, invalid values would pass."""
    return hasattr(note, "__get_pydantic_core_schema__") and not any(
        hasattr(note, name) for name in (*_BOUNDS, *_LENGTHS, "pattern", "description")
    )


def annotate(form: Form, notes: Iterable[Any]) -> Form:
    """Return the form with the constraints of the metadata."""
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
    """Return metadata as a flat list; pydantic's `Field` keeps its limits in a nested list."""
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
            # A date or a decimal number is a string in JSON, which no schema can compare.
            checks.append((_against(holds, bound), f"{words} {bound}"))


def _limit_length(schema: JsonObject, checks: list[Check], note: Any) -> None:
    for name, (holds, words) in _LENGTHS.items():
        limit = getattr(note, name, None)
        if not isinstance(limit, int) or isinstance(limit, bool):
            continue
        kind = _kind_of(schema)
        if kind in _LENGTH_WORDS and "format" not in schema:
            schema[name[:3] + _LENGTH_WORDS[kind]] = limit
        else:
            checks.append((_against(holds, limit), f"must have {words} {limit} items"))


def _against(holds: Callable[[Any, Any], bool], bound: Any) -> Callable[[Any], bool]:
    return lambda value: holds(value, bound)


def _kind_of(schema: JsonObject) -> str:
    """Return the kind of value to which a length applies: in `list[int] | None`, the list."""
    for branch in (schema, *schema.get("anyOf", ())):
        kind = branch.get("type")
        if isinstance(kind, str) and kind != "null":
            return kind
    return ""


def _checked(read: Reader, checks: list[Check]) -> Reader:
    def read_checked(value: Any, path: str, reading: ReadState) -> Any:
        before = len(reading.faults)
        found = read(value, path, reading)
        if len(reading.faults) > before:
            return found
        for passes, words in checks:
            try:
                good = passes(found)
            except Exception:  # A bound of another type, or a predicate that raises: the value fails the check.
                good = False
            if not good:
                reading.fault(path, f"{words}, got {show(value)}")
        return found

    return read_checked


# --------------------------------------------------------------------------------------------------------------------
# The builder of forms: the only code that maps each annotation to its form.
#
# A named type (a dataclass, a TypedDict, an alias) is built once and referenced. In the end, a definition with a single
# use is inlined, and the others, including recursive ones, stay under `$defs`.

REF = "#/$defs/"
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})
_UNIONS = (typing.Union, types.UnionType)
_MAX_DEPTH = 60


class _Slot:
    """A named type under construction: it may be referenced before it is finished."""

    __slots__ = ("form", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.form: Form | None = None

    def read(self, value: Any, path: str, reading: ReadState) -> Any:
        assert self.form is not None
        return self.form.read(value, path, reading)


class Builder:
    """Builds the forms of one tool. `place` describes the annotation in error messages."""

    def __init__(self, module: dict[str, Any], names: Names) -> None:
        self.module = module
        self.names = names
        self.definitions: dict[str, JsonObject] = {}
        self._slots: dict[Hashable, _Slot] = {}
        self._depth = 0

    def form(self, annotation: Any, place: str, variables: Mapping[Any, Any] | None = None) -> Form:
        """Return the form of an annotation. Raises InvalidTool with the place if JSON Schema cannot express it."""
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                self.refuse(annotation, place, "is nested too deep", "use a simpler type")
            return self._form(substitute(annotation, variables or {}), place)
        finally:
            self._depth -= 1

    def refuse(self, annotation: Any, place: str, why: str, hint: str) -> NoReturn:
        shown = annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        raise InvalidTool(f"{place}: {shown} {why}", hint=hint)

    def _form(self, annotation: Any, place: str) -> Form:
        if annotation is None:
            annotation = type(None)
        if annotation in (Any, object):
            return anything()
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            return self._annotated(annotation, place)
        if origin in _UNIONS:
            return forms.union_form(self, typing.get_args(annotation), place)
        if origin is typing.Literal:
            return literal_form(typing.get_args(annotation))
        wrapped = self._unwrapped(annotation, origin)
        if wrapped is not annotation:
            return self.form(wrapped, place)
        if _is_alias(annotation) or _is_alias(origin):
            return self._alias(annotation, origin, place)
        if isinstance(annotation, typing.ForwardRef):  # The rest of an alias that refers to itself.
            return self.named(annotation, lambda: self.form(self._resolved(annotation, self.module, place), place))
        kind = annotation if origin is None else origin
        if isinstance(kind, type):
            found = self._class(kind, typing.get_args(annotation), annotation, place)
            if found is not None:
                return found
        self.refuse(
            annotation,
            place,
            "cannot be expressed in JSON Schema",
            "use a type that JSON can hold (str, numbers, lists, dataclasses, ...), convert inside the tool, "
            "or pass the schema with @tool(schema=...)",
        )

    def _unwrapped(self, annotation: Any, origin: Any) -> Any:
        """Return the type inside a NewType, a type variable or a qualifier; otherwise the annotation itself."""
        if hasattr(annotation, "__supertype__"):
            return annotation.__supertype__
        if isinstance(annotation, typing.TypeVar):
            return _meaning_of(annotation)
        if isinstance(annotation, dataclasses.InitVar):
            return annotation.type
        if getattr(origin, "_name", None) in _WRAPPERS:
            return typing.get_args(annotation)[0]
        if annotation is typing.LiteralString:
            return str
        return annotation

    def _annotated(self, annotation: Any, place: str) -> Form:
        inner, *notes = typing.get_args(annotation)
        for note in notes:
            if is_validator(note):
                self.refuse(
                    type(note),
                    place,
                    "is code that only pydantic runs",
                    "move the parameter into a pydantic model, or check the value inside the tool",
                )
        return annotate(self.form(inner, place), notes)

    def _class(self, kind: type, arguments: tuple[Any, ...], annotation: Any, place: str) -> Form | None:
        made = forms.container_form(self, kind, arguments, annotation, place)
        if made is not None:
            return made
        if forms.is_model(kind):
            return forms.model_form(self, annotation, place)
        if issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__"):
            return forms.struct_form(self, annotation, place)
        build = forms.builder_of(kind)
        if build is None:
            return self._scalar(kind, place)
        variables = variables_of(kind, arguments, place)
        return self.named(annotation, lambda: build(self, kind, variables, place))

    def _scalar(self, kind: type, place: str) -> Form | None:
        if issubclass(kind, enum.Enum) and not list(kind):
            self.refuse(kind, place, "has no members to choose from", "give the enum members, or use another type")
        return scalar_form(kind)

    def _alias(self, annotation: Any, origin: Any, place: str) -> Form:
        """Return the form of `type Json = ...`, the only kind of alias that may refer to itself."""
        alias = annotation if origin is None else origin
        variables = dict(zip(alias.__type_params__, typing.get_args(annotation), strict=False))
        module = vars(sys.modules[alias.__module__]) if alias.__module__ in sys.modules else self.module
        return self.named(
            annotation, lambda: self.form(self._resolved(alias.__value__, module, place), place, variables)
        )

    def _resolved(self, annotation: Any, module: dict[str, Any], place: str) -> Any:
        return resolve(annotation, module, self.names, place)

    # ---- definitions -------------------------------------------------------------------------------------------

    def named(self, annotation: Any, build: Callable[[], Form]) -> Form:
        """Return the form of a named type: a reference, also from within the type itself."""
        key = _key_of(annotation)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(self.free_name(_name_of(annotation)))
            self.definitions[slot.name] = {}
            slot.form = build()
            self.definitions[slot.name] = slot.form.schema
        return Form({"$ref": REF + slot.name}, slot.read)

    def free_name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.definitions:
            count += 1
            name = f"{wanted}_{count}"
        return name

    def finish(self, schema: JsonObject) -> JsonObject:
        """Return the whole schema of a tool: definitions with a single use inlined, the others under `$defs`."""
        while True:
            uses: dict[str, list[JsonObject]] = {name: [] for name in self.definitions}
            for part in (schema, *self.definitions.values()):
                _find_references(part, uses)
            single = next((name for name, places in uses.items() if len(places) == 1), None)
            if single is None:
                break
            _write_in_place(uses[single][0], self.definitions.pop(single))
        self.definitions = {name: part for name, part in self.definitions.items() if uses[name]}
        return {**schema, "$defs": self.definitions} if self.definitions else schema


def _meaning_of(variable: typing.TypeVar) -> Any:
    """Return the type of an unbound type variable: its default, its bound, its constraints, or anything."""
    has_default = getattr(variable, "has_default", None)
    if has_default is not None and has_default():
        return variable.__default__  # type: ignore[attr-defined]
    if variable.__bound__ is not None:
        return variable.__bound__
    return functools.reduce(operator.or_, variable.__constraints__) if variable.__constraints__ else Any


def _is_alias(annotation: Any) -> bool:
    return type(annotation).__name__ == "TypeAliasType"


def _key_of(annotation: Any) -> Hashable:
    try:
        hash(annotation)
    except TypeError:  # Annotated may contain anything.
        return repr(annotation)
    return annotation  # type: ignore[no-any-return]


def _name_of(annotation: Any) -> str:
    name = getattr(annotation, "__name__", "") or getattr(annotation, "__forward_arg__", "")
    arguments = [_name_of(each) for each in typing.get_args(annotation)]
    return re.sub(r"\W+", "_", "_".join([name or "type", *arguments]))


def _find_references(part: Any, uses: dict[str, list[JsonObject]]) -> None:
    waiting = [part]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str) and reference.removeprefix(REF) in uses:
                uses[reference.removeprefix(REF)].append(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _write_in_place(reference: JsonObject, definition: JsonObject) -> None:
    own = {key: value for key, value in reference.items() if key != "$ref"}
    reference.clear()
    reference.update({**definition, **own})
