"""Settings as they may be shown: no key, no password in an address, no value of a header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*\Z").match
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(r"([?&][^=&\s]*=)[^&\s#]+")
_HANDED = ("env", "environment", "headers")
_SECRET_TABLES = ("headers", "body", "metadata")


def mask(name: str, value: Any) -> Any:
    """The value of a setting with everything hidden that could be a secret."""
    if name == "keys":
        return {provider: dict(source) if isinstance(source, Mapping) else HIDDEN for provider, source in value.items()}
    if name == "mcp":
        return {server: _mask_server(row) for server, row in value.items()}
    if name == "providers":
        return {provider: _mask_row(row) for provider, row in value.items()}
    return _mask_addresses(value)


def _mask_row(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return HIDDEN
    masked: dict[str, Any] = {}
    for field, value in row.items():
        if field in _SECRET_TABLES and isinstance(value, Mapping):
            masked[field] = dict.fromkeys(value, HIDDEN)
        elif field == "key":
            # The names of variables belong here; somebody may have written the key itself.
            names = [value] if isinstance(value, str) else list(value)
            masked[field] = [each if isinstance(each, str) and _VARIABLE(each) else HIDDEN for each in names]
        else:
            masked[field] = _mask_addresses(value)
    return masked


def _mask_server(row: Any) -> Any:
    """The row of a server of MCP; what is handed to it is hidden, for many take a key in this way."""
    if not isinstance(row, Mapping):
        return HIDDEN
    masked: dict[str, Any] = {}
    for field, value in row.items():
        if field in _HANDED and isinstance(value, Mapping):
            masked[field] = dict.fromkeys(value, HIDDEN)
        elif field == "oauth" and isinstance(value, Mapping):
            masked[field] = {key: HIDDEN if "secret" in key else each for key, each in value.items()}
        elif field in ("args", "command") and isinstance(value, list | tuple):
            shown = 1 if field == "command" else 0
            masked[field] = [*value[:shown], *([HIDDEN] * (len(value) - shown))]
        else:
            masked[field] = _mask_addresses(value)
    return masked


def _mask_addresses(value: Any) -> Any:
    if isinstance(value, str):
        return _QUERY.sub(rf"\1{HIDDEN}", _LOGIN.sub(f"{HIDDEN}@", value)) if "://" in value else value
    if isinstance(value, Mapping):
        return {key: _mask_addresses(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_addresses(each) for each in value]
    return value
