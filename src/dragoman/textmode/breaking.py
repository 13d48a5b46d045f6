"""Control strings broken up so that they mean nothing, and put together again to the byte.

The first character of each is replaced: `<tool_call>` becomes `⧼tool_call>`, `[INST]` becomes `⧼5b⧽INST]`. The mark
itself, should a text hold it, is doubled. So the broken text says all there is to know about the text before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from dragoman.textmode.tokens import token_search
from dragoman.textmode.views import look_at

MARK, MARK_END = "⧼", "⧽"
_marked = re.compile(f"{MARK}(?:({MARK})|([0-9a-f]{{1,6}}){MARK_END})?").sub
_reads_on = re.compile(f"{MARK}|[0-9a-f]{{1,6}}{MARK_END}").match
_mark = re.compile(MARK).finditer
_could_begin = re.compile(r"^[ \t]*[^\s]|[<\[{(`~:>=|/]", re.MULTILINE).finditer
_MOST_NAMED = 20


class Broken(Struct, frozen=True):
    """A text whose control strings are broken up."""

    text: str
    count: int = 0
    """How many control strings were broken up."""
    found: tuple[str, ...] = ()
    """How the first of them began, for whoever wants to know."""


def break_tokens(text: str, family: str | None = None) -> Broken:
    """Break up every control string of a model family, given as the name of its format; None: of all families.

    They are found whatever their case, in compatibility forms (`＜`), and with invisible characters inside.
    """
    view = look_at(text)
    starts = [match.start() for match in token_search(family).finditer(view.text)]
    if not starts and MARK not in text:
        return Broken(text)
    named = tuple(dict.fromkeys(view.text[start : start + 24] for start in starts[:_MOST_NAMED]))
    return Broken(_break_at(text, map(view.origin, starts)), len(starts), named)


def break_everything(text: str) -> str:
    """Break up whatever could begin a call in any spelling, also in those without a marker; `mend_tokens` undoes it.

    It is hard to read, and only for texts that would otherwise be taken for calls.
    """
    return _break_at(text, (match.end() - 1 for match in _could_begin(text)))


def _break_at(text: str, starts: Iterable[int]) -> str:
    places = dict.fromkeys(starts, True)
    places.update((match.start(), False) for match in _mark(text))
    pieces: list[str] = []
    end = 0
    for place in sorted(places):
        # The bare mark stands for `<`, unless what follows would be read as part of a longer mark.
        bare = text[place] == "<" and place + 1 not in places and _reads_on(text, place + 1) is None
        mark = MARK if bare else f"{MARK}{ord(text[place]):x}{MARK_END}"
        pieces += (text[end:place], mark if places[place] else MARK + MARK)
        end = place + 1
    return "".join([*pieces, text[end:]])


def mend_tokens(text: str) -> str:
    """The text as it was before `break_tokens`, byte for byte."""
    return _marked(_restore, text) if MARK in text else text


def _restore(match: re.Match[str]) -> str:
    doubled, code = match.groups()
    if doubled:
        return MARK
    if not code:
        return "<"
    number = int(code, 16)
    return chr(number) if number <= 0x10FFFF else match.group()  # a number that no broken text holds
