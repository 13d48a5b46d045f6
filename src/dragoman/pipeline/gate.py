"""A stage that holds back the beginning of text that only a search of the whole reply reads as a call.

The parser of formats already holds everything that may be a call in a known format. The profile `compat` also accepts a
call in a code block after a sentence, or JSON at the end of a line. The text of such a call begins with a fence or a
brace, so text is held from there on. If the block has named no tool after some characters, or ends, it is released.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

MOST_HELD = 64 * 1024
"""How many characters of text are held before it is decided that they are text."""
_LONGEST_WITHOUT_NAME = 300
"""How many characters of a block are held that has not named a tool: a call names its tool early."""
_opener = re.compile(r"(?m)^[ \t]*(?P<fence>`{3,}|~{3,})|\{|^[ \t]*[`~]{1,2}\Z").search

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
        self._rest: list[str] = []
        self._size = 0
        self._fence = ""
        """The fence of a block that was released: its closing line opens nothing."""
        self._is_in_line = False
        """Whether the beginning of the last line of that block was sent."""
        self.is_shut = False
        """A block names a tool, so nothing is released before the end of the reply."""

    def feed(self, text: str) -> str:
        """Return the text that can be sent."""
        if self._names is None:
            return text
        if not self.is_shut:
            if not self._held and not self._fence and "{" not in text and "`" not in text and "~" not in text:
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

    def _release(self) -> str:
        ready: list[str] = []
        while self._held and not self.is_shut:
            if self._fence and not self._leave_fence(ready):
                break
            found = _opener(self._held)
            if found is None:
                ready.append(self._held)
                self._held = ""
                break
            ready.append(self._held[: found.start()])
            self._held = self._held[found.start() :]
            if not self._decide(found["fence"] or "", ready):
                break
        return "".join(ready)

    def _leave_fence(self, ready: list[str]) -> bool:
        """Send a released block up to its closing line. Return whether that line came."""
        if self._is_in_line:
            # The beginning of the line was sent, so it is not the closing one.
            end = self._held.find("\n") + 1 or len(self._held)
            ready.append(self._held[:end])
            self._is_in_line = not self._held[:end].endswith("\n")
            self._held = self._held[end:]
        found = re.compile(rf"(?m)^[ \t]*{re.escape(self._fence)}[`~]*[ \t]*$").search(self._held)
        if found is None:
            cut = self._held.rfind("\n") + 1
            ready.append(self._held[:cut])
            self._held = self._held[cut:]
            if self._held and not _may_close(self._held):
                ready.append(self._held)
                self._held, self._is_in_line = "", True
            return False
        ready.append(self._held[: found.end()])
        self._held = self._held[found.end() :]
        self._fence = ""
        return True

    def _decide(self, fence: str, ready: list[str]) -> bool:
        """Decide on the block at the beginning of what is held. Return False if more text is needed."""
        end = self._find_end(fence)
        block = self._held if end is None else self._held[:end]
        if self._names is not None and self._names(block) is not None:
            self.is_shut = True
            return False
        if end is None and len(block) <= _LONGEST_WITHOUT_NAME:
            return False
        ready.append(block)
        self._held = self._held[len(block) :]
        if end is None and fence:
            self._fence = fence[:3]
            self._is_in_line = not block.endswith("\n")
        return True

    def _find_end(self, fence: str) -> int | None:
        """Return where the block ends; None if it has not ended."""
        if fence:
            line = self._held.find("\n")
            found = re.compile(rf"(?m)^[ \t]*{re.escape(fence)}[ \t]*$").search(self._held, line) if line >= 0 else None
            return found.end() if found is not None else None
        if not self._held.startswith("{"):
            return None if len(self._held) < 3 else len(self._held)
        depth = 0
        for place, character in enumerate(self._held):
            depth += (character == "{") - (character == "}")
            if depth == 0:
                return place + 1
        return None
