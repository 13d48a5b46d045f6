"""The words of generateContent, and ours for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.values import as_count, as_dict

PLACEHOLDER = "skip_thought_signature_validator"
"""The signature that the API agrees to take for calls that it did not make itself."""

STOPS: Mapping[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"), "refusal"),
    "CONTINUATION": "pause",
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"), "error"),
    **dict.fromkeys(("TOO_MANY_TOOL_CALLS", "OTHER", "NO_IMAGE"), "error"),
}
FINISHES: Mapping[StopReason, str] = {
    "end": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "stop_sequence": "STOP",
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "error": "OTHER",
    "unknown": "STOP",
}
LEVELS: Mapping[str, str] = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    # Efforts beyond the highest level of this wire:
    "xhigh": "HIGH",
    "max": "HIGH",
}
BUDGETS: Mapping[str, int] = {"MINIMAL": 1024, "LOW": 1024, "MEDIUM": 8192, "HIGH": 24576}
"""What the vendor's own compatibility layer makes of an effort for models that only know budgets."""

_find_generation = re.compile(r"gemini-(\d{1,3})").search
_find_capital = re.compile(r"_([a-z0-9])").sub


def generation_of(model: str) -> int:
    """The generation of a Gemini model; 0 where its name does not tell."""
    found = _find_generation(model)
    return int(found[1]) if found else 0


def camel(fields: dict[Any, Any]) -> JsonObject:
    """The same fields with names in camelCase: clients send both spellings. Their values are left alone."""
    try:
        if "_" not in "".join(fields):
            return fields
    except TypeError:
        # Names that are no text come from no wire; they are left out below.
        pass
    spelled: JsonObject = {}
    for name, value in fields.items():
        if isinstance(name, str):
            spelled.setdefault(_find_capital(lambda found: found[1].upper(), name), value)
    return spelled


def read_usage(value: object) -> Usage | None:
    counts = camel(as_dict(value))
    if not counts:
        return None
    thoughts = as_count(counts.get("thoughtsTokenCount"))
    return Usage(
        # What built-in tools fed to the model is counted apart from the prompt.
        as_count(counts.get("promptTokenCount")) + as_count(counts.get("toolUsePromptTokenCount")),
        as_count(counts.get("candidatesTokenCount")) + thoughts,
        as_count(counts.get("cachedContentTokenCount")),
        thoughts,
    )


def write_usage(usage: Usage) -> JsonObject:
    said = max(0, usage.output_tokens - usage.reasoning_tokens)
    counts: JsonObject = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": said,
        "totalTokenCount": usage.input_tokens + said + usage.reasoning_tokens,
    }
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    return counts
