"""How far a grammar goes where a schema sets no limit of its own, and what it had to leave out."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Small models run on where they may: everything that repeats has an end."""

    calls: int = 4
    items: int = 16
    """Of a list, and members of a free object, where the schema does not say."""
    characters: int | None = 1000
    """Of a text for which the schema states no `maxLength`. None: without end."""
    reply: int | None = None
    """Characters of a plain reply. None: without end; the caller's limit of tokens ends it."""
    depth: int = 3
    """Of free JSON, and of references that lead into themselves."""


class Loss(Struct, frozen=True):
    """Something of a schema that the grammar does not hold: it has to be validated afterwards."""

    tool: str
    path: str
    keyword: str
    why: str

    def __str__(self) -> str:
        return f"{self.tool} {self.path}: {self.keyword}: {self.why}"
