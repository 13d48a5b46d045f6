"""The forms of values that hold others without names of their own: lists, tuples, sets, mappings, and unions."""

from __future__ import annotations

import collections
import collections.abc as abc
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from dragoman.args.schemas import child_path
from dragoman.tools.forms import Form, Reader, Reading, anything
from dragoman.types import Fault, JsonObject

if TYPE_CHECKING:
    from dragoman.tools.building import Builder

_SEQUENCES: dict[type, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    collections.deque: collections.deque,
}
_SETS: dict[type, Callable[[list[Any]], Any]] = {
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_MAPPINGS: dict[type, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
}


def container_form(
    builder: Builder, kind: type, arguments: tuple[Any, ...], annotation: Any, place: str
) -> Form | None:
    """The form of a container class; None for a class that is none of them."""
    if kind is tuple and (arguments or not isinstance(annotation, GenericAlias)):
        return _tuple_form(builder, arguments, place)
    if kind is tuple:
        return _fixed_tuple_form([])
    if kind in _MAPPINGS:
        return _mapping_form(builder, kind, arguments, place)
    make = _SEQUENCES.get(kind) or _SETS.get(kind)
    if make is None:
        return None
    items = builder.form(arguments[0], place) if arguments else anything()
    schema: JsonObject = {"type": "array"}
    if items.schema:
        schema["items"] = items.schema
    if kind in _SETS:
        schema["uniqueItems"] = True
    return Form(schema, _array_reader(items, make))


def _array_reader(items: Form, make: Callable[[list[Any]], Any]) -> Reader:
    def read(value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        before = len(reading.faults)
        found = [items.read(item, child_path(path, position), reading) for position, item in enumerate(value)]
        if len(reading.faults) > before:
            return None
        try:
            return make(found)
        except TypeError:  # A set of lists, say.
            return reading.fault(path, "its items cannot be told apart, so they cannot be a set")

    return read


def _tuple_form(builder: Builder, arguments: tuple[Any, ...], place: str) -> Form:
    if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
        items = builder.form(arguments[0], place) if arguments else anything()
        return Form({"type": "array", **({"items": items.schema} if items.schema else {})}, _array_reader(items, tuple))
    return _fixed_tuple_form([builder.form(each, place) for each in arguments])


def _fixed_tuple_form(forms: list[Form]) -> Form:
    """A tuple with a form for each place; `tuple[()]` has none."""
    schema: JsonObject = {"type": "array", "minItems": len(forms), "maxItems": len(forms)}
    if forms:
        schema["prefixItems"] = [form.schema for form in forms]

    def read(value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        if len(value) != len(forms):
            return reading.fault(path, f"must have {len(forms)} items, has {len(value)}")
        pairs = enumerate(zip(forms, value, strict=True))
        return tuple(form.read(item, child_path(path, position), reading) for position, (form, item) in pairs)

    return Form(schema, read)


# ---- mappings ------------------------------------------------------------------------------------------------------


def _mapping_form(builder: Builder, kind: type, arguments: tuple[Any, ...], place: str) -> Form:
    keys = _key_form(builder, arguments[0], place) if arguments else builder.form(str, place)
    values = builder.form(arguments[1], place) if len(arguments) > 1 else anything()
    schema: JsonObject = {"type": "object", "additionalProperties": values.schema or True}
    names = {key: value for key, value in keys.schema.items() if key != "type"}
    if names:
        schema["propertyNames"] = names
    make = _MAPPINGS[kind]

    def read(value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            return reading.expected("object", value, path)
        found = {}
        for key, item in value.items():
            inside = child_path(path, key)
            before = len(reading.faults)
            name = keys.read(key, inside, reading)
            content = values.read(item, inside, reading)
            if len(reading.faults) == before:
                found[name] = content
        return make(found)

    return Form(schema, read)


def _key_form(builder: Builder, annotation: Any, place: str) -> Form:
    """Keys are text in JSON, so a type of keys has to be text there too; whole numbers are the one exception."""
    if annotation is int:
        return Form({"type": "string", "pattern": "^-?[0-9]+$"}, _read_integer_key)
    form = builder.form(annotation, place)
    if form.schema.get("type") != "string" and form.schema:
        builder.refuse(
            annotation,
            place,
            "cannot be the key of a JSON object",
            "use text, whole numbers, an enum or a Literal of text as keys, or a list of pairs",
        )
    return form


def _read_integer_key(value: Any, path: str, reading: Reading) -> Any:
    try:
        return int(value)
    except ValueError:
        return reading.fault(path, "its key is no whole number")


# ---- unions --------------------------------------------------------------------------------------------------------


def union_form(builder: Builder, arguments: Sequence[Any], place: str) -> Form:
    """One of several forms: the first, in the order of the annotation, that can read the value."""
    forms = [builder.form(each, place) for each in arguments]
    schemas: list[JsonObject] = []
    for form in forms:
        if form.schema not in schemas:
            schemas.append(form.schema)
    schema = {"anyOf": schemas} if len(schemas) > 1 and {} not in schemas else {} if {} in schemas else schemas[0]
    # A whole number stays one where both kinds of numbers are welcome.
    forms.sort(key=lambda form: form.schema.get("type") == "number")
    return Form(schema, _union_reader(forms))


def _union_reader(forms: list[Form]) -> Reader:
    identity = id(forms)

    def read(value: Any, path: str, reading: Reading) -> Any:
        key = (identity, id(value), path)
        known = reading.known.get(key)
        if known is None:
            known = reading.known[key] = _read_first(forms, value, path, reading)
        reading.faults.extend(known[1])
        return known[0]

    return read


def _read_first(forms: list[Form], value: Any, path: str, reading: Reading) -> tuple[Any, list[Fault]]:
    refusals: list[list[Fault]] = []
    for form in forms:
        attempt = Reading(reading.known)
        found = form.read(value, path, attempt)
        if not attempt.faults:
            return found, []
        if form.schema.get("type") != "null":
            refusals.append(attempt.faults)
    if len(refusals) == 1:
        return None, refusals[0]
    # A branch that fails further inside than at this very place is the one that was meant.
    for faults in refusals:
        if all(fault.path != path for fault in faults):
            return None, faults
    return None, [Fault(path, f"fits none of the {len(forms)} forms that it may take")]
