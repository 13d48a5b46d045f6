"""Loose mode: finds calls without a marker by the names of the offered tools, and the region of each."""

from __future__ import annotations

from dragoman.formats.loose.candidates import Found
from dragoman.formats.loose.scanner import find_calls

__all__ = ["Found", "find_calls"]
