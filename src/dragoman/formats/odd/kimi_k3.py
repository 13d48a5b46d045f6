"""Kimi K3: elements whose tags stand between special tokens, with the types of the values in their attributes.

    <|open|>call tool="search" index="1"<|sep|>
    <|open|>argument key="query" type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>

The channels `tools`, `response` and `message` are framing, and so vanish; `think` is thinking.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from dragoman.args.coercion import read_text
from dragoman.args.decoder import Undecodable, decode
from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, Cut, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import is_plain_text, pass_on, read_slot, run_value, schema_of
from dragoman.formats.recovery import read_or_skip
from dragoman.types import JsonObject, Tool, ToolCall

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_FRAMING = ("tools", "response", "message")
_ELEMENTS = ("call", "argument", "think", *_FRAMING)


def _closing(name: str) -> tuple[str, ...]:
    """A closing tag, also with the blanks that some servers put around special tokens."""
    return tuple(f"{_CLOSE}{before}{name}{after}{_SEP}" for before in ("", " ") for after in ("", " "))


_sep = Markers([_SEP])
_tags = Markers([_OPEN, _CLOSE])
_argument_ends = Markers((*_closing("argument"), *_closing("call")))
_call_ends = Markers(_closing("call"))
_call_stops = Markers((*_call_ends, *_closing("tools"), _OPEN + "call "))
_thinking_ends = Markers(_closing("think"))
_attributes = re.compile(r'([\w:\-]+)\s*=\s*"([^"]*)"').findall
_unescape = re.compile(r"&(amp|quot|apos|lt|gt|#39);").sub
_ENTITIES = {"amp": "&", "quot": '"', "apos": "'", "#39": "'", "lt": "<", "gt": ">"}
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


class KimiK3(MarkedEntry):
    format = "kimi_k3"
    openers = (_OPEN, _CLOSE)

    def read(self, cursor: Cursor) -> Reader:
        opener = _OPEN if cursor.text.startswith(_OPEN, cursor.position) else _CLOSE
        mark = cursor.begin()
        try:
            name, attributes = yield from _read_tag(cursor, opener)
        except Cut:
            name = cursor.since(mark)[len(opener) :].strip().partition(" ")[0]
            if not any(element.startswith(name) for element in _ELEMENTS):
                raise NotACall("no tag of an element") from None
            if opener == _OPEN and name == "call":
                cursor.commit()
                raise
            return  # a tag of framing that was cut off carries nothing
        if name not in _ELEMENTS:
            raise NotACall(f"no element is called {name[:40]!r}")
        if opener == _OPEN and name == "call":
            yield from read_or_skip(cursor, _read_call(cursor, attributes), _call_ends, _call_stops)
        elif opener == _OPEN and name == "think" and not cursor.refusing:
            yield from pass_on(cursor, _thinking_ends, "thinking")


def _read_tag(cursor: Cursor, opener: str) -> Generator[None, None, tuple[str, dict[str, str]]]:
    """The name and the attributes of the tag that begins here."""
    cursor.position += len(opener)
    end = cursor.text.find(_SEP, cursor.position, cursor.position + 600 + len(_SEP))
    if end >= 0:
        text = cursor.text[cursor.position : end]
        cursor.position = end
    else:
        text = yield from read_slot(cursor, _sep, 600)
    cursor.position += len(_SEP)
    name, _, rest = text.strip().partition(" ")
    return name, {key: _unescape(lambda match: _ENTITIES[match[1]], value) for key, value in _attributes(rest)}


def _read_call(cursor: Cursor, attributes: dict[str, str]) -> Reader:
    cursor.commit()
    name = attributes.get("tool")
    if not name:
        raise Spoilt("the call names no tool")
    identity = attributes.get("index")
    tool = cursor.start_call(name, identity)
    arguments: JsonObject = {}
    while True:
        opener, ahead = cursor.look_now(_tags) or (yield from cursor.look(_tags))
        if opener is None:
            cursor.position += ahead
            raise Spoilt("text between two arguments") if cursor.position < len(cursor.text) else Cut
        cursor.position += ahead
        mark = cursor.begin()
        element, stated = yield from _read_tag(cursor, opener)
        if opener == _CLOSE and element in ("call", "tools"):
            if element == "tools":
                cursor.repair("closed_wrapper")
            break
        if opener == _CLOSE or element != "argument":
            cursor.return_to(mark)
            raise Spoilt("the call was not closed before the next one")
        yield from _read_argument(cursor, tool, stated, arguments)
    cursor.delta("}" if arguments else "{}")
    cursor.finish_call(name, arguments, identity)


def _read_argument(cursor: Cursor, tool: Tool | None, stated: dict[str, str], arguments: JsonObject) -> Reader:
    key = stated.get("key")
    if not key:
        raise Spoilt("an argument without a key")
    kind = stated.get("type")
    schema = schema_of(tool, key) if kind is None else {"type": kind}
    streamed = is_plain_text(schema)
    prefix = (", " if arguments else "{") + write_json(key) + ": "
    if streamed:
        cursor.delta(prefix + '"')
    mark = cursor.begin()
    marker = yield from run_value(cursor, _argument_ends, streamed=streamed)
    text = cursor.since(mark)
    value: Any = text
    if streamed:
        cursor.delta('"')
    else:
        value = _read_typed(text, schema, tool)
        cursor.delta(prefix + write_json(value))
    if "argument" in marker:
        cursor.position += len(marker)
    else:
        cursor.repair("closed_argument")
    if key in arguments:
        cursor.repair("repeated_argument")
    arguments[key] = value


def _read_typed(text: str, schema: JsonObject | None, tool: Tool | None) -> Any:
    if schema is not None:
        try:
            return decode(text)
        except Undecodable:
            pass
    return read_text(text, schema, root=tool.parameters if tool else None).value


def write_kimi_k3(calls: Sequence[ToolCall]) -> str:
    written = "".join(_write_call(call, number) for number, call in enumerate(calls, 1))
    return f"{_OPEN}tools{_SEP}{written}{_CLOSE}tools{_SEP}"


def _write_call(call: ToolCall, number: int) -> str:
    index = call.id if call.id.isdecimal() else str(number)
    arguments = "".join(_write_argument(key, value) for key, value in call.arguments.items())
    tag = f'{_OPEN}call tool="{_write_attribute(call.name, "$.name")}" index="{index}"{_SEP}'
    return f"{tag}{arguments}{_CLOSE}call{_SEP}"


def _write_argument(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else write_json(value)
    if any(marker in text for marker in _argument_ends):
        raise CannotExpress(f"$.{key}", "the value holds the tag that would end it")
    kind = _TYPES.get(type(value), "object")
    return f'{_OPEN}argument key="{_write_attribute(key, f"$.{key}")}" type="{kind}"{_SEP}{text}{_CLOSE}argument{_SEP}'


def _write_attribute(text: str, path: str) -> str:
    if not text or _SEP in text or len(text) > 200:
        raise CannotExpress(path, "it does not fit into a tag")
    return text.replace("&", "&amp;").replace('"', "&quot;")
