"""Errors of Bedrock: named by a header or by the body, and inside a stream by the frame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.types import Failure, FailureKind, JsonObject
from dragoman.wire.failures import fail
from dragoman.wire.values import BROKEN, as_dict, parse

_KINDS: dict[str, tuple[FailureKind, int]] = {
    "ThrottlingException": ("rate_limited", 429),
    "ServiceUnavailableException": ("overloaded", 503),
    "AccessDeniedException": ("unauthorized", 403),
    "ValidationException": ("bad_request", 400),
    "ResourceNotFoundException": ("not_found", 404),
    "ModelTimeoutException": ("timed_out", 408),
    "InternalServerException": ("server_error", 500),
    # The first of each kind is the one that a server of ours answers with.
    "ModelErrorException": ("server_error", 424),
    "ModelNotReadyException": ("overloaded", 429),
    "ModelStreamErrorException": ("server_error", 424),
    "ServiceQuotaExceededException": ("rate_limited", 400),
    "UnrecognizedClientException": ("unauthorized", 403),
    "ExpiredTokenException": ("unauthorized", 403),
    "UnknownOperationException": ("not_found", 404),
}
_BY_KIND = {kind: name for name, (kind, _) in reversed(_KINDS.items())} | {
    "context_too_long": "ValidationException",
    "refused": "ValidationException",
    "stream_cut": "ModelErrorException",
}
_IN_STREAM = {
    "ThrottlingException": "throttlingException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ValidationException": "validationException",
    "InternalServerException": "internalServerException",
}
_TOO_LONG = re.compile(
    r"input is too long|too many input tokens|input tokens? .{0,80}exceed|context (length|window)", re.I
)


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None, code: str = "") -> Failure:
    """What an error answer says. `code` is the name that a frame gave it."""
    if isinstance(body, bytes | str):
        parsed = parse(body)
        text = body if isinstance(body, str) else body.decode("utf-8", "replace")
        body = {"message": text} if parsed is BROKEN or not isinstance(parsed, dict) else parsed
    fields = as_dict(body)
    named = next((value for key, value in (headers or {}).items() if key.lower() == "x-amzn-errortype"), None)
    name = _clean_name(named or code or find_type(fields))
    message = next((fields[key] for key in ("message", "Message", "originalMessage") if fields.get(key)), "")
    failure = fail(message, status=status, code=name, body=body, headers=headers)
    known = _KINDS.get(name[:1].upper() + name[1:])
    if known is None:
        return failure
    kind = known[0]
    # "Too many tokens" is said of a rate here: only a request that is wrong can be wrong for its length.
    if kind == "bad_request" and (failure.kind == "context_too_long" or _TOO_LONG.search(failure.message[:2000])):
        kind = "context_too_long"
    return replace(failure, kind=kind)


def find_type(fields: JsonObject) -> str:
    """The name of an error that stands in a body; an empty text where there is none."""
    inner = as_dict(fields.get("Output"))
    found = (fields.get("__type"), fields.get("code"), fields.get("Code"), inner.get("__type"))
    return next((name for name in found if isinstance(name, str) and name), "")


def _clean_name(name: Any) -> str:
    """`com.amazon#ValidationException:http://...` as `ValidationException`."""
    return name.partition(":")[0].rpartition("#")[2] if isinstance(name, str) else ""


def name_failure(failure: Failure) -> str:
    """Bedrock's name for a failure: its own where it came from there."""
    own = failure.code[:1].upper() + failure.code[1:]
    return own if own in _KINDS and _KINDS[own][0] == failure.kind else _BY_KIND[failure.kind]


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """Status and body. AWS clients look for the name in a header, and else in `__type`."""
    name = name_failure(failure)
    return _KINDS[name][1], {"message": _words(failure), "__type": name}


def write_exception(failure: Failure) -> tuple[str, JsonObject]:
    """The type and the payload of the frame that ends a stream with an error."""
    return _IN_STREAM.get(name_failure(failure), "modelStreamErrorException"), {"message": _words(failure)}


def _words(failure: Failure) -> str:
    return failure.message or failure.code or failure.kind.replace("_", " ")
