"""The words of this wire beside ours: reasons to stop, counts of tokens, and what it demands of a conversation."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.aliases import IdRule, NameRule
from dragoman.wire.rules import HistoryRules
from dragoman.wire.values import as_count, as_dict, as_text

WIRE = "anthropic"

RULES = HistoryRules(
    WIRE,
    names=NameRule(r"[^a-zA-Z0-9_-]", r"[a-zA-Z0-9_-]+", 128),
    ids=IdRule(r"[a-zA-Z0-9_-]+", 1 << 30),
    system="front",
    result_images=True,
    result_files=True,
    text_after_calls=True,
    first_user=True,
    merges=True,
)

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_WORDS: dict[StopReason, str] = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause": "pause_turn",
    # There is no word for these two. A reply that failed is not written as a message at all.
    "error": "end_turn",
    "unknown": "end_turn",
}
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def own(extra: dict[str, Any]) -> JsonObject:
    """What only this wire understands of a part, a reply or a tool."""
    return as_dict(extra.get(WIRE))


def wrap(fields: JsonObject) -> dict[str, Any]:
    """The same as an `extra`."""
    return {WIRE: fields} if fields else {}


def without(fields: JsonObject, *known: str) -> JsonObject:
    """The fields that have a value and no neutral name."""
    return {name: value for name, value in fields.items() if name not in known and value is not None}


def word_for(stop: StopReason, extra: dict[str, Any], has_calls: bool) -> str:
    """The reason to stop: the word that this wire itself gave, or its word for ours. Calls decide over the rest."""
    given = as_text(own(extra).get("reason"))
    word = given if STOPS.get(given) == stop else _WORDS[stop]
    if has_calls:
        return "tool_use" if word == "end_turn" else word
    return "end_turn" if word == "tool_use" else word


# ---- usage -----------------------------------------------------------------------------------------------------------


def add_usage(counted: JsonObject, report: Any) -> None:
    """Take a report over. Counts are running totals, and one that a later report leaves out or sets to 0 stands."""
    for name, value in as_dict(report).items():
        if value or name not in counted:
            counted[name] = value


def read_usage(counted: JsonObject) -> Usage:
    """Totals from the counts of this wire, which leaves what the cache took part in out of its input tokens."""
    fresh, written, cached, output = (as_count(counted.get(name)) for name in _COUNTS)
    thought = as_count(as_dict(counted.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(fresh + written + cached, output, cached, thought, written)


def read_own_usage(counted: JsonObject) -> JsonObject:
    return without(counted, *_COUNTS, "output_tokens_details")


def write_usage(usage: Usage) -> JsonObject:
    """Both cache counts are always there: clients add them up without asking."""
    counted: JsonObject = {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        counted["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counted
