"""Tool results as people write them, made into one shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dragoman.errors import InvalidTool
from dragoman.types import ToolResult


def as_result(value: ToolResult | Mapping[str, Any]) -> ToolResult:
    """A ToolResult from one, or from a dict: `call_id`, `tool_call_id` or `tool_use_id`; `content` or `output`;
    `is_error`, or `success` for its opposite."""
    if isinstance(value, ToolResult):
        return value
    identity = _first(value, "call_id", "tool_call_id", "tool_use_id", "id")
    if not isinstance(identity, str):
        raise InvalidTool("a tool result without the id of its call", hint='give it as "call_id"')
    content = _first(value, "content", "output", "result")
    is_error = value["is_error"] if "is_error" in value else value.get("success") is False
    name = value.get("name")
    return ToolResult(
        call_id=identity,
        name=name if isinstance(name, str) else "",
        content=content if isinstance(content, str | list) else _write(content),
        is_error=bool(is_error),
        data=value.get("data"),
    )


def _first(value: Mapping[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _write(content: Any) -> str:
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)
