"""The steps of a compiled template, and the entry that runs them."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Protocol, TypeVar

from dragoman.formats.cursor import BLANK_LIMIT, BrokenCall, Cursor, Markers, Reader, Truncated, write_json
from dragoman.formats.envelope import DecodedCall, fits, properties_of
from dragoman.formats.json_reader import JsonBody, read_calls, read_object, report, run_to
from dragoman.formats.template import Entry, Place
from dragoman.types import Change, JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# The parts of a compiled template: literals, white space, short slots, options and JSON.
#
# Each step has two forms: `now`, for text at hand that is sufficient, and `run`, a generator that can wait. The first
# one saves 4 % of the time for whole replies (Kimi K2: 97 instead of 101 microseconds, Qwen3-Coder 166 and 174).

SLOT_LIMIT = 200
_SLOT_REACH = SLOT_LIMIT + 60  # with the literal after it
is_name = re.compile(r"(?=[\W\d_]*[^\W\d_])[\w.\-:/]+\Z").match
"""A name has a letter: `...` is a placeholder, and `0` a counter."""
_escaped_space = re.compile(r"(?:[ \t\r\n]|\\n)*").match
_with_attributes = re.compile(
    r"""["']?([^\s"'<>]{1,100})["']?((?:\s+[A-Za-z_][\w:.\-]*\s*=\s*(?:"[^"]*"?|'[^']*'?|[^\s"'<>]+))+)\s*/?\Z"""
).match
_attribute_names = re.compile(r"""\s([A-Za-z_][\w:.\-]*)\s*=\s*(?:"[^"]*"?|'[^']*'?|[^\s"'<>]+)""").findall
_LABELS = frozenset(("id", "call_id", "tool_call_id", "type", "index", "string"))
"""Attributes next to a name that hold no argument."""
_not_in_key = re.compile(r"[\"'<>\n]").search
_counted = re.compile(r"(.*?)[ \t]?([:!#@;,|~=])[ \t]?\d+\Z", re.DOTALL).match
_first_digit = re.compile(r"(?:functions\.)?\d").match
_label_after = re.compile(r"\s*\n\s*(?:json|JSON)\Z").search
line_ends = re.compile(r"[ \t\r]*(\n|\Z)").match


class Scope:
    """The values of the holes that have been read so far."""

    __slots__ = ("arguments", "call", "changes", "filled", "first", "lacks_end", "tool")

    def __init__(self) -> None:
        self.filled: dict[str, str] = {}
        self.arguments: JsonObject = {}
        self.changes: tuple[Change, ...] = ()
        self.first = True
        self.lacks_end = False
        """All arguments are complete, and the text or the call ends without its closers."""
        self.tool: Tool | None = None
        self.call: DecodedCall | None = None


class Step(Protocol):
    """One part of a template. `now` executes it if the text at hand is sufficient; `run` waits for more text."""

    def now(self, cursor: Cursor, scope: Scope) -> bool: ...

    def run(self, cursor: Cursor, scope: Scope) -> Reader: ...


class Waiting:
    """A step without a `now` form."""

    def now(self, cursor: Cursor, scope: Scope) -> bool:
        return False


class Expect:
    """A required literal."""

    def __init__(self, text: str, markers: Markers) -> None:
        self.text = text
        self.markers = markers

    def now(self, cursor: Cursor, scope: Scope) -> bool:
        if self.text not in self.markers.extendable and cursor.text.startswith(self.text, cursor.position):
            cursor.position += len(self.text)
            return True
        return False

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        return cursor.expect(self.markers)


class SkipSpace:
    """White space between the parts of a call. Some hosts escape line breaks, so a literal `\\n` counts as one."""

    def now(self, cursor: Cursor, scope: Scope) -> bool:
        return cursor.peek_now() not in ("", "\\")

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        while True:
            cursor.position = _escaped_space(cursor.text, cursor.position).end()  # type: ignore[union-attr]
            if cursor.final or cursor.text[cursor.position :] not in ("", "\\"):
                return
            yield


class RequireBlank(Waiting):
    """Required white space, which separates two words."""

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        while cursor.position >= len(cursor.text):
            yield from cursor.need()
        if cursor.text[cursor.position] not in " \t\r\n":
            raise BrokenCall("no blank after the opener")
        yield from cursor.space()


class EndLine(Waiting):
    """The end of the line, after an opener that must be alone on its line."""

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        while True:
            match = line_ends(cursor.text, cursor.position)
            if match is None:
                raise BrokenCall("the opener is not alone on its line")
            if match.group(1) or cursor.final:
                cursor.position = match.end()
                return
            cursor.position = match.end()
            yield


class ReadSlot:
    """A short text up to the literal that follows: a name, an id, a key."""

    def __init__(self, kind: str, stops: Markers) -> None:
        self.kind = kind
        self.stops = stops
        self._ends_tag = any(">" in stop and not stop.startswith("<") for stop in stops)

    def now(self, cursor: Cursor, scope: Scope) -> bool:
        hit = self._find_stop(cursor, final=False)
        if hit is None or hit[1] is None:
            return False
        self._fill(cursor.text[cursor.position : hit[0]], cursor, scope)
        cursor.position = hit[0]
        return True

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        mark = cursor.begin()
        while True:
            hit = self._find_stop(cursor, final=cursor.final)
            cursor.position = min(len(cursor.text), cursor.position + _SLOT_REACH) if hit is None else hit[0]
            text = cursor.since(mark)
            if len(text) > SLOT_LIMIT or (hit is not None and hit[1] is not None):
                break
            yield from cursor.need()
        try:
            self._fill(text, cursor, scope)
        except BrokenCall:
            # A slot that cannot be filled is left at its start, so that the position does not depend on the pieces.
            cursor.return_to(mark)
            raise

    def _find_stop(self, cursor: Cursor, *, final: bool) -> tuple[int, str | None] | None:
        """Search only as far as a slot may reach; otherwise many unclosed openers would cost quadratic time."""
        reach = cursor.position + _SLOT_REACH
        if reach < len(cursor.text):
            return self.stops.find_within(cursor.text, cursor.position, reach)
        return self.stops.find(cursor.text, cursor.position, final=final)

    def _fill(self, text: str, cursor: Cursor, scope: Scope) -> None:
        if len(text) > SLOT_LIMIT:
            raise BrokenCall(f"the {self.kind} is too long")
        value = text.strip().removesuffix("\\n")  # some hosts escape the line break after the name
        more = _with_attributes(value) if self._ends_tag and "=" in value and self.kind in ("name", "key") else None
        if more is not None and (self.kind == "key" or _LABELS.issuperset(_attribute_names(more[2]))):
            value = more[1]
            cursor.repair("dropped_attribute")
        if self.kind == "key":
            value = value.strip("\"'")
            if _not_in_key(value):
                raise BrokenCall(f"{value[:40]!r} is not a key")
        if self.kind in ("name", "key") and not value:
            raise BrokenCall(f"the {self.kind} is empty")
        if self.kind == "name":
            value = self._plain_name(value.strip("\"'"), cursor)
            if not is_name(value):
                raise BrokenCall(f"{value[:40]!r} is not a tool name")
        scope.filled[self.kind] = value

    def _plain_name(self, value: str, cursor: Cursor) -> str:
        """Take off what is no part of a name: the label of a fence that was lost."""
        label = _label_after(value) if "\n" in value else None
        if label is None:
            return value
        cursor.repair("markdown_fence")
        return value[: label.start()]


class ReadTagName(ReadSlot):
    """The name or the key inside a tag, and the bracket that closes the tag. A line end before that also ends it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind, Markers([">", "\n"]))

    def _plain_name(self, value: str, cursor: Cursor) -> str:
        """Take off the slash of a self-closing tag: the call has no arguments, and no closing tag."""
        if not value.endswith("/"):
            return value
        cursor.repair("closed_wrapper")
        return value[:-1].rstrip("\"' ")

    def now(self, cursor: Cursor, scope: Scope) -> bool:
        return super().now(cursor, scope) and self._close_tag(cursor)

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        yield from super().run(cursor, scope)
        self._close_tag(cursor)

    def _close_tag(self, cursor: Cursor) -> bool:
        if cursor.text[cursor.position] == ">":
            cursor.position += 1
        else:
            cursor.repair("closed_tag")
        return True


def run_steps(steps: tuple[Step, ...], cursor: Cursor, scope: Scope) -> Reader:
    for step in steps:
        if not step.now(cursor, scope):
            yield from step.run(cursor, scope)


class ReadMaybe(Waiting):
    """An optional part, read if its first literal is at this position."""

    def __init__(self, first: Markers, steps: tuple[Step, ...]) -> None:
        self.first = first
        self.steps = steps

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        seen = cursor.look_now(self.first)
        found, ahead = seen or (yield from cursor.look(self.first))
        if found is not None:
            cursor.position += ahead
            yield from run_steps(self.steps, cursor, scope)


class ReadEnvelopes(Waiting):
    """`{call}`, one or several, and `{calls}`, which must be a list."""

    def __init__(self, body: JsonBody, begins: str) -> None:
        self.body = body
        self.begins = begins

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        character = cursor.peek_now() or (yield from cursor.peek())
        if character not in self.begins or not character:
            raise BrokenCall(f"{character!r} where JSON should begin" if character else "nothing follows the opener")
        scope.call = yield from read_calls(cursor, self.body)


_underscored = re.compile(r"functions_([^\W\d][\w.\-]*)_\d{1,4}\Z").match
"""Matches an id in which a server replaced the dot and the colon: functions_search_0."""


def split_id(identity: str) -> tuple[str, str]:
    """Return the name of the tool and the character before the counter: `functions.search:0` names the tool `search`.

    A damaged colon may be another character that no name has.
    """
    name, mark, counter = identity.rpartition(":")
    if not mark or not counter.isdecimal() or name.endswith((" ", "\t")):
        underscored = _underscored(identity)
        if underscored is not None:
            return underscored[1], "_"
        counted = _counted(identity)
        name, mark = (identity, "") if counted is None else (counted[1], counted[2])
    return name.removeprefix("functions."), mark


def announce(cursor: Cursor, scope: Scope) -> None:
    identity, name = scope.filled.get("id"), scope.filled.get("name")
    if not name:
        name, mark = split_id(identity or "")
        if mark not in ("", ":"):
            cursor.repair("unusual_counter")
    if not name or not is_name(name):
        raise BrokenCall(f"{name[:40]!r} is not a tool name" if name else "the call has no name")
    scope.filled["name"] = name
    scope.tool = cursor.start_call(name, identity)


class ReadArguments(Waiting):
    """`{args}`: one JSON object after the name."""

    def __init__(self, body: JsonBody, closers: Markers | None) -> None:
        self.body = body
        self.closers = closers

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        if self.closers is not None:
            found, _ = cursor.look_now(self.closers) or (yield from cursor.look(self.closers))
            if found is not None:
                announce(cursor, scope)
                cursor.delta("{}")
                return
        character = cursor.peek_now() or (yield from cursor.peek())
        if character not in ("{", '"'):
            raise BrokenCall(f"{character!r} where the arguments should begin")
        counter = scope.filled.get("name") or scope.filled.get("id", "")
        if _first_digit(counter) is not None and split_id(counter)[0].isdigit() and cursor.tools is not None:
            yield from self._read_unnamed(cursor, scope)
            return
        announce(cursor, scope)
        scope.arguments = yield from read_object(cursor, self.body)

    def _read_unnamed(self, cursor: Cursor, scope: Scope) -> Reader:
        """Read the arguments of a call with a counter as its name: the only tool that they fit is meant."""
        cursor.commit()
        arguments = yield from read_object(cursor, self.body)
        fitting = [tool for tool in cursor.tools or () if properties_of(tool) and arguments and fits(arguments, tool)]
        if len(fitting) != 1:
            raise BrokenCall("a number in the place of the name, and not one tool that the arguments fit")
        cursor.repair("guessed_name")
        scope.filled["name"] = fitting[0].name
        announce(cursor, scope)
        cursor.delta(write_json(arguments))
        scope.arguments = arguments


# --------------------------------------------------------------------------------------------------------------------
# A call that cannot be repaired: find its end, so that the calls after it can be read.

Read = TypeVar("Read")


def read_or_skip(
    cursor: Cursor, reading: Generator[None, None, Read], closers: Markers, stops: Markers | None = None
) -> Generator[None, None, Read]:
    """Run a reader. If it fails in a call to which it has committed, move to the end of that call, and raise again.

    A broken call extends to its closer, or to one of the stops, such as the opener of the next call. If the text ends
    before that, the call does not count as cut: it was broken before the end of the text.
    """
    try:
        return (yield from reading)
    except Truncated:
        raise
    except BrokenCall:
        if cursor.committed:
            cursor.quiet = None
            ended = cursor.ended
            yield from run_to(cursor, stops or closers)
            cursor.ended = ended
            marker, _ = closers.at(cursor.text, cursor.position, final=True)
            cursor.position += len(marker or "")
        raise


# --------------------------------------------------------------------------------------------------------------------
# The closing markers of a call, and the repairs if they are missing, in the wrong order or of another format.

_foreign_closer = re.compile(r"</[\w:.\-]{1,40}>").match
_closer_begin = re.compile(r"</?[\w:.\-]{0,40}\Z").match
_TAG = Markers(["</"])
_BRACKETS = Markers("}]")
_MOST_BRACKETS = 8


class ReadClosers(Waiting):
    """The markers after the payload. If the model left one out, a repair is reported."""

    def __init__(
        self, closers: tuple[tuple[Markers, bool], ...], *, required: bool, own_line: bool, tags: bool
    ) -> None:
        self.closers = tuple(markers for markers, _ in closers)
        self.optional = tuple(optional for _, optional in closers)
        self.required = required
        self.own_line = own_line
        self.tags = tags
        self.suffixes = tuple(
            Markers(literal for later in self.closers[index:] for literal in later) for index in range(len(closers))
        )

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        index = 0
        closed = False
        if scope.lacks_end:
            cursor.repair("closed_wrapper")
            return
        while index < len(self.closers):
            seen = cursor.look_now(self.suffixes[index])
            found, ahead = seen or (yield from cursor.look(self.suffixes[index]))
            if found is not None and self.own_line:
                alone = yield from self._is_alone(cursor, ahead, len(found))
                found = found if alone else None
            if found is None:
                if not closed and (yield from self._skip_brackets(cursor)):
                    continue
                if cursor.final and self.tags and (yield from cursor.take_cut_closer(self.suffixes[index])):
                    cursor.repair("closed_wrapper")
                elif not all(self.optional[index:]):
                    yield from self._close_for_the_model(cursor, scope, closed)
                return
            matched = index
            while found not in self.closers[matched].literals:
                matched += 1
            if not all(self.optional[index:matched]):
                cursor.repair("closed_wrapper")
            cursor.position += ahead + len(found)
            closed = True
            index = matched + 1

    def _close_for_the_model(self, cursor: Cursor, scope: Scope, closed: bool) -> Reader:
        if self.tags and not closed:
            length = yield from self._find_foreign_closer(cursor)
            if length:
                cursor.position += length
                cursor.repair("foreign_closer")
                return
        if self.required and not closed:
            raise BrokenCall("the call was not closed")
        if not closed and scope.arguments and (yield from cursor.peek()) == "{":
            raise BrokenCall("a second object follows the arguments")
        cursor.repair("closed_wrapper")

    def _skip_brackets(self, cursor: Cursor) -> Generator[None, None, bool]:
        """Move over closing brackets that nothing opened, if the closer follows them."""
        found, _ = cursor.look_now(_BRACKETS) or (yield from cursor.look(_BRACKETS))
        if found is None:
            return False
        mark = cursor.begin()
        for _ in range(_MOST_BRACKETS):
            if (yield from cursor.take(_BRACKETS)) is None:
                break
        found, _ = yield from cursor.look(self.suffixes[0])
        if found is None:
            cursor.return_to(mark)
            return False
        cursor.repair("extra_closers")
        return True

    def _find_foreign_closer(self, cursor: Cursor) -> Generator[None, None, int]:
        found, ahead = yield from cursor.look(_TAG)
        if found is None:
            return 0
        while True:
            at = cursor.position + ahead
            match = _foreign_closer(cursor.text, at)
            if match is not None:
                return match.end() - cursor.position
            if cursor.final or _closer_begin(cursor.text, at) is None:
                return 0
            yield

    def _is_alone(self, cursor: Cursor, ahead: int, length: int) -> Generator[None, None, bool]:
        if "\n" not in cursor.text[cursor.position : cursor.position + ahead]:
            return False
        while True:
            match = line_ends(cursor.text, cursor.position + ahead + length)
            if match is None or match.end() - match.start() > BLANK_LIMIT:
                return False
            if match.group(1) or cursor.final:
                return True
            yield


# --------------------------------------------------------------------------------------------------------------------
# The entry that a template compiles to: it runs the steps, fills the holes and reports the call.


class TemplateEntry(Entry):
    """A compiled template: one way to write a call."""

    def __init__(
        self,
        format_name: str,
        openers: tuple[str, ...],
        steps: tuple[Step, ...],
        *,
        place: Place = "anywhere",
        source: str = "",
        stops: Markers | None = None,
        follows: str = "{[<(n",
    ) -> None:
        self.follows = follows
        self.stops = stops or Markers(openers)
        # An opener also stops the search for the end of a broken call, but it belongs to the next call.
        self._ends = Markers(self.stops.literals - set(openers) or {"\0"})
        self.format = format_name
        self.openers = openers
        self.steps = steps
        self.place = place
        self.source = source

    def read(self, cursor: Cursor) -> Reader:
        scope = Scope()
        yield from read_or_skip(cursor, run_steps(self.steps, cursor, scope), self._ends, self.stops)
        if scope.call is not None:
            report(cursor, scope.call)
        elif cursor.started is not None:
            cursor.finish_call(scope.filled["name"], scope.arguments, scope.filled.get("id"), changes=scope.changes)
        else:
            raise BrokenCall("no call between the markers")
