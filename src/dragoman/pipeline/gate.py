"""A stage that holds back the beginning of text that only a search of the whole reply reads as a call.

The parser of formats already holds everything that may be a call in a known format. The profile `compat` also accepts a
call in a code block after a sentence, or JSON at the end of a line. The text of such a call begins with a fence or a
brace, so text is held from there on. If the block has named no tool in its first characters, it is released. The
decision never looks at more than these, so that it does not depend on how the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

MOST_HELD = 64 * 1024
"""How many characters of text are held before it is decided that they are text."""
_LONGEST_WITHOUT_NAME = 300
"""How many characters of a block are held that has not named a tool: a call names its tool early."""
_opener = re.compile(r"(?m)^[ \t]*(?P<fence>`{3,}|~{3,})|\{|^[ \t]*(?P<growing>`{1,2}|~{1,2})\Z").search

_may_close = re.compile(r"[ \t]*[`~]*[ \t]*\Z").match
"""Matches the beginning of a line that may close a block."""


@lru_cache(maxsize=64)
def _search_names(names: tuple[str, ...]) -> Callable[[str], re.Match[str] | None] | None:
    """Return the search for a call of one of these tools."""
    listed = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    # In quotes, or before a bracket: tools have names such as "read" and "write", which code is full of.
    return re.compile(rf"[\"'](?:{listed})[\"']|\b(?:{listed})\(").search if listed else None


class TextGate:
    """Takes released text and returns what can be sent now."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = _search_names(tuple(names))
        self._held = ""
        self._at = 0
        """Up to where what is held can be sent."""
        self._rest: list[str] = []
        self._size = 0
        self._fence = ""
        """The fence of a block that was released: its closing line opens nothing."""
        self._is_in_line = False
        """Whether the last line of what was sent has characters that are no blanks: no fence can begin behind them."""
        self.is_shut = False
        """A block names a tool, so nothing is released before the end of the reply."""

    @property
    def holds(self) -> bool:
        """Whether text came that cannot be sent yet."""
        return bool(self._held or self._rest)

    def feed(self, text: str) -> str:
        """Return the text that can be sent."""
        if self._names is None:
            return text
        if not self.is_shut:
            if not self._held and not self._fence and "{" not in text and "`" not in text and "~" not in text:
                self._watch_line(text)
                return text
            self._held += text
            return self._release()
        self._rest.append(text)
        self._size += len(text)
        if self._size <= MOST_HELD:
            return ""
        # So long a text is an answer. A call in it is found at the end all the same.
        self._names, self.is_shut = None, False
        return self.close()

    def close(self) -> str:
        """Return the rest."""
        rest = "".join([self._held, *self._rest])
        self._held, self._rest = "", []
        return rest

    def _watch_line(self, sent: str) -> None:
        _, begins, line = sent.rpartition("\n")
        self._is_in_line = bool(line.strip(" \t")) or (self._is_in_line and not begins)

    def _release(self) -> str:
        # The first character stands for what was sent of the line.
        self._held = ("." if self._is_in_line else "\n") + self._held
        self._at = 1
        while self._at < len(self._held) and not self.is_shut:
            if self._fence and not self._leave_fence():
                break
            found = _opener(self._held, self._at)
            if found is None:
                self._at = len(self._held)
                break
            kind = found.lastgroup or 0
            self._at = found.start(kind)
            if kind == "growing" or not self._decide(found["fence"] or ""):
                break
        sent, self._held = self._held[1 : self._at], self._held[self._at :]
        self._watch_line(sent)
        return sent

    def _leave_fence(self) -> bool:
        """Send a released block up to its closing line. Return whether that line came."""
        held = self._held
        if held[held.rfind("\n", 0, self._at) + 1 : self._at].strip(" \t"):
            # The beginning of the line was sent, so it is not the closing one.
            self._at = held.find("\n", self._at) + 1 or len(held)
        found = re.compile(rf"(?m)^[ \t]*{re.escape(self._fence)}[`~]*[ \t]*$").search(held, self._at)
        if found is None or found.end() == len(held):
            # More characters may come behind the fence of the last line.
            self._at = max(self._at, held.rfind("\n") + 1)
            if _may_close(held, self._at) is None:
                self._at = len(held)
            return False
        self._at = found.end()
        self._fence = ""
        return True

    def _decide(self, fence: str) -> bool:
        """Decide on the block at the beginning of what is held. Return False if more text is needed."""
        block = self._held[self._at : self._at + _LONGEST_WITHOUT_NAME]
        end = self._find_end(block, fence)
        if self._names is not None and self._names(block if end is None else block[:end]) is not None:
            self.is_shut = True
            return False
        if end is None and len(self._held) - self._at <= _LONGEST_WITHOUT_NAME:
            return False
        self._at += len(block) if end is None else end
        if end is None and fence:
            self._fence = fence[:3]
        return True

    def _find_end(self, block: str, fence: str) -> int | None:
        """Return where a block ends; None if it has not ended."""
        if fence:
            line = block.find("\n")
            found = re.compile(rf"(?m)^[ \t]*{re.escape(fence)}[ \t]*\n").search(block, line) if line >= 0 else None
            return found.end() if found is not None else None
        depth = 0
        for place, character in enumerate(block):
            depth += (character == "{") - (character == "}")
            if depth == 0:
                return place + 1
        return None
