"""Conversion of any Python value to JSON, for results and defaults. It never raises.

A value that JSON cannot hold becomes its `repr`, and the writer records that. A value that contains itself, or that is
nested too deeply, is cut with a visible note.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from dragoman.args.decoder import SURROGATE

MAX_DEPTH = 100
_LONGEST_REPR = 2000
_LONGEST_INTEGER = 13_000
# These classes are recognised by name: their modules access the system, and nothing in this package does.
TEXT_CLASSES = {
    ("uuid", "UUID"): "uuid",
    ("ipaddress", "IPv4Address"): "ipv4",
    ("ipaddress", "IPv6Address"): "ipv6",
}


def whole(text: str) -> str:
    """Return text that can be encoded: lone surrogates are replaced."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def shown(value: object) -> str:
    """Return the `repr` of a value with a limited length, even if its own `repr` raises."""
    try:
        text = repr(value)
    except Exception:  # The class is user code, and every call needs a result.
        return f"<{type(value).__name__}>"
    return whole(text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 3] + "...")


def constant_of(value: Any) -> Any:
    """Return the JSON constant of an enum member or a Literal: its value if JSON can hold all of them, or its name."""
    if isinstance(value, enum.Enum):
        values = [member.value for member in type(value)]
        held = all(isinstance(each, str | int) or (isinstance(each, float) and math.isfinite(each)) for each in values)
        return constant_of(value.value) if held else value.name
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, bool) or value is None:
        return value
    return float(value) if isinstance(value, float) else int(value)


class Writer:
    """Converts one value to JSON; `exact` becomes False if a part cannot be read back."""

    __slots__ = ("_open", "exact")

    def __init__(self) -> None:
        self.exact = True
        self._open: set[int] = set()

    def write(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            # Python refuses to convert larger integers to decimal digits.
            return value if value.bit_length() <= _LONGEST_INTEGER else self._lossy(hex(value))
        if kind is str:
            return whole(value)
        if kind is float:
            return value if math.isfinite(value) else self._lossy(repr(value))
        if isinstance(value, enum.Flag):
            return [member.name for member in value]
        return constant_of(value) if isinstance(value, enum.Enum) else self._inside(value)

    def _lossy(self, text: str) -> str:
        self.exact = False
        return text

    def _inside(self, value: Any) -> Any:
        """Convert a value of a user-defined class, or a container."""
        if id(value) in self._open:
            return self._lossy("<contains itself>")
        if len(self._open) >= MAX_DEPTH:
            return self._lossy(f"<nested deeper than {MAX_DEPTH} levels>")
        self._open.add(id(value))
        try:
            written = _written(value)
            if written is not None:
                return written
            inner = _stand_in(value)
            if inner is not value:
                return self.write(inner)
            members = _members(value)
            if isinstance(members, dict):
                return self._object(members)
            if members is not None:
                return [self.write(item) for item in members]
            return self._lossy(shown(value))
        except Exception:  # Properties and iterators are user code as well.
            return self._lossy(shown(value))
        finally:
            self._open.discard(id(value))

    def _object(self, members: dict[Any, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in members.items():
            name = self._key(key)
            found[shown(key) if name in found else name] = self.write(item)
        return found

    def _key(self, key: Any) -> str:
        written = self.write(key)
        return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)


def _written(value: Any) -> str | int | float | None:
    """Return the text of a scalar value; None for anything else."""
    if isinstance(value, str):
        return whole(str(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(msgspec.to_builtins(value))
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(bytes(value)).decode()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    kind = type(value)
    if (kind.__module__, kind.__name__) in TEXT_CLASSES or is_path(kind):
        return whole(str(value))
    return None


def is_path(kind: type) -> bool:
    """Whether a class is one of pathlib's; it is recognised by name."""
    return any(base.__name__ == "PurePath" and base.__module__.startswith("pathlib") for base in kind.__mro__)


def _stand_in(value: Any) -> Any:
    """Convert a value of another library (a pydantic model, a numpy array) with its own method; else return it."""
    kind = type(value)  # Look at the class: an object may have any attribute, or pretend to have it.
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json", by_alias=True)
    return value.tolist() if callable(getattr(kind, "tolist", None)) else value


def _members(value: Any) -> dict[Any, Any] | Collection[Any] | None:
    """Return the members of a structured value, by name or in order; None for a value without a known structure."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, type):
        return None
    if isinstance(value, set | frozenset):
        # A set has no order, and equal results should give equal texts.
        return sorted(value, key=lambda item: json.dumps(Writer().write(item), sort_keys=True))
    if isinstance(value, msgspec.Struct):
        return _struct_members(value)
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if hasattr(type(value), "__attrs_attrs__"):
        return {each.name: getattr(value, each.name) for each in type(value).__attrs_attrs__}
    return value if isinstance(value, Collection) else None


def _struct_members(value: msgspec.Struct) -> dict[str, Any] | list[Any]:
    config = value.__struct_config__
    pairs = [
        (name, getattr(value, attribute))
        for name, attribute in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    ]
    if config.array_like:
        return [*([config.tag] if config.tag is not None else []), *(item for _, item in pairs)]
    tag = {config.tag_field: config.tag} if config.tag_field is not None else {}
    return {**tag, **{name: item for name, item in pairs if item is not msgspec.UNSET}}


def plain(value: Any) -> Any:
    """Return the value as dicts, lists and scalars."""
    return Writer().write(value)


def exactly(value: Any, missing: Any) -> Any:
    """Return the value as JSON if it can be read back, else `missing`."""
    writer = Writer()
    written = writer.write(value)
    return written if writer.exact else missing


def json_text(value: Any) -> str:
    """Return the value as JSON text."""
    return json.dumps(plain(value), ensure_ascii=False)
