"""Readers of calls in XML elements or attributes."""

from __future__ import annotations

import re
import string
from collections.abc import Generator
from functools import lru_cache

from dragoman.formats.cursor import BrokenCall, Cursor, Markers, NotACall, Reader, Truncated
from dragoman.formats.entities import decode_entities
from dragoman.formats.envelope import is_plain_text, properties_of, schema_of
from dragoman.formats.json_reader import JsonBody, read_object
from dragoman.formats.nested import Element
from dragoman.formats.notation import is_element_name
from dragoman.formats.readers.arguments import Arguments, read_slot, run_value
from dragoman.formats.steps import ReadClosers, Scope, read_or_skip
from dragoman.formats.template import Entry, Place
from dragoman.types import Tool

# --------------------------------------------------------------------------------------------------------------------
# Improvised XML: the tool is the name of an element, the arguments are inside it.
#
#     <search><query>foo</query></search>
#     <tool_call><shell>{"command": "pwd"}</shell></tool_call>
#
# Outside of a tag for calls, only the names of offered tools count; any other tag is text.

TAGS = ("<tool_call>", "<toolcall>", "<tool-call>")
TAG_STARTS = tuple("<" + letter for letter in string.ascii_letters + "_")
"""Any tag may have the name of a tool. A `<` before a blank or a digit, as in prose and code, is not an opener."""
CLOSERS = ("</tool_call>", "</toolcall>", "</tool-call>", "</invoke>", "</tool_calls>")
_tag_end = Markers([">"])
_tag = re.compile(r"<([A-Za-z_][\w.\-]{0,99})>").match
_growing_tag = re.compile(r"(?:<(?:[A-Za-z_][\w.\-]{0,99})?)?\Z").match
_tags = Markers(TAGS)
_key = re.compile(r"""<([A-Za-z_][\w.\-]{0,99})(?:\s+name\s*=\s*["']?([^"'<>]{1,100}?)["']?)?\s*\Z""").match
_is_closing = re.compile(r"</[A-Za-z_][\w.:\-]{0,99}\s*\Z").match
close_wrapper = ReadClosers(((Markers(CLOSERS), False),), required=False, own_line=False, tags=True)
# Children of a call that describe it, so they are not names of tools.
_is_reserved = re.compile(
    r"(?:name|function|tool|tool_name|tool_call|invoke|arguments|args|parameters|params|parameter|arg|arg_key|arg_value|"
    r"input|id|type|result|response|output|content|think)\Z"
).match


@lru_cache(256)
def closing_tag(tag: str) -> Markers:
    return Markers([f"</{tag}>"])


@lru_cache(64)
def json_body(tag: str) -> JsonBody:
    return JsonBody(stops=Markers([f"</{tag}>", *CLOSERS]))


class TaggedElement(Entry):
    """`<tool_call><NAME>...</NAME></tool_call>`; the body is JSON, or one element for each argument."""

    format = "xml_elements"
    openers: tuple[str, ...] = TAGS

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(_tags)
        yield from cursor.space()
        name = (yield from cursor.match(_tag, _growing_tag, "not a tag with a plain name"))[1]
        if _is_reserved(name) and cursor.find_tool(name) is None:
            raise NotACall(f"{name!r} names a part of a call, not a tool")
        cursor.require_offered(name)
        tool = cursor.start_call(name)
        arguments = yield from _read_body(cursor, name, tool)
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


class _ToolElement(Entry):
    """A base class for elements with the name of a tool."""

    openers = TAG_STARTS

    def __init__(self, place: Place = "anywhere") -> None:
        self.place: Place = place  # in `auto`, an element inside a sentence is not a call


class BareElement(_ToolElement):
    """`<NAME>...</NAME>` for offered names. It is a call if its first child is a parameter."""

    format = "xml_elements"

    def read(self, cursor: Cursor) -> Reader:
        if cursor.tools is None:
            raise NotACall("no tools to compare the tag with")
        name = (yield from cursor.match(_tag, _growing_tag, "not a tag with a plain name"))[1]
        tool = cursor.find_tool(name)
        if tool is None:
            raise NotACall(f"no tool named {name!r} is offered")
        yield from _require_parameters(cursor, tool, name)
        cursor.start_call(name)
        arguments = yield from _read_body(cursor, name, tool)
        arguments.finish(cursor, name)


def _require_parameters(cursor: Cursor, tool: Tool, name: str) -> Reader:
    """Check that the arguments of this tool can follow, before the call is announced."""
    declared = properties_of(tool)
    mark = cursor.begin()
    character = yield from cursor.peek()
    if character == "<":
        tag = yield from read_slot(cursor, _tag_end, 200)
        key = _key(tag)
        ends_at_once = tag.strip() == f"</{name}" and not tool.parameters.get("required")
        if not ends_at_once and (key is None or (declared and (key[2] or key[1]) not in declared)):
            raise NotACall(f"{tag[:40]!r} is not a parameter of {name!r}")
    elif character != "{":
        raise NotACall("neither arguments nor JSON in the element")
    cursor.return_to(mark)


def _read_body(cursor: Cursor, name: str, tool: Tool | None) -> Generator[None, None, Arguments]:
    """Read everything between `<NAME>` and `</NAME>`."""
    arguments, body = Arguments(tool), json_body(name)
    yield from read_or_skip(cursor, read_children(cursor, arguments, name, body), closing_tag(name), body.stops)
    return arguments


def read_children(cursor: Cursor, arguments: Arguments, name: str, body: JsonBody) -> Reader:
    """Read JSON or elements up to and including the closing tag of `name`."""
    character = yield from cursor.peek()
    if character == "{":
        if arguments.read:
            raise BrokenCall("JSON after other arguments")
        arguments.take((yield from read_object(cursor, body)))
    while True:
        found, ahead = yield from cursor.look(closing_tag(name))
        cursor.position += ahead
        if found is not None:
            cursor.position += len(found)
            return
        if cursor.position >= len(cursor.text):
            if not arguments.read:
                raise Truncated
            cursor.ended = False
            cursor.repair("closed_wrapper")
            return
        if character == "{" or cursor.text[cursor.position] != "<":
            raise BrokenCall("text between the arguments")
        tag = yield from read_slot(cursor, _tag_end, 200)
        key = _key(tag)
        if key is None and _is_closing(tag) and arguments.read:
            cursor.position += 1
            cursor.repair("foreign_closer")
            return
        if key is None:
            raise BrokenCall(f"{tag[:40]!r} is no argument")
        cursor.position += 1
        yield from arguments.read_value(cursor, key[2] or key[1], closing_tag(key[1]), entities=True)
        cursor.position += len(key[1]) + 3


# --------------------------------------------------------------------------------------------------------------------
# Improvised XML: the tool and the arguments are attributes of one tag.
#
#     <tool_call name="shell" command="pwd"/>
#     <tool_call>file_read path=".env" /></tool_call>
#     <search query="foo"/>
#
# A tag whose name is not a word for "call" counts only if it is self-closing and has the name of an offered tool.

_WORDS = ("tool_call", "toolcall", "tool-call", "invoke", "function_call")
_open_tags = Markers(f"<{word} " for word in _WORDS)
_LABELS = ("id", "call_id", "type", "index")
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "input")
_MAX_GIVEN = 50
_quotes = {quote: Markers([quote]) for quote in "\"'"}
_wrapper_ends = Markers(CLOSERS)
_attribute = re.compile(
    r"([A-Za-z_][\w.:\-]{0,99})\s{0,9}=\s{0,9}(?:([\"'])|([^\s\"'<>/={\[(][^\s\"'<>=]{0,199}(?=[\s<>])))"
).match
_growing_attribute = re.compile(r"(?:[A-Za-z_][\w.:\-]{0,99}\s{0,9}(?:=\s{0,9}[^\s\"'<>=]{0,200})?)?\Z").match
_tag_ends = re.compile(r"/?>").match
_growing_tag_end = re.compile(r"/?\Z").match
_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}(?=\s)").match
_growing_name = re.compile(r"(?:[A-Za-z_][\w.\-]{0,99})?\Z").match
_is_key = re.compile(r"[A-Za-z_][\w.:\-]{0,99}\Z").match


def read_attribute(cursor: Cursor) -> Generator[None, None, tuple[str, str] | None]:
    """Read the next attribute, with quotes or without; None if there is none."""
    yield from cursor.space()
    match = yield from cursor.try_match(_attribute, _growing_attribute)
    if match is None:
        return None
    if match[3]:
        value = match[3]
        if value.endswith("/") and cursor.text.startswith(">", cursor.position):
            value = value[:-1]
            cursor.position -= 1
        cursor.repair("unquoted_value")
        return match[1], value
    mark = cursor.begin()
    yield from run_value(cursor, _quotes[match[2]], streamed=False)
    value = cursor.since(mark)
    cursor.position += 1
    return match[1], decode_entities(value)


def read_tag_end(cursor: Cursor) -> Generator[None, None, str]:
    """Read `>` or `/>`; return an empty string if the tag does not end here."""
    yield from cursor.space()
    match = yield from cursor.try_match(_tag_ends, _growing_tag_end)
    return match[0] if match else ""


class TagWithName(Entry):
    """`<tool_call name="NAME" key="value" ...>`, self-closing or around JSON or elements."""

    format = "xml_attributes"
    # The last two are also openers of other formats, which are tried first.
    openers = (*_open_tags, '<invoke name="', "<invoke name='")

    def read(self, cursor: Cursor) -> Reader:
        opener, _ = _open_tags.at(cursor.text, cursor.position, final=True)
        assert opener is not None
        cursor.position += len(opener)
        first = yield from read_attribute(cursor)
        while first is not None and first[0] in _LABELS:
            cursor.repair("dropped_attribute")
            first = yield from read_attribute(cursor)
        if first is None or first[0] not in _NAME_KEYS or not _is_key(first[1].strip()):
            raise NotACall("the tag has no tool name")
        name = first[1].strip()
        arguments = Arguments(cursor.start_call(name))
        yield from read_or_skip(cursor, self._read_rest(cursor, arguments, opener[1:-1]), _wrapper_ends)
        arguments.finish(cursor, name)

    def _read_rest(self, cursor: Cursor, arguments: Arguments, word: str) -> Reader:
        yield from read_attributes(cursor, arguments)
        end = yield from read_tag_end(cursor)
        if not end:
            raise BrokenCall("the tag does not end") if cursor.position < len(cursor.text) else Truncated
        if end == ">":
            yield from read_children(cursor, arguments, word, json_body(word))


def read_attributes(cursor: Cursor, arguments: Arguments) -> Reader:
    """Read attributes as arguments; an attribute `arguments` may hold all of them as JSON."""
    while True:
        attribute = yield from read_attribute(cursor)
        if attribute is None:
            return
        key, text = attribute
        if key in _ARGUMENT_KEYS and text.lstrip().startswith("{") and not arguments.declares(key):
            arguments.add_json(cursor, text)
        else:
            arguments.add_text(cursor, key, text)


class InlineAttributes(Entry):
    """`<tool_call>NAME key="value" ...</tool_call>`: attributes in the place of the body."""

    format = "xml_attributes"
    openers = TAGS

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(_tags)
        yield from cursor.space()
        name = (yield from cursor.match(_name, _growing_name, "no name"))[0]
        mark = cursor.begin()
        if (yield from read_attribute(cursor)) is None:
            raise NotACall("no attributes after the name")
        while (yield from read_attribute(cursor)) is not None:
            pass
        if (yield from cursor.peek()) not in ("/", ">", "<", ""):
            raise NotACall("there is more than attributes after the name")
        cursor.return_to(mark)
        arguments = Arguments(cursor.start_call(name))
        yield from read_attributes(cursor, arguments)
        yield from read_tag_end(cursor)
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


class SelfClosing(_ToolElement):
    """`<NAME key="value" .../>` for offered names. The call is announced at the end of the tag."""

    format = "xml_attributes"

    def read(self, cursor: Cursor) -> Reader:
        if cursor.tools is None:
            raise NotACall("no tools to compare the tag with")
        cursor.position += 1
        name = (yield from cursor.match(_name, _growing_name, "no name"))[0]
        cursor.require_offered(name)
        given: list[tuple[str, str]] = []
        while len(given) < _MAX_GIVEN and (attribute := (yield from read_attribute(cursor))) is not None:
            given.append(attribute)
        if (yield from read_tag_end(cursor)) != "/>" or not given:
            raise NotACall("the tag is not self-closing")
        arguments = Arguments(cursor.start_call(name))
        for key, text in given:
            arguments.add_text(cursor, key, text)
        arguments.finish(cursor, name)


# --------------------------------------------------------------------------------------------------------------------
# MiniMax M3: nested XML with a special token before every tag; parameters are elements with the name of their key.
#
#     ]<]minimax[>[<invoke name="search">
#     ]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>
#     ]<]minimax[>[</invoke>
#
# Types are not written: the schema determines the type of a text, and whether children are an object or a list.

M3_TOKEN = "]<]minimax[>["
_MAX_DEPTH = 100
_token = Markers([M3_TOKEN])
_call_end = Markers([M3_TOKEN + "</invoke>"])
_call_stops = Markers(
    [M3_TOKEN + "</invoke>", M3_TOKEN + "</tool_call>", M3_TOKEN + "<invoke ", M3_TOKEN + "<tool_call>"]
)
_whole_tag = re.compile(r"[ \t\r\n]*(<[^>]{0,299})>").match
_invoke = re.compile(r"""<invoke\s+name\s*=\s*["']?([^"'<>]+?)["']?\s*\Z""").match


class MinimaxM3(Entry):
    format = "minimax_m3"
    openers = (M3_TOKEN,)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(M3_TOKEN)
        tag = yield from _read_tag(cursor)
        if tag in ("<tool_call", "</tool_call"):
            return
        invoke = _invoke(tag)
        if invoke is None:
            raise NotACall("neither a call nor its frame")
        yield from read_or_skip(cursor, _read_call(cursor, invoke[1].strip()), _call_end, _call_stops)


def _read_tag(cursor: Cursor) -> Generator[None, None, str]:
    """Read the tag after the token, without its last bracket."""
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
    arguments = Arguments(cursor.start_call(name))
    while True:
        marker, ahead = cursor.look_now(_token) or (yield from cursor.look(_token))
        cursor.position += ahead
        if marker is None and cursor.position >= len(cursor.text) and arguments.read:
            cursor.ended = False
            cursor.repair("closed_wrapper")
            break
        if marker is None:
            raise BrokenCall("text between two parameters") if cursor.position < len(cursor.text) else Truncated
        mark = cursor.begin()
        cursor.position += len(M3_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        if tag == "</invoke":
            break
        if tag == "</tool_call":
            cursor.return_to(mark)
            cursor.repair("closed_wrapper")
            break
        if not is_element_name(tag[1:]):
            cursor.return_to(mark)
            raise BrokenCall("the call was not closed before the next one")
        yield from _read_parameter(cursor, tag[1:], arguments)
    arguments.finish(cursor, name)


def _read_tag_inside(cursor: Cursor) -> Generator[None, None, str]:
    try:
        return (yield from _read_tag(cursor))
    except NotACall as failure:
        raise BrokenCall(str(failure)) from None


def _read_parameter(cursor: Cursor, key: str, arguments: Arguments) -> Reader:
    schema = schema_of(arguments.tool, key)
    if is_plain_text(schema):
        cursor.delta(arguments.lead(key) + '"')
        mark = cursor.begin()
        yield from run_value(cursor, _token, streamed=True)
        value = cursor.since(mark)
        cursor.position += len(M3_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        if tag != f"</{key}":
            raise BrokenCall(f"{tag[:40]!r} inside the text of {key!r}")
        cursor.delta('"')
        arguments.keep(cursor, key, value)
    else:
        element = yield from _read_element(cursor, key)
        root = arguments.tool.parameters if arguments.tool else None
        arguments.add(cursor, key, element.value(schema, root))


def _read_element(cursor: Cursor, key: str) -> Generator[None, None, Element]:
    """Read the rest of the element whose opening tag was just read."""
    stack = [Element(key)]
    while True:
        mark = cursor.begin()
        yield from run_value(cursor, _token, streamed=False)
        text = cursor.since(mark)
        cursor.position += len(M3_TOKEN)
        tag = yield from _read_tag_inside(cursor)
        here = stack[-1]
        if here.children and text.strip():
            raise BrokenCall(f"text between the elements of {here.name!r}")
        if tag == f"</{here.name}":
            here.text = "" if here.children else text
            stack.pop()
            if not stack:
                return here
        elif tag.startswith("</") or not is_element_name(tag[1:]) or text.strip() or len(stack) >= _MAX_DEPTH:
            raise BrokenCall(f"{tag[:40]!r} does not fit into {here.name!r}")
        else:
            child = Element(tag[1:])
            here.children.append(child)
            stack.append(child)
