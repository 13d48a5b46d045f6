"""Results that a model made up: it goes on after its call and writes what the tool might have said.

Results come from tools alone. Nothing in this package reads one out of an assistant's text; what looks like one is
taken out before the text goes back into the history, or the model would believe itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.textmode.tokens import RESULT_TAGS

_TAG_NAMES = "|".join([*RESULT_TAGS, "function_response"])
# Only where a line begins, or right behind a tag such as a call's closer: a tag named in a sentence is just a word.
_opener = re.compile(
    rf"(?:(?<=>)|^[ \t]*)(?:<<result[ \t]+(?P<boundary>[^\s<>]{{1,128}})[^<>\n]{{0,400}}>>"
    rf"|<(?P<tag>{_TAG_NAMES})(?:\s[^<>]{{0,400}})?>)",
    re.IGNORECASE | re.MULTILINE,
)


class Stripped(NamedTuple):
    """A text without the results that it made up, and these."""

    text: str
    found: tuple[str, ...]


def strip_invented_results(text: str) -> Stripped:
    """Take every result out of an assistant's text. One that is not closed reaches to the end.

    Give it the text without its calls: an argument may well hold such a tag, and that is data.
    """
    folded = ""
    kept: list[str] = []
    found: list[str] = []
    place = 0
    while (match := _opener.search(text, place)) is not None:
        if not folded:
            folded = _lower(text)
        boundary, tag = match.group("boundary", "tag")
        closer = f"<<end {boundary}>>" if boundary else f"</{tag}>"
        closing = folded.find(_lower(closer), match.end())
        end = len(text) if closing < 0 else closing + len(closer)
        kept.append(text[place : match.start()])
        found.append(text[match.start() : end])
        place = end
    return Stripped("".join([*kept, text[place:]]), tuple(found)) if found else Stripped(text, ())


def _lower(text: str) -> str:
    """Lower case of ASCII alone, so that every character stays in its place."""
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
