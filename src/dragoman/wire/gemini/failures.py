"""Errors of generateContent, both ways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.types import Failure, FailureKind, JsonObject
from dragoman.wire.failures import fail, status_of
from dragoman.wire.values import BROKEN, as_dict, as_text, dicts, parse

_WORDS: Mapping[FailureKind, str] = {
    "rate_limited": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "unauthorized": "UNAUTHENTICATED",
    "bad_request": "INVALID_ARGUMENT",
    "context_too_long": "INVALID_ARGUMENT",
    "refused": "INVALID_ARGUMENT",
    "not_found": "NOT_FOUND",
    "timed_out": "DEADLINE_EXCEEDED",
    "stream_cut": "UNAVAILABLE",
    "server_error": "INTERNAL",
}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_find_excess = re.compile(r"token count .{0,40}exceeds the maximum", re.IGNORECASE | re.DOTALL).search
_read_seconds = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s").fullmatch


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error body says: `{"error": {...}}`, the same inside a list, or its text."""
    if isinstance(body, str | bytes):
        found = parse(body)
        body = body if found is BROKEN else found
    whole = body[0] if isinstance(body, list) and body else body
    error = as_dict(whole).get("error", whole)
    inner = as_dict(error)
    code = inner.get("code")
    if status is None and isinstance(code, int) and 400 <= code < 600:
        status = code
    message = inner.get("message") or (error if isinstance(error, str) else None) or as_dict(whole).get("message")
    failure = fail(message, status=status, code=inner.get("status") or code, body=body, headers=headers)
    return _specify(failure, list(dicts(inner.get("details"))))


def _specify(failure: Failure, details: list[JsonObject]) -> Failure:
    """What only the message and the details of this API tell."""
    if _find_excess(failure.message[:2000]):
        failure = replace(failure, kind="context_too_long")
    elif any(entry.get("reason") == "API_KEY_INVALID" for entry in details):
        failure = replace(failure, kind="unauthorized")
    delay = next((found for entry in details if (found := _read_delay(entry)) is not None), None)
    return failure if delay is None else replace(failure, retry_after=delay)


def _read_delay(entry: JsonObject) -> float | None:
    found = _read_seconds(as_text(entry.get("retryDelay")))
    return float(found[1]) if found else None


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    # 529 is Anthropic's; clients of this API know 503.
    status = 503 if failure.kind == "overloaded" else status_of(failure)
    error: JsonObject = {
        "code": status,
        "message": failure.message or failure.kind.replace("_", " "),
        "status": _WORDS[failure.kind],
    }
    if failure.retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{failure.retry_after:.9g}s"}]
    return status, {"error": error}
