"""Candidates for calls, and the region of the text in which each was found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from dragoman.toolset import Toolset
from dragoman.types import Change, JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# The results of the loose scanner, and its intermediate values.

_NAME = re.compile(r"[^\W\d](?:[\w.\-/:]|\\_)*")


class Found(Struct, frozen=True, gc=False):
    """A call found in plain text: its span, its content, and the repairs."""

    start: int
    end: int
    """Code-point offsets [start, end): the call with the brackets, quotes or fence that contain nothing else."""
    name: str
    arguments: JsonObject
    region: str
    """`message`, `list`, `line`, `prose`, `quoted`, or `fence:` and the label of the fence, such as `fence:python`."""
    repairs: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    known_tool: bool | None = None


class Candidate(Struct, gc=False):
    """A text that looks like a call; the scanner decides when it knows all candidates."""

    start: int
    end: int
    tool: Tool
    arguments: JsonObject
    shape: str
    """`python` for name(...), `json` for an object that names its tool, `pair` for a name and then an object,
    `items` for the two as items of a list."""
    repairs: list[str]
    changes: tuple[Change, ...] = ()
    template: bool = False
    """The call is inside an f-string with values from elsewhere: f"name(base={base})"."""


class OfferedNames:
    """Looks up names as they are written in the text; each spelling is resolved once."""

    __slots__ = ("_seen", "open", "tools")

    def __init__(self, tools: Toolset | None) -> None:
        self.tools = tools
        self.open = tools is None
        """No tools were given: any identifier may be a tool, and only the shape decides."""
        self._seen: dict[str, Tool | None] = {}

    def may_begin(self, word: str) -> bool:
        """Whether an offered name may begin with this word: cheaper than `find`, for words that are rarely names."""
        return self.tools is None or self.tools.may_begin(word)

    def may_be(self, word: str) -> bool:
        """Whether a word without a namespace may be an offered name."""
        return self.tools is None or self.tools.may_be(word)

    def find(self, written: str) -> Tool | None:
        if written in self._seen:
            return self._seen[written]
        if self.tools is not None:
            tool = self.tools.find(written)
        else:
            tool = Tool(written.replace("\\", "")) if _NAME.fullmatch(written) else None
        self._seen[written] = tool
        return tool


# --------------------------------------------------------------------------------------------------------------------
# The region of a call: alone, in a list, on its own line, in a fence, in quotes, or inside a sentence.

_FENCE = re.compile(r"(`{3,}|~{3,})([A-Za-z][\w+\-]*(?=\s))?")
_GLUE = re.compile(r"[\s,;\[\](){}]*")
_CLOSERS = {"[": "]", "{": "}", "(": ")", '"': '"', "'": "'", "`": "`"}
_QUOTES = frozenset("\"'")
_BLANKS = " \t\r\n"
# What may be on the line of a call besides the call: a bullet, a number, a variable, `return`.
_LINE_START = re.compile(
    r"[ \t]*(?:[-*+>•]+[ \t]+|\(?\d{1,3}[.):][ \t]+)?(?:(?:[^\W\d]\w*[ \t]*=|return\b|await\b|yield\b)[ \t]*)*"
)
_LINE_END = re.compile(r"[ \t]*[;,.]?[ \t]*(?:#[^\n]*)?(?:\n|\r|\Z)")
# With an unclosed bracket around it, a call is still the whole message.
_OPENING_ONLY = " \t\r\n[({"
_CLOSING_ONLY = " \t\r\n])};,."
_LAYERS = 8
"""The maximal number of brackets and quotes around a group that are examined."""


class Fence(Struct, gc=False):
    """A fenced block: its delimiters, and the text between them."""

    start: int
    inner: int
    close: int
    end: int
    label: str


class Group(Struct, gc=False):
    """Consecutive calls with only brackets, commas and blanks between them."""

    calls: list[Candidate]
    start: int
    end: int
    marks: str = ""
    """The brackets and quotes around the group, from the inside out."""
    region: str = "prose"
    fence: Fence | None = None
    whole: bool = True
    """Every member is a call. If not, the wrapper does not belong to the calls alone."""


class Regions:
    """Finds the regions of the calls of one text. Fences and wrappers are visited once, together with the calls."""

    def __init__(self, text: str, wrappers: list[tuple[int, int]]) -> None:
        self.text = text
        self._fences = find_fences(text)
        self._fence: Fence | None = None
        self._wrappers = wrappers
        self._passed = 0
        self._floor = 0

    def group(self, candidates: list[Candidate]) -> list[Group]:
        """Return the candidates in groups, each with its region and with its span extended over its wrapper."""
        text = self.text
        groups: list[Group] = []
        for candidate in candidates:
            quote = _take_quotes(text, candidate)
            last = groups[-1] if groups else None
            if last is not None and _GLUE.fullmatch(text, last.end, candidate.start):
                last.calls.append(candidate)
                last.end = candidate.end
            else:
                groups.append(Group([candidate], candidate.start, candidate.end, quote))
        for index, one in enumerate(groups):
            ceiling = groups[index + 1].start if index + 1 < len(groups) else len(text)
            self._place(one, ceiling, alone=len(groups) == 1)
            self._floor = one.end
        return groups

    def _place(self, one: Group, ceiling: int, *, alone: bool) -> None:
        text, floor = self.text, self._floor
        self._take_wrapper(one, ceiling)
        _widen(text, one, floor, ceiling)
        fence = one.fence = self._fence_at(one)
        one.region = _region(text, one, floor, alone=alone)
        if fence is None or fence.start < floor or fence.end > ceiling:
            return
        if not text[fence.inner : one.start].strip(_BLANKS) and not text[one.end : fence.close].strip(_BLANKS):
            one.start, one.end = fence.start, fence.end

    def _take_wrapper(self, one: Group, ceiling: int) -> None:
        """Return the outermost wrapper that contains the group and no other candidate."""
        while self._passed < len(self._wrappers) and self._wrappers[self._passed][0] <= one.start:
            start, end = self._wrappers[self._passed]
            self._passed += 1
            if self._floor <= start and one.end <= end <= ceiling:
                one.start, one.end = start, end
                return

    def _fence_at(self, one: Group) -> Fence | None:
        while self._fence is None or self._fence.close < one.end:
            self._fence = next(self._fences, None)
            if self._fence is None:
                return None
        return self._fence if self._fence.inner <= one.start else None


def find_fences(text: str) -> Iterator[Fence]:
    """Return the fenced blocks in order; an unclosed one extends to the end of the text."""
    if "```" not in text and "~~~" not in text:
        return
    opened: re.Match[str] | None = None
    for mark in _FENCE.finditer(text):
        if opened is None:
            opened = mark
        elif mark[1][0] == opened[1][0]:
            yield _fence(opened, mark.start(), mark.end(1))
            opened = None
    if opened is not None:
        yield _fence(opened, len(text), len(text))


def _fence(opened: re.Match[str], close: int, end: int) -> Fence:
    return Fence(opened.start(), opened.end(), close, end, (opened[2] or "").lower())


def _take_quotes(text: str, call: Candidate) -> str:
    """Extend a call over the quotes directly around it; return the quotes."""
    mark = text[call.start - 1 : call.start] if call.start else ""
    if mark in ('"', "'", "`") and text.startswith(mark, call.end) and not text.startswith("```", call.end):
        call.template = text[call.start - 2 : call.start - 1] in ("f", "F") and "{" in text[call.start : call.end]
        call.start -= 1
        call.end += 1
        return mark
    return ""


def _widen(text: str, one: Group, floor: int, ceiling: int) -> None:
    """Extend the group over the brackets and quotes that contain nothing else."""
    for _ in range(_LAYERS):
        before, after = one.start, one.end
        while before > floor and text[before - 1] in _BLANKS:
            before -= 1
        while after < ceiling and text[after] in " \t\r\n,;":
            after += 1
        if before <= floor or after >= ceiling:
            return
        mark = text[before - 1]
        if text[after] != _CLOSERS.get(mark) or text.startswith("```", after):
            return
        one.marks += mark
        one.start, one.end = before - 1, after + 1
        if mark == "(" and text.endswith("print", max(floor, one.start - 5), one.start):
            one.start -= 5


def _region(text: str, one: Group, floor: int, *, alone: bool) -> str:
    if one.fence is not None:
        return "fence:" + one.fence.label
    if not _QUOTES.isdisjoint(one.marks):
        return "quoted"
    if alone and not text[: one.start].strip(_OPENING_ONLY) and not text[one.end :].strip(_CLOSING_ONLY):
        return "message"
    if "[" in one.marks:
        return "list"
    line = text.rfind("\n", floor, one.start) + 1
    # Without a newline after the previous group, both are on the same line.
    if (line or not floor) and _LINE_START.fullmatch(text, line, one.start) and _LINE_END.match(text, one.end):
        return "line"
    return "prose"
