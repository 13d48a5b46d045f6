"""Mistral's errors: flat objects, and lists of details for fields that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import Failure, JsonObject
from dragoman.wire.failures import fail, status_of
from dragoman.wire.openai_chat import failures as chat
from dragoman.wire.values import as_dict, as_text, dicts


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    fields = as_dict(body)
    details = [as_text(entry.get("msg")) for entry in dicts(fields.get("detail"))]
    if details:
        return fail("; ".join(filter(None, details)), status=status or 422, body=body, headers=headers)
    if fields.get("object") == "error":
        code = fields.get("code") or fields.get("type")
        return fail(fields.get("message"), status=status, code=code, body=body, headers=headers)
    return chat.read_failure(status, body, headers)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    message = failure.message or failure.kind.replace("_", " ")
    body = {"object": "error", "message": message, "type": failure.kind, "param": None, "code": failure.code or None}
    return status_of(failure), body
