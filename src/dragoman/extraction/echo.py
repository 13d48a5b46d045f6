"""The echo guard: a call that also appears in untrusted content is treated as copied.

Threat model. A web page, an email, a file or a tool description can contain the text of a tool call. A model in text
mode that quotes, translates or summarises such content writes the call into its own reply, where it looks like a call
of the model. The attacker controls the content, its encoding and its size, but not the model: the guard stops copies.
It cannot stop a model that was persuaded and writes a new call; permissions decide on such calls. Native calls (T5) are
not checked: they come from a field of the wire. A server that itself turns text into native calls hides their origin;
use text mode there.

Untrusted content is every string of every tool result: texts, names and text data of files, addresses, keys and values
of structured data (`echo_reader` collects them, also from tools that the provider ran, and from user messages that
carry results in text mode). So are summaries of results, the task that another agent wrote after it read such content,
and the definition of every tool of a server or marked `untrusted`. The user may paste content of others into a message.
Nobody can tell it from an instruction of the user, so a call in a message of the user asks and is never refused, unless
`include_user` says that these messages are untrusted.

What counts as an echo. `EchoIndex.judge` compares the call with each text and returns a kind:

- `exact`: the text contains the name of the tool and all keys and values of the call, in any order and any format, in
  brackets, with only words of wrappers in between and nothing after the last value that could be another argument. Two
  shortcuts: the text contains the call as the model wrote it; or a call without arguments is in a known wrapper.
- `similar`: the same with foreign words in between, with changed characters, with other keys or without keys (code and
  logs are full of `name(value)`), with a value that the model made longer, with fewer arguments than the model wrote
  (a copy may have an optional argument more), or with more: then each key has its value, at most
  `FAR` (32,768) characters from the name.
- `none`: everything else. A value alone is never an echo: tools are meant to work with paths, commands and addresses
  that the model read in a file. A call is also not an echo if the model made it before the content arrived, because a
  result may repeat the call that produced it; nor if the similar call at that place of the content is such an earlier
  call.

`trust.decide` refuses an `exact` echo and asks about a `similar` one, in every trust profile. For a read-only tool it
asks in both cases: such calls are often in code and logs, but a planted one may read a secret. The guard asks about a
similar call because it may well be legitimate, and a person sees the difference.

Normalisation. Copies differ in quotes, escapes and layout, so call and content pass through the same views (see
`text_views`). `decode` reads entities, backslash and percent escapes up to three levels deep, and removes terminal
codes, line numbers, invisible characters and compatibility forms. `readings` gives the other texts that a model may see
in a decoded content: quoted-printable and base64 decoded, comments and tags removed. `lower` lowers the case, and
writes numbers in one form. `view` keeps letters and digits and reduces everything between them to one of four marks:
open, close, an empty pair, a blank. `compact` also removes the blanks, for copies whose words are split. If a value
consists only of punctuation, the views cannot show it: an exact match of the rest then counts as similar. A call may be
split over neighbouring results, so the ends of consecutive results are indexed a second time, joined.

Thresholds (in `echo_match`). A match with foreign words is similar from a score of `ALIKE` (0.85), which follows from
the share of matched characters. A match with changed characters is similar if it has that share of the keys and values,
or if at most `_FEW_EDITS` (10) characters changed and they are at most 35 % of values of 20 characters or more. Values
of fewer than `LEAST_VALUES` (4) characters in total are similar only with their keys, close to the name: they would
match by chance.
`benchmarks/echo_attacks.py` measures how many planted calls run and how many legitimate calls are stopped.

Cost bound. An attacker must not be able to make the guard slow. `add` only decodes a text. `judge` skips each text
whose letters and digits do not contain the name, and builds the view of a text once. `echo_match.Budget` grants each
search 20,000 units plus a quarter of the length of the text, and `Allowance` all searches for one reply together
`_FREE_WORK` units plus half the length of the index and the calls, for at most `_MOST_CALLS` different calls. So the
work is linear. A text that exhausts its budget has thousands of places that nearly match; it counts as similar, so the
guard asks. So does each call that is left when the allowance is used up. The index holds at most `limit` bytes (8 MiB).
Beyond that it reduces the oldest texts to the surroundings of tool names, as far as a search looks: nothing is lost but
calls of more than `FAR` characters. Only then it forgets whole texts, and notes the tools that they name. A call that
may have been lost is `similar`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import attrgetter

from msgspec import Struct

from dragoman.extraction.echo_match import ALIKE, FAR, Kind, Match, OwnCalls, Search
from dragoman.extraction.echo_pattern import Budget, CallPattern, Exhausted, exact_key, spell_names
from dragoman.extraction.text_views import OPEN, alphanumerics, compact, lower, readings, view
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# The result of a check, and the work that one reply may cause.

_MOST_CALLS = 64
"""An agent runs no more calls of one reply than this."""
_FREE_WORK = 400_000


class Echo(Struct, frozen=True):
    """The result of a check: whether a call was copied from untrusted content."""

    kind: Kind = "none"
    source: str = ""
    """The origin of the content, such as `result of read_file (call_3)`."""
    score: float = 0.0


_NONE = Echo()
_UNCHECKED = Echo("similar", "the conversation, perhaps: the reply has too many calls to check them all", ALIKE)
_FORGOTTEN = Echo("similar", "the conversation, perhaps: it is too long to remember everything", ALIKE)


class Allowance:
    """The work that the calls of one reply may cause together. Equal calls are checked once."""

    def __init__(self, index: EchoIndex) -> None:
        self._index = index
        self._left = _FREE_WORK + index.size // 6
        self._known: dict[object, Echo] = {}

    def judge(self, call: ToolCall, names: Iterable[str] = ()) -> Echo:
        """Return whether the content contains this call, under its name or under one of these names."""
        if self._index.has_nothing:
            return _NONE
        key = (exact_key(call), call.raw.strip())
        if key not in self._known:
            if self._left <= 0 or len(self._known) >= _MOST_CALLS:
                return _UNCHECKED
            before = self._index.work
            self._known[key] = self._index.judge(call, names, self._left)
            self._left += len(call.raw) // 2 + before - self._index.work
        return self._known[key]


# --------------------------------------------------------------------------------------------------------------------
# The index of the untrusted content of a conversation.

_LARGEST = 1 << 20
"""Longer texts are split into parts of this many characters, so that the index can forget them one by one."""
_OVERLAP = 1 << 15
_END = 4096
"""How much of the end of a text is joined with the beginning of the next."""
_NEIGHBOURS = "neighbouring results"
_generic_mention = re.compile(r"(?:name|invoke|function|tool|call|action)[ {][^ {}@]+")


class Segment:
    """A decoded text, and those of its views that were needed so far."""

    __slots__ = ("_compact", "_letters", "_text", "_view", "is_condensed", "is_typed", "length", "number", "source")

    def __init__(self, text: str, source: str, number: int, *, is_typed: bool = False) -> None:
        self._text = lower(text)
        self.length = len(self._text)
        self._letters: str | None = alphanumerics(self._text)
        self.source = source
        self.number = number
        self.is_typed = is_typed
        """The user wrote or pasted it: a call in it asks."""
        self.is_condensed = False
        self._view: str | None = None
        self._compact: str | None = None

    @property
    def size(self) -> int:
        """The memory of the text in characters, most of which take one byte: three views, or one if it is condensed."""
        return self.length if self.is_condensed else 3 * self.length

    @property
    def view(self) -> str:
        if self._view is None:
            self._view = view(self._text)
            self._text = ""  # everything else is derived from the view
        return self._view

    @property
    def compact(self) -> str:
        if self.is_condensed:
            return compact(self.view)
        if self._compact is None:
            self._compact = compact(self.view)
        return self._compact

    @property
    def letters(self) -> str:
        """Only the letters and digits: the cheapest test that a name does not occur."""
        return alphanumerics(self.view) if self._letters is None else self._letters

    def may_hold(self, names: Iterable[str], raw: str) -> bool:
        """Whether a search can succeed: the text contains the name, or the raw call, which may use an alias."""
        letters = self.letters
        return any(name in letters for name in names) or (bool(raw) and raw in letters)

    def condense(self, mentions: re.Pattern[str]) -> None:
        """Keep only the surroundings of tool names, as far as a search looks, and only one view of them."""
        kept: list[str] = []
        viewed, end = self.view, 0
        for found in mentions.finditer(viewed):
            start, last = max(end, found.start() - FAR), found.end() + FAR
            # A mark between separate parts prevents a match across them.
            kept.append(viewed[start:last] if start == end else OPEN + viewed[start:last])
            end = max(end, last)
        self._view = "".join(kept)
        self.length = len(self._view)
        self._compact = self._letters = None
        self.is_condensed = True


class EchoIndex:
    """The untrusted content of a conversation. It answers whether a call was copied from it.

    `add` only decodes a text. The expensive view of a text is built once, when a call is judged whose name occurs in
    the text. Above `limit` bytes of memory the oldest texts are reduced to the surroundings of the names of the offered
    tools. If that is not enough, the oldest texts are removed, and calls of the tools that they name are similar.
    """

    def __init__(self, *, tools: Toolset | None = None, limit: int = 8 * 1024 * 1024) -> None:
        self._limit = limit
        self._tools = tools
        self._mentions: re.Pattern[str] | None = None
        self._forgotten: set[str] = set()
        self._has_forgotten_all = False
        self._segments: list[Segment] = []
        self._size = 0
        self._condensed = 0
        self._number = 0
        self._has_untrusted = False
        self._ends = JoinedEnds()
        self._own: dict[object, int] = {}
        self._own_calls = OwnCalls()
        self.work = 0
        """The work of `judge` so far, in units of the budget."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no untrusted content. Messages of the user do not count."""
        return not self._has_untrusted

    @property
    def has_nothing(self) -> bool:
        return self._number == 0

    @property
    def size(self) -> int:
        """The approximate memory of the texts, in bytes."""
        return self._size

    def add(self, text: str, source: str = "", *, is_typed: bool = False) -> None:
        """Add an untrusted text, or with `is_typed` a text of the user."""
        if not text or text.isspace():
            return
        self._keep(text, source, is_typed=is_typed)
        if not is_typed:
            self._has_untrusted = True
            for joined in self._ends.join(text):
                self._keep(joined, _NEIGHBOURS)
        self._number += 1
        self._shrink()

    def _keep(self, text: str, source: str, *, is_typed: bool = False) -> None:
        for seen in readings(text):
            for part in _parts(seen):
                segment = Segment(part, source, self._number, is_typed=is_typed)
                self._segments.append(segment)
                self._size += segment.size

    def forget(self) -> None:
        """Note that there is content that the index does not hold: each call that it does not find is similar."""
        self._has_forgotten_all = True

    def add_own(self, call: ToolCall) -> None:
        """Add a call that the model made itself: later content may repeat it."""
        self._own.setdefault(exact_key(call), self._number)
        self._own_calls.add(self._number, call)

    def judge(self, call: ToolCall, names: Iterable[str] = (), most_work: int | None = None) -> Echo:
        """Return whether the content contains this call, exactly or with changes.

        `names` are other names of its tool. `most_work` limits the work of all searches together.
        """
        if self.has_nothing:
            return _NONE
        made = self._own.get(exact_key(call))
        until = self._number if made is None else made
        compact_names = spell_names(call.name, *names)
        raw = CallPattern.read_raw(call)
        letters = alphanumerics(raw)
        held = [each for each in self._latest() if each.number < until and each.may_hold(compact_names, letters)]
        best = self._search(held, CallPattern(call, names, raw), most_work) if held else _NONE
        if best.kind == "none" and made is None and self._may_forget(compact_names):
            return _FORGOTTEN
        return best

    def _may_forget(self, names: Iterable[str]) -> bool:
        return self._has_forgotten_all or not self._forgotten.isdisjoint(names)

    def _search(self, held: list[Segment], pattern: CallPattern, most_work: int | None) -> Echo:
        budget = Budget(most_work)
        own = self._own_calls.of(pattern.name)
        searches = (Search(pattern, budget, own), Search(pattern.compacted, budget, own, is_compact=True))
        best = _NONE
        try:
            for segment in held:
                match = _judge_segment(segment, searches)
                if match.score > best.score:
                    best = Echo(match.kind, segment.source, match.score)
                if match.kind == "exact":
                    break
        except Exhausted:
            best = max(best, _UNCHECKED, key=attrgetter("score"))
        self.work += budget.spent
        if best.kind == "none" and pattern.weight > FAR and any(segment.is_condensed for segment in held):
            return _FORGOTTEN
        return best

    def _latest(self) -> list[Segment]:
        """Return the latest texts first, and after them the joined ends: the source of a whole call is its own text."""
        segments = [*self._ends.segments(self._number - 1), *reversed(self._segments)]
        return sorted(segments, key=lambda segment: segment.source == _NEIGHBOURS)

    def _shrink(self) -> None:
        if self._size <= self._limit:
            return
        if self._mentions is None:
            self._mentions = _compile_mentions(self._tools)
        self._has_forgotten_all |= not self._tools
        while self._size > self._limit and self._condensed < len(self._segments):
            segment = self._segments[self._condensed]
            self._size -= segment.size
            segment.condense(self._mentions)
            self._size += segment.size
            self._condensed += 1
        while self._size > self._limit and self._segments:
            oldest = self._segments.pop(0)
            self._size -= oldest.size
            self._condensed = max(0, self._condensed - 1)
            letters = oldest.letters
            self._forgotten |= {
                name for tool in self._tools or () for name in spell_names(tool.name) if name in letters
            }


class JoinedEnds:
    """The ends of consecutive texts without anything between them: a call may be split over several results."""

    def __init__(self) -> None:
        self._text = ""
        self._count = 0
        self._segments: list[Segment] | None = None

    def join(self, text: str) -> list[str]:
        """Add the next text. Return what is complete: it is long, and only its end touches the following texts."""
        self._segments = None
        text = text.strip()
        if self._count == 0:
            self._text, self._count = text[-_END:], 1
            return []
        self._text += text[:_END]
        self._count += 1
        if len(text) <= _END and len(self._text) <= 4 * _END:
            return []
        complete, self._count = self._text, 1
        self._text = text[-_END:] if len(text) > _END else complete[-_END:]
        return [complete]

    def segments(self, number: int) -> list[Segment]:
        """Return what is not complete yet, as segments with this number."""
        if self._segments is None:
            texts = readings(self._text) if self._count > 1 else ()
            self._segments = [Segment(text, _NEIGHBOURS, number) for text in texts]
        return self._segments


def _judge_segment(segment: Segment, searches: tuple[Search, Search]) -> Match:
    is_joined = segment.source == _NEIGHBOURS
    match = searches[0].find(segment.view, segment.number, is_joined=is_joined)
    if match.kind != "exact":
        other = searches[1].find(segment.compact, segment.number, is_joined=is_joined)
        match = max(match, other, key=attrgetter("score", "is_marked"))
    if not segment.is_typed:
        return match
    # The user may want this call: in a message of the user, a call asks, and what only resembles one does not count.
    return Match("similar", match.score) if match.is_marked else Match()


def _parts(text: str) -> Iterator[str]:
    step = _LARGEST - _OVERLAP if len(text) > _LARGEST else _LARGEST
    return (text[start : start + _LARGEST] for start in range(0, len(text), step))


def _compile_mentions(tools: Toolset | None) -> re.Pattern[str]:
    names = {form for tool in tools or () for form in CallPattern(ToolCall("", tool.name, {})).names}
    if not names:
        return _generic_mention
    # A name may be split anywhere, but a part of a longer word is only a name if it is whole.
    split = (" ?".join(map(re.escape, name.replace(" ", ""))) for name in names)
    return re.compile("|".join([*map(re.escape, names), *(rf"(?<![^ {{}}@]){each}(?![^ {{}}@])" for each in split)]))


__all__ = ["Allowance", "Echo", "EchoIndex"]
