"""Calls that fill a line, as GLM writes them to agents: the name, perhaps a key, and a bracket before the value.

    search/query>foo        shell>pwd        shell/{"command": "pwd"}        <tool_call>shell>pwd</tool_call>

Nothing marks such a line, so it counts only at the start of a line and for offered names. Without tools, names are
not compared; then a key must be written, of two letters or more, because `lib/a>b` is a path more often than a call.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import Place
from dragoman.formats.jsonbody import JsonBody, read_object
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments, single_parameter
from dragoman.formats.odd.elements import CLOSERS, TAGS, close_wrapper
from dragoman.formats.odd.stretches import read_slot, run_value
from dragoman.formats.recovery import skip_broken
from dragoman.formats.steps import Scope
from dragoman.types import ToolCall

_NAME = r"[A-Za-z_][\w.\-]{0,99}"
_line = re.compile(rf"({_NAME})(?:/({_NAME})>|/(?=\{{\s?[\"}}])|>)").match
_may_be_line = re.compile(rf"(?:{_NAME}(?:/(?:{_NAME})?|/\{{\s?)?)?\Z").match
_newline = Markers(["\n", "\r\n"])
_line_body = JsonBody(stops=_newline)
_tag_end = Markers([">"])
_short = re.compile(rf"({_NAME})>").match
_may_be_short = re.compile(rf"(?:{_NAME})?\Z").match
_less = Markers(["</"])
_ends = Markers(CLOSERS)
_pair = re.compile(rf"\s*({_NAME})\s*:").match
_WORDS = {"true": True, "false": False}
_is_name = re.compile(rf"{_NAME}\Z").match


class GlmLine:
    """One line, one call."""

    format = "glm_lines"
    openers: tuple[str, ...] = ()
    place: Place = "line"
    line_gate = r"[^\W\d][\w.\-]*[ \t]*[/>]"
    line_is_named = True
    section = None

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _line(text, at):
            return True
        return None if not final and _may_be_line(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        match = _line(cursor.text, cursor.position)
        if match is None:
            raise NotACall("no line of that form")
        name, key = match[1], match[2]
        in_json = match[0].endswith("/")
        cursor.require_offered(name)
        if cursor.tools is None and not in_json and (key is None or len(key) < 2):
            raise NotACall("without tools it may be a path")
        key = key or (None if in_json else single_parameter(cursor.find_tool(name)))
        if key is None and not in_json:
            raise NotACall(f"{name!r} has no single parameter that the value could fill")
        cursor.position = match.end()
        arguments = Arguments(cursor.start_call(name))
        if key is None:
            arguments.take((yield from read_object(cursor, _line_body)))
        else:
            yield from arguments.read_value(cursor, key, _newline, to_end=True)
        arguments.finish(cursor, name)


class GlmTagged(GlmLine):
    """The same inside a tag: `NAME>value`, or `NAME>` and then a line `key: value` for each argument."""

    openers = TAGS
    place: Place = "anywhere"

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        return True

    def read(self, cursor: Cursor) -> Reader:
        yield from read_slot(cursor, _tag_end)
        cursor.position += 1
        yield from cursor.space()
        name = yield from _read_short(cursor)
        arguments = Arguments(cursor.start_call(name))
        mark = cursor.begin()
        yield from run_value(cursor, _less, streamed=False)
        try:
            _read_pairs(cursor, arguments, cursor.since(mark))
        except Spoilt:
            yield from skip_broken(cursor, _ends, _ends)
            raise
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


def _read_short(cursor: Cursor) -> Generator[None, None, str]:
    while True:
        match = _short(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            return match[1]
        if cursor.final or not _may_be_short(cursor.text, cursor.position):
            raise NotACall("no name with a bracket behind it")
        yield


def _read_pairs(cursor: Cursor, arguments: Arguments, text: str) -> None:
    lines = [line for line in text.split("\n") if line.strip()]
    pairs = [(pair[1], line[pair.end() :].strip()) for line in lines if (pair := _pair(line)) is not None]
    if lines and "\n" in text and len(pairs) == len(lines):
        for key, value in pairs:
            _add(cursor, arguments, key, value)
        return
    single = single_parameter(arguments.tool)
    if single is None or not lines:
        raise Spoilt("a value without a key, and no single parameter that it could fill")
    arguments.add_text(cursor, single, text)


def _add(cursor: Cursor, arguments: Arguments, key: str, text: str) -> None:
    if text in _WORDS and not arguments.declares(key):
        arguments.add(cursor, key, _WORDS[text])
    else:
        arguments.add_text(cursor, key, text)


def write_lines(calls: Sequence[ToolCall]) -> str:
    return "\n".join(_write_line(call) for call in calls)


def _write_line(call: ToolCall) -> str:
    if not _is_name(call.name):
        raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit into a line")
    # `name/key>value` would be shorter, but a line that was cut off could not be told from a whole one.
    return f"{call.name}/{write_json(call.arguments)}"
