"""The words of chat completions, and ours for them."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.types import StopReason, Usage
from dragoman.wire.values import as_count, as_dict

STOPS: Mapping[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    # Mistral's own two:
    "model_length": "length",
    "error": "error",
}
FINISHES: Mapping[StopReason, str] = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "stop_sequence": "stop",
    "refusal": "content_filter",
    "pause": "stop",
    "error": "stop",
    "unknown": "stop",
}


def read_usage(value: object) -> Usage | None:
    counts = as_dict(value)
    if not counts:
        return None
    given = as_dict(counts.get("prompt_tokens_details"))
    made = as_dict(counts.get("completion_tokens_details"))
    return Usage(
        as_count(counts.get("prompt_tokens")),
        as_count(counts.get("completion_tokens")),
        as_count(given.get("cached_tokens")),
        as_count(made.get("reasoning_tokens")),
        as_count(given.get("cache_write_tokens")),
    )


def write_usage(usage: Usage) -> dict[str, object]:
    counts: dict[str, object] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    given = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    if any(given.values()):
        counts["prompt_tokens_details"] = {name: count for name, count in given.items() if count}
    if usage.reasoning_tokens:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts
