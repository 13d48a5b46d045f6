"""The words of Converse, and ours for them: stop reasons, usage, and the models that lie behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.values import as_count, as_dict, as_text

WIRE = "bedrock"

STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "malformed_tool_use": "error",
    "malformed_model_output": "error",
}
_REASONS: Mapping[StopReason, str] = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "content_filtered",
    "pause": "end_turn",
    "error": "malformed_model_output",
    "unknown": "end_turn",
}
_CLAUDE = re.compile(r"claude|anthropic", re.IGNORECASE)
_NOVA = re.compile(r"\bnova\b", re.IGNORECASE)


def own(extra: Mapping[str, Any]) -> JsonObject:
    """What only this wire understands of a part."""
    return as_dict(extra.get(WIRE))


def family_of(model: str) -> str:
    """Whose extra fields a model takes: `claude`, `nova`, or none that we know."""
    if _CLAUDE.search(model):
        return "claude"
    return "nova" if _NOVA.search(model) else ""


def reason_of(stop: StopReason, extra: Mapping[str, Any], *, has_calls: bool) -> str:
    """The stop reason for a client: the word that this wire itself gave, or ours for it."""
    reason = as_text(own(extra).get("reason")) or _REASONS[stop]
    # Clients look for calls by this word, and only by this word.
    if reason in ("tool_use", "end_turn"):
        return "tool_use" if has_calls else "end_turn"
    return reason


def read_usage(value: Any) -> Usage | None:
    counts = as_dict(value)
    if not counts:
        return None
    read = as_count(counts.get("cacheReadInputTokens"))
    written = as_count(counts.get("cacheWriteInputTokens"))
    # On this wire the input does not contain what came from the cache or went into it.
    total = as_count(counts.get("inputTokens")) + read + written
    return Usage(total, as_count(counts.get("outputTokens")), read, 0, written)


def write_usage(usage: Usage) -> JsonObject:
    counts: JsonObject = {
        "inputTokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens:
        counts["cacheReadInputTokens"] = usage.cached_tokens
    if usage.cache_write_tokens:
        counts["cacheWriteInputTokens"] = usage.cache_write_tokens
    return counts
