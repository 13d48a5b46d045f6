"""A wrapper that bears a word of this turn: text that was written before the turn cannot carry it.

    <tool_call id="k7Qx...">
    {"name": "search", "arguments": {"query": "fjord"}}
    </tool_call>

The word (the nonce) is drawn by the caller for one request, told to the model in the system prompt, and never written
into history or results. A page or a file that holds a call in any public spelling does not know it.
"""

from __future__ import annotations

import re

from dragoman.errors import ConfigError
from dragoman.formats.cursor import Cursor, NotACall, Reader
from dragoman.formats.plan import compile_entry
from dragoman.formats.steps import ReadSlot, Scope, TemplateEntry, Waiting
from dragoman.formats.template import Format

NONCE = "nonce"
"""The format of a call in a wrapper with this turn's nonce, in its provenance."""
STALE_NONCE = "stale_nonce"
"""The format of a call in such a wrapper with any other word: an old one, a misspelt one, or a guess."""

_is_nonce = re.compile(r"[A-Za-z0-9_\-]{8,128}\Z").match
_may_be_nonce = re.compile(r"[\w\-]{1,128}\Z").match
_OPENER = "<tool_call "
"""What the engine looks for: `auto` does so anyway, so that a new nonce costs no new search."""
_READ = '<tool_call id="{id}">\n{call}\n</tool_call>'
_SPELLINGS = {
    '<tool_call id="': ("<tool_call id='", "<tool_call id=", '<tool_call  id="'),
    '">': ("'>", ">", '" >'),
    "</tool_call>": ("</toolcall>", "</tool-call>"),
}


def nonce_format(nonce: str) -> Format:
    """The format of this turn: give it to `parser` and `parse` as `extra=[...]`, and to `render` and `instructions`.

    A call in the wrapper says in its provenance whether it bore this nonce (`nonce`) or another word (`stale_nonce`).
    """
    if _is_nonce(nonce) is None:
        raise ConfigError(
            f"not a nonce: {nonce[:20]!r}",
            hint="give 8 to 128 letters and digits, for example secrets.token_urlsafe(16)",
        )
    return Format(
        name=NONCE,
        template=_READ.replace("{id}", nonce),
        template_is_read=False,  # the reader also takes wrappers with another word, and says so
        entries=(_entry(nonce),),
        thinking=(),
        family="A",
        models="any model that is asked to, for one turn",
        in_auto=False,
    )


def _entry(nonce: str) -> TemplateEntry:
    made = compile_entry(Format(name=NONCE, spellings=_SPELLINGS), _READ)
    slot = next(place for place, step in enumerate(made.steps) if isinstance(step, ReadSlot))
    steps = (*made.steps[: slot + 1], _CompareNonce(nonce), *made.steps[slot + 1 :])
    return TemplateEntry(NONCE, (_OPENER,), steps, source=f"{_READ} {nonce}", stops=made.stops)


class _CompareNonce(Waiting):
    """The word has been read: from here on the call is this turn's, or somebody else's."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        yield from ()
        word = scope.filled["id"]
        if _may_be_nonce(word) is None:
            raise NotACall("the tag bears no nonce")
        cursor.format = NONCE if word == self._nonce else STALE_NONCE
