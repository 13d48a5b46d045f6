"""Sets of words, written as people write them: with blanks between."""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    """The words of a text, for tables that are easier to read without quotes."""
    return frozenset(text.split())
