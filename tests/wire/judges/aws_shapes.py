"""Hold a JSON value against the model that `botocore` has of an AWS service, more strictly than it does itself.

`botocore` checks what its caller gives: names, types, required members, unions. It leaves enums, patterns and greatest
lengths to the server, and reads past what it does not know in an answer; here all of that counts.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import msgspec
from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from tests.wire.judges.strict import Misfit


def check_shape(value: Any, shape: Any, path: str) -> None:
    """Raise a Misfit unless a JSON value fits a shape of the service."""
    value = _tighten(value, shape, path)
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        raise Misfit(path, report.generate_report())


def _tighten(value: Any, shape: Any, path: str) -> Any:
    """The value with bytes for its base64. What the service forbids and `botocore` lets pass is a Misfit."""
    if shape.type_name == "structure" and isinstance(value, dict) and not shape.is_document_type:
        members = shape.members
        return {
            key: _tighten(item, members[key], f"{path}.{key}") if key in members else item
            for key, item in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_tighten(item, shape.member, f"{path}[{index}]") for index, item in enumerate(value)]
    if shape.type_name == "blob":
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError) as error:
            raise Misfit(path, f"{value!r} is not base64 ({error})") from None
    if shape.type_name == "string" and isinstance(value, str):
        _check_string(value, shape.metadata, path)
    return value


def _check_string(value: str, rules: dict[str, Any], path: str) -> None:
    if "enum" in rules and value not in rules["enum"]:
        raise Misfit(path, f"{value!r} is none of {rules['enum']}")
    if "pattern" in rules and not re.fullmatch(rules["pattern"], value):
        raise Misfit(path, f"{value!r} does not match {rules['pattern']}")
    if len(value) > rules.get("max", len(value)):
        raise Misfit(path, f"{len(value)} characters; at most {rules['max']}")


def check_events(chunks: list[bytes], stream: Any) -> None:
    """Hold every event of a stream against its shape: the client reads past what it does not know."""
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(chunks))
    for number, message in enumerate(buffer):
        family = message.headers.get(":message-type")
        if family not in {"event", "exception"}:
            raise Misfit(f"event {number}", f"its :message-type is {family!r}")
        kind = message.headers.get(f":{family}-type")
        if kind not in stream.members:
            raise Misfit(f"event {number}", f"{kind!r} is none of {', '.join(stream.members)}")
        check_shape(msgspec.json.decode(message.payload), stream.members[kind], f"event {number} ({kind})")
