"""What was extracted from a reply: the calls that count, those that do not, and why."""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.events import CallRefused
from dragoman.types import InvalidCall, ToolCall


class Extraction(Struct, frozen=True):
    """`calls` may run (`provenance.verdict` is `allow`) or have to be asked for (`ask`); nothing else may."""

    text: str = ""
    thinking: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    refused: list[CallRefused] = field(default_factory=list)
    """Well-formed calls that do not count, with the reason; the place is in `call.provenance`."""
    invalid: list[InvalidCall] = field(default_factory=list)
    """Calls that cannot be run as they were written: malformed, cut off, of no tool, or with bad arguments."""
    notice: str = ""
    """What to tell the model of refused calls, once; empty when there is nothing to tell, or it was told already."""
