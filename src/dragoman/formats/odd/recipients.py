"""Functionary 3.2: every message begins with its recipient, a tool or `all`, on a line of its own.

    >>>search
    {"query": "x"}

The first `>>>` belongs to the prompt, so that a reply begins with the bare recipient.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_object
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments
from dragoman.formats.recovery import skip_broken
from dragoman.types import ToolCall

_next = Markers(["\n>>>"])
_nothing = Markers(["\0"])
_body = JsonBody(stops=_next)
_NAME = r"[A-Za-z_][\w.\-]{0,99}"
_recipient = re.compile(rf"({_NAME})[ \t]{{0,9}}\r?\n").match
_may_be_recipient = re.compile(rf"(?:{_NAME}(?:[ \t]{{1,9}})?\r?)?\Z").match
_json_message = re.compile(rf"{_NAME}[ \t]{{0,9}}\r?\n\s{{0,9}}\{{\s{{0,9}}[\"}}]").match
_may_be_json_message = re.compile(rf"{_NAME}(?:[ \t]{{1,9}})?\r?(?:\n\s{{0,9}}(?:\{{\s{{0,9}})?)?\Z").match
_is_name = re.compile(rf"{_NAME}\Z").match


class Recipient(MarkedEntry):
    format = "functionary_v32"
    openers: tuple[str, ...] = (">>>",)
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += 3
        name = yield from _read_recipient(cursor)
        if name != "all":
            yield from _read_call(cursor, name)


class FirstRecipient(Recipient):
    """The recipient of the first message, for offered names and JSON only."""

    openers = ()
    place: Place = "message"

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _json_message(text, at):
            return True
        return None if not final and _may_be_json_message(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        name = yield from _read_recipient(cursor)
        if cursor.tools is None:
            raise NotACall("without tools, a line is a line")
        yield from _read_call(cursor, name)


class FirstWord(FirstRecipient):
    """`all` or `python` at the start of the reply. Only where the format is named: any reply may begin like that."""

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        match = _recipient(text, at)
        if match is not None:
            return match[1] in ("all", "python")
        return None if not final and _may_be_recipient(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        name = yield from _read_recipient(cursor)
        if name != "all":
            yield from _read_call(cursor, name)


def _read_recipient(cursor: Cursor) -> Generator[None, None, str]:
    while True:
        match = _recipient(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            return match[1]
        if cursor.final or not _may_be_recipient(cursor.text, cursor.position):
            raise NotACall("no recipient on its line")
        yield


def _read_call(cursor: Cursor, name: str) -> Reader:
    cursor.require_offered(name)
    character = yield from cursor.peek()
    if character == "{":
        yield from _read_json(cursor, name)
    elif name == "python" and character:
        arguments = Arguments(cursor.start_call(name))
        yield from arguments.read_value(cursor, "code", _next, to_end=True)
        arguments.finish(cursor, name)
    else:
        raise NotACall("no JSON follows the recipient")


def _read_json(cursor: Cursor, name: str) -> Reader:
    cursor.start_call(name)
    try:
        arguments = yield from read_object(cursor, _body)
    except Cut:
        raise
    except Spoilt:
        yield from skip_broken(cursor, _nothing, _next)
        raise
    cursor.finish_call(name, arguments)


def write_recipients(calls: Sequence[ToolCall]) -> str:
    messages = []
    for call in calls:
        if not _is_name(call.name) or call.name == "all":
            raise CannotExpress("$.name", f"{call.name[:40]!r} cannot be a recipient")
        messages.append(f">>>{call.name}\n{write_json(call.arguments)}")
    return "\n".join(messages)
