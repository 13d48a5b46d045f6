"""Cohere's errors: a flat object with a message, or the last frame of a stream."""

from __future__ import annotations

from typing import Any

from dragoman.types import Failure, JsonObject
from dragoman.wire.failures import fail, status_of


def read_end(reason: str, error: Any) -> Failure:
    """What went wrong, by the last frame of a stream, or by the reason of a whole reply."""
    words = error or f"the reply ended with {reason}"
    # ERROR alone says nothing: then the words decide about the kind.
    return fail(words, code="" if reason == "ERROR" else reason)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    return status_of(failure), {"message": describe(failure)}


def describe(failure: Failure) -> str:
    return failure.message or failure.code or failure.kind.replace("_", " ")
