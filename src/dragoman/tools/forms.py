"""A form is what one annotation means: the schema that the model sees, and the way back into Python.

Both are made in one place, so that what the schema accepts is what can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.args.loader import show
from dragoman.args.schemas import child_path
from dragoman.types import Fault, JsonObject

MISSING: Any = object()
"""There is no value. (None is one.)"""


class Reading:
    """One way through a call's arguments: the faults so far, and what was already found out."""

    __slots__ = ("faults", "known")

    def __init__(self, known: dict[tuple[int, int, str], tuple[Any, list[Fault]]] | None = None) -> None:
        self.faults: list[Fault] = []
        self.known: dict[tuple[int, int, str], tuple[Any, list[Fault]]] = {} if known is None else known
        """Readings of unions, by union, value and place: trying every branch at every level would take for ever."""

    def fault(self, path: str, why: str) -> None:
        self.faults.append(Fault(path, why))

    def expected(self, what: str, value: Any, path: str) -> None:
        self.fault(path, f"expected {what}, got {show(value)}")


Reader = Callable[[Any, str, Reading], Any]
"""Takes a JSON value, its path and the reading; gives the Python value, or notes a fault and gives None."""


class Form(Struct, frozen=True):
    """The schema of an annotation, and the reader of the values that fit it."""

    schema: JsonObject
    read: Reader


class Member(Struct, frozen=True):
    """One named part of an object: a parameter, a field, a key."""

    key: str
    form: Form
    required: bool = True


def copy_json(value: Any, path: str = "$", reading: Reading | None = None) -> Any:
    """The same JSON in new containers: a tool may change what it is given, and the conversation stays as it was."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def anything() -> Form:
    """The form of a value of which nothing is known."""
    return Form({}, copy_json)


def object_schema(members: Sequence[Member], extra: Form | None = None) -> JsonObject:
    """The schema of an object with these members; `extra` is the form of all others, None where there are none."""
    schema: JsonObject = {"type": "object", "properties": {member.key: member.form.schema for member in members}}
    required = [member.key for member in members if member.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False if extra is None else extra.schema or True
    return schema


def read_members(
    members: Mapping[str, Member], extra: Form | None, value: Any, path: str, reading: Reading
) -> dict[str, Any]:
    """The members of an object, read one by one; every fault is noted, not only the first."""
    if not isinstance(value, dict):
        reading.expected("object", value, path)
        return {}
    found: dict[str, Any] = {}
    for key, item in value.items():
        member = members.get(key)
        form = extra if member is None else member.form
        if form is None:
            reading.fault(path, f"unexpected {show(key)}")
        else:
            found[key] = form.read(item, child_path(path, key), reading)
    for key, member in members.items():
        if member.required and key not in value:
            reading.fault(path, f"missing required {show(key)}")
    return found
