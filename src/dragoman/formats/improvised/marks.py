"""Lines that are nothing but the mark of a call: `### TOOL_CALL_START ###`, `TOOL_CALL_BLOCK>>>`.

Such a line consists of words that label a call, and of punctuation. So it is a mark however it is damaged. A heading of
Markdown is none: a mark has lines on both sides, or it is written in capitals with underscores.
"""

from __future__ import annotations

import re

MARK_BEGINS = r"(?:\#\#|==|--)[#=\-]{0,10}[ \t]*(?:[A-Z]{2}|[A-Z]?\Z)|[A-Z]{3,}_[A-Z_]+[>#=~\-]{2}"
"""Matches the beginning of a line that may be a mark, also in a text that grows."""
LONGEST_MARK = 100
_WORDS = r"(?:tools?|functions?|calls?|actions?|invoke|use|request|block|begin|start|end|stop)"
_line = re.compile(
    rf"(?P<before>([#=\-])\2{{1,11}}|\[{{1,2}})?[ \t]*(?P<words>(?:{_WORDS}[ _\-]?){{2,6}})(?<![ \-])[ \t]*"
    r"(?P<after>[^\w\s\"'{}()\[\]*`.,:;!?]{2,12}|\]{1,2})?[ \t]*(?=\r?\n|\Z)",
    re.IGNORECASE,
).match
_says_call = re.compile(r"tool|function|call|action", re.IGNORECASE).search
_says_side = re.compile(r"begin|start|block|end|stop", re.IGNORECASE).search
_says_end = re.compile(r"end|stop", re.IGNORECASE).search
_next_line = re.compile(r"[ \t]*\r?\n\s*(?=[#=\-A-Z\[])").match

is_mark_word = re.compile(rf"(?:{_WORDS.upper()}_?){{2,6}}\Z").match
"""Matches the words of a mark without the punctuation around them."""


def match_mark(text: str, position: int) -> re.Match[str] | None:
    """Match the mark that the rest of a line is, without the end of the line."""
    mark = _line(text, position, position + LONGEST_MARK)
    return mark if mark is not None and _is_mark(mark) else None


def _is_mark(mark: re.Match[str]) -> bool:
    words = mark["words"]
    if _says_call(words) is None:
        return False
    if (mark["before"] or "")[:1] == "[":
        # Brackets around other words are a label, which the walk to the name reads.
        return mark["after"] is not None and words.isupper() and "_" in words and _says_side(words) is not None
    if words.isupper() and "_" in words:
        return bool(mark["before"] or mark["after"]) or words.startswith("END_")
    return bool(mark["before"] and mark["after"]) and mark["before"][0] != "#"


def mark_after(text: str, position: int) -> re.Match[str] | None:
    """Return the next line if it is a mark, and nothing else follows on this one."""
    line = _next_line(text, position)
    return match_mark(text, line.end()) if line is not None else None


def ends_call(mark: re.Match[str]) -> bool:
    """Whether a mark says that it is the end of a call."""
    return _says_end(mark["words"]) is not None
