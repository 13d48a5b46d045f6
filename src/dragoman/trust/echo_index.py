"""The untrusted content of a conversation, kept so that a call can be looked for in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from dragoman.toolset import Toolset
from dragoman.trust.echo_matching import Kind, Match, Search
from dragoman.trust.echo_quarry import Quarry, fingerprint
from dragoman.trust.echo_views import OPEN, bones, compact, unescape, view, without_tags
from dragoman.types import ToolCall

_LARGEST = 1 << 20
"""Longer texts are kept in parts of this many characters, so that they can be forgotten one by one."""
_OVERLAP = 1 << 15
_AROUND = 200
_BEHIND = 4000
_generic_mention = re.compile(r"(?:name|invoke|function|tool|call|action)[ {][^ {}@]+")


class Echo(Struct, frozen=True):
    """Whether a call was copied from content that others wrote."""

    kind: Kind = "none"
    source: str = ""
    """Where the content came from, as in `result of read_file (call_3)`."""
    score: float = 0.0


_NONE = Echo()


class Segment:
    """A text as it came, and the views of it that were needed so far."""

    __slots__ = ("_compact", "_length", "_text", "_view", "bones", "number", "source")

    def __init__(self, text: str, source: str, number: int) -> None:
        self._text = unescape(text)
        self._length = len(self._text)
        self.bones = bones(self._text)
        self.source = source
        self.number = number
        self._view: str | None = None
        self._compact: str | None = None

    @property
    def size(self) -> int:
        """The memory it may take, in characters: most are one byte. Three views of it are kept at most."""
        return 3 * self._length

    @property
    def view(self) -> str:
        if self._view is None:
            self._view = view(self._text)
            self._text = ""  # whatever else is needed comes from the view
        return self._view

    @property
    def compact(self) -> str:
        if self._compact is None:
            self._compact = compact(self.view)
        return self._compact

    def condense(self, mentions: re.Pattern[str]) -> None:
        """Keep only what stands around the names of tools."""
        kept: list[str] = []
        viewed, end = self.view, 0
        for found in mentions.finditer(viewed):
            start, last = max(end, found.start() - _AROUND), found.end() + _BEHIND
            # Between stretches that were apart stands a mark, so that they cannot be read as one.
            kept.append(viewed[start:last] if start == end else OPEN + viewed[start:last])
            end = max(end, last)
        self._view = "".join(kept)
        self._length = len(self._view)
        self._compact = None
        self.bones = bones(self._view)


class EchoIndex:
    """Content that others wrote, against which calls are judged.

    Texts are added as they arrive; adding only strips them of their escapes. The costly view of a text is made when a
    call is judged whose name occurs in it, and only once. Beyond `limit` bytes of memory the oldest texts are reduced
    to what stands around the names of the offered tools; only when that is too much as well is anything forgotten.
    """

    def __init__(self, *, tools: Toolset | None = None, limit: int = 8 * 1024 * 1024) -> None:
        self._limit = limit
        self._mentions = _compile_mentions(tools)
        self._segments: list[Segment] = []
        self._size = 0
        self._condensed = 0
        self._number = 0
        self._own: dict[object, int] = {}
        self._own_calls: list[tuple[int, ToolCall]] = []
        self.work = 0
        """How many characters judging has looked at so far."""

    @property
    def is_empty(self) -> bool:
        return self._number == 0

    @property
    def size(self) -> int:
        """The memory that the texts take, in bytes, about."""
        return self._size

    def add(self, text: str, source: str = "") -> None:
        """Take in a text that others wrote."""
        if not text or text.isspace():
            return
        for seen in (text, without_tags(text)):
            for part in _parts(seen or ""):
                segment = Segment(part, source, self._number)
                self._segments.append(segment)
                self._size += segment.size
        self._number += 1
        self._shrink()

    def add_own(self, call: ToolCall) -> None:
        """Take note of a call that the model made by itself: content that comes later may repeat it."""
        self._own.setdefault(fingerprint(call), self._number)
        self._own_calls.append((self._number, call))

    def judge(self, call: ToolCall) -> Echo:
        """Whether this call stands in the content, wholly or nearly."""
        if self.is_empty:
            return _NONE
        until = self._own.get(fingerprint(call), self._number)
        quarry = Quarry(call)
        searches = (Search(quarry), Search(quarry.compacted, is_compact=True))
        best = _NONE
        for segment in reversed(self._segments):
            if segment.number >= until or not _may_hold(segment, quarry):
                continue
            match = self._search(segment, searches)
            if match.kind == "similar" and self._repeats_own(segment, call):
                continue
            if match.score > best.score:
                best = Echo(match.kind, segment.source, match.score)
            if match.kind == "exact":
                break
        self.work += sum(search.work for search in searches)
        return best

    def _search(self, segment: Segment, searches: tuple[Search, Search]) -> Match:
        match = searches[0].find(segment.view)
        if match.kind == "exact":
            return match
        broken = searches[1].find(segment.compact)
        return broken if broken.score > match.score else match

    def _repeats_own(self, segment: Segment, call: ToolCall) -> bool:
        """Whether what looks alike is another call that the model itself had made before."""
        for number, own in reversed(self._own_calls[-50:]):
            if own.name == call.name and number <= segment.number:
                quarry = Quarry(own)
                if Search(quarry).find(segment.view).kind == "exact":
                    return True
        return False

    def _shrink(self) -> None:
        while self._size > self._limit and self._condensed < len(self._segments):
            segment = self._segments[self._condensed]
            self._size -= segment.size
            segment.condense(self._mentions)
            self._size += segment.size
            self._condensed += 1
        while self._size > self._limit and self._segments:
            self._size -= self._segments.pop(0).size
            self._condensed = max(0, self._condensed - 1)


def _may_hold(segment: Segment, quarry: Quarry) -> bool:
    """Whether a search can find anything: the name, or the very words of the model, which may name it by an alias."""
    if any(name in segment.bones for name in quarry.compacted.names):
        return True
    return bool(quarry.raw) and bones(quarry.raw) in segment.bones


def _parts(text: str) -> Iterator[str]:
    if len(text) <= _LARGEST:
        if text:
            yield text
        return
    for start in range(0, len(text), _LARGEST - _OVERLAP):
        yield text[start : start + _LARGEST]


def _compile_mentions(tools: Toolset | None) -> re.Pattern[str]:
    names = {form for tool in tools or () for form in Quarry(ToolCall("", tool.name, {})).names}
    if not names:
        return _generic_mention
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
