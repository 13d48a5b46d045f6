"""The echo guard: a call that also appears in untrusted content is treated as copied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct

from dragoman import formats
from dragoman.extraction.echo_match import CallPattern, Kind, Search, fingerprint
from dragoman.extraction.text_views import OPEN, alphanumerics, compact, unescape, view, without_tags
from dragoman.toolset import Toolset
from dragoman.types import File, Message, Text, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# The untrusted content of a conversation, kept so that a call can be looked for in it.

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

    __slots__ = ("_compact", "_length", "_text", "_view", "alphanumerics", "number", "source")

    def __init__(self, text: str, source: str, number: int) -> None:
        self._text = unescape(text)
        self._length = len(self._text)
        self.alphanumerics = alphanumerics(self._text)
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
        self.alphanumerics = alphanumerics(self._view)


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
        pattern = CallPattern(call)
        searches = (Search(pattern), Search(pattern.compacted, is_compact=True))
        best = _NONE
        for segment in reversed(self._segments):
            if segment.number >= until or not _may_hold(segment, pattern):
                continue
            match = searches[0].find(segment.view)
            if match.kind != "exact":
                match = max(match, searches[1].find(segment.compact), key=attrgetter("score"))
            if match.kind == "similar" and self._repeats_own(segment, call):
                continue
            if match.score > best.score:
                best = Echo(match.kind, segment.source, match.score)
            if match.kind == "exact":
                break
        self.work += sum(search.work for search in searches)
        return best

    def _repeats_own(self, segment: Segment, call: ToolCall) -> bool:
        """Whether what looks alike is another call that the model itself had made before."""
        for number, own in reversed(self._own_calls[-50:]):
            is_earlier = own.name == call.name and number <= segment.number
            if is_earlier and Search(CallPattern(own)).find(segment.view).kind == "exact":
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


def _may_hold(segment: Segment, pattern: CallPattern) -> bool:
    """Whether a search can find anything: the name, or the very words of the model, which may name it by an alias."""
    if any(name in segment.alphanumerics for name in pattern.compacted.names):
        return True
    return bool(pattern.raw) and alphanumerics(pattern.raw) in segment.alphanumerics


def _parts(text: str) -> Iterator[str]:
    step = _LARGEST - _OVERLAP if len(text) > _LARGEST else _LARGEST
    return (text[start : start + _LARGEST] for start in range(0, len(text), step))


def _compile_mentions(tools: Toolset | None) -> re.Pattern[str]:
    names = {form for tool in tools or () for form in CallPattern(ToolCall("", tool.name, {})).names}
    if not names:
        return _generic_mention
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


# --------------------------------------------------------------------------------------------------------------------
# From a conversation to an index: which of its words others wrote, and which calls were the model's own.

_DEEPEST = 20
# Results that go back to a text model stand in a message of the user.
_holds_results = re.compile(
    r"<<result\b|<tool_result\b|<tool_response>|<function_results?>|<\|tool_response\|?>|<tool_results>"
)
_may_hold_calls = re.compile(r"[{(<\[]")


class EchoReader:
    """Goes through the messages of a growing conversation in order, and remembers what each result answers."""

    def __init__(self, tools: Toolset | None, *, include_user: bool = False) -> None:
        self.index = EchoIndex(tools=tools)
        self._tools = tools
        self._include_user = include_user
        self._names: dict[str, str] = {}
        for tool in tools or ():
            if tool.metadata.get("untrusted") is True:
                words = "\n".join((tool.description, *_strings(tool.parameters)))
                self.index.add(words, f"description of {tool.name}")

    def read(self, message: Message) -> None:
        """Take in the next message."""
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._note(part)
            elif isinstance(part, ToolResult):
                inner = part.content
                texts = [inner] if isinstance(inner, str) else [each.text for each in inner if isinstance(each, Text)]
                self._add_result("\n".join(texts), part.name, part.call_id)
            elif isinstance(part, Text):
                self._read_text(part.text, message.role)
            elif isinstance(part, File) and self._include_user:
                self.index.add(part.name, "file of the user")
            self._read_opaque(part.extra)

    def _read_opaque(self, extra: Mapping[str, Any]) -> None:
        """Results of tools that the provider ran itself: they stand in data that only the codec of the wire reads."""
        for data in extra.values():
            held = (data.get("item") or data.get("block")) if isinstance(data, Mapping) else None
            if isinstance(held, Mapping) and ("output" in held or str(held.get("type")).endswith("tool_result")):
                self._add_result("\n".join(_strings(held)), str(held.get("name") or ""), "")

    def _read_text(self, text: str, role: str) -> None:
        if role == "tool":
            self._add_result(text, "", "")
        elif role == "assistant" and _may_hold_calls.search(text):
            for call in formats.parse(text, tools=self._tools, loose=self._tools is not None).calls:
                self._note(call)
        elif role == "user" and (self._include_user or _holds_results.search(text)):
            self.index.add(text, "message of the user" if self._include_user else "results in a message")

    def _note(self, call: ToolCall) -> None:
        self._names[call.wire_id or call.id] = self._names[call.id] = call.name
        self.index.add_own(call)

    def _add_result(self, text: str, name: str, identity: str) -> None:
        name = name or self._names.get(identity, "")
        source = f"result of {name}" if name else "result of a tool"
        self.index.add(text, f"{source} ({identity})" if identity else source)


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    """Every text in a value, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, each in value.items():
            # The data of pictures holds no words.
            if key not in ("data", "image_url", "url") or not isinstance(each, str) or len(each) < 2000:
                yield from _strings(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each, depth + 1)


# --------------------------------------------------------------------------------------------------------------------
# The echo guard: a call that stands in content which others wrote is not the model's own.
#
# A model that quotes a web page may quote a call that somebody planted there. So the untrusted content of a
# conversation is indexed as it arrives, and every call that was read out of text is looked for in it. The same call,
# however it was quoted, escaped, folded or written in another format, is `exact`; one with the same name and nearly
# the same arguments is `similar`. A value alone never counts: commands, paths and addresses may be taken from a file.

__all__ = ["Echo", "EchoIndex", "EchoReader"]
