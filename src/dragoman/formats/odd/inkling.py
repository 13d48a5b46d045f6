"""Inkling: typed blocks behind a header. The blocks are templates and markers; only the header needs a reader."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, NotACall, Reader, write_json
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import read_slot
from dragoman.types import ToolCall

_HEADER = "<|message_model|>"
_blocks = Markers(["<|content_"])


class InklingHeader(MarkedEntry):
    """`<|message_model|>`, perhaps with a name, before a block. The block says the name again, and there it counts."""

    format = "inkling"
    openers = (_HEADER,)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(_HEADER)
        name = yield from read_slot(cursor, _blocks, 200)
        if "\n" in name:
            raise NotACall("no block follows the header")


def write_inkling(calls: Sequence[ToolCall]) -> str:
    return "".join(_write_call(call) for call in calls)


def _write_call(call: ToolCall) -> str:
    if "<|" in call.name or "\n" in call.name or len(call.name) > 200:
        raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit into a header")
    envelope = write_json({"name": call.name, "args": call.arguments})
    return f"{_HEADER}{call.name}<|content_invoke_tool_json|>{envelope}<|end_message|>"
