"""Errors of chat completions, in the shapes that servers of this wire give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import Failure, JsonObject
from dragoman.wire.failures import fail, status_of
from dragoman.wire.values import as_dict

_TYPES = {
    "rate_limited": "rate_limit_error",
    "unauthorized": "authentication_error",
    "bad_request": "invalid_request_error",
    "context_too_long": "invalid_request_error",
    "refused": "invalid_request_error",
    "not_found": "not_found_error",
}


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error body says: `{"error": {...}}`, `{"error": "text"}`, `{"message"}`, `{"detail"}`, or mere text."""
    whole = body[0] if isinstance(body, list) and body else body
    fields = as_dict(whole)
    error = fields.get("error", whole)
    inner = as_dict(error)
    code = inner.get("code") or inner.get("type")
    if status is None and isinstance(inner.get("code"), int) and 400 <= inner["code"] < 600:
        status = inner["code"]
    message = inner.get("message") or inner.get("detail") or (error if isinstance(error, str) else None)
    return fail(message or fields.get("message") or "", status=status, code=code, body=body, headers=headers)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    error = {
        "message": failure.message or failure.kind.replace("_", " "),
        "type": _TYPES.get(failure.kind, "server_error"),
        "param": None,
        "code": "context_length_exceeded" if failure.kind == "context_too_long" else failure.code or None,
    }
    return status_of(failure), {"error": error}
