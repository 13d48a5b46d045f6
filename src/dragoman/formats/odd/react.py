"""ReAct: plain words on lines of their own, as agents of the first years were prompted to write.

Action: search
Action Input: {"query": "x"}
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from dragoman.args.tolerant import repair
from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_object, run_to
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments, single_parameter
from dragoman.formats.odd.stretches import read_slot
from dragoman.formats.recovery import skip_broken
from dragoman.types import ToolCall

_stops = Markers(["\nObservation:", "\nThought:", "\nAction:", "\nFinal Answer:"])
_observation = Markers(["Observation:"])
_input = Markers(["Action Input:", "Action input:", "ActionInput:"])
_newline = Markers(["\n"])
_nothing = Markers(["\nObservation:"])
_body = JsonBody(stops=_stops)
_name = re.compile(r"[\s\[`\"'*]*([A-Za-z_][\w.\-]{0,99})(?:\(\))?[\s\]`\"'*.]*\Z").match
_is_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}\Z").match


class React(MarkedEntry):
    format = "react"
    openers = ("Action:",)
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len("Action:")
        match = _name((yield from read_slot(cursor, _newline, 200)))
        if match is None:
            raise NotACall("no name of a tool")
        name = match[1]
        cursor.require_offered(name)
        found, ahead = yield from cursor.look(_input)
        if found is None:
            raise NotACall("no input follows the action")
        cursor.position += ahead + len(found)
        character = yield from cursor.peek()
        if not character:
            raise NotACall("the input is empty")
        if character != "{" and cursor.tools is None:
            raise NotACall("without tools, the input must be JSON")
        arguments = Arguments(cursor.start_call(name))
        try:
            yield from _read_input(cursor, arguments, character)
        except Cut:
            raise
        except Spoilt:
            yield from skip_broken(cursor, _nothing, _stops)
            raise
        found, ahead = yield from cursor.look(_observation)
        if found is not None:
            cursor.position += ahead + len(found)
        arguments.finish(cursor, name)


def _read_input(cursor: Cursor, arguments: Arguments, character: str) -> Reader:
    if character == "{":
        arguments.take((yield from read_object(cursor, _body)))
        return
    text = (yield from _read_text(cursor)).strip()
    if character == "`":
        mended = repair(text)
        if isinstance(mended.value, dict):
            for rule in mended.rules:
                cursor.repair(rule)
            for key, value in mended.value.items():
                arguments.add(cursor, key, value)
            return
    key = single_parameter(arguments.tool)
    if key is None:
        raise Spoilt("plain text as input, and no single parameter that it could fill")
    arguments.add_text(cursor, key, text)


def _read_text(cursor: Cursor) -> Generator[None, None, str]:
    mark = cursor.begin()
    yield from run_to(cursor, _stops)
    return cursor.since(mark)


def write_react(calls: Sequence[ToolCall]) -> str:
    lines = []
    for call in calls:
        if not _is_name(call.name):
            raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit into a line")
        lines.append(f"Action: {call.name}\nAction Input: {write_json(call.arguments)}")
    return "\n".join(lines)
