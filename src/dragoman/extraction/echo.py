"""The echo guard: a call that also appears in untrusted content is treated as copied.

Threat model. A web page, an email, a file or a tool description can contain the text of a tool call. A model in text
mode that quotes, translates or summarises such content writes the call into its own reply, where it looks like a call
of the model. The attacker controls the content, its encoding and its size, but not the model: the guard stops copies.
It cannot stop a model that was persuaded and writes a new call; permissions decide on such calls. Native calls (T5) are
not checked: they come from a field of the wire. A server that itself turns text into native calls hides their origin;
use text mode there.

Untrusted content is every tool result (also of tools that the provider ran, and in user messages that carry results
in text mode), the description of every tool marked `untrusted`, and with `include_user` the messages of the user.
`EchoReader` adds it to an `EchoIndex` as the conversation grows.

What counts as an echo. `EchoIndex.judge` compares the call with each text and returns a kind:

- `exact`: the text contains the name of the tool and all keys and values of the call, in any order and any format, in
  brackets, with only words of wrappers in between and nothing after the last value that could be another argument. Two
  shortcuts: the text contains the call as the model wrote it; or a call without arguments is in a known wrapper.
- `similar`: the same with foreign words in between, or with changed characters.
- `none`: everything else. A value alone is never an echo: tools are meant to work with paths, commands and addresses
  that the model read in a file. A call is also not an echo if the model made it before the content arrived, because a
  result may repeat the call that produced it; nor if the similar call in the content is such an earlier call.

`trust.decide` refuses an `exact` echo and asks about a `similar` one, in every trust profile and for every tool. A
read-only tool is no exception: a planted call may read a secret. The guard asks about a similar call because it may
well be legitimate, and a person sees the difference.

Normalisation. Copies differ in quotes, escapes and layout, so call and content pass through the same views (see
`text_views`). `unescape` lowers the case, decodes entities, backslash and percent escapes up to three levels deep, and
removes terminal codes, invisible characters and compatibility forms. `view` keeps letters and digits and reduces
everything between them to one of four marks: open, close, an empty pair, a blank. `compact` also removes the blanks,
for copies whose words are split. A page with HTML tags is indexed a second time without them. If a value consists only
of punctuation, the views cannot show it: an exact match of the rest then counts as similar.

Thresholds (in `echo_match`). A match with foreign words is similar from a score of `ALIKE` (0.85), which follows from
the share of matched characters. A match with changed characters is similar if it has that share of the keys and values,
or if at most `_FEW_EDITS` (10) characters changed and they are at most 35 % of values of 20 characters or more. Values
of fewer than `LEAST_VALUES` (4) characters in total are never similar: they would match by chance.
`benchmarks/echo_attacks.py` measures how many planted calls run and how many legitimate calls are stopped.

Cost bound. An attacker must not be able to make the guard slow. `add` only unescapes a text. `judge` skips each text
whose letters and digits do not contain the name, and builds the view of a text once. `echo_match.Budget` grants each
search 20,000 units plus a quarter of the length of the text, so the work is linear. A text that exhausts the budget has
thousands of places that nearly match; it counts as similar, so the guard asks. The index holds at
most `limit` bytes (8 MiB). Beyond that it reduces the oldest texts to the surroundings of tool names, and only then
forgets whole texts.
"""

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
# The index of the untrusted content of a conversation.

_LARGEST = 1 << 20
"""Longer texts are split into parts of this many characters, so that the index can forget them one by one."""
_OVERLAP = 1 << 15
_AROUND = 200
_BEHIND = 4000
_generic_mention = re.compile(r"(?:name|invoke|function|tool|call|action)[ {][^ {}@]+")


class Echo(Struct, frozen=True):
    """The result of a check: whether a call was copied from untrusted content."""

    kind: Kind = "none"
    source: str = ""
    """The origin of the content, such as `result of read_file (call_3)`."""
    score: float = 0.0


_NONE = Echo()


class Segment:
    """A text, and those of its views that were needed so far."""

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
        """The memory of the text in characters, most of which take one byte. At most three views are kept."""
        return 3 * self._length

    @property
    def view(self) -> str:
        if self._view is None:
            self._view = view(self._text)
            self._text = ""  # everything else is derived from the view
        return self._view

    @property
    def compact(self) -> str:
        if self._compact is None:
            self._compact = compact(self.view)
        return self._compact

    def condense(self, mentions: re.Pattern[str]) -> None:
        """Keep only the surroundings of tool names."""
        kept: list[str] = []
        viewed, end = self.view, 0
        for found in mentions.finditer(viewed):
            start, last = max(end, found.start() - _AROUND), found.end() + _BEHIND
            # A mark between separate parts prevents a match across them.
            kept.append(viewed[start:last] if start == end else OPEN + viewed[start:last])
            end = max(end, last)
        self._view = "".join(kept)
        self._length = len(self._view)
        self._compact = None
        self.alphanumerics = alphanumerics(self._view)


class EchoIndex:
    """The untrusted content of a conversation. It answers whether a call was copied from it.

    `add` only unescapes a text. The expensive view of a text is built once, when a call is judged whose name occurs in
    the text. Above `limit` bytes of memory the oldest texts are reduced to the surroundings of the names of the offered
    tools. If that is not enough, the oldest texts are removed.
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
        """The work of `judge` so far, in units of the budget."""

    @property
    def is_empty(self) -> bool:
        return self._number == 0

    @property
    def size(self) -> int:
        """The approximate memory of the texts, in bytes."""
        return self._size

    def add(self, text: str, source: str = "") -> None:
        """Add an untrusted text."""
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
        """Add a call that the model made itself: later content may repeat it."""
        self._own.setdefault(fingerprint(call), self._number)
        self._own_calls.append((self._number, call))

    def judge(self, call: ToolCall) -> Echo:
        """Return whether the content contains this call, exactly or with changes."""
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
        """Whether the similar call in the content is another call that the model had made before."""
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
    """Whether a search can succeed: the text contains the name, or the raw call, which may use an alias."""
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
# The index of a conversation: which messages are untrusted, and which calls are the model's own.

_DEEPEST = 20
# In text mode, results are sent in a user message.
_holds_results = re.compile(
    r"<<result\b|<tool_result\b|<tool_response>|<function_results?>|<\|tool_response\|?>|<tool_results>"
)
_may_hold_calls = re.compile(r"[{(<\[]")


class EchoReader:
    """Reads the messages of a growing conversation in order, and remembers which call each result answers."""

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
        """Add the next message."""
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
        """Add the results of tools that the provider ran. They are in opaque data for the codec of the wire."""
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
    """Return every text in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, each in value.items():
            # Image data contains no text.
            if key not in ("data", "image_url", "url") or not isinstance(each, str) or len(each) < 2000:
                yield from _strings(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each, depth + 1)


__all__ = ["Echo", "EchoIndex", "EchoReader"]
