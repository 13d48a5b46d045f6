"""Calls written in Python: `[f(a=1), g()]`, one call a line, with markers around them or without.

The arguments of a call are held until its closing parenthesis is there, then read as a whole. Between markers a call
with a forgotten quote or bracket can still be mended, because the marker says where the calls end.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from msgspec import Struct

from dragoman.args.tolerant import Tolerant
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.cursor import Cursor, Cut, NotACall, Quiet, Reader, Spoilt
from dragoman.formats.jsonbody import run_to
from dragoman.formats.markers import Markers
from dragoman.formats.odd.python_scan import Landmarks, ParenthesisScanner
from dragoman.types import JsonObject

_NAME_LIMIT = 200
_NAME = r"[^\W\d][\w.\-]*+(?:\\_[\w.\-]*+)*+"
_name = re.compile(_NAME).match
_growing_name = re.compile(rf"(?:{_NAME}\\?)?\Z").match
_name_start = re.compile(r"[^\W\d]").match
_blank = re.compile(r"[ \t]*").match
_assigned = re.compile(r"=(?!=)").match
_plain_call = re.compile(rf"(?:{_NAME}[ \t]*=[ \t]*)?{_NAME}[ \t]*\(").match
_statement_call = re.compile(rf"(?:{_NAME}[ \t]*=[ \t]*)?(?:print\([ \t]*)*+{_NAME}[ \t]*\(").match
_STATEMENT_LIMIT = 300


class PythonStyle:
    """How a format writes Python: what stands behind its calls, and what may stand around each of them."""

    def __init__(
        self, *, ends: tuple[str, ...] = (), gated: bool = False, code: bool = False, method: str = ""
    ) -> None:
        self.ends = Markers(ends) if ends else None
        self.closers = Markers(end.strip() for end in ends) if ends else None
        """The same without the line break that some must stand behind, for where blanks have been passed already."""
        self.landmarks = Landmarks(ends)
        self.marked = bool(ends)
        """Between markers it is a call whatever becomes of it; without them it may still turn out to be text."""
        self.gated = gated
        """Only offered names make a call."""
        self.code = code
        """Calls are statements of a program: `print(f())` and `x = f()` are peeled, other lines are passed over."""
        self.method = method
        """A method of the tool that the model calls in place of the tool itself: `.call`."""
        self.lines = Markers(("\n", *ends))


class PythonCall(Struct, frozen=True):
    """A call that has been read, before it is reported."""

    name: str
    arguments: JsonObject
    rules: tuple[str, ...]

    @property
    def doubtful(self) -> bool:
        """Its end was guessed from what follows a quote, so that a text that was cut off may look like it."""
        return "escaped_quotes" in self.rules

    def report(self, cursor: Cursor) -> None:
        for rule in self.rules:
            cursor.repair(rule)
        cursor.finish_call(self.name, self.arguments)


class _Mark:
    """The place where the arguments of a call begin, and the way back to it."""

    __slots__ = ("_base", "_cursor", "_mark", "_start")

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._mark = cursor.begin()
        self._base = cursor.base
        self._start = cursor.position

    def text(self) -> str:
        return self._cursor.since(self._mark)

    def move_behind(self, length: int) -> None:
        """Back to the place so many characters behind the mark."""
        if self._cursor.base == self._base:
            # Nothing was forgotten since: going back costs nothing, however long the text is.
            self._cursor.position = self._start + length
        else:
            self._cursor.return_to(self._mark)
            self._cursor.position += length


class PythonReader:
    """Reads the calls of one text, one after another."""

    def __init__(self, cursor: Cursor, style: PythonStyle) -> None:
        self.cursor = cursor
        self.style = style
        self.in_list = False
        # Mending looks ahead as far as the end of the calls, so it is not tried for every call of a long list.
        self._attempts = 3

    # ---- the name --------------------------------------------------------------------------------------------------

    def read_call(self) -> Generator[None, None, PythonCall]:
        """Read one call from here; the position is behind its last parenthesis then."""
        cursor = self.cursor
        wrappers = 0
        while True:
            name = yield from self._read_name()
            following = yield from self._next_on_line()
            if following == "(" and self.style.code and name == "print" and cursor.find_tool(name) is None:
                wrappers += 1
            elif following != "=" or not self.style.code or _assigned(cursor.text, cursor.position) is None:
                break
            cursor.position += 1
            yield from cursor.peek()
        if following != "(":
            raise NotACall(f"no arguments follow {name[:40]!r}")
        call = yield from self._read_arguments(self._settle_name(name))
        for _ in range(wrappers):
            if (yield from cursor.peek()) != ")":
                raise (
                    Cut
                    if cursor.final and cursor.position >= len(cursor.text)
                    else Spoilt("a parenthesis is not closed")
                )
            cursor.position += 1
        return call

    def _read_name(self) -> Generator[None, None, str]:
        cursor = self.cursor
        while True:
            if cursor.final or _growing_name(cursor.text, cursor.position) is None:
                match = _name(cursor.text, cursor.position)
                if match is None:
                    raise NotACall("no name of a tool")
                cursor.position = match.end()
                return match.group()
            if len(cursor.text) - cursor.position > _NAME_LIMIT:
                raise NotACall("the name is too long")
            yield

    def _next_on_line(self) -> Generator[None, None, str]:
        """What follows a name; the position moves to it. Without markers the parenthesis follows directly."""
        cursor = self.cursor
        while True:
            if self.style.marked:
                cursor.position = _blank(cursor.text, cursor.position).end()  # type: ignore[union-attr]
            # Two characters tell `=` from `==`.
            if len(cursor.text) - cursor.position > (1 if self.style.code else 0) or cursor.final:
                return cursor.text[cursor.position : cursor.position + 1]
            if cursor.text.startswith("(", cursor.position):
                return "("
            yield

    def _settle_name(self, name: str) -> str:
        cursor, style = self.cursor, self.style
        name = name.replace("\\_", "_")
        if style.code:
            name = name.removeprefix("default_api.")
        if style.method and cursor.find_tool(name) is None:
            if name.endswith(style.method) and name != style.method:
                name = name.removesuffix(style.method)
            else:
                raise NotACall(f"{name[:40]!r} is neither an offered tool nor a built-in one")
        if style.gated:
            cursor.require_offered(name)
        if style.marked:
            cursor.commit()
        return name

    # ---- the arguments -----------------------------------------------------------------------------------------------

    def _read_arguments(self, name: str) -> Generator[None, None, PythonCall]:
        cursor = self.cursor
        cursor.position += 1
        mark = _Mark(cursor)
        scanner = ParenthesisScanner(self.style.landmarks)
        while True:
            cursor.position = scanner.scan(cursor.text, cursor.position, final=cursor.final)
            if scanner.done:
                return (yield from self._settle(name, mark))
            if scanner.failed is not None or (scanner.at_end and not scanner.in_string):
                return (yield from self._mend(name, mark, scanner.failed or "a bracket is not closed"))
            if scanner.at_end:
                call = self._try_quotes(name, mark)
                if call is not None:
                    return call
                cursor.position += len(scanner.at_end)
                continue
            if cursor.position == len(cursor.text):
                cursor.quiet = Quiet(scanner.wakes, "silent")
            yield from cursor.need()
            cursor.quiet = None

    def _settle(self, name: str, mark: _Mark) -> Generator[None, None, PythonCall]:
        text = mark.text()
        try:
            call, end = self._understand(name, text)
        except Unreadable as unreadable:
            return (yield from self._mend(name, mark, unreadable.why))
        if end < len(text):
            mark.move_behind(end)
        return call

    def _try_quotes(self, name: str, mark: _Mark) -> PythonCall | None:
        """A closing marker inside what seems to be a string: perhaps a quote was not escaped before it."""
        self._attempts -= 1
        if self._attempts < 0:
            return None
        try:
            call, end = self._understand(name, mark.text())
        except Unreadable:
            return None
        mark.move_behind(end)
        return call

    def _mend(self, name: str, mark: _Mark, why: str) -> Generator[None, None, PythonCall]:
        """Take everything up to the closing marker: what is missing can be added, for the call is complete."""
        cursor = self.cursor
        if self.style.ends is None:
            raise Spoilt(why)
        found = yield from run_to(cursor, self.style.ends)
        if not found:
            raise Cut
        self._attempts -= 2
        if self._attempts < 0:
            raise Spoilt(why)
        text = mark.text()
        if self.in_list:
            text = text.rstrip().removesuffix("]")
        try:
            call, end = self._understand(name, text, closing=True)
        except Unreadable as unreadable:
            raise Spoilt(unreadable.why) from None
        mark.move_behind(end)
        return call

    def _understand(self, name: str, text: str, *, closing: bool = False) -> tuple[PythonCall, int]:
        reader = Tolerant(text, python=True, closing=closing)
        positional, keywords, end = reader.arguments(0)
        rules = tuple(reader.rules)
        if "closed_string" in rules:
            # Where a string ends that has no closing quote is anybody's guess.
            raise Unreadable("string without end", end)
        if positional:
            keywords = self._name_positions(name, positional, keywords)
            rules = (*rules, "positional_arguments")
        return PythonCall(name, keywords, rules), end

    def _name_positions(self, name: str, positional: list[Any], keywords: JsonObject) -> JsonObject:
        """Positional arguments get the names of the schema's properties, in its order."""
        tool = self.cursor.find_tool(name)
        properties = tool.parameters.get("properties") if tool is not None else None
        names = list(properties) if isinstance(properties, dict) else []
        arguments = dict(zip(names, positional, strict=False))
        if len(positional) > len(names) or not arguments.keys().isdisjoint(keywords):
            raise Spoilt("positional arguments, and no schema that names them")
        return arguments | keywords

    # ---- from call to call -------------------------------------------------------------------------------------------

    def read_calls(self) -> Generator[None, None, PythonCall]:
        """Read calls from here on. All but the last are reported; the last is returned, its wrapper may still close."""
        cursor = self.cursor
        self.in_list = (yield from cursor.peek()) == "["
        if self.in_list:
            cursor.position += 1
            yield from cursor.peek()
        yield from self._skip_comments()
        call = yield from self.read_call()
        while True:
            more, rules = yield from self._reach_next()
            call = PythonCall(call.name, call.arguments, (*call.rules, *rules))
            if not more:
                return call
            call.report(cursor)
            cursor.commit()
            try:
                call = yield from self.read_call()
            except NotACall as not_a_call:
                # The calls before it have been reported: too late to say that all of it was text.
                raise Spoilt(str(not_a_call)) from None

    def _reach_next(self) -> Generator[None, None, tuple[bool, tuple[str, ...]]]:
        """Move to the next call, or behind the last one; name what had to be repaired for it."""
        cursor, style = self.cursor, self.style
        rules: tuple[str, ...] = ()
        separated = False
        while True:
            yield from self._skip_comments()
            character = yield from cursor.peek()
            if character == "," or (character == ";" and style.marked):
                separated = True
                cursor.position += 1
            elif character == "]" and self.in_list:
                cursor.position += 1
                return False, rules
            elif style.code and character and not (yield from self._ends_here()):
                if (yield from self._is_statement_a_call()):
                    return True, rules
                rules = ("skipped_text",)
                yield from run_to(cursor, style.lines)
            else:
                break
        if character and _name_start(character) and not style.code and (separated or style.marked):
            return True, () if separated or not self.in_list else ("missing_comma",)
        if self.in_list and character and not style.marked:
            raise Spoilt(f"{character!r} where the list should go on or end")
        return False, (*rules, "closed_wrapper") if self.in_list else rules

    def _ends_here(self) -> Generator[None, None, bool]:
        if self.style.closers is None:
            return False
        found, _ = yield from self.cursor.look(self.style.closers)
        return found is not None

    def _is_statement_a_call(self) -> Generator[None, None, bool]:
        """Whether the line that begins here calls something, as far as can be seen without reading it."""
        cursor = self.cursor
        begins = _plain_call if cursor.find_tool("print") is not None else _statement_call
        while True:
            if begins(cursor.text, cursor.position) is not None:
                return True
            end = cursor.position + _STATEMENT_LIMIT
            if cursor.final or len(cursor.text) > end or cursor.text.find("\n", cursor.position, end) >= 0:
                return False
            yield

    def _skip_comments(self) -> Reader:
        while self.style.code and (yield from self.cursor.peek()) == "#":
            yield from run_to(self.cursor, self.style.lines)
