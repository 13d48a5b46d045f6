"""The words of the Responses API: kinds of items, why a response ended, and what it cost."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.aliases import IdRule
from dragoman.wire.values import as_count, as_dict, as_text

WIRE = "openai_responses"
IDS = IdRule(r"(?s).+", 64)

FUNCTION = "function_call"
CUSTOM = "custom_tool_call"
OUTPUTS = {FUNCTION: "function_call_output", CUSTOM: "custom_tool_call_output"}
"""The item that answers each kind of call."""


def read_stop(response: JsonObject, status: str, *, refused: bool) -> tuple[StopReason, str]:
    """Why a response ended, in our word and in the wire's."""
    if status == "incomplete":
        reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
        # Whatever interrupted it, the last item may be half of what was meant: only `length` says that safely.
        return ("refusal" if reason == "content_filter" else "length"), reason or status
    if status in ("queued", "in_progress"):
        return "pause", status
    return ("refusal" if refused else "end"), status


def write_stop(stop: StopReason, own: JsonObject) -> tuple[str, JsonObject | None]:
    """The status of a response and, where it is incomplete, the details."""
    if stop == "length":
        reason = as_text(own.get("reason"))
        known = reason in ("max_messages", "steered", "max_output_tokens")
        return "incomplete", {"reason": reason if known else "max_output_tokens"}
    if stop == "refusal":
        return "incomplete", {"reason": "content_filter"}
    return ("failed" if stop == "error" else "completed"), None


def read_usage(given: Any) -> Usage | None:
    if not isinstance(given, dict):
        return None
    received = as_dict(given.get("input_tokens_details"))
    made = as_dict(given.get("output_tokens_details"))
    return Usage(
        as_count(given.get("input_tokens")),
        as_count(given.get("output_tokens")),
        as_count(received.get("cached_tokens")),
        as_count(made.get("reasoning_tokens")),
        as_count(received.get("cache_write_tokens")),
    )


def write_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
