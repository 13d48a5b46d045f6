"""Calls that no marked format claims: found by the names that were offered, each with the region it stands in."""

from __future__ import annotations

from dragoman.formats.loose.candidates import Found
from dragoman.formats.loose.scanner import find_calls

__all__ = ["Found", "find_calls"]
