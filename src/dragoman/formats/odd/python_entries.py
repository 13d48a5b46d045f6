"""The ways into calls that are written in Python: behind a marker, as a list, or as the whole message."""

from __future__ import annotations

import re
from collections.abc import Generator

from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_calls, report
from dragoman.formats.markers import Markers
from dragoman.formats.odd.python_calls import PythonCall, PythonReader, PythonStyle
from dragoman.formats.recovery import read_or_skip

_NAME = r"[^\W\d](?:[\w.\-]|\\_){0,200}+"
_list_begins = re.compile(rf"\[\s*{_NAME}\(").match
_list_may_begin = re.compile(rf"\[\s*(?:{_NAME}\\?)?\Z").match
_call_begins = re.compile(rf"{_NAME}\(").match
_call_may_begin = re.compile(rf"{_NAME}\\?\Z").match
Answer = Generator[None, None, bool]

_JSON = Markers(["{"])


class MarkedCalls(MarkedEntry):
    """Python between markers: a list of calls or one call after another, and JSON where a model prefers it."""

    def __init__(
        self,
        format_name: str,
        openers: tuple[str, ...],
        closers: tuple[str, ...],
        *,
        place: Place = "anywhere",
        closer_required: bool = True,
        json: bool = True,
        code: bool = False,
        method: str = "",
    ) -> None:
        self.format = format_name
        self.openers = openers
        self.place: Place = place
        self.follows = "[n<{" if json else "[n"
        self._opener = Markers(openers)
        self._closers = Markers(closer.strip() for closer in closers)
        self._closer_required = closer_required
        self._style = PythonStyle(ends=closers, code=code, method=method)
        self._body = JsonBody(stops=Markers(closers)) if json else None

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        found, ahead = yield from cursor.look(self._closers)
        if found is not None and self.place == "anywhere" and self._body is not None:
            # Tokens around nothing are framing; an empty fence is the model's own text.
            cursor.position += ahead + len(found)
            return
        yield from read_or_skip(cursor, self._read_body(cursor), self._closers)

    def _read_body(self, cursor: Cursor) -> Reader:
        character = yield from cursor.peek()
        if character in ("{", "[") and self._body is not None:
            ahead = 1 if character == "[" else 0
            found, _ = yield from cursor.look(_JSON, ahead)
            if found is not None:
                yield from self._read_json(cursor, self._body)
                return
        call = yield from PythonReader(cursor, self._style).read_calls()
        closed = yield from self._close(cursor)
        if not closed and call.doubtful:
            raise Cut
        call.report(cursor)

    def _read_json(self, cursor: Cursor, body: JsonBody) -> Reader:
        wish = yield from read_calls(cursor, body)
        yield from self._close(cursor)
        if wish is None:
            raise Spoilt("no call between the markers")
        report(cursor, wish)

    def _close(self, cursor: Cursor) -> Answer:
        found, ahead = yield from cursor.look(self._closers)
        if found is not None:
            cursor.position += ahead + len(found)
        elif self._closer_required:
            cursor.repair("closed_wrapper")
        return found is not None


class ListedCalls:
    """`[f(a=1), g()]` without a marker. `gated`: only offered names make a call."""

    section = None

    def __init__(self, format_name: str, *, openers: tuple[str, ...] = (), place: Place = "line", gated: bool) -> None:
        self.format = format_name
        self.openers = openers
        self.place: Place = place
        self._style = PythonStyle(gated=gated)

    line_gate = r"\["
    line_characters = "["

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _list_begins(text, at):
            return True
        return None if not final and _list_may_begin(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        call = yield from PythonReader(cursor, self._style).read_calls()
        if call.doubtful and "closed_wrapper" in call.rules:
            raise Cut
        call.report(cursor)


class MessageCalls:
    """The whole message is calls of offered tools, one or several, and nothing else."""

    openers: tuple[str, ...] = ()
    place: Place = "message"
    section = None

    def __init__(self, format_name: str) -> None:
        self.format = format_name
        self._style = PythonStyle(gated=True)

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _call_begins(text, at):
            return True
        return None if not final and _call_may_begin(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        reader = PythonReader(cursor, self._style)
        calls: list[tuple[PythonCall, int]] = []
        while not calls or (yield from self._goes_on(cursor)):
            call = yield from reader.read_call()
            calls.append((call, cursor.base + cursor.position))
        if calls[-1][0].doubtful:
            raise Cut
        # Nothing but calls: now each gets its own stretch of the text.
        cursor.return_to(mark)
        for call, end in calls:
            cursor.position = end - cursor.base
            call.report(cursor)

    def _goes_on(self, cursor: Cursor) -> Answer:
        """Whether another call follows, on a line of its own or behind a separator."""
        separated = False
        while True:
            if cursor.position >= len(cursor.text):
                if cursor.final:
                    return False
                yield
                continue
            character = cursor.text[cursor.position]
            if character in "\n,;":
                separated = True
            elif not character.isspace():
                break
            cursor.position += 1
        if not separated:
            raise NotACall("the message goes on after the call")
        return True
