"""Muse Glimmer: a header names who a message is for; what is for a tool holds XML.

    <|start|>assistant to=search<|message|><atem:function_calls>
    <atem:invoke name="search"><atem:parameter name="query">x</atem:parameter></atem:invoke></atem:function_calls>

Only a message for a tool makes calls. What is for the user is text to the last letter, also when it quotes a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from dragoman.errors import CannotExpress
from dragoman.formats.compiler import compile_entry
from dragoman.formats.cursor import Cursor, NotACall, Reader, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import pass_on, read_slot
from dragoman.formats.row import Format
from dragoman.formats.steps import Scope, Waiting
from dragoman.formats.walker import TemplateEntry
from dragoman.types import ToolCall

_MESSAGE = "<|message|>"
_INVOKE = '<atem:invoke name="'
_PARAMETER = '<atem:parameter name="'
_CLOSER = "</atem:function_calls>"
_message = Markers([_MESSAGE, "\n"])
_ends = Markers(["<|eom|>", "<|eot|>"])
_calls = Markers(["<atem:function_calls>"])
_next = Markers([_INVOKE, _CLOSER])
_recipient = re.compile(r"(?:<\|start\|>)?(?:assistant)?\s*to=([^\s<>]+)\s*\Z").match
_begins_header = re.compile(r"to=[^\s<>]{1,200}\s{0,9}<\|message\|>").match
_may_begin_header = re.compile(r"t(?:o(?:=[^\s<>]{0,200}\s{0,9}(?:<[|mesag]{0,9})?)?)?\Z").match
_is_attribute = re.compile(r"[^\s<>\"'=]{1,200}\Z").match


class MuseGlimmer(MarkedEntry):
    format = "muse_glimmer"
    openers: tuple[str, ...] = ("<|start|>",)

    def read(self, cursor: Cursor) -> Reader:
        header = yield from read_slot(cursor, _message)
        recipient = _recipient(header)
        if recipient is None or not cursor.text.startswith(_MESSAGE, cursor.position):
            raise NotACall("no header with a recipient")
        cursor.position += len(_MESSAGE)
        if recipient[1] in ("self", "user"):
            yield from pass_on(cursor, _ends, "thinking" if recipient[1] == "self" else "text")
            return
        yield from cursor.space()
        yield from cursor.expect(_calls)
        yield from _read_calls(cursor)


class MuseGlimmerRecipient(MuseGlimmer):
    """The first message of a reply: the start of its header belongs to the prompt."""

    openers = ()
    place: Place = "message"

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _begins_header(text, at):
            return True
        return None if not final and _may_begin_header(text, at) else False


def _read_calls(cursor: Cursor) -> Reader:
    while True:
        found, ahead = yield from cursor.look(_next)
        if found is None:
            return
        cursor.position += ahead
        if found == _CLOSER:
            cursor.position += len(_CLOSER)
            return
        yield from _invoke_entry().read(cursor)


class _CollapseName(Waiting):
    """A tool without a namespace is written `name.name`. Whether it is one, only the offered tools can tell."""

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        yield from ()
        name = scope.filled["name"]
        half = name[: len(name) // 2]
        exact = cursor.tools is not None and any(tool.name == name for tool in cursor.tools)
        if name == f"{half}.{half}" and not exact and cursor.find_tool(half) is not None:
            scope.filled["name"] = half


@cache
def _invoke_entry() -> TemplateEntry:
    template = _INVOKE + '{name}">\n{*' + _PARAMETER + '{key}">{value}</atem:parameter>\n*}</atem:invoke>'
    made = compile_entry(Format(name="muse_glimmer", template=template), template)
    opener, name, *rest = made.steps
    return TemplateEntry(made.format, made.openers, (opener, name, _CollapseName(), *rest), stops=made.stops)


def write_muse_glimmer(calls: Sequence[ToolCall]) -> str:
    messages = [
        f"<|start|>assistant to={call.name}{_MESSAGE}<atem:function_calls>\n{_write_invoke(call)}{_CLOSER}"
        for call in calls
    ]
    return "<|eom|>".join(messages)


def _write_invoke(call: ToolCall) -> str:
    if not _is_attribute(call.name) or call.name in ("self", "user"):
        raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit into a header")
    parameters = []
    for key, value in call.arguments.items():
        text = value if isinstance(value, str) else write_json(value)
        if not _is_attribute(key):
            raise CannotExpress(f"$.{key}", f"{key[:40]!r} does not fit into a tag")
        if "</atem:" in text or _PARAMETER in text:
            raise CannotExpress(f"$.{key}", "the value holds a tag of the format")
        parameters.append(f'{_PARAMETER}{key}">{text}</atem:parameter>\n')
    return f'{_INVOKE}{call.name}">\n{"".join(parameters)}</atem:invoke>\n'
