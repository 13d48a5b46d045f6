"""The loose scanner: one pass over the brackets of a text that finds calls of the offered tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.args.coercion import coerce
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.envelope import unwrap_arguments
from dragoman.formats.intent import ANOTHER_MATTER, is_meant, spell
from dragoman.formats.loose.calls import (
    DEFINED_BODY,
    OPENING,
    Callee,
    ReadArguments,
    Source,
    Unescaped,
    callee_before,
    escaped_until,
    holds_calls,
    is_definition,
    name_before,
    quoted_call_end,
    read_arguments,
    read_object,
    read_value,
)
from dragoman.formats.loose.candidates import (
    Candidate,
    Found,
    Group,
    OfferedNames,
    Regions,
)
from dragoman.toolset import Toolset
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Coercion of the arguments. Most arguments fit without a change; the schema is prepared only for the others.


def _fit(call: Candidate, offered: OfferedNames) -> None:
    """Unwrap the arguments, and coerce them to the schema."""
    if not call.tool.parameters:
        return
    call.arguments, rules = unwrap_arguments(call.arguments, call.tool, offered.find)
    call.repairs.extend(rules)
    coerced = coerce(call.arguments, call.tool.parameters)
    if isinstance(coerced.value, dict):
        call.arguments, call.changes = coerced.value, coerced.changes


# --------------------------------------------------------------------------------------------------------------------
# The decision which candidates are calls.
#
# The name was offered and the arguments could be read. `meaning.py` states which of them are meant.

_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "console", "powershell", "cmd"))
_PLAIN_REGIONS = frozenset(("message", "list", "quoted"))


def judge(groups: list[Group], offered: OfferedNames, defined: dict[str, int]) -> list[Group]:
    """Return the groups that are calls, without repeated ones; `defined` lists where the text defines a tool."""
    kept: list[Group] = []
    said: set[str] = set()
    for one in groups:
        calls = [call for call in one.calls if _is_meant(call, one, offered, defined)]
        if len(groups) > 1 and calls:
            calls = [call for call in calls if spell(call.tool.name, call.arguments) not in said]
            said.update(spell(call.tool.name, call.arguments) for call in calls)
        one.whole = len(calls) == len(one.calls)
        one.calls = calls
        if calls:
            kept.append(one)
    return kept


def _is_meant(call: Candidate, one: Group, offered: OfferedNames, defined: dict[str, int]) -> bool:
    if offered.open and call.shape != "json" and "[" not in one.marks and one.region != "message":
        # Any identifier could be a name, so text that looks like Python is a call only in a list or on its own.
        return False
    if defined.get(call.tool.name, call.start) < call.start:
        return False
    if call.template or (call.shape == "items" and one.fence is not None):
        return False
    if one.fence is not None and one.fence.label in _SHELLS:
        return False  # a command line passes the object to another program
    is_plain = one.region in _PLAIN_REGIONS
    return is_meant(call.tool, call.arguments, call.repairs, offered.find, is_plain=is_plain)


# --------------------------------------------------------------------------------------------------------------------
# The scan: one pass over the opening brackets of a text that searches for calls of the offered tools.

_OPENERS = re.compile(r"[({]")
_READ_AGAIN = 2
"""The budget for failed attempts, as a multiple of the length of the text. It makes the scan linear for any text."""


def find_calls(text: str, tools: Toolset | None) -> list[Found]:
    """Find the calls in text without markers, in order: in prose, fences, lists and quotes."""
    if not _mentions(text, tools):
        return []
    offered = OfferedNames(tools)
    scan = _Scan(text, offered)
    regions = Regions(text, scan.wrappers)
    for candidates in scan.matters():
        for candidate in candidates:
            _fit(candidate, offered)
        groups = judge(regions.group(candidates), offered, scan.defined)
        if groups:
            return _found(groups, None if tools is None else True)
    return []


def _found(groups: list[Group], known: bool | None) -> list[Found]:
    """Return the calls of the groups. The span of a group is divided among its calls if it contains nothing else."""
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
    """Whether the text contains an offered name, and a bracket that could contain arguments."""
    if "(" not in text and "{" not in text:
        return False
    return tools is None or tools.is_mentioned(text)


class _Scan:
    """The state of one scan: the candidates, the position, and the rest of the budget for failed attempts."""

    def __init__(self, text: str, offered: OfferedNames) -> None:
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
        """Yield the candidates in parts. A part after an answer matters only if the parts before it had no call."""
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

    def _read_in_quotes(self, source: Source, callee: Callee, position: int) -> ReadArguments | None:
        """Read ['f(a='x')']: the strings of a quoted call use the same quote, so the end must be found first."""
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
        """Decide what an object is: the arguments of a name before it, a call, a wrapper of calls, or data."""
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
            # Its calls are read one by one, each with its own span.
            self.wrappers.append((place, end))
            self._charge(end - place)
            return
        self.position = end

    def _charge(self, extent: int) -> None:
        self.budget -= max(extent, 16)

    def _source(self, start: int, position: int) -> Source:
        """Return the source to read from: without the escapes if the call is in a quoted string that has them."""
        if start >= self._escaped_until:
            self._escaped_until = escaped_until(self.text, start) if "\\" in self.text else 0
        if not self._escaped_until:
            self._window = self._window.near(self.text, position)
            return self._window
        if self._unescaped is None:
            self._unescaped = Unescaped(self.text)
        return self._unescaped
