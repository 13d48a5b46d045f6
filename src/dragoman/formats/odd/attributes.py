"""XML that models improvise: tool and arguments stand in the attributes of one tag.

    <tool_call name="shell" command="pwd"/>
    <tool_call>file_read path=".env" /></tool_call>
    <search query="foo"/>

A tag without a word for "call" in it counts only if it closes itself, and is named after an offered tool.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments
from dragoman.formats.odd.elements import CLOSERS, TAG_STARTS, TAGS, close_wrapper, json_body, read_children
from dragoman.formats.odd.stretches import read_slot, run_value
from dragoman.formats.recovery import skip_broken
from dragoman.formats.steps import Scope
from dragoman.types import ToolCall

_OPEN_TAGS = (
    "<tool_call ",
    "<toolcall ",
    "<tool-call ",
    "<invoke ",
    "<function_call ",
    '<invoke name="',
    "<invoke name='",
)
_WORDS = {
    "<tool_call ": "tool_call",
    "<toolcall ": "toolcall",
    "<tool-call ": "tool-call",
    "<function_call ": "function_call",
}
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "input")
_MAX_GIVEN = 50
_quotes = {quote: Markers([quote]) for quote in "\"'"}
_tag_end = Markers([">"])
_wrapper_ends = Markers(CLOSERS)
_attribute = re.compile(r"([A-Za-z_][\w.:\-]{0,99})\s{0,9}=\s{0,9}([\"'])").match
_may_be_attribute = re.compile(r"(?:[A-Za-z_][\w.:\-]{0,99}\s{0,9}=?\s{0,9})?\Z").match
_tag_ends = re.compile(r"/?>").match
_may_end_tag = re.compile(r"/?\Z").match
_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}(?=\s)").match
_may_be_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}\Z").match
_entity = re.compile(r"&(amp|quot|apos|lt|gt|#39|#10);").sub
_ENTITIES = {"amp": "&", "quot": '"', "apos": "'", "#39": "'", "lt": "<", "gt": ">", "#10": "\n"}
_is_key = re.compile(r"[A-Za-z_][\w.:\-]{0,99}\Z").match


def unescape(text: str) -> str:
    return _entity(lambda match: _ENTITIES[match[1]], text) if "&" in text else text


def read_attribute(cursor: Cursor) -> Generator[None, None, tuple[str, str] | None]:
    """The next attribute; None where there is none."""
    yield from cursor.space()
    while True:
        match = _attribute(cursor.text, cursor.position)
        if match is not None:
            break
        if cursor.final or not _may_be_attribute(cursor.text, cursor.position):
            return None
        yield
    cursor.position = match.end()
    mark = cursor.begin()
    yield from run_value(cursor, _quotes[match[2]], streamed=False)
    value = cursor.since(mark)
    cursor.position += 1
    return match[1], unescape(value)


def read_tag_end(cursor: Cursor) -> Generator[None, None, str]:
    """`>` or `/>`, which is consumed; empty where the tag does not end."""
    yield from cursor.space()
    while True:
        match = _tag_ends(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            return match[0]
        if cursor.final or not _may_end_tag(cursor.text, cursor.position):
            return ""
        yield


class TagWithName(MarkedEntry):
    """`<tool_call name="NAME" key="value" ...>`, closed at once or around JSON or elements."""

    format = "xml_attributes"
    openers: tuple[str, ...] = _OPEN_TAGS

    def read(self, cursor: Cursor) -> Reader:
        opener = next(tag for tag in _OPEN_TAGS if cursor.text.startswith(tag, cursor.position))
        cursor.position += len("<invoke ") if opener.startswith("<invoke ") else len(opener)
        first = yield from read_attribute(cursor)
        if first is None or first[0] not in _NAME_KEYS or not _is_key(first[1].strip()):
            raise NotACall("the tag names no tool")
        name = first[1].strip()
        arguments = Arguments(cursor.start_call(name))
        word = _WORDS.get(opener, "invoke")
        try:
            yield from self._read_rest(cursor, arguments, word)
        except Cut:
            raise
        except Spoilt:
            yield from skip_broken(cursor, _wrapper_ends, _wrapper_ends)
            raise
        arguments.finish(cursor, name)

    def _read_rest(self, cursor: Cursor, arguments: Arguments, word: str) -> Reader:
        yield from read_attributes(cursor, arguments)
        end = yield from read_tag_end(cursor)
        if not end:
            raise Spoilt("the tag does not end") if cursor.position < len(cursor.text) else Cut
        if end == ">":
            yield from read_children(cursor, arguments, word, json_body(word))


def read_attributes(cursor: Cursor, arguments: Arguments) -> Reader:
    """Attributes are arguments; one called `arguments` may hold all of them as JSON."""
    while True:
        attribute = yield from read_attribute(cursor)
        if attribute is None:
            return
        key, text = attribute
        if key in _ARGUMENT_KEYS and text.lstrip().startswith("{") and not arguments.declares(key):
            arguments.add_json(cursor, text)
        else:
            arguments.add_text(cursor, key, text)


class InlineAttributes(TagWithName):
    """`<tool_call>NAME key="value" ...</tool_call>`: the attributes stand where the body should be."""

    openers = TAGS

    def read(self, cursor: Cursor) -> Reader:
        yield from read_slot(cursor, _tag_end)
        cursor.position += 1
        yield from cursor.space()
        name = yield from _read_name(cursor)
        mark = cursor.begin()
        if (yield from read_attribute(cursor)) is None:
            raise NotACall("no attributes behind the name")
        cursor.return_to(mark)
        arguments = Arguments(cursor.start_call(name))
        yield from read_attributes(cursor, arguments)
        yield from read_tag_end(cursor)
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


class SelfClosing(TagWithName):
    """`<NAME key="value" .../>` for offered names. Nothing is announced before the tag has ended."""

    openers = TAG_STARTS

    def read(self, cursor: Cursor) -> Reader:
        if cursor.tools is None:
            raise NotACall("without tools, a tag is a tag")
        cursor.position += 1
        name = yield from _read_name(cursor)
        cursor.require_offered(name)
        given: list[tuple[str, str]] = []
        while len(given) < _MAX_GIVEN and (attribute := (yield from read_attribute(cursor))) is not None:
            given.append(attribute)
        if (yield from read_tag_end(cursor)) != "/>" or not given:
            raise NotACall("the tag does not close itself")
        arguments = Arguments(cursor.start_call(name))
        for key, text in given:
            arguments.add_text(cursor, key, text)
        arguments.finish(cursor, name)


def _read_name(cursor: Cursor) -> Generator[None, None, str]:
    while True:
        match = _name(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            return match[0]
        if cursor.final or (cursor.position < len(cursor.text) and not _may_be_name(cursor.text, cursor.position)):
            raise NotACall("no name")
        yield


def write_attributes(calls: Sequence[ToolCall]) -> str:
    return "\n".join(_write_call(call) for call in calls)


def _write_call(call: ToolCall) -> str:
    attributes = [("name", call.name), *call.arguments.items()]
    if not _is_key(call.name):
        raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit into a tag")
    written = []
    for key, value in attributes:
        if not _is_key(key):
            raise CannotExpress(f"$.{key}", f"{key[:40]!r} is no name of an attribute")
        text = value if isinstance(value, str) else write_json(value)
        for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(character, entity)
        written.append(f'{key}="{text}"')
    return f"<tool_call {' '.join(written)}/>"
