"""MiniMax M3: nested XML whose every tag follows a token of its own; parameters are elements named after their key.

    ]<]minimax[>[<invoke name="search">
    ]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>
    ]<]minimax[>[</invoke>

Types are not written: the schema says what a text stands for, and whether children make an object or a list.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.markers import Markers
from dragoman.formats.odd.nested import Element
from dragoman.formats.odd.stretches import is_plain_text, read_slot, run_value, schema_of
from dragoman.formats.recovery import read_or_skip
from dragoman.types import JsonObject, Tool, ToolCall

_TOKEN = "]<]minimax[>["
_MAX_DEPTH = 100
_token = Markers([_TOKEN])
_call_end = Markers([_TOKEN + "</invoke>"])
_call_stops = Markers([_TOKEN + "</invoke>", _TOKEN + "</tool_call>", _TOKEN + "<invoke ", _TOKEN + "<tool_call>"])
_whole_tag = re.compile(r"[ \t\r\n]*(<[^>]{0,299})>").match
_tag_end = Markers([">"])
_invoke = re.compile(r"""<invoke\s+name\s*=\s*["']?([^"'<>]+?)["']?\s*\Z""").match
_is_key = re.compile(r"[^\s<>/\[\]\"'=]{1,200}\Z").match


class MinimaxM3(MarkedEntry):
    format = "minimax_m3"
    openers = (_TOKEN,)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(_TOKEN)
        tag = yield from _read_tag(cursor)
        if tag in ("<tool_call", "</tool_call"):
            return
        invoke = _invoke(tag)
        if invoke is None:
            raise NotACall("neither a call nor its frame")
        yield from read_or_skip(cursor, _read_call(cursor, invoke[1].strip()), _call_end, _call_stops)


def _read_tag(cursor: Cursor) -> Generator[None, None, str]:
    """The tag behind the token, without its last bracket."""
    whole = _whole_tag(cursor.text, cursor.position)
    if whole is not None:
        cursor.position = whole.end()
        return whole[1].rstrip()
    character = yield from cursor.peek()
    if character != "<":
        raise NotACall("no tag follows the token")
    tag = yield from read_slot(cursor, _tag_end)
    cursor.position += 1
    return tag.rstrip()


def _read_call(cursor: Cursor, name: str) -> Reader:
    tool = cursor.start_call(name)
    arguments: JsonObject = {}
    while True:
        marker, ahead = cursor.look_now(_token) or (yield from cursor.look(_token))
        cursor.position += ahead
        if marker is None:
            raise Spoilt("text between two parameters") if cursor.position < len(cursor.text) else Cut
        mark = cursor.begin()
        cursor.position += len(_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        if tag == "</invoke":
            break
        if tag == "</tool_call":
            cursor.return_to(mark)
            cursor.repair("closed_wrapper")
            break
        if not _is_key(tag[1:]):
            cursor.return_to(mark)
            raise Spoilt("the call was not closed before the next one")
        yield from _read_parameter(cursor, tool, tag[1:], arguments)
    cursor.delta("}" if arguments else "{}")
    cursor.finish_call(name, arguments)


def _read_tag_inside(cursor: Cursor) -> Generator[None, None, str]:
    try:
        return (yield from _read_tag(cursor))
    except NotACall as failure:
        raise Spoilt(str(failure)) from None


def _read_parameter(cursor: Cursor, tool: Tool | None, key: str, arguments: JsonObject) -> Reader:
    schema = schema_of(tool, key)
    streamed = is_plain_text(schema)
    prefix = (", " if arguments else "{") + write_json(key) + ": "
    value: Any
    if streamed:
        cursor.delta(prefix + '"')
        mark = cursor.begin()
        yield from run_value(cursor, _token, streamed=True)
        value = cursor.since(mark)
        cursor.position += len(_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        if tag != f"</{key}":
            raise Spoilt(f"{tag[:40]!r} inside the text of {key!r}")
        cursor.delta('"')
    else:
        element = yield from _read_element(cursor, key)
        value = element.value(schema, tool.parameters if tool else None)
        cursor.delta(prefix + write_json(value))
    if key in arguments:
        cursor.repair("repeated_argument")
    arguments[key] = value


def _read_element(cursor: Cursor, key: str) -> Generator[None, None, Element]:
    """The element whose opening tag was just read, with everything inside it."""
    stack = [Element(key)]
    while True:
        mark = cursor.begin()
        yield from run_value(cursor, _token, streamed=False)
        text = cursor.since(mark)
        cursor.position += len(_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        here = stack[-1]
        if here.children and text.strip():
            raise Spoilt(f"text between the elements of {here.name!r}")
        if tag == f"</{here.name}":
            here.text = "" if here.children else text
            stack.pop()
            if not stack:
                return here
        elif tag.startswith("</") or not _is_key(tag[1:]) or text.strip() or len(stack) >= _MAX_DEPTH:
            raise Spoilt(f"{tag[:40]!r} does not fit into {here.name!r}")
        else:
            child = Element(tag[1:])
            here.children.append(child)
            stack.append(child)


def write_minimax_m3(calls: Sequence[ToolCall]) -> str:
    written = "".join(_write_call(call) for call in calls)
    return f"{_TOKEN}<tool_call>\n{written}{_TOKEN}</tool_call>"


def _write_call(call: ToolCall) -> str:
    if not call.name or call.name != call.name.strip() or re.search(r"[<>\"'\]]", call.name) or len(call.name) > 200:
        raise CannotExpress("$.name", "the name does not fit into a tag")
    parameters = "".join(_write_element(key, value, f"$.{key}") for key, value in call.arguments.items())
    return f'{_TOKEN}<invoke name="{call.name}">{parameters}{_TOKEN}</invoke>\n'


def _write_element(key: str, value: Any, path: str) -> str:
    if not _is_key(key):
        raise CannotExpress(path, f"{key[:40]!r} is no name of an element")
    body = _write_children(value, path) or (value if isinstance(value, str) else write_json(value))
    if _TOKEN in body and body[: len(_TOKEN)] != _TOKEN:
        raise CannotExpress(path, "the value holds the token that marks a tag")
    return f"{_TOKEN}<{key}>{body}{_TOKEN}</{key}>"


def _write_children(value: Any, path: str) -> str:
    """Elements inside an element, where their texts can only be strings. Other structures are written as JSON,

    because a number would come back as text wherever the schema says nothing about it."""
    if isinstance(value, list):
        named = [("item", inner) for inner in value]
    elif isinstance(value, dict) and "item" not in value:
        named = list(value.items())
    else:
        return ""
    if not all(
        isinstance(inner, str) and inner.strip() and inner.lstrip()[0] not in "[{" and _is_key(key)
        for key, inner in named
    ):
        return ""
    return "".join(_write_element(key, inner, f"{path}.{key}") for key, inner in named)
