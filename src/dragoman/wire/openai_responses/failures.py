"""Errors of the Responses API: bodies, frames and failed responses, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.types import Failure, FailureKind, JsonObject
from dragoman.wire.codec import as_object
from dragoman.wire.failures import fail, status_of
from dragoman.wire.values import as_dict

_CODES: dict[FailureKind, str] = {
    "rate_limited": "rate_limit_exceeded",
    "overloaded": "server_is_overloaded",
    "unauthorized": "invalid_api_key",
    "bad_request": "invalid_prompt",
    "context_too_long": "context_length_exceeded",
    "refused": "content_filter",
    "not_found": "model_not_found",
    "timed_out": "timeout",
}
# Words that clients of this wire act upon: they stay as they are.
_KNOWN_CODES = frozenset(
    {
        *_CODES.values(),
        "insufficient_quota",
        "server_error",
        "usage_not_included",
        "invalid_encrypted_content",
        "previous_response_not_found",
        "content_policy_violation",
    }
)
# A response that failed may only name a few of them; the others stand beside it, as its type.
_RESPONSE_CODES = frozenset({"rate_limit_exceeded", "server_error", "invalid_prompt", "context_length_exceeded"})
_FAULTS_OF_REQUEST = frozenset({"unauthorized", "bad_request", "refused", "not_found"})
_TYPES: dict[FailureKind, str] = {
    "rate_limited": "rate_limit_error",
    "unauthorized": "authentication_error",
    "bad_request": "invalid_request_error",
    "context_too_long": "invalid_request_error",
    "refused": "invalid_request_error",
    "not_found": "invalid_request_error",
}


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error says: `{"error": {...}}`, `{"error": "text"}`, a frame `{"type": "error", ...}`, or mere text."""
    given = as_object(body) or body if isinstance(body, bytes | str) else body
    whole = given[0] if isinstance(given, list) and given else given
    fields = as_dict(whole)
    error = fields.get("error") or whole
    inner = as_dict(error)
    kind = inner.get("type")
    code = inner.get("code") or (kind if kind != "error" else None)
    if isinstance(code, str) and code in _RESPONSE_CODES and isinstance(kind, str) and kind in _KNOWN_CODES:
        code = kind
    if status is None and isinstance(inner.get("code"), int) and 400 <= inner["code"] < 600:
        status = inner["code"]
    plain = error.decode("utf-8", "replace") if isinstance(error, bytes) else error
    message = inner.get("message") or inner.get("detail") or fields.get("message") or fields.get("detail")
    if message is None and isinstance(plain, str):
        message = plain
    failure = fail(message, status=status, code=code, body=body, headers=headers)
    if failure.kind == "bad_request" and failure.code.startswith(("content_filter", "content_policy")):
        # It has the status of a bad request, but asking in another way may help where mending the request does not.
        return replace(failure, kind="refused")
    return failure


def write_error(failure: Failure) -> JsonObject:
    """The error object of a failed response."""
    message = failure.message or failure.kind.replace("_", " ")
    code = _code_of(failure)
    if code in _RESPONSE_CODES:
        return {"code": code, "message": message}
    named = "invalid_prompt" if failure.kind in _FAULTS_OF_REQUEST else "server_error"
    return {"code": named, "message": message, "type": code}


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """The status and the body of an error answer."""
    error = {
        "message": failure.message or failure.kind.replace("_", " "),
        "type": _TYPES.get(failure.kind, "server_error"),
        "param": None,
        "code": _code_of(failure),
    }
    return status_of(failure), {"error": error}


def _code_of(failure: Failure) -> str:
    return failure.code if failure.code in _KNOWN_CODES else _CODES.get(failure.kind, "server_error")
