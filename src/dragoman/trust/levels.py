"""The levels of trust, from a field of the wire down to places where a call never counts.

| level | what it is |
|---|---|
| T5 | a native field of the wire |
| T4 | a text wrapper that carries this turn's nonce |
| T3 | a known wrapper in the answer; with a model's family given, one of that family |
| T2 | the whole message is JSON calls of offered tools, bare or in one fence |
| T1 | found by looking hard: JSON in prose, another family's wrapper |
| T0 | inside thinking, a quotation, or a code fence that is none of the format |
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from dragoman.formats import NONCE, STALE_NONCE
from dragoman.types import ToolCall

Level = Literal["T5", "T4", "T3", "T2", "T1", "T0"]

_NEVER = frozenset({"thinking", "quote", "fence"})


def find_level(call: ToolCall, region: str, family: Collection[str] | None = None) -> Level:
    """The level of a call that was found in a region of the reply; `family` are the formats that the model writes."""
    provenance = call.provenance
    if provenance is not None and provenance.channel == "native":
        return "T5"
    if region in _NEVER:
        return "T0"
    written = provenance.format if provenance is not None else ""
    if written == NONCE:
        return "T4"
    if region == "loose" or written == STALE_NONCE:
        return "T1"
    if region == "message":
        return "T2"
    if family is not None and written not in family:
        return "T1"
    return "T3"
