"""A way into a call: the openers that announce it, and the reader that follows.

A template compiles to one Entry; an odd format brings its own. The engine only knows entries.
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import Protocol

from dragoman.formats.cursor import Cursor, Reader

Place = OneOf["anywhere", "line", "message"]
"""Where an opener counts: anywhere, at the start of a line, or only as the start of the whole message."""


class Entry(Protocol):
    """The engine's side of a format. An entry may also say, to save attempts that must fail:

    - `follows`: which characters can stand behind the opener and white space; of `{[<(` each for itself, and `n` for
      everything else, as a name begins with.
    - `line_gate`, `line_characters`, `line_is_named`: how a line must begin for an entry without openers.
    """

    @property
    def format(self) -> str:
        """The name of the format that it belongs to."""
        ...

    @property
    def openers(self) -> tuple[str, ...]:
        """The literals that it begins with. Empty for entries without a marker, which are tried at their place."""
        ...

    @property
    def place(self) -> Place: ...

    @property
    def section(self) -> tuple[str, str] | None:
        """The tags around all calls of a reply, if there are any."""
        ...

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        """For entries without openers: whether a call may begin here; None if more text is needed to tell."""
        ...

    def read(self, cursor: Cursor) -> Reader:
        """Read from the opener on. Report calls through the cursor, or raise NotACall or Spoilt."""
        ...


class MarkedEntry:
    """What most entries have in common: a marker that counts anywhere, and no section around it."""

    place: Place = "anywhere"
    section: tuple[str, str] | None = None

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        return True
