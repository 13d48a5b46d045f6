"""Errors both ways: the table of types, and what else servers say."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import Failure, FailureKind
from dragoman.wire.anthropic import Anthropic

CODEC = Anthropic()


@pytest.mark.parametrize(
    ("status", "type", "kind"),
    [
        (400, "invalid_request_error", "bad_request"),
        (401, "authentication_error", "unauthorized"),
        (402, "billing_error", "unauthorized"),
        (403, "permission_error", "unauthorized"),
        (404, "not_found_error", "not_found"),
        (413, "request_too_large", "context_too_long"),
        (429, "rate_limit_error", "rate_limited"),
        (500, "api_error", "server_error"),
        (504, "timeout_error", "timed_out"),
        (529, "overloaded_error", "overloaded"),
    ],
)
def test_the_table_of_types(status: int, type: str, kind: FailureKind) -> None:
    error = {"type": type, "message": "prompt is too long" if kind == "context_too_long" else "Why."}
    body = {"type": "error", "error": error, "request_id": "req_1"}
    failure = CODEC.decode_failure(status, body, {"Retry-After": "3"})
    assert failure == Failure(kind, error["message"], status, type, 3.0, body)
    # In a stream there is no status, and the type alone tells.
    assert CODEC.decode_failure(None, body).kind == kind
    assert CODEC.encode_failure(failure) == (status, {"type": "error", "error": error})


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens"}},
            "context_too_long",
            "prompt is too long: 210000 tokens",
        ),
        (
            {"error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}},
            "refused",
            "Output blocked by content filtering policy",
        ),
        ({"error": "busy"}, "bad_request", "busy"),
        ({"message": "no"}, "bad_request", "no"),
        ({"detail": "no"}, "bad_request", "no"),
        ("Bad gateway", "bad_request", "Bad gateway"),
        ({"error": {"type": 5, "message": ["x"]}}, "bad_request", "['x']"),
        (None, "bad_request", ""),
        ([], "bad_request", ""),
    ],
)
def test_other_words_and_shapes(body: Any, kind: str, message: str) -> None:
    failure = CODEC.decode_failure(400, body)
    assert (failure.kind, failure.message) == (kind, message)


@pytest.mark.parametrize(
    ("failure", "status", "type", "message"),
    [
        (Failure("rate_limited", "Slow down"), 429, "rate_limit_error", "Slow down"),
        (Failure("unauthorized", "No", 403), 403, "permission_error", "No"),
        (Failure("bad_request", "No", 422), 422, "invalid_request_error", "No"),
        (Failure("stream_cut"), 502, "api_error", "stream cut"),
        (Failure("server_error", "", None, "E42"), 500, "api_error", "E42"),
        (Failure("refused", "No"), 400, "invalid_request_error", "No"),
        (Failure("overloaded", "x", 503, "server_is_overloaded"), 503, "overloaded_error", "x"),
        # Clients shorten the conversation when they read these words.
        (
            Failure("context_too_long", "maximum is 8192"),
            400,
            "invalid_request_error",
            "prompt is too long: maximum is 8192",
        ),
    ],
)
def test_failures_of_others_in_the_words_of_this_wire(failure: Failure, status: int, type: str, message: str) -> None:
    assert CODEC.encode_failure(failure) == (status, {"type": "error", "error": {"type": type, "message": message}})


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "unauthorized", "bad_request", "context_too_long"])
def test_a_kind_of_failure_survives_the_way_there_and_back(kind: FailureKind) -> None:
    status, body = CODEC.encode_failure(Failure(kind, "Why."))
    assert CODEC.decode_failure(status, body).kind == kind
    assert CODEC.decode_failure(None, body).kind == kind
