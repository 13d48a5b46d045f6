"""Forms from annotations: the one place that knows which annotation is read by what.

A type with a name (a dataclass, a TypedDict, an alias) is built once and referred to; in the end a definition that is
used in one place only is written there, and the rest, recursive ones among them, stay under `$defs`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NoReturn

import msgspec

from dragoman.errors import InvalidTool
from dragoman.tools import containers, foreign, records
from dragoman.tools.forms import Form, Reading, anything
from dragoman.tools.hints import Names, resolve, substitute, variables_of
from dragoman.tools.notes import annotate, is_validator
from dragoman.tools.scalars import literal_form, scalar_form
from dragoman.types import JsonObject

REF = "#/$defs/"
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})
_UNIONS = (typing.Union, types.UnionType)
_MAX_DEPTH = 60


class _Slot:
    """A named type on its way: it may be referred to before it is finished."""

    __slots__ = ("form", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.form: Form | None = None

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        assert self.form is not None
        return self.form.read(value, path, reading)


class Builder:
    """Builds the forms of one tool. `place` says in words whose annotation is looked at, for the error messages."""

    def __init__(self, module: dict[str, Any], names: Names) -> None:
        self.module = module
        self.names = names
        self.definitions: dict[str, JsonObject] = {}
        self._slots: dict[Hashable, _Slot] = {}
        self._depth = 0

    def form(self, annotation: Any, place: str, variables: Mapping[Any, Any] | None = None) -> Form:
        """The form of an annotation; InvalidTool names the place where it cannot be expressed."""
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
            return containers.union_form(self, typing.get_args(annotation), place)
        if origin is typing.Literal:
            return literal_form(typing.get_args(annotation))
        wrapped = self._unwrapped(annotation, origin)
        if wrapped is not annotation:
            return self.form(wrapped, place)
        if _is_alias(annotation) or _is_alias(origin):
            return self._alias(annotation, origin, place)
        if isinstance(annotation, typing.ForwardRef):  # What is left of an alias that names itself.
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
            "use a type that JSON holds (text, numbers, lists, dataclasses, ...), convert inside the tool, "
            "or give the schema by hand with @tool(schema=...)",
        )

    def _unwrapped(self, annotation: Any, origin: Any) -> Any:
        """What stands behind a NewType, a type variable or a qualifier; else the annotation itself."""
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
                    "is run by pydantic alone",
                    "put the parameter into a pydantic model, or check the value inside the tool",
                )
        return annotate(self.form(inner, place), notes)

    def _class(self, kind: type, arguments: tuple[Any, ...], annotation: Any, place: str) -> Form | None:
        made = containers.container_form(self, kind, arguments, annotation, place)
        if made is not None:
            return made
        if foreign.is_model(kind):
            return foreign.model_form(self, annotation, place)
        if issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__"):
            return foreign.struct_form(self, annotation, place)
        build = records.builder_of(kind)
        if build is None:
            return self._scalar(kind, place)
        variables = variables_of(kind, arguments, place)
        return self.named(annotation, lambda: build(self, kind, variables, place))

    def _scalar(self, kind: type, place: str) -> Form | None:
        if issubclass(kind, enum.Enum) and not list(kind):
            self.refuse(kind, place, "has no members to choose from", "give the enum members, or use another type")
        return scalar_form(kind)

    def _alias(self, annotation: Any, origin: Any, place: str) -> Form:
        """`type Json = ...`: the one kind of alias that may refer to itself."""
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
        """The form of a type with a name: a reference, also from within the type itself."""
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
        """The whole schema of a tool: definitions used once in their place, the others under `$defs`."""
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
    """What a type variable stands for where nobody filled it in: its default, its bound, its choices, or anything."""
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
    except TypeError:  # Annotated may carry anything.
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
