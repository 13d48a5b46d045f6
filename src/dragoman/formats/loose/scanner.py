"""The loose scanner: one pass over the brackets of a text that finds calls of the offered tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dragoman.args.coercion import coerce
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.envelope import properties_of, required_of
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
    TYPE_NAMES,
    Candidate,
    Found,
    Group,
    OfferedNames,
    Regions,
)
from dragoman.toolset import Toolset, fold
from dragoman.types import Change, JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Arguments against their schema: most fit plainly, and only the others are worth preparing the schema for.


def fit(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[Change, ...]]:
    """The arguments as the schema wants them, and what was changed for that."""
    if not schema:
        return arguments, ()
    coerced = coerce(arguments, schema)
    return (coerced.value, coerced.changes) if isinstance(coerced.value, dict) else (arguments, ())


# --------------------------------------------------------------------------------------------------------------------
# Which of the places that read like a call are meant as one.
#
# The name was offered and the arguments could be read; what is left to tell apart is a call, its restatement, a
# signature, a program that happens to use the name, and a conversation that the model went on to make up.

# After an answer: the model plays the user's part, or starts to write a program.
ANOTHER_MATTER = re.compile(
    r"^[ \t]*(?:"
    r"#{1,6}[ \t]*(?:Instruction|User|Human)\b"
    r"|(?:User|Human|USER|HUMAN)[ \t]*:"
    r"|(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]"
    r"|\#[ \t]*[\w/\-]+\.(?:py|js|ts|md|txt)\b"
    r")"
    r"|<\|(?:im_start|start_header_id)\|>[ \t]*user|<\|user\|>|\[INST\]|<start_of_turn>[ \t]*user",
    re.MULTILINE,
)
_PLACEHOLDER = re.compile(r"<[^<>]*>|\.{3}|…|\{[^{}]*\}|\[[^\[\]]*\]|\?+|_+")
_INNER_CALL = re.compile(r"([^\W\d][\w.\\]*)\(")
_KIND_NAMES = {"string": frozenset(("string", "str", "text", "any")), "null": frozenset(("null", "none", "any"))}
_PLAIN_REGIONS = frozenset(("message", "list", "quoted"))


def judge(groups: list[Group], offered: OfferedNames, defined: dict[str, int]) -> list[Group]:
    """The groups that are calls, without the restated ones; `defined` says where the text defines a tool itself."""
    kept: list[Group] = []
    said: set[str] = set()
    for one in groups:
        calls = [call for call in one.calls if _is_meant(call, one, offered, defined)]
        if len(groups) > 1 and calls:
            calls = [call for call in calls if _spelled(call) not in said]
            said.update(map(_spelled, calls))
        one.whole = len(calls) == len(one.calls)
        one.calls = calls
        if calls:
            kept.append(one)
    return kept


def _spelled(call: Candidate) -> str:
    return call.tool.name + repr(sorted(call.arguments.items()))


def _is_meant(call: Candidate, one: Group, offered: OfferedNames, defined: dict[str, int]) -> bool:
    if offered.open and call.shape != "json" and "[" not in one.marks:
        # Any identifier would do for a name: only a list makes a call of what reads like Python.
        return False
    if defined.get(call.tool.name, call.start) < call.start:
        return False
    if call.template or (call.shape == "items" and one.fence is not None):
        return False
    arguments = call.arguments
    properties = properties_of(call.tool)
    for name in required_of(call.tool):
        if name not in arguments or (arguments[name] is None and not _accepts(properties.get(name), "null")):
            return False
    return "expression_as_text" not in call.repairs or _is_literal(call, one, properties, offered)


def _is_literal(call: Candidate, one: Group, properties: dict[str, Any], offered: OfferedNames) -> bool:
    """Whether the values that are no literals can be taken as text: words and formulas, but no variables.

    In a program or a sentence a bare word is a variable or a parameter. Where the call stands for itself it may be
    text that lacks its quotes, unless it names its own parameter, a type, or the result of another call.
    """
    if one.region not in _PLAIN_REGIONS:
        return False
    for name, value in call.arguments.items():
        if not isinstance(value, str):
            continue
        if not _accepts(properties.get(name), "string") or value == name or value in TYPE_NAMES:
            return False
        inner = _INNER_CALL.search(value)
        if _PLACEHOLDER.fullmatch(value) or (inner is not None and offered.find(inner[1]) is not None):
            return False
    return True


def _accepts(schema: Any, kind: str) -> bool:
    """Whether a property's schema lets a value of that kind pass, as far as its type says."""
    if not isinstance(schema, dict):
        return True
    declared = schema.get("type")
    if declared is None or (kind == "null" and schema.get("nullable")):
        return True
    names = declared if isinstance(declared, list) else [declared]
    return any(str(name).lower() in _KIND_NAMES[kind] for name in names)


# --------------------------------------------------------------------------------------------------------------------
# The loose scanner: one walk over the opening brackets of a text, looking for calls to the offered tools.

_OPENERS = re.compile(r"[({]")
_READ_AGAIN = 2
"""How many times the length of the text failed readings may cost in all: what keeps any text linear."""


def find_calls(text: str, tools: Toolset | None) -> list[Found]:
    """Calls in plain text that no marked format claimed: in prose, fences, lists and quotes, in order."""
    if not _mentions(text, tools):
        return []
    offered = OfferedNames(tools)
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

    def _read_in_quotes(self, source: Source, callee: Callee, position: int) -> ReadArguments | None:
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
