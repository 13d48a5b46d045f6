"""The loose scanner: one walk over the opening brackets of a text, looking for calls to the offered tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.loose.fitting import fit
from dragoman.formats.loose.found import Candidate, Found, Offered
from dragoman.formats.loose.json_calls import OPENING, holds_calls, is_definition, name_before, read_object, read_value
from dragoman.formats.loose.judgement import ANOTHER_MATTER, judge
from dragoman.formats.loose.python_calls import DEFINED_BODY, Callee, Read, callee_before, read_arguments
from dragoman.formats.loose.regions import Group, Regions
from dragoman.formats.loose.sources import Source, Unescaped, escaped_until, quoted_call_end
from dragoman.toolset import Toolset, fold
from dragoman.types import JsonObject

_OPENERS = re.compile(r"[({]")
_READ_AGAIN = 2
"""How many times the length of the text failed readings may cost in all: what keeps any text linear."""


def find_calls(text: str, tools: Toolset | None) -> list[Found]:
    """Calls in plain text that no marked format claimed: in prose, fences, lists and quotes, in order."""
    if not _mentions(text, tools):
        return []
    offered = Offered(tools)
    scan = _Scan(text, offered)
    regions = Regions(text, scan.wrappers)
    for candidates in scan.matters():
        for candidate in candidates:
            candidate.arguments, candidate.changes = fit(candidate.arguments, candidate.tool.parameters)
        groups = judge(regions.group(candidates), offered, scan.defined)
        if groups:
            return _found(groups, None if tools is None else True)
    return []


def _found(groups: list[Group], known: bool | None) -> list[Found]:
    """The calls of the groups: the span of a group is shared out among its calls, if it holds nothing else."""
    found: list[Found] = []
    for one in groups:
        edge = one.start
        for call in one.calls:
            start, end = (edge, call.end) if one.whole else (call.start, call.end)
            if one.whole and call is one.calls[-1]:
                end = one.end
            edge = end
            name, repairs = call.tool.name, tuple(call.repairs)
            found.append(Found(start, end, name, call.arguments, one.region, repairs, call.changes, known))
    return found


def _mentions(text: str, tools: Toolset | None) -> bool:
    """Whether any offered name occurs at all, and any bracket that could hold arguments."""
    if "(" not in text and "{" not in text:
        return False
    if tools is None:
        return True
    names = tools.names
    if any(name in text for name in names):
        return True
    folded = fold(text)
    return any(fold(name) in folded for name in names)


class _Scan:
    """The state of one walk: what was found, where reading goes on, and how much may still be read in vain."""

    def __init__(self, text: str, offered: Offered) -> None:
        self.text = text
        self.offered = offered
        self.position = 0
        self.budget = _READ_AGAIN * len(text) + 10_000
        self.candidates: list[Candidate] = []
        self.wrappers: list[tuple[int, int]] = []
        self.defined: dict[str, int] = {}
        self._window = Source(text)
        self._unescaped: Unescaped | None = None
        self._escaped_until = 0

    def matters(self) -> Iterator[list[Candidate]]:
        """The candidates, one matter after the other: what comes after an answer is only of interest if it was none."""
        horizon = 0
        for opener in _OPENERS.finditer(self.text):
            place = opener.start()
            if place < self.position:
                continue
            if self.candidates and place >= horizon:
                another = ANOTHER_MATTER.search(self.text, self.candidates[-1].end)
                horizon = another.start() if another else len(self.text)
                if place >= horizon:
                    yield self.candidates
                    self.candidates = []
            if self.text[place] == "(":
                self._parenthesis(place)
            else:
                self._brace(place)
            if self.budget <= 0:
                break
        if self.candidates:
            yield self.candidates

    def _parenthesis(self, place: int) -> None:
        callee = callee_before(self.text, place, self.position, self.offered)
        if callee is None:
            return
        if callee.defines:
            self.defined.setdefault(callee.tool.name, place)
            return
        source = self._source(callee.start, place)
        position = source.inner(place + 1)
        try:
            read = read_arguments(source.text, position, callee.tool)
        except Unreadable as error:
            self._charge(len(source.text) - position if error.cut else error.position - position)
            read = self._read_in_quotes(source, callee, position)
        if read is None:
            return
        self.position = source.outer(read.end)
        if DEFINED_BODY.match(self.text, self.position):
            self.defined.setdefault(callee.tool.name, place)
            return
        if callee.spaced and read.positional:
            # "get_weather (see above)" is a remark.
            return
        repairs = [*read.repairs, "unescaped_quotes"] if source is self._unescaped else read.repairs
        self.candidates.append(Candidate(callee.start, self.position, callee.tool, read.arguments, "python", repairs))

    def _read_in_quotes(self, source: Source, callee: Callee, position: int) -> Read | None:
        """['f(a='x')']: the strings of a quoted call use the quote around it, so its end must be found first."""
        end = quoted_call_end(source.text, source.inner(callee.start), position)
        if end is None:
            return None
        self._charge(end - position)
        try:
            return read_arguments(source.text[:end], position, callee.tool)
        except Unreadable:
            return None

    def _brace(self, place: int) -> None:
        if OPENING.match(self.text, place) is None:
            return
        source = self._source(place, place)
        position = source.inner(place)
        try:
            value, end, repairs = read_value(source.text, position)
        except Unreadable as error:
            self._charge(len(source.text) - position if error.cut else error.position - position)
            return
        end = source.outer(end)
        if source is self._unescaped:
            repairs.append("unescaped_quotes")
        if isinstance(value, dict):
            self._object(place, end, value, repairs)

    def _object(self, place: int, end: int, value: JsonObject, repairs: list[str]) -> None:
        """Decides what an object is: the arguments of a name before it, a call, a wrapper of calls, or data."""
        named = None if self.offered.open else name_before(self.text, place, self.position, self.offered)
        if named is not None and not is_definition(value, named.tool):
            shape = "items" if named.item else "pair"
            self.candidates.append(Candidate(named.start, end, named.tool, value, shape, repairs))
            self.position = end
            return
        spoken = read_object(value, self.offered)
        if spoken is not None:
            repairs += spoken.repairs
            self.candidates.append(Candidate(place, end, spoken.tool, spoken.arguments, "json", repairs))
        elif holds_calls(value, self.offered):
            # Its calls are read one by one, each with its own place.
            self.wrappers.append((place, end))
            self._charge(end - place)
            return
        self.position = end

    def _charge(self, extent: int) -> None:
        self.budget -= max(extent, 16)

    def _source(self, start: int, position: int) -> Source:
        """Where to read: without the escapes when the call stands in a quoted string that has them."""
        if start >= self._escaped_until:
            self._escaped_until = escaped_until(self.text, start) if "\\" in self.text else 0
        if not self._escaped_until:
            self._window = self._window.near(self.text, position)
            return self._window
        if self._unescaped is None:
            self._unescaped = Unescaped(self.text)
        return self._unescaped
