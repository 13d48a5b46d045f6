"""The forms of single values: numbers, text, times, names of things, and choices among constants."""

from __future__ import annotations

import binascii
import enum
from base64 import b64decode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from dragoman.args.loader import join_words, show
from dragoman.tools.forms import Form, Reader, Reading
from dragoman.tools.plain import constant_of, is_path
from dragoman.types import JsonObject

# These classes are known by name: their modules reach for the system, and nothing in this room does.
_TEXT_CLASSES = {
    ("uuid", "UUID"): "uuid",
    ("ipaddress", "IPv4Address"): "ipv4",
    ("ipaddress", "IPv6Address"): "ipv6",
}
_CANNOT_READ = (ValueError, TypeError, OverflowError, InvalidOperation, binascii.Error)


def scalar_form(kind: type) -> Form | None:
    """The form of a class whose values JSON holds as one string, number, boolean or null."""
    made = _PLAIN.get(kind)
    if made is not None:
        return Form({"type": made[0]}, made[1])
    written = _WRITTEN.get(kind)
    if written is not None:
        schema, convert, what = written
        return Form(dict(schema), _text_reader(convert, what))
    if issubclass(kind, enum.Enum):
        return _enum_form(kind)
    return _named_form(kind) or _derived_form(kind)


def literal_form(values: Iterable[Any]) -> Form:
    """The form of a choice among constants."""
    choices = [(constant_of(value), value) for value in values]
    return Form(_choice_schema([constant for constant, _ in choices]), _choice_reader(choices))


def _read_string(value: Any, path: str, reading: Reading) -> Any:
    return value if type(value) is str else reading.expected("string", value, path)


def _read_boolean(value: Any, path: str, reading: Reading) -> Any:
    return value if type(value) is bool else reading.expected("boolean", value, path)


def _read_integer(value: Any, path: str, reading: Reading) -> Any:
    return value if type(value) is int else reading.expected("integer", value, path)


def _read_null(value: Any, path: str, reading: Reading) -> Any:
    return None if value is None else reading.expected("null", value, path)


def _read_number(value: Any, path: str, reading: Reading) -> Any:
    if type(value) is float:
        return value
    if type(value) is not int:
        return reading.expected("number", value, path)
    try:
        return float(value)
    except OverflowError:
        return reading.fault(path, "a number too large for a float")


_PLAIN: dict[type, tuple[str, Reader]] = {
    str: ("string", _read_string),
    bool: ("boolean", _read_boolean),
    int: ("integer", _read_integer),
    float: ("number", _read_number),
    type(None): ("null", _read_null),
}


def _text_reader(convert: Callable[[str], Any], what: str) -> Reader:
    """A reader of text that stands for something else."""

    def read(value: Any, path: str, reading: Reading) -> Any:
        if type(value) is not str:
            return reading.expected(f"string ({what})", value, path)
        try:
            return convert(value)
        except _CANNOT_READ:
            return reading.fault(path, f"is not {what}: {show(value)}")

    return read


def _read_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _read_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _read_duration(text: str) -> timedelta:
    return msgspec.convert(text, timedelta)


_BASE64 = {"type": "string", "format": "byte", "contentEncoding": "base64"}
_WRITTEN: dict[type, tuple[JsonObject, Callable[[str], Any], str]] = {
    datetime: ({"type": "string", "format": "date-time"}, datetime.fromisoformat, "a date and time (ISO 8601)"),
    date: ({"type": "string", "format": "date"}, date.fromisoformat, "a date (YYYY-MM-DD)"),
    time: ({"type": "string", "format": "time"}, time.fromisoformat, "a time of day (ISO 8601)"),
    timedelta: ({"type": "string", "format": "duration"}, _read_duration, "a duration (ISO 8601, such as PT1H30M)"),
    Decimal: ({"type": "string", "format": "decimal"}, _read_decimal, "a decimal number"),
    bytes: (_BASE64, _read_bytes, "base64"),
    bytearray: (_BASE64, lambda text: bytearray(_read_bytes(text)), "base64"),
}


def _named_form(kind: type) -> Form | None:
    name = _TEXT_CLASSES.get((kind.__module__, kind.__name__))
    if name is not None:
        return Form({"type": "string", "format": name}, _text_reader(kind, f"a {name}"))
    if is_path(kind):
        return Form({"type": "string", "format": "path"}, _text_reader(kind, "a path"))
    return None


def _derived_form(kind: type) -> Form | None:
    """A class of the developer's that is a string or a number underneath."""
    for base in (str, int, float):
        if issubclass(kind, base):
            name, read_base = _PLAIN[base]

            def read(value: Any, path: str, reading: Reading, read_base: Reader = read_base) -> Any:
                before = len(reading.faults)
                found = read_base(value, path, reading)
                if len(reading.faults) > before:
                    return None
                try:
                    return kind(found)
                except Exception as problem:  # The class is the developer's; whatever it refuses is a fault.
                    return reading.fault(path, f"is not a {kind.__name__}: {problem}")

            return Form({"type": name}, read)
    return None


# ---- choices -------------------------------------------------------------------------------------------------------


def _enum_form(kind: type[enum.Enum]) -> Form | None:
    if issubclass(kind, enum.Flag):
        return _flag_form(kind)
    members = list(kind)
    if not members:
        return None
    choices = [(constant_of(member), member) for member in members]
    return Form(_choice_schema([constant for constant, _ in choices]), _choice_reader(choices))


def _flag_form(kind: type[enum.Flag]) -> Form:
    """Flags are a list of names: a number would say nothing to a model."""
    names = [member.name for member in kind if member.name is not None]

    def read(value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        found = kind(0)
        for position, name in enumerate(value):
            if name in names:
                found |= kind[name]
            else:
                reading.fault(f"{path}[{position}]", f"not one of {join_words(names)}")
        return found

    return Form({"type": "array", "items": {"type": "string", "enum": names}, "uniqueItems": True}, read)


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _choice_schema(constants: list[Any]) -> JsonObject:
    kinds = list(dict.fromkeys(_KINDS[type(constant)] for constant in constants))
    schema: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if len(constants) == 1:
        schema["const"] = constants[0]
    else:
        schema["enum"] = constants
    return schema


def _choice_reader(choices: list[tuple[Any, Any]]) -> Reader:
    # true is 1 in Python and not in JSON.
    by_constant = {(isinstance(constant, bool), constant): value for constant, value in choices}
    shown = [show(constant) for constant, _ in choices]
    why = f"not one of {join_words(shown)}" if len(shown) > 1 else f"must be {shown[0]}"

    def read(value: Any, path: str, reading: Reading) -> Any:
        key = (isinstance(value, bool), value)
        if isinstance(value, dict | list) or key not in by_constant:
            return reading.fault(path, why)
        return by_constant[key]

    return read
