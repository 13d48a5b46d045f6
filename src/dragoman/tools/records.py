"""The forms of classes with named members: dataclasses, TypedDicts and NamedTuples."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.tools.docstrings import described
from dragoman.tools.forms import MISSING, Form, Member, Reading, object_schema, read_members
from dragoman.tools.hints import hints_of, signature_of
from dragoman.tools.plain import exactly

if TYPE_CHECKING:
    from dragoman.tools.building import Builder

_Build = Callable[["Builder", Any, Mapping[Any, Any], str], Form]


def builder_of(kind: type) -> _Build | None:
    """How the form of such a class is built; None for a class without named members."""
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return _typed_dict
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple
    return _dataclass if dataclasses.is_dataclass(kind) else None


def member_of(key: str, form: Form, default: Any, description: str | None) -> Member:
    """A member with its description and its default in its schema; what the form itself says of it comes first."""
    schema = dict(form.schema)
    if description:
        schema.setdefault("description", description)
    required = default is MISSING
    if not required:
        written = exactly(default, MISSING)
        if written is not MISSING:
            schema.setdefault("default", written)
    return Member(key, Form(schema, form.read), required)


def _record_form(kind: Any, members: list[Member], make: Callable[..., Any]) -> Form:
    by_key = {member.key: member for member in members}
    schema = object_schema(members)
    summary = described(kind).summary
    if summary:
        schema["description"] = summary

    def read(value: Any, path: str, reading: Reading) -> Any:
        before = len(reading.faults)
        found = read_members(by_key, None, value, path, reading)
        if len(reading.faults) > before:
            return None
        try:
            return make(**found)
        except Exception as problem:  # A class may check its members; what it refuses is a fault of the arguments.
            return reading.fault(path, f"is no {kind.__name__}: {problem}")

    return Form(schema, read)


def _dataclass(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    hints = hints_of(kind, builder.names, place)
    words = described(kind).members
    fields = kind.__dataclass_fields__
    members = []
    for name, parameter in signature_of(kind).parameters.items():
        field = fields.get(name)
        inside = f"{place}, field {name!r} of {kind.__name__}"
        form = builder.form(hints.get(name, Any), inside, variables)
        description = (field.metadata.get("description") if field is not None else None) or words.get(name)
        member = member_of(name, form, _default_of(field, parameter), description)
        members.append(member)
    return _record_form(kind, members, kind)


def _default_of(field: Any, parameter: inspect.Parameter) -> Any:
    if field is not None and field.default_factory is not dataclasses.MISSING:
        try:
            return field.default_factory()
        except Exception:  # Only for show: the class calls it again, when it is needed.
            return object()
    return MISSING if parameter.default is inspect.Parameter.empty else parameter.default


def _named_tuple(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    # By name and not by position: a model writes what it can name.
    hints = hints_of(kind, builder.names, place)
    words = described(kind).members
    members = []
    for name in kind._fields:
        form = builder.form(hints.get(name, Any), f"{place}, field {name!r} of {kind.__name__}", variables)
        members.append(member_of(name, form, kind._field_defaults.get(name, MISSING), words.get(name)))
    return _record_form(kind, members, kind)


def _typed_dict(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    return _record_form(kind, typed_dict_members(builder, kind, variables, place), dict)


def typed_dict_members(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> list[Member]:
    """The keys of a TypedDict."""
    words = described(kind).members
    members = []
    for key, annotation in hints_of(kind, builder.names, place).items():
        form = builder.form(annotation, f"{place}, key {key!r} of {kind.__name__}", variables)
        member = member_of(key, form, MISSING, words.get(key))
        members.append(Member(key, member.form, _is_required(kind, key, annotation)))
    return members


def _is_required(kind: Any, key: str, annotation: Any) -> bool:
    # With postponed annotations the class itself has not seen the marks, so they are looked for first.
    while True:
        origin = typing.get_origin(annotation)
        name = getattr(origin, "_name", None)
        if name in ("Required", "NotRequired"):
            return bool(name == "Required")
        if name != "ReadOnly" and origin is not typing.Annotated:
            return bool(key in kind.__required_keys__)
        annotation = typing.get_args(annotation)[0]
