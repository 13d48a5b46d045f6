"""Words of a server, made fit to be shown: to a model, and to a person at a terminal.

Whoever writes a server writes them, so they may hold anything: colours and cursor movements, letters that are not seen,
markers that a model takes for the end of a turn.
"""

from __future__ import annotations

import re
import unicodedata

# CSI and OSC sequences whole, so that their parameters do not stay behind; then any other escape.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[@-Z\\-_]?"
)
_LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x85]")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs"})
# Not of these categories, and not seen either: fillers, joiners, variation selectors, which can carry whole messages.
_also_hidden = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff]"
).match
_CUT = " [... cut]"


def is_hidden(character: str) -> bool:
    """Whether a character is not seen, or changes how others are seen: controls, bidi, zero-width, tags, surrogates."""
    if character in "\n\t":
        return False
    return unicodedata.category(character) in _HIDDEN or _also_hidden(character) is not None


def has_hidden(text: str) -> bool:
    """Whether anything in the text is not seen."""
    return not (text.isascii() and text.isprintable()) and any(map(is_hidden, text))


def strip_hidden(text: str) -> str:
    """The text without escape sequences and without anything that is not seen."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    return "".join(character for character in text if not is_hidden(character))


def clean_text(text: object, limit: int) -> str:
    """Words for a model: nothing hidden, no control strings of any model family, and not too many."""
    # Late: it prepares the markers of every family.
    from dragoman.extraction.text_results import break_tokens

    if not isinstance(text, str):
        return ""
    # Cut before it is looked at, so that the work is bounded as well; what is hidden may take room in it.
    plain = strip_hidden(text[: limit * 4]).strip()
    cut = len(plain) > limit or len(text) > limit * 4
    broken = break_tokens(plain[:limit]).text
    return broken + _CUT if cut else broken


def clean_line(text: object, limit: int = 300) -> str:
    """Words of a server in one line, for an error or a list of problems."""
    if not isinstance(text, str):
        return ""
    plain = " ".join(strip_hidden(text[: limit * 4]).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
