"""Failures (errors of providers) and losses (what a conversion could not carry over)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dragoman.errors import (
    BadRequest,
    ConnectFailed,
    ContextTooLong,
    DragomanError,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Refused,
    StreamCut,
    TimedOut,
    Unauthorized,
)
from dragoman.types import Failure, FailureKind

# --------------------------------------------------------------------------------------------------------------------
# Losses: what a conversion left out or changed. Every encoded request comes with them.


class Loss(Struct, frozen=True, gc=False):
    """One detail that a conversion changed, moved or left out.

    `rule` is the stable name of the change (`dropped`, `inlined`, `renamed`, ...), `where` is the place
    (`tool search`, `message 3`), `detail` is a description.
    """

    rule: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"


# --------------------------------------------------------------------------------------------------------------------
# Failures: errors of all providers in one type, from status and message to a Failure and to an exception.

_BY_STATUS: dict[int, FailureKind] = {
    400: "bad_request",
    401: "unauthorized",
    402: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    405: "not_found",  # the path is for other requests
    406: "bad_request",
    408: "timed_out",
    410: "not_found",
    411: "bad_request",
    413: "context_too_long",
    414: "bad_request",
    415: "bad_request",
    422: "bad_request",
    424: "server_error",
    429: "rate_limited",
    431: "bad_request",
    451: "refused",
    498: "unauthorized",  # an invalid token
    501: "not_found",  # the server has no such function
    503: "overloaded",
    504: "timed_out",
    516: "bad_request",  # a server without support for tools
    529: "overloaded",
}
_STATUS: dict[FailureKind, int] = {
    "rate_limited": 429,
    "overloaded": 503,
    "unauthorized": 401,
    "bad_request": 400,
    "context_too_long": 400,
    "refused": 400,
    "not_found": 404,
    "timed_out": 504,
    "stream_cut": 502,
    "server_error": 500,
    "unreachable": 502,
    "insecure": 502,
    "broken_protocol": 502,
    "too_large": 502,
}
_BY_WORD: tuple[tuple[str, FailureKind], ...] = (
    (
        r"context.?length|context.?window|context.?size|too.?many.?(prompt.?|input.?)?tokens|prompt is too long"
        r"|maximum context|range of input length|`inputs` (tokens \+|must have less)",
        "context_too_long",
    ),
    (
        r"rate.?limit|throttl|resource.?exhausted|too.?many.?(concurrent.?)?requests|quota|capacity.?exceeded",
        "rate_limited",
    ),
    (r"overloaded|service.?unavailable|unavailable|not.?ready", "overloaded"),
    (r"authenticat|unauthorized|permission|access.?denied|api.?key|billing|unrecognizedclient", "unauthorized"),
    (r"time.?out|timed out|deadline", "timed_out"),
    (r"content.?(filter|policy)|safety|moderation", "refused"),
    (r"not.?found", "not_found"),
    (r"invalid|validation|bad.?request|malformed|unprocessable|tool_use_failed", "bad_request"),
)
# What some servers answer with the status of a bad request.
_BY_WORD_OF_400: tuple[tuple[str, FailureKind], ...] = (
    (
        r"(invalid|incorrect|wrong|missing|expired|no valid).?api.?key|api.?key (is )?(invalid|incorrect|not valid)"
        r"|authentication.?(error|failed)",
        "unauthorized",
    ),
    (
        r"model.?not.?found|(no such|unknown|invalid) model|model [^.]{0,120}(does not exist|not found|not exist)",
        "not_found",
    ),
)
_MISTAKEN = tuple((re.compile(pattern, re.IGNORECASE).search, kind) for pattern, kind in _BY_WORD_OF_400)
_WORDS = tuple((re.compile(pattern, re.IGNORECASE).search, kind) for pattern, kind in _BY_WORD)
_ERRORS: dict[FailureKind, type[ProviderError]] = {
    "rate_limited": RateLimited,
    "overloaded": Overloaded,
    "unauthorized": Unauthorized,
    "bad_request": BadRequest,
    "context_too_long": ContextTooLong,
    "refused": Refused,
    "not_found": BadRequest,
    "server_error": ProviderError,
}


def classify(status: int | None, code: str, message: str) -> FailureKind:
    """Return the kind of an error: first by a message about the context length, then by status, then by message."""
    words = f"{code} {message}"[:2000]
    if _WORDS[0][0](words):
        return "context_too_long"
    if status == 400:
        return next((kind for search, kind in _MISTAKEN if search(words)), "bad_request")
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and status >= 500:
        return "server_error"
    # A code of digits is the server's own number: only the message says what it means.
    telling = words if not code or code.isdigit() else code
    return next((kind for search, kind in _WORDS if search(telling)), "server_error")


def fail(
    message: Any,
    *,
    status: int | None = None,
    code: Any = "",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Failure:
    """Make a Failure from the fields of an error, which may have any types."""
    text = message if isinstance(message, str) else "" if message is None else str(message)[:2000]
    name = code if isinstance(code, str) else "" if code is None else str(code)[:200]
    return Failure(classify(status, name, text), text, status, name, _read_delay(headers), body)


def _read_delay(headers: Mapping[str, str] | None) -> float | None:
    value = next((text for name, text in (headers or {}).items() if name.lower() == "retry-after"), "")
    try:
        delay = float(value)
    except (TypeError, ValueError):
        return None
    return delay if 0 <= delay < 1e9 else None


def status_of(failure: Failure) -> int:
    """Return the HTTP status for a failure, for a server."""
    return failure.status if failure.status is not None and failure.status >= 400 else _STATUS[failure.kind]


CONNECTION_HINTS = {
    "dns": "check the name of the host in the address, and the network",
    "tls": "check the address; if your company signs certificates itself, name the file of its CA in SSL_CERT_FILE",
    "proxy": "check the proxy in HTTPS_PROXY or HTTP_PROXY, or name the host in NO_PROXY",
}
_HINTS: dict[FailureKind, str] = {
    "not_found": "check the name of the model and the address: most base URLs end in /v1; `dragoman models URL` lists "
    "the models of a server",
    "server_error": "the server failed: try again later, and read its log if it is yours",
    "too_large": "check the address: the size of this answer is not that of a model's reply",
}
"""Next steps that say more than those of the exception's class."""
PROTOCOL_HINTS = {
    "redirect": "use the address to which the server redirects, or log in to the network if it is a login page",
    "content_type": "check the address: a web page, a proxy or another program answers there, not a model",
    "status_line": "check the address and its port: the program there does not speak HTTP",
    "tls": "write https:// instead of http:// in the address",
}


def as_error(failure: Failure) -> DragomanError:
    """Return the exception for a failure."""
    message = failure.message or failure.code or failure.kind.replace("_", " ")
    if failure.kind == "stream_cut":
        return StreamCut(message)
    if failure.kind == "timed_out":
        return TimedOut(message)
    if failure.kind in ("unreachable", "insecure"):
        return ConnectFailed(message, hint=CONNECTION_HINTS.get(failure.code or ""))
    if failure.kind in ("broken_protocol", "too_large"):
        error = ProtocolError(message, raw=failure.body if isinstance(failure.body, str) else "")
        return _suggest(error, _HINTS.get(failure.kind) or PROTOCOL_HINTS.get(failure.code))
    hint = _HINTS.get(failure.kind)
    return _ERRORS[failure.kind](message, status=failure.status, body=failure.body, hint=hint)


def _suggest(error: ProtocolError, hint: str | None) -> ProtocolError:
    """Replace the next step of an error, which its class takes no argument for."""
    if hint is not None:
        error.next_step = error.command_hint = hint
        error.__notes__ = [f"hint: {hint}"]
    return error
