"""The steps `{* ... *}` and `{value}`: arguments as tags around keys and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

from dragoman.args.coercion import read_text
from dragoman.args.decoder import Undecodable, decode
from dragoman.formats.cursor import (
    BrokenCall,
    Cursor,
    Mark,
    Markers,
    PassThrough,
    Reader,
    Truncated,
    escape,
    write_json,
)
from dragoman.formats.entities import unescape_text
from dragoman.formats.envelope import is_plain_text, schema_of
from dragoman.formats.steps import Scope, Step, Waiting, announce, run_steps
from dragoman.formats.template import Hole, Literal, Many, Maybe, Node, Space
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The fast path for arguments that have arrived whole, as in a text that is not streamed.
#
# One regular expression reads what the steps would read one by one: a reply with three calls of DeepSeek V3.2 takes 162
# instead of 209 microseconds, one of Qwen3-Coder 165 instead of 197. It is deliberately narrow. It does not match a key
# with a bracket, a value with another tag of the format, or a missing closer; the steps read all of these.

_BLANKS = r"[ \t\r\n]*"
_VALUE = Hole("value")
_SLOT = r"[^<>\"'\\\n ]{1,200}?"
_call_begins = re.compile(r"<(?:[\w|｜]{1,20}[:|｜])?(?:functions?|invoke|tool_calls?|function_calls?)\b").search
"""Finds the opener of a call that a value shows."""
_needs_care = re.compile(r"</|&(?:amp|lt|gt|quot|apos|#)").search
_last_closer = re.compile(r"[ \t]*(?:\r?\n)?[ \t]*</([^\s<>/]{1,60})/?>[ \t\r\n]*\Z").search


def with_returns(space: str) -> str:
    """Return white space with the line ends of Windows."""
    return space.replace("\r\n", "\n").replace("\n", "\r\n")


class WholePair:
    """The body of `{* ... *}` as one regular expression."""

    def __init__(self, nodes: tuple[Node, ...], first: Markers, exits: Markers) -> None:
        self._nodes = nodes[:-1] if isinstance(nodes[-1], Space) else nodes
        self._follows = "|".join(re.escape(text) for text in sorted((*first, *exits), key=len, reverse=True))
        self._others = Markers((*first, *exits))
        self._match: Callable[[str, int], re.Match[str] | None] | None = None

    def match(self, text: str, position: int) -> re.Match[str] | None:
        """Match the whole argument at this position, if it is a plain one."""
        pattern = self._match or self._compile()
        found = pattern(text, position)
        if (
            found is None
            or _needs_care(found["value"])
            or _call_begins(found["value"])
            or self._others.find(found["value"], 0, final=True) is not None
        ):
            return None
        return found

    def _compile(self) -> Callable[[str, int], re.Match[str] | None]:
        source = "".join(self._write(index, node) for index, node in enumerate(self._nodes))
        self._match = re.compile(f"{source}(?={_BLANKS}(?P<next>{self._follows}))", re.DOTALL).match
        return self._match

    def _write(self, index: int, node: Node) -> str:
        if isinstance(node, Literal):
            spellings = "|".join(map(re.escape, sorted(node.spellings, key=len, reverse=True)))
            trail = self._nodes[index - 1] if index > 1 and self._nodes[index - 2] == _VALUE else None
            return self._write_framed(index, spellings, trail.text) if isinstance(trail, Space) else f"(?:{spellings})"
        if isinstance(node, Space):
            return self._write_space(index)
        if isinstance(node, Hole):
            return "(?P<value>.*?)" if node.kind == "value" else f"(?P<{node.kind}>{_SLOT})"
        assert isinstance(node, Maybe | Many)
        return "(?:" + "".join(self._write(-1, inner) for inner in node.body) + ")?"

    def _write_space(self, index: int) -> str:
        """White space next to a value is exact; elsewhere any white space matches."""
        if index > 0 and self._nodes[index - 1] == _VALUE:
            return ""  # the closer contains it
        if 0 <= index < len(self._nodes) - 1 and self._nodes[index + 1] == _VALUE:
            ends_key = index > 0 and isinstance(self._nodes[index - 1], Hole)
            return r"(?:(?P<plain>\n)|\r\n)" + ("" if ends_key else "?")
        return _BLANKS

    def _write_framed(self, index: int, closers: str, trail: str) -> str:
        """Match a closer with and without the white space that ends a value; a plain line feed before it stays plain.

        Each alternative begins with a character of its own, so the search skips all other characters quickly.
        """
        ways = [closers, f"{re.escape(trail)}(?:{closers})"]
        first, rest = re.escape(with_returns(trail)[0]), f"{re.escape(with_returns(trail)[1:])}(?:{closers})"
        is_led = index > 2 and isinstance(self._nodes[index - 3], Space)
        ways.append(f"{first}(?(plain)(?!)|{rest})" if is_led else first + rest)
        return f"(?:{'|'.join(ways)})"


# --------------------------------------------------------------------------------------------------------------------
# The steps for arguments in tags: `{* ... *}` and `{value}`.


_TAG_LIMIT = 400
_names_key = re.compile(r"(<[^<>\"'\n]{1,60} )name=").match
_not_in_key = re.compile(r"[\"'<>\n]").search
_attribute = re.compile(
    r"""([A-Za-z_][\w:.\-]{0,60})\s{0,9}=\s{0,9}("[^"]{0,200}(?:"|\Z)|'[^']{0,200}(?:'|\Z)|[^\s"'<>]{1,200})"""
)


class NoValue(Exception):
    """A key has no value; the call continues with the next argument."""


class OpenValue(Waiting):
    """The tag that opens a value, if it is separate from the key: a model may omit both tag and value."""

    def __init__(self, openers: Markers, ends: Markers, key_closers: Markers) -> None:
        self.openers = openers
        self.either = Markers((*openers, *ends))
        self.key_closers = key_closers

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        found, ahead = cursor.look_now(self.either) or (yield from cursor.look(self.either))
        while found is None and (yield from cursor.take(self.key_closers)) is not None:
            cursor.repair("repeated_marker")
            found, ahead = yield from cursor.look(self.either)
        if found is None:
            if cursor.position + ahead >= len(cursor.text):
                raise Truncated
            if cursor.text.startswith("</", cursor.position + ahead):
                raise BrokenCall("a closing tag in the place of a value")
            # The value follows without its tag.
            cursor.position += ahead
            cursor.repair("missing_marker")
            return
        if found not in self.openers.literals:
            raise NoValue
        cursor.position += ahead + len(found)


class ReadPairs(Waiting):
    """`{* ... *}`: arguments one by one."""

    def __init__(
        self, steps: tuple[Step, ...], whole: WholePair, first: Markers, exits: Markers, landmarks: Markers
    ) -> None:
        self.steps = steps[1:]  # the first one is the literal that identifies an argument
        self.value = next(step for step in steps if isinstance(step, ReadValue))
        self.whole = whole
        self.first = first
        # Tags with attributes, which may have any order: `<parameter type="string" name="path">`.
        self.tags = {text: match[1] for text in first if (match := _names_key(text)) is not None}
        self.tags |= {start: start for start in self.tags.values()}
        self.ends = Markers((*first, *self.tags, *exits))
        self.exits = exits
        self.extra_closers = Markers(self.value.closers)
        self.landmarks = landmarks

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        seen = cursor.look_now(self.ends)
        found, ahead = seen or (yield from cursor.look(self.ends))
        if found is None:
            raise BrokenCall("neither an argument nor the end of the call")
        announce(cursor, scope)
        while True:
            if found is None:
                cursor.position += ahead
                if (yield from self._lacks_only_its_end(cursor, scope)):
                    scope.lacks_end = True
                    break
                found = yield from self._skip_text(cursor)
                ahead = 0
            if found not in self.first.literals and found not in self.tags:
                break
            whole = self._take_whole(cursor, scope, ahead)
            if whole is not None:
                found, ahead = whole
                continue
            cursor.position += ahead + len(self.tags.get(found, found))
            while (yield from cursor.take(self.first)) is not None:
                cursor.repair("repeated_marker")
            try:
                if found in self.tags:
                    yield from self._read_attributes(cursor, scope)
                    yield from self.value.run(cursor, scope)
                else:
                    yield from run_steps(self.steps, cursor, scope)
            except NoValue:
                cursor.repair("dropped_key")
            seen = cursor.look_now(self.ends)
            found, ahead = seen or (yield from cursor.look(self.ends))
            while found is None and self.value.is_tag and (yield from cursor.take(self.extra_closers)) is not None:
                cursor.repair("extra_closers")
                found, ahead = yield from cursor.look(self.ends)
        cursor.delta("{}" if scope.first else "}")

    def _read_attributes(self, cursor: Cursor, scope: Scope) -> Reader:
        """Read the attributes of a tag in any order: the key, the stated type, and others, which have no meaning."""
        mark = cursor.begin()
        while (end := cursor.text.find(">", cursor.position, cursor.position + _TAG_LIMIT)) < 0:
            if len(cursor.text) - cursor.position > _TAG_LIMIT:
                raise BrokenCall("the tag of an argument is too long")
            yield from cursor.need()
        text = cursor.text[cursor.position : end]
        if "<" in text:
            cursor.return_to(mark)
            # The bracket that was found belongs to another tag.
            raise BrokenCall("the tag of an argument is not closed")
        found = {match[1]: match[2].strip("\"'") for match in _attribute.finditer(text)}
        key = found.pop("name", "").strip()
        if not key or _not_in_key(key):
            cursor.return_to(mark)
            raise BrokenCall("the tag of an argument names no key")
        cursor.position = end + 1
        scope.filled["key"] = key
        if "string" in found:
            scope.filled["type"] = found.pop("string")
        if found:
            cursor.repair("dropped_attribute")

    def _lacks_only_its_end(self, cursor: Cursor, scope: Scope) -> Generator[None, None, bool]:
        """Whether the text ends, or another call begins, directly after a complete argument."""
        if scope.first:
            return False
        while cursor.position == len(cursor.text) and not cursor.final:
            yield
        if cursor.final and cursor.position == len(cursor.text):
            return True
        if (yield from cursor.take_cut_closer(self.exits)):
            return True
        found, ahead = yield from cursor.look(self.landmarks)
        return ahead == 0 and found is not None and found not in self.ends.literals

    def _take_whole(self, cursor: Cursor, scope: Scope, ahead: int) -> tuple[str, int] | None:
        """Read an argument that has arrived whole with one match; return what follows it."""
        if not cursor.hurries:
            return None
        match = self.whole.match(cursor.text, cursor.position + ahead)
        if match is None or not match["key"].strip() or match.end("next") == len(cursor.text):
            # After one failure it would fail again, each time at the cost of the whole text.
            cursor.hurries = False
            return None
        groups = match.groupdict()
        cursor.position = match.end()
        self.value.settle(cursor, scope, groups["key"].strip(), groups["value"], groups.get("type"))
        return match["next"], match.start("next") - cursor.position

    def _skip_text(self, cursor: Cursor) -> Generator[None, None, str]:
        """Skip text between two arguments, which has no meaning. A new opener means that this call was not closed."""
        mark = cursor.begin()
        while True:
            hit = self.landmarks.find(cursor.text, cursor.position, final=cursor.final)
            cursor.position = len(cursor.text) if hit is None else hit[0]
            if hit is not None and hit[1] is not None:
                break
            yield from cursor.need()
        if hit[1] not in self.ends.literals:
            raise BrokenCall("the call was not closed before the next one")
        if self.value.is_tag and self.extra_closers.find(cursor.since(mark), 0, final=True) is not None:
            raise BrokenCall("the value of an argument contains its own closer")
        cursor.repair("skipped_text")
        return hit[1]


_MOST_HITS = 64
_tag_word = re.compile(r"</([^\s<>/]{1,60})>\Z").match


@lru_cache(64)
def _inner_arguments(closers: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the tags that one of these closers would end, in any dialect."""
    words = "|".join(re.escape(word[1]) for closer in sorted(closers) if (word := _tag_word(closer)) is not None)
    return re.compile(rf"<(?:{words or '(?!)'})(?:=|\s+(?:name|key)\s*=|>(?!`))")


class _Shown:
    """Finds the calls that a value shows, as documentation does. Their tags do not end the value.

    The opener of a call inside the value shows one. Each of its arguments has a closer of its own.
    """

    __slots__ = ("_hits", "_inner", "_is_found", "_mark", "_open", "_seen")

    def __init__(self, closers: frozenset[str], mark: Mark) -> None:
        self._inner, self._mark = _inner_arguments(closers), mark
        self._open = 0  # arguments of the call that is shown, without their closers so far
        self._seen = 0
        self._hits = 0
        self._is_found = False

    def covers(self, cursor: Cursor, *, is_closer: bool) -> bool:
        """Whether the marker at the position belongs to a call that the value shows."""
        if self._hits >= _MOST_HITS:
            return False
        self._hits += 1
        text = cursor.since(self._mark)
        if not self._is_found:
            call = _call_begins(text, self._seen)
            if call is None:
                self._seen = max(0, len(text) - _LONGEST_OPENER)
                return False
            self._is_found, self._seen = True, call.start()
        self._open += sum(1 for _ in self._inner.finditer(text, self._seen))
        self._seen = len(text)
        if is_closer:
            self._open -= 1
            if self._open >= 0:
                return True
            self._open = 0
            return False
        return True


_LONGEST_OPENER = 40


class ReadValue(Waiting):
    """`{value}`: raw text up to its closer; the schema determines its type."""

    def __init__(
        self,
        lead: str,
        closers: tuple[str, ...],
        trail: str,
        *,
        first: Markers,
        exits: Markers,
        openers: tuple[str, ...],
        cdata: bool,
        unique: bool,
        untyped_is_text: bool,
        states_types: bool,
    ) -> None:
        self.lead = lead
        self.states_types = states_types
        """Values have an attribute for their type. One without it was not written as the format says."""
        self.untyped_is_text = untyped_is_text
        self.cdata = cdata
        self.unique = unique
        # Without a closer, a line end before the next tag is no part of the value.
        ends = (*closers, *first, *exits) if trail else (*first, *exits)
        framed = {(trail or "\n") + end: end for end in ends}
        self.framed = framed | {with_returns(trail or "\n") + end: end for end in ends}
        self.closers = frozenset(closers)
        self.is_framed = "\n" in lead and "\n" in trail
        """The template writes a value on lines of its own."""
        self.is_tag = all(closer.startswith("</") for closer in closers)
        """A tag ends the value wherever it is. Other closers end it only before the next argument or the end."""
        self.is_unframed = self.is_tag and not lead
        self.exits = exits.literals
        self.following = Markers((*first, *exits))
        """What may follow the closer. If anything else follows, the closer is part of the value."""
        self.beyond = Markers((*exits, *openers, *(("</",) if self.is_tag else ())))
        """What may follow the end of the call if the closer of its last value is missing."""
        # If a template writes each argument on its own line, the next one cannot begin inside a line.
        unframed = (*closers, *exits, *(() if trail else first))
        self.stops = Markers((*unframed, *self.framed))
        # A value that begins after a plain line feed ends with one as well; a return before that is the user's data.
        self.plain_stops = Markers((*unframed, *framed))

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        key = scope.filled["key"]
        stated = scope.filled.pop("type", None)
        is_untyped = self.states_types and stated is None
        is_text = not self.cdata and _is_text(schema_of(scope.tool, key), stated)
        lead = (yield from self._skip_lead(cursor)) if self.lead else ""
        # Only the end of a value shows whether the line end before it is layout.
        is_streamed = is_text and not is_untyped and not (self.is_unframed and (yield from begins_line(cursor)))
        stops = self.plain_stops if lead == "\n" else self.stops
        mark = cursor.begin()
        if is_streamed:
            cursor.delta(_prefix(key, scope) + '"')
        quiet = PassThrough(stops.wakes, "string" if is_streamed else "silent")
        try:
            length, is_closed = yield from self._run_to_end(cursor, stops, quiet, _Shown(self.closers, mark))
            text = cursor.since(mark)
        except Truncated:
            plain = _plain_end(cursor.since(mark), self.closers)
            if plain is None:
                raise
            cursor.repair("foreign_closer")
            text, length, is_closed = plain, 0, True
            cursor.ended = False
        cursor.position += length
        if not is_closed:
            cursor.repair("closed_argument")
            text = self._without_foreign_closer(cursor, text, key)
            if lead != "\n" and self.is_framed and "\n" not in text:
                text = text.strip(" \t")  # the template puts a value on a line of its own, so these blanks are layout
        self.settle(cursor, scope, key, text, stated, streamed=is_streamed)

    def settle(
        self, cursor: Cursor, scope: Scope, key: str, text: str, stated: str | None, *, streamed: bool = False
    ) -> None:
        """Convert the complete text of the value to its type, and emit what has not been emitted yet."""
        schema = schema_of(scope.tool, key)
        if self.states_types and stated is None:
            text = _without_cdata(text)
        if self.is_unframed and (framed := own_lines(text)) is not None:
            text = framed[1]
        if self.is_tag and "&" in text:
            text = self._decode(cursor, text, schema, stated)
        value: Any = text
        if streamed:
            cursor.delta('"')
        elif not self.cdata and _is_text(schema, stated):
            cursor.delta(_prefix(key, scope) + escape(text))
        else:
            value = self._type(text, schema, stated, scope)
            cursor.delta(_prefix(key, scope) + write_json(value))
        if key in scope.arguments:
            if self.unique:
                raise BrokenCall(f"the argument {key!r} is given twice")
            cursor.repair("repeated_argument")
        scope.arguments[key] = value
        scope.first = False

    def _without_foreign_closer(self, cursor: Cursor, text: str, key: str) -> str:
        """Take off the closer of another element, which the model wrote in the place of this one."""
        if self.is_tag and f"</{key}>" in text and f"<{key}" not in text and text.partition(f"</{key}>")[2].strip():
            raise BrokenCall(f"text after the end of {key!r}")
        closer = _last_closer(text) if self.is_tag else None
        if closer is None or f"<{closer[1]}" in text[: closer.start()]:
            return text
        cursor.repair("foreign_closer")
        return text[: closer.start()]

    def _decode(self, cursor: Cursor, text: str, schema: JsonObject | None, stated: str | None) -> str:
        """Decode the entities of a text that was escaped. The schema requires text, or it cannot be read otherwise."""
        plain = unescape_text(text)
        if plain == text or (self.cdata and "<![CDATA[" in text):
            return text
        if not _is_text(schema, stated) and (schema is None or _is_json(text)):
            return text
        cursor.repair("decoded_entities")
        return plain

    def _type(self, text: str, schema: JsonObject | None, stated: str | None, scope: Scope) -> Any:
        if self.cdata:
            text = _without_cdata(text)
        if stated is not None and schema is None:
            try:
                return decode(text)
            except Undecodable:
                pass
        elif schema is None and self.untyped_is_text:
            return text
        root = scope.tool.parameters if scope.tool else None
        return read_text(text, schema, root=root).value

    def _skip_lead(self, cursor: Cursor) -> Generator[None, None, str]:
        """Move over the line end before the value, and return it; empty if there is none."""
        while cursor.position >= len(cursor.text):
            yield from cursor.need()
        if cursor.text[cursor.position] == "\r":
            while cursor.position + 1 == len(cursor.text) and not cursor.final:
                yield
        lead = next((end for end in ("\n", "\r\n") if cursor.text.startswith(end, cursor.position)), "")
        cursor.position += len(lead)
        return lead

    def _run_to_end(
        self, cursor: Cursor, stops: Markers, quiet: PassThrough, shown: _Shown
    ) -> Generator[None, None, tuple[int, bool]]:
        """Move to the end of the value; return the length of what ends it, and whether that is its closer."""
        ahead = 0
        while True:
            hit = stops.find(cursor.text, cursor.position + ahead, final=cursor.final)
            stop = len(cursor.text) if hit is None else hit[0]
            self._take(cursor, stop, quiet)
            ahead = 0
            if hit is None or hit[1] is None:
                if hit is None:
                    cursor.quiet = quiet
                yield from cursor.need()
                cursor.quiet = None
                continue
            marker = hit[1]
            end = self.framed.get(marker, marker)
            if self.is_tag and shown.covers(cursor, is_closer=end in self.closers):
                ahead = len(marker)
                continue
            follows = self.beyond if end in self.exits else self.following
            if end in self.closers and self.is_tag:
                return len(marker), True
            if end not in self.closers and end not in self.exits:
                found: str | None = end
            else:
                seen = cursor.look_now(follows, len(marker))
                found, length = seen or (yield from cursor.look(follows, len(marker)))
                if cursor.final and cursor.position + length == len(cursor.text):
                    found = end
            if found is not None:
                return (len(marker), True) if end in self.closers else (len(marker) - len(end), False)
            ahead = 1

    def _take(self, cursor: Cursor, stop: int, quiet: PassThrough) -> None:
        if quiet.kind == "string" and stop > cursor.position:
            cursor.delta(escape(cursor.text[cursor.position : stop])[1:-1])
        cursor.position = stop


def begins_line(cursor: Cursor) -> Generator[None, None, bool]:
    """Whether a line end is at the position."""
    while cursor.position >= len(cursor.text):
        yield from cursor.need()
    return cursor.text[cursor.position] in "\r\n"


own_lines = re.compile(r"\r?\n(.*?)\r?\n[ \t]*\Z", re.DOTALL).match
"""Matches a value that has lines of its own, without the line ends around it."""


_LONGEST_END = 300


def _plain_end(text: str, closers: frozenset[str]) -> str | None:
    """Return a value that ends, with the whole reply, in the closers of this format without their sigil."""
    tail = text[-_LONGEST_END:]
    for closer in closers:
        word = _sigil_word(closer)
        ended = re.search(rf"</{word[1]}>\s*(?:</\w+>\s*)+\Z", tail) if word is not None else None
        if word is not None and ended is not None:
            value = text[: len(text) - len(tail) + ended.start()]
            return value if f"<{word[1]}" not in value and f"</{word[1]}" not in value else None
    return None


_sigil_word = re.compile(r"</[^\w<>\s]+\w+[^\w<>\s]+([a-z]+)>\Z").match


def _without_cdata(text: str) -> str:
    stripped = text.strip()
    return stripped[9:-3] if stripped.startswith("<![CDATA[") and stripped.endswith("]]>") else text


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except Undecodable:
        return False
    return True


def _prefix(key: str, scope: Scope) -> str:
    return ("{" if scope.first else ", ") + write_json(key) + ": "


def _is_text(schema: JsonObject | None, stated: str | None) -> bool:
    if stated is not None:
        return stated.strip("\"' ").lower() in ("true", "string", "str")
    return is_plain_text(schema)
