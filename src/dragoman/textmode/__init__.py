"""Talking to models that know nothing but text: results that cannot be forged, and history in their own format."""

from __future__ import annotations

from dragoman.textmode.breaking import Broken, break_tokens, mend_tokens
from dragoman.textmode.envelopes import (
    STOP_SEQUENCES,
    Envelope,
    choose_boundary,
    explain_results,
    open_results,
    seal_results,
)
from dragoman.textmode.history import Rendered, render_history
from dragoman.textmode.invention import Stripped, strip_invented_results
from dragoman.textmode.reading import read_history
from dragoman.textmode.tokens import control_strings

__all__ = [
    "STOP_SEQUENCES",
    "Broken",
    "Envelope",
    "Rendered",
    "Stripped",
    "break_tokens",
    "choose_boundary",
    "control_strings",
    "explain_results",
    "mend_tokens",
    "open_results",
    "read_history",
    "render_history",
    "seal_results",
    "strip_invented_results",
]
