"""The words of Cohere's chat, and ours for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.values import as_count, as_dict

WIRE = "cohere"
PLAN = "tool_plan"
"""The field in which a model says what it is about to call; reasoning that is no block of the content."""
THINKING = "thinking"

STOPS: Mapping[str, StopReason] = {
    "COMPLETE": "end",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR": "error",
    "TIMEOUT": "error",
    # Words of the first version of this API, which some servers still use:
    "ERROR_LIMIT": "length",
    "ERROR_TOXIC": "refusal",
}
FINISHES: Mapping[StopReason, str] = {
    "end": "COMPLETE",
    "tool_calls": "TOOL_CALL",
    "length": "MAX_TOKENS",
    "stop_sequence": "STOP_SEQUENCE",
    "refusal": "COMPLETE",
    "pause": "COMPLETE",
    "error": "ERROR",
    "unknown": "COMPLETE",
}


def read_usage(value: Any) -> Usage | None:
    """The tokens as the model counted them; where a server tells only what it bills, that."""
    usage = as_dict(value)
    counts = as_dict(usage.get("tokens")) or as_dict(usage.get("billed_units"))
    if not counts:
        return None
    return Usage(
        as_count(counts.get("input_tokens")),
        as_count(counts.get("output_tokens")),
        as_count(usage.get("cached_tokens")),
    )


def find_billed(value: Any) -> JsonObject:
    """What is billed, where it is not what was counted."""
    usage = as_dict(value)
    billed = as_dict(usage.get("billed_units"))
    return {} if billed == as_dict(usage.get("tokens")) else billed


def write_usage(usage: Usage, billed: JsonObject) -> JsonObject:
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    cached = {"cached_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {"billed_units": billed or counts, "tokens": counts, **cached}
