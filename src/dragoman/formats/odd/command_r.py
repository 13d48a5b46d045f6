"""Cohere Command R and R+: a fenced list of actions behind the word for them.

    Action: ```json
    [{"tool_name": "search", "parameters": {"query": "x"}}]
    ```

The action `directly_answer` means that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.envelope import NoCall, read_envelope
from dragoman.formats.jsonbody import report
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import read_json_value
from dragoman.types import ToolCall

_fence = Markers(["```"])
_opening = Markers(["```json", "```JSON"])
_NO_ACTION = ("directly_answer", "directly-answer")


class CommandR(MarkedEntry):
    format = "cohere_command_r"
    openers = ("Action:",)
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len("Action:")
        opening, ahead = yield from cursor.look(_opening)
        if opening is None:
            raise NotACall("no fence behind the word")
        cursor.position += ahead + len(opening)
        if (yield from cursor.peek()) not in ("[", "{"):
            raise NotACall("no list of actions")
        cursor.commit()
        value = yield from read_json_value(cursor, _fence)
        found, ahead = yield from cursor.look(_fence)
        if found is None:
            cursor.repair("closed_wrapper")
        else:
            cursor.position += ahead + len(found)
        try:
            wishes = read_envelope(value, cursor.tools).wishes
        except NoCall as no_call:
            raise Spoilt(str(no_call)) from None
        for wish in wishes:
            if wish.name not in _NO_ACTION:
                report(cursor, wish)


def write_command_r(calls: Sequence[ToolCall]) -> str:
    actions = [{"tool_name": call.name, "parameters": call.arguments} for call in calls]
    return f"Action: ```json\n{write_json(actions)}\n```"
