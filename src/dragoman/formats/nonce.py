"""The nonce format: a wrapper with a random id for one turn, which older text cannot contain.

    <tool_call id="k7Qx...">
    {"name": "search", "arguments": {"query": "fjord"}}
    </tool_call>

The caller draws the id (the nonce) for one request. The system prompt tells it to the model, and it is never written
into history or results. So a page or a file that contains a call in a public format cannot contain the nonce.
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
"""The format of a call in such a wrapper with any other id: an old one, a misspelt one, or a guess."""

_is_nonce = re.compile(r"[A-Za-z0-9_\-]{8,128}\Z").match
_may_be_nonce = re.compile(r"[\w\-]{1,128}\Z").match
_OPENER = "<tool_call "
"""The opener for the engine. `auto` searches for it in any case, so a new nonce needs no new compiled search."""
_READ = '<tool_call id="{id}">\n{call}\n</tool_call>'
_SPELLINGS = {
    '<tool_call id="': ("<tool_call id='", "<tool_call id=", '<tool_call  id="'),
    '">': ("'>", ">", '" >'),
    "</tool_call>": ("</toolcall>", "</tool-call>"),
}


def nonce_format(nonce: str) -> Format:
    """Return the format of this turn, for `extra=[...]` of `parser` and `parse`, for `render` and for `instructions`.

    The provenance of a call in the wrapper has the format `nonce` for this nonce, and `stale_nonce` for any other id.
    """
    if _is_nonce(nonce) is None:
        raise ConfigError(
            f"not a nonce: {nonce[:20]!r}",
            hint="give 8 to 128 letters and digits, for example secrets.token_urlsafe(16)",
        )
    return Format(
        name=NONCE,
        template=_READ.replace("{id}", nonce),
        template_is_read=False,  # the reader also accepts wrappers with another id, as `stale_nonce`
        entries=(_entry(nonce),),
        thinking=(),
        family="A",
        models="any model with instructions, for one turn",
        in_auto=False,
    )


def _entry(nonce: str) -> TemplateEntry:
    made = compile_entry(Format(name=NONCE, spellings=_SPELLINGS), _READ)
    slot = next(place for place, step in enumerate(made.steps) if isinstance(step, ReadSlot))
    steps = (*made.steps[: slot + 1], _CompareNonce(nonce), *made.steps[slot + 1 :])
    return TemplateEntry(NONCE, (_OPENER,), steps, source=f"{_READ} {nonce}", stops=made.stops)


class _CompareNonce(Waiting):
    """Compares the id that was read with the nonce, and sets the format of the call."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        yield from ()
        word = scope.filled["id"]
        if _may_be_nonce(word) is None:
            raise NotACall("the tag has no nonce")
        cursor.format = NONCE if word == self._nonce else STALE_NONCE
