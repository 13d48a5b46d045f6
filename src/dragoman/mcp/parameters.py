"""Arguments that are repeated in HTTP headers, where a schema asks for it (`x-mcp-header`), for whoever routes."""

from __future__ import annotations

import base64
import re
from typing import Any

from dragoman.mcp.schemas import BadSchema
from dragoman.types import JsonObject

_MARK = "x-mcp-header"
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}").fullmatch
_is_plain = re.compile(r"[\x20-\x7e]*").fullmatch
_is_wrapped = re.compile(r"=\?base64\?.*\?=").fullmatch
_KINDS = frozenset({"string", "integer", "boolean"})


def header_parameters(schema: JsonObject) -> dict[str, tuple[str, ...]]:
    """The headers that a schema asks for, each with the way to its argument. Raises BadSchema for one that is wrong."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        way, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        if _MARK in node:
            name = node[_MARK]
            if not way or not isinstance(name, str) or _is_token(name) is None or node.get("type") not in _KINDS:
                raise BadSchema(f"its schema asks for a header in a wrong way ({_MARK})")
            header = f"Mcp-Param-{name}"
            if header.lower() in map(str.lower, found):
                raise BadSchema(f"its schema asks for the header {header} twice")
            found[header] = way
        properties = node.get("properties")
        if isinstance(properties, dict):
            waiting += [((*way, key), inner) for key, inner in properties.items()]
    return found


def write_headers(wanted: dict[str, tuple[str, ...]], arguments: JsonObject) -> dict[str, str]:
    """The headers for one call; an argument that is not there has none."""
    headers = {}
    for header, way in wanted.items():
        value: Any = arguments
        for step in way:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[header] = write_value(str(value))
    return headers


def write_value(text: str) -> str:
    """Text as the value of a header; what a header cannot hold is wrapped in base64."""
    if _is_plain(text) and text == text.strip() and _is_wrapped(text) is None:
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
