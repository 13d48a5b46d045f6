"""What models improvise around JSON calls: prose inside the tag, a tag of their own, the name before the braces."""

from __future__ import annotations

import re

from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_calls, read_object, report, run_to
from dragoman.formats.markers import Markers
from dragoman.formats.steps import EndLine, Scope

_noise = re.compile(r"[^<{\[]{1,400}").match
_name_and_brace = re.compile(r"([^\W\d][\w.\-]{0,99})[ \t]*\{").match
_name_may_grow = re.compile(r"[^\W\d][\w.\-]{0,99}[ \t]*\Z").match
_CLOSERS = ("</tool_call>", "</toolcall>", "</tool-call>")


class NoisyTag(MarkedEntry):
    """A tag or a labelled fence with a few words before the JSON."""

    follows = "(n"

    def __init__(
        self, format_name: str, openers: tuple[str, ...], closers: tuple[str, ...] = (), *, ends_line: bool = False
    ) -> None:
        self.format = format_name
        self._ends_line = ends_line
        self.openers = openers
        self._opener = Markers(openers)
        self._closers = Markers((*closers, *_CLOSERS))
        self._body = JsonBody(stops=self._closers, bare=True, strict=True)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        if self._ends_line:
            yield from EndLine().run(cursor, Scope())
        mark = cursor.begin()
        while True:
            match = _noise(cursor.text, cursor.position)
            cursor.position = cursor.position if match is None else match.end()
            if len(cursor.since(mark)) >= 400:
                raise NotACall("a long text follows the opener")
            if cursor.position < len(cursor.text):
                break
            yield from cursor.need()
        if cursor.text[cursor.position] != "{":
            raise NotACall("no JSON follows the opener")
        wish = yield from read_calls(cursor, self._body)
        found, ahead = yield from cursor.look(self._closers)
        if found is None or wish is None:
            raise NotACall("the tag was not closed behind the JSON")
        cursor.position += ahead + len(found)
        cursor.repair("surrounding_text")
        report(cursor, wish)


class ToolsTag(MarkedEntry):
    """`<tools>`: around a call it is a misspelt tag; around definitions nothing in it counts."""

    format = "tool_call_tags"
    openers: tuple[str, ...] = ("<tools>",)

    def __init__(self) -> None:
        self._opener = Markers(self.openers)
        self._end = Markers(("</tools>",))
        self._closers = Markers(("</tools>", *_CLOSERS))
        exact = frozenset(("name", "arguments", "id"))
        self._body = JsonBody(stops=self._closers, bare=True, strict=True, single=True, members=exact)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        mark = cursor.begin()
        try:
            yield from self._read_call(cursor)
        except (NotACall, Spoilt):
            cursor.quiet = None
            cursor.return_to(mark)
            closed = yield from run_to(cursor, self._end)
            cursor.position += len("</tools>") if closed else 0
            cursor.pass_as_text("a definition is no call")

    def _read_call(self, cursor: Cursor) -> Reader:
        character = yield from cursor.peek()
        if character != "{":
            raise NotACall("no JSON object follows the opener")
        wish = yield from read_calls(cursor, self._body)
        if wish is None:
            raise NotACall("no call follows the opener")
        found, ahead = yield from cursor.look(self._closers)
        if found is not None:
            cursor.position += ahead + len(found)
        elif cursor.final and cursor.position + ahead == len(cursor.text):
            cursor.repair("closed_wrapper")
        else:
            raise NotACall("more than a call stands between the tags")
        report(cursor, wish)


class NameThenBraces:
    """`get_weather{"city": "Oslo"}` as the whole message."""

    format = "json_message"
    openers: tuple[str, ...] = ()
    place: Place = "message"
    section = None

    def __init__(self) -> None:
        self._body = JsonBody(bare=True, gated=True)

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _name_and_brace(text, at):
            return True
        return None if not final and _name_may_grow(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        match = _name_and_brace(cursor.text, cursor.position)
        if match is None or cursor.tools is None:
            raise NotACall("no offered name stands before the braces")
        name = match.group(1)
        cursor.require_offered(name)
        cursor.position = match.end() - 1
        arguments = yield from read_object(cursor, self._body)
        yield from cursor.space()
        if cursor.position < len(cursor.text):
            raise NotACall("the message goes on after the braces")
        cursor.repair("name_before_braces")
        cursor.require_arguments(name, arguments)
        cursor.finish_call(name, arguments)
