"""Formats that no template can say: each a small class with the same interface as a compiled template."""

from __future__ import annotations
