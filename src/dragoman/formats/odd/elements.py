"""XML that models improvise: the tool is the name of an element, the arguments are inside it.

    <search><query>foo</query></search>
    <tool_call><shell>{"command": "pwd"}</shell></tool_call>

Outside a tag that announces a call, only the names of offered tools count; any other tag is text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Generator, Sequence
from functools import lru_cache

from dragoman.errors import CannotExpress
from dragoman.formats.closers import ReadClosers
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.jsonbody import JsonBody, read_object
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments
from dragoman.formats.odd.stretches import read_slot
from dragoman.formats.recovery import skip_broken
from dragoman.formats.steps import Scope
from dragoman.types import Tool, ToolCall

TAGS = ("<tool_call>", "<toolcall>", "<tool-call>")
TAG_STARTS = tuple("<" + letter for letter in string.ascii_letters + "_")
"""Any tag may be named after a tool; a `<` before a blank or a number, as in prose and code, wakes nobody."""
CLOSERS = ("</tool_call>", "</toolcall>", "</tool-call>", "</invoke>", "</tool_calls>")
_tag_end = Markers([">"])
_is_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}\Z").match
_tag = re.compile(r"<([A-Za-z_][\w.\-]{0,99})>").match
_tag_begins = re.compile(r"<(?:[A-Za-z_][\w.\-]{0,99})?\Z").match
_key = re.compile(r"""<([A-Za-z_][\w.\-]{0,99})(?:\s+name\s*=\s*["']?([^"'<>]{1,100}?)["']?)?\s*\Z""").match
close_wrapper = ReadClosers(((Markers(CLOSERS), False),), required=False, own_line=False, tags=True)
# Children of a call that say something about it, and so are no names of tools.
_RESERVED = frozenset(
    [
        "name",
        "function",
        "tool",
        "tool_name",
        "tool_call",
        "invoke",
        "arguments",
        "args",
        "parameters",
        "params",
        "parameter",
        "arg",
        "arg_key",
        "arg_value",
        "input",
        "id",
        "type",
        "result",
        "response",
        "output",
        "content",
        "think",
    ]
)


@lru_cache(256)
def closing_tag(tag: str) -> Markers:
    return Markers([f"</{tag}>"])


@lru_cache(64)
def json_body(tag: str) -> JsonBody:
    return JsonBody(stops=Markers([f"</{tag}>", *CLOSERS]))


class TaggedElement(MarkedEntry):
    """`<tool_call><NAME>...</NAME></tool_call>`, where the body is JSON or an element for each argument."""

    format = "xml_elements"
    openers: tuple[str, ...] = TAGS

    def read(self, cursor: Cursor) -> Reader:
        yield from read_slot(cursor, _tag_end)
        cursor.position += 1
        yield from cursor.space()
        name = yield from read_element_name(cursor)
        if name in _RESERVED and cursor.find_tool(name) is None:
            raise NotACall(f"{name!r} names a part of a call, not a tool")
        cursor.require_offered(name)
        tool = cursor.start_call(name)
        arguments = yield from _read_body(cursor, name, tool)
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


class BareElement(TaggedElement):
    """`<NAME>...</NAME>` for offered names. It is a call once its first child turns out to be a parameter."""

    openers = TAG_STARTS

    def read(self, cursor: Cursor) -> Reader:
        if cursor.tools is None:
            raise NotACall("without tools, a tag is a tag")
        name = yield from read_element_name(cursor)
        tool = cursor.find_tool(name)
        if tool is None:
            raise NotACall(f"no tool named {name!r} is offered")
        yield from _require_parameters(cursor, tool, name)
        cursor.start_call(name)
        arguments = yield from _read_body(cursor, name, tool)
        arguments.finish(cursor, name)


def read_element_name(cursor: Cursor) -> Generator[None, None, str]:
    """The name in the tag that begins here, without attributes."""
    while True:
        match = _tag(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            return match[1]
        if cursor.final or (cursor.position < len(cursor.text) and not _tag_begins(cursor.text, cursor.position)):
            raise NotACall("no tag with a plain name")
        yield


def _require_parameters(cursor: Cursor, tool: Tool, name: str) -> Reader:
    """Look whether what follows can be the arguments of this tool, before anything is announced."""
    properties = tool.parameters.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    mark = cursor.begin()
    character = yield from cursor.peek()
    if character == "<":
        tag = yield from read_slot(cursor, _tag_end, 200)
        key = _key(tag)
        ends_at_once = tag.strip() == f"</{name}" and not tool.parameters.get("required")
        if not ends_at_once and (key is None or (declared and (key[2] or key[1]) not in declared)):
            raise NotACall(f"{tag[:40]!r} is no parameter of {name!r}")
    elif character != "{":
        raise NotACall("neither arguments nor JSON in the element")
    cursor.return_to(mark)


def _read_body(cursor: Cursor, name: str, tool: Tool | None) -> Generator[None, None, Arguments]:
    """Everything between `<NAME>` and `</NAME>`."""
    arguments = Arguments(tool)
    try:
        yield from read_children(cursor, arguments, name, json_body(name))
    except Cut:
        raise
    except Spoilt:
        yield from skip_broken(cursor, closing_tag(name), json_body(name).stops)
        raise
    return arguments


def read_children(cursor: Cursor, arguments: Arguments, name: str, body: JsonBody) -> Reader:
    """JSON or elements up to the closing tag of `name`, which is consumed."""
    character = yield from cursor.peek()
    if character == "{":
        if arguments.read:
            raise Spoilt("JSON after other arguments")
        arguments.take((yield from read_object(cursor, body)))
    while True:
        found, ahead = yield from cursor.look(closing_tag(name))
        cursor.position += ahead
        if found is not None:
            cursor.position += len(found)
            return
        if cursor.position >= len(cursor.text):
            raise Cut
        if character == "{" or cursor.text[cursor.position] != "<":
            raise Spoilt("text between the arguments")
        tag = yield from read_slot(cursor, _tag_end, 200)
        key = _key(tag)
        if key is None:
            raise Spoilt(f"{tag[:40]!r} is no argument")
        cursor.position += 1
        yield from arguments.read_value(cursor, key[2] or key[1], closing_tag(key[1]))
        cursor.position += len(key[1]) + 3


def write_elements(calls: Sequence[ToolCall]) -> str:
    return "\n".join(_write_call(call) for call in calls)


def _write_call(call: ToolCall) -> str:
    children = []
    for key, value in call.arguments.items():
        text = value if isinstance(value, str) else write_json(value)
        if not _is_name(key):
            raise CannotExpress(f"$.{key}", f"{key[:40]!r} is no name of an element")
        if f"</{key}>" in text:
            raise CannotExpress(f"$.{key}", "the value holds the tag that would end it")
        children.append(f"<{key}>{text}</{key}>")
    if not _is_name(call.name):
        raise CannotExpress("$.name", f"{call.name[:40]!r} is no name of an element")
    return f"<{call.name}>{''.join(children)}</{call.name}>"
