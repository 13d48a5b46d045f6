"""Errors of this wire: what a body says in our words, and our words as a body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.types import Failure, FailureKind, JsonObject
from dragoman.wire.failures import fail, status_of
from dragoman.wire.values import as_dict, as_text

_KINDS: dict[str, FailureKind] = {
    "invalid_request_error": "bad_request",
    "authentication_error": "unauthorized",
    "billing_error": "unauthorized",
    "permission_error": "unauthorized",
    "not_found_error": "not_found",
    "request_too_large": "context_too_long",
    "rate_limit_error": "rate_limited",
    "api_error": "server_error",
    "timeout_error": "timed_out",
    "overloaded_error": "overloaded",
}
_TYPES: dict[FailureKind, str] = {
    "bad_request": "invalid_request_error",
    "refused": "invalid_request_error",
    "context_too_long": "invalid_request_error",
    "unauthorized": "authentication_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "server_error": "api_error",
    "stream_cut": "api_error",
    "timed_out": "timeout_error",
    "overloaded": "overloaded_error",
}
_TYPES_BY_STATUS = {402: "billing_error", 403: "permission_error", 413: "request_too_large"}
_is_filtered = re.compile(r"content.filter", re.IGNORECASE).search
# Clients know by these words that they have to shorten the conversation.
_TOO_LONG = "prompt is too long"


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error says: `{"type": "error", "error": {...}}`, the shapes of relatives, or mere text."""
    fields = as_dict(body)
    error = fields.get("error", body)
    inner = as_dict(error)
    message = inner.get("message") or (error if isinstance(error, str) else None)
    message = message or fields.get("message") or fields.get("detail") or ""
    code = inner.get("type") or inner.get("code")
    failure = fail(message, status=status, code=code, body=body, headers=headers)
    if failure.kind == "context_too_long":
        return failure
    if _is_filtered(failure.message[:2000]):
        return replace(failure, kind="refused")
    kind = _KINDS.get(failure.code)
    return failure if kind is None else replace(failure, kind=kind)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """The HTTP status and the body of an error answer."""
    return status_of(failure), write_error(failure)


def write_error(failure: Failure) -> JsonObject:
    """The body of an error answer, which is also the event that ends a stream badly."""
    kind = failure.code if _KINDS.get(failure.code) == failure.kind else ""
    kind = kind or (_TYPES_BY_STATUS.get(failure.status or 0, "") if failure.kind != "bad_request" else "")
    message = failure.message or as_text(failure.code) or failure.kind.replace("_", " ")
    if failure.kind == "context_too_long" and _TOO_LONG not in message.lower():
        message = f"{_TOO_LONG}: {message}"
    return {"type": "error", "error": {"type": kind or _TYPES[failure.kind], "message": message}}
