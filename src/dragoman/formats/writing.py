"""Small helpers for writing calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dragoman.types import ToolCall

write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    tuple: "array",
}


def json_type(value: Any) -> str:
    """The JSON Schema name of a value's type."""
    return _TYPES.get(type(value), "null")


def write_json_calls(calls: Sequence[ToolCall]) -> str:
    """One bare envelope, or a list of them."""
    envelopes = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return write_json(envelopes[0] if len(envelopes) == 1 else envelopes)
