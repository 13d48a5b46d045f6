"""Calls that no marked format claims: found by the names that were offered, each with the region it stands in."""

from dragoman.formats.loose.found import Found
from dragoman.formats.loose.scanner import find_calls

__all__ = ["Found", "find_calls"]
