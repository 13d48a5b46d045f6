"""Readers of formats whose messages have headers: channels, recipients and typed blocks."""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache

from msgspec import Struct

from dragoman.formats.cursor import BrokenCall, Cursor, Markers, NotACall, Reader, Truncated
from dragoman.formats.entities import decode_entities
from dragoman.formats.envelope import schema_of
from dragoman.formats.json_reader import JsonBody, read_object
from dragoman.formats.plan import compile_entry
from dragoman.formats.readers.arguments import Arguments, pass_on, read_framed_call, read_slot
from dragoman.formats.steps import Scope, TemplateEntry, Waiting, read_or_skip
from dragoman.formats.template import Entry, Format, Place, UnmarkedEntry

# --------------------------------------------------------------------------------------------------------------------
# Harmony, the format of gpt-oss: messages with a header that names a channel and a recipient.
#
#     <|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "x"}<|call|>
#
# Headers vary: the recipient is before or after the channel, there are two channels, `<|constrain|>` or the start is
# missing, question marks are added. The reader accepts all of these. Only a header without a message is text.

CLOSERS = ("<|call|>", "<|end|>", "<|return|>")
_MESSAGE = "<|message|>"
_closers = Markers(CLOSERS)
_header_stops = Markers((_MESSAGE, "{", "\n", *CLOSERS))
_body_stops = Markers((*CLOSERS, "<|start|>", "<|channel|>"))
_leftovers = Markers(("<|call|>", "<|return|>"))  # `<|end|>` must still end the thinking
_harmony_body = JsonBody(stops=_body_stops)
_is_header = re.compile(r"(?:<\|(?:start|channel|constrain)\|>|[\w.,:=?!/@\- ])*\Z").match
_channels = re.compile(r"<\|channel\|>\s*(\w+)").findall
_recipients = re.compile(r"to=([^\s<?=]+)").findall
_constrained = re.compile(r"<\|constrain\|>\s*json|\bjson\b").search
_PEOPLE = ("assistant", "user", "self", "all")


class Header(Struct, frozen=True):
    channel: str | None
    recipient: str | None
    is_json: bool
    full: bool


def read_header(text: str) -> Header:
    """Read a header: the last channel counts, and the last recipient that is not a role of the conversation."""
    if not _is_header(text):
        raise NotACall("not the header of a message")
    channels = _channels(text)
    recipients = [name for name in _recipients(text) if name not in _PEOPLE]
    return Header(
        channel=channels[-1] if channels else None,
        recipient=recipients[-1] if recipients else None,
        is_json=_constrained(text) is not None,
        full=text.startswith("<|start|>"),
    )


class Harmony(Entry):
    """A message that begins with one of the markers of a header."""

    format = "harmony"
    openers: tuple[str, ...] = ("<|start|>", "<|channel|>")

    def read(self, cursor: Cursor) -> Reader:
        header = read_header((yield from read_slot(cursor, _header_stops)))
        marker, _ = _header_stops.at(cursor.text, cursor.position, final=True)
        if marker in CLOSERS and header.channel is not None and header.recipient is None:
            return  # a message without a body
        if marker != _MESSAGE and not (marker == "{" and header.recipient is not None):
            raise NotACall("the header has no message")
        if header.channel is None and (header.recipient or "").partition(".")[0] not in (
            "functions",
            "browser",
            "python",
        ):
            raise NotACall("the header names no channel")
        if marker == _MESSAGE:
            cursor.position += len(_MESSAGE)
        else:
            cursor.repair("missing_marker")
        if header.recipient is not None:
            yield from _read_harmony_call(cursor, header.recipient, header.is_json)
        elif header.channel == "analysis":
            yield from pass_on(cursor, _body_stops, "thinking")
        elif cursor.refusing:
            if not header.full:
                raise NotACall("a header inside thinking")
            # The thinking was not closed; the answer still counts.
            yield from pass_on(cursor, _body_stops, "text")
            marker, _ = _leftovers.at(cursor.text, cursor.position, final=True)
            cursor.position += len(marker or "")


class HarmonyRecipient(UnmarkedEntry, Harmony):
    """The first message of a reply. Its `<|start|>assistant` belongs to the prompt, so it begins with the recipient."""

    is_read_loosely = True
    start = re.compile(r"to=[\w.\-]{1,200} {0,9}(?:<\|(?:channel|message|constrain)\|>)")
    growing_start = re.compile(r"t(?:o(?:=[\w.\-]{0,200} {0,9}(?:<(?:\|\w{0,9}\|?)?)?)?)?\Z")


def _read_harmony_call(cursor: Cursor, recipient: str, is_json: bool) -> Reader:
    name = recipient.removeprefix("functions.").rstrip(".")
    if not name or name == "functions":
        cursor.commit()
        raise BrokenCall("the recipient names no function")
    if recipient == "python" and not is_json:
        yield from _read_code(cursor, name)
    else:
        yield from read_framed_call(cursor, name, _closers, _harmony_body)


def _read_code(cursor: Cursor, name: str) -> Reader:
    """Read source text for the builtin python tool. Without a closer, it may be truncated."""
    arguments = Arguments(cursor.start_call(name))
    yield from arguments.read_value(cursor, "code", _body_stops, schema={"type": "string"})
    yield from cursor.close_wrapper(_closers)
    arguments.finish(cursor, name)


# --------------------------------------------------------------------------------------------------------------------
# Muse Glimmer: a header names the recipient; a message to a tool contains XML.
#
#     <|start|>assistant to=search<|message|><atem:function_calls>
#     <atem:invoke name="search"><atem:parameter name="query">x</atem:parameter></atem:invoke></atem:function_calls>
#
# Only a message to a tool contains calls. A message to the user is text as a whole, even if it quotes a call.

_INVOKE = '<atem:invoke name="'
_PARAMETER = '<atem:parameter name="'
_CLOSER = "</atem:function_calls>"
_message = Markers([_MESSAGE, "\n"])
_ends = Markers(["<|eom|>", "<|eot|>"])
_calls = Markers(["<atem:function_calls>"])
_muse_next = Markers([_INVOKE, _CLOSER])
_muse_recipient = re.compile(r"(?:<\|start\|>)?(?:assistant)?\s*to=([^\s<>]+)\s*\Z").match


class MuseGlimmer(Entry):
    format = "muse_glimmer"
    openers: tuple[str, ...] = ("<|start|>",)

    def read(self, cursor: Cursor) -> Reader:
        header = yield from read_slot(cursor, _message)
        recipient = _muse_recipient(header)
        if recipient is None or not cursor.text.startswith(_MESSAGE, cursor.position):
            raise NotACall("no header with a recipient")
        cursor.position += len(_MESSAGE)
        if recipient[1] in ("self", "user"):
            yield from pass_on(cursor, _ends, "thinking" if recipient[1] == "self" else "text")
            return
        yield from cursor.space()
        yield from cursor.expect(_calls)
        while True:
            found, ahead = yield from cursor.look(_muse_next)
            if found is None:
                return
            cursor.position += ahead
            if found == _CLOSER:
                cursor.position += len(_CLOSER)
                return
            yield from _invoke_entry().read(cursor)


class MuseGlimmerRecipient(UnmarkedEntry, MuseGlimmer):
    """The first message of a reply; the start of its header belongs to the prompt."""

    is_read_loosely = True
    start = re.compile(r"to=[^\s<>]{1,200}\s{0,9}<\|message\|>")
    growing_start = re.compile(r"t(?:o(?:=[^\s<>]{0,200}\s{0,9}(?:<[|mesag]{0,9})?)?)?\Z")


class _CollapseName(Waiting):
    """Replaces `name.name`, which means a tool without a namespace, by `name`, if such a tool is offered."""

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


# --------------------------------------------------------------------------------------------------------------------
# Functionary 3.2: every message begins with a line that names its recipient, a tool or `all`.
#
#     >>>search
#     {"query": "x"}
#
# The first `>>>` belongs to the prompt, so that a reply begins with the bare recipient.

_functionary_next = Markers(["\n>>>"])
_nothing = Markers(["\0"])
_functionary_body = JsonBody(stops=_functionary_next)
_NAME = r"[A-Za-z_][\w.\-]{0,99}"
_functionary_recipient = re.compile(rf"({_NAME})[ \t]{{0,9}}\r?\n")
_growing_recipient = re.compile(rf"(?:{_NAME}(?:[ \t]{{1,9}})?\r?)?\Z")


class Recipient(Entry):
    format = "functionary_v32"
    openers: tuple[str, ...] = (">>>",)
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += 3
        yield from _read_functionary_call(cursor)


class FirstRecipient(UnmarkedEntry, Recipient):
    """The recipient of the first message, for offered names and JSON only."""

    start = re.compile(rf"{_NAME}[ \t]{{0,9}}\r?\n\s{{0,9}}\{{\s{{0,9}}[\"}}]")
    growing_start = re.compile(rf"{_NAME}(?:[ \t]{{1,9}})?\r?(?:\n\s{{0,9}}(?:\{{\s{{0,9}})?)?\Z")

    def read(self, cursor: Cursor) -> Reader:
        if cursor.tools is None:
            raise NotACall("no tools to compare the line with")
        yield from _read_functionary_call(cursor, to_all=False)


class FirstWord(UnmarkedEntry, Recipient):
    """`all` or `python` at the start of the reply. Used only if the format is named: any reply may begin like that."""

    start = re.compile(r"(?:all|python)[ \t]{0,9}\r?\n")
    growing_start = _growing_recipient

    def read(self, cursor: Cursor) -> Reader:
        return _read_functionary_call(cursor)


def _read_functionary_call(cursor: Cursor, *, to_all: bool = True) -> Reader:
    """Read the recipient and the message; a message to `all` is text."""
    pattern, growing = _functionary_recipient.match, _growing_recipient.match
    name = (yield from cursor.match(pattern, growing, "no recipient on its line"))[1]
    if to_all and name == "all":
        return
    cursor.require_offered(name)
    character = yield from cursor.peek()
    if character == "{":
        cursor.start_call(name)
        reading = read_object(cursor, _functionary_body)
        arguments = yield from read_or_skip(cursor, reading, _nothing, _functionary_next)
        cursor.finish_call(name, arguments)
    elif name == "python" and character:
        code = Arguments(cursor.start_call(name))
        yield from code.read_value(cursor, "code", _functionary_next, to_end=True)
        code.finish(cursor, name)
    else:
        raise NotACall("no JSON follows the recipient")


# --------------------------------------------------------------------------------------------------------------------
# Inkling: typed blocks after a header. The blocks are templates and markers; only the header needs a reader.

_HEADER = "<|message_model|>"
_blocks = Markers(["<|content_"])


class InklingHeader(Entry):
    """`<|message_model|>` before a block, optionally with a name. The block repeats the name, and that one counts."""

    format = "inkling"
    openers = (_HEADER,)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(_HEADER)
        name = yield from read_slot(cursor, _blocks, 200)
        if "\n" in name:
            raise NotACall("no block follows the header")


# --------------------------------------------------------------------------------------------------------------------
# Kimi K3: elements whose tags are between special tokens, with the types of the values in their attributes.
#
#     <|open|>call tool="search" index="1"<|sep|>
#     <|open|>argument key="query" type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>
#
# The channels `tools`, `response` and `message` are framing and are dropped; `think` is thinking.

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_FRAMING = ("tools", "response", "message")
_ELEMENTS = ("call", "argument", "think", *_FRAMING)
_LONGEST_ELEMENT = 60


def _closing(name: str) -> tuple[str, ...]:
    """Return a closing tag, also with the blanks that some servers put around special tokens."""
    return tuple(f"{_CLOSE}{before}{name}{after}{_SEP}" for before in ("", " ") for after in ("", " "))


_sep = Markers([_SEP])
_tags = Markers([_OPEN, _CLOSE])
_argument_ends = Markers((*_closing("argument"), *_closing("call")))
_call_ends = Markers(_closing("call"))
_call_stops = Markers((*_call_ends, *_closing("tools"), _OPEN + "call "))
_thinking_ends = Markers(_closing("think"))
_attributes = re.compile(r'([\w:\-]+)\s*=\s*"([^"]*)"').findall
_glued = re.compile(rf"(?:{'|'.join(_FRAMING)})+({'|'.join(_ELEMENTS)})\Z").match
"""Matches the names of several tags without the tokens between them, as some servers print them: `toolscall`."""


class KimiK3(Entry):
    format = "kimi_k3"
    openers = (_OPEN, _CLOSE)

    def read(self, cursor: Cursor) -> Reader:
        opener = _OPEN if cursor.text.startswith(_OPEN, cursor.position) else _CLOSE
        mark = cursor.begin()
        try:
            name, attributes = yield from _read_tag(cursor, opener)
        except Truncated:
            name = _last_element(cursor.since(mark)[len(opener) :].strip().partition(" ")[0])
            if not any(element.startswith(name) for element in _ELEMENTS):
                raise NotACall("not the tag of an element") from None
            if opener == _OPEN and name == "call":
                cursor.commit()
                raise
            return  # a truncated framing tag has no meaning
        if name not in _ELEMENTS:
            name = _last_element(name)
            cursor.repair("missing_marker")
        if name not in _ELEMENTS:
            raise NotACall(f"no element is called {name[:40]!r}")
        if opener == _OPEN and name == "call":
            yield from read_or_skip(cursor, _read_kimi_call(cursor, attributes), _call_ends, _call_stops)
        elif opener == _OPEN and name == "think" and not cursor.refusing:
            yield from pass_on(cursor, _thinking_ends, "thinking")


def _last_element(name: str) -> str:
    """Return the last of several names that are glued together; any other name as it is."""
    glued = _glued(name) if len(name) < _LONGEST_ELEMENT else None
    return name if glued is None else glued[1]


def _read_tag(cursor: Cursor, opener: str) -> Generator[None, None, tuple[str, dict[str, str]]]:
    """Read the name and the attributes of the tag that begins here."""
    cursor.position += len(opener)
    end = cursor.text.find(_SEP, cursor.position, cursor.position + 600 + len(_SEP))
    if end >= 0:
        text = cursor.text[cursor.position : end]
        cursor.position = end
    else:
        text = yield from read_slot(cursor, _sep, 600)
    cursor.position += len(_SEP)
    name, _, rest = text.strip().partition(" ")
    return name, {key: decode_entities(value) for key, value in _attributes(rest)}


def _read_kimi_call(cursor: Cursor, attributes: dict[str, str]) -> Reader:
    cursor.commit()
    name = attributes.get("tool")
    if not name:
        raise BrokenCall("the call names no tool")
    identity = attributes.get("index")
    arguments = Arguments(cursor.start_call(name, identity))
    while True:
        opener, ahead = cursor.look_now(_tags) or (yield from cursor.look(_tags))
        if opener is None:
            cursor.position += ahead
            if cursor.position >= len(cursor.text) and arguments.read:
                cursor.ended = False
                cursor.repair("closed_wrapper")
                break
            raise BrokenCall("text between two arguments") if cursor.position < len(cursor.text) else Truncated
        cursor.position += ahead
        mark = cursor.begin()
        element, stated = yield from _read_tag(cursor, opener)
        element = _last_element(element)
        if opener == _CLOSE and element in ("call", "tools"):
            if element == "tools":
                cursor.repair("closed_wrapper")
            break
        if opener == _CLOSE or element != "argument":
            cursor.return_to(mark)
            raise BrokenCall("the call was not closed before the next one")
        key = stated.get("key")
        if not key:
            raise BrokenCall("an argument without a key")
        schema = {"type": stated["type"]} if "type" in stated else schema_of(arguments.tool, key)
        marker = yield from arguments.read_value(cursor, key, _argument_ends, schema=schema, decodes=True)
        value = arguments.read[key]
        if isinstance(value, str) and _SEP in value:
            raise BrokenCall("a value contains the end of a tag, so its own tag was not closed")
        if "argument" in marker:
            cursor.position += len(marker)
        else:
            cursor.repair("closed_argument")
    arguments.finish(cursor, name, identity)
