"""Harmony: messages with a header that names a channel and a recipient, as gpt-oss writes them.

    <|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "x"}<|call|>

The header drifts: the recipient stands before or after the channel, channels come twice, `<|constrain|>` or the start
is left out, question marks are strewn in. All of it is read; only a header without a message behind it is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import pass_on, read_framed_call, read_slot, run_value
from dragoman.types import ToolCall

CLOSERS = ("<|call|>", "<|end|>", "<|return|>")
_MESSAGE = "<|message|>"
_closers = Markers(CLOSERS)
_header_stops = Markers((_MESSAGE, "{", "\n", *CLOSERS))
_body_stops = Markers((*CLOSERS, "<|start|>", "<|channel|>"))
_leftovers = Markers(("<|call|>", "<|return|>"))  # `<|end|>` still has the thinking to end
_body = JsonBody(stops=_body_stops)
_is_header = re.compile(r"(?:<\|(?:start|channel|constrain)\|>|[\w.,:=?!/@\- ])*\Z").match
_channels = re.compile(r"<\|channel\|>\s*(\w+)").findall
_recipients = re.compile(r"to=([^\s<?=]+)").findall
_constrained = re.compile(r"<\|constrain\|>\s*json|\bjson\b").search
_begins_header = re.compile(r"to=[\w.\-]+ *(?:<\|(?:channel|message|constrain)\|>)").match
_may_begin_header = re.compile(r"t(?:o(?:=[\w.\-]* *(?:<(?:\|\w*\|?)?)?)?)?\Z").match
_is_recipient = re.compile(r"[^\s<?=]+\Z").match
_PEOPLE = ("assistant", "user", "self", "all")


class Header(Struct, frozen=True):
    channel: str | None
    recipient: str | None
    is_json: bool
    full: bool


def read_header(text: str) -> Header:
    """What a header says: the last channel counts, and the last recipient that is nobody in the conversation."""
    if not _is_header(text):
        raise NotACall("no header of a message")
    channels = _channels(text)
    recipients = [name for name in _recipients(text) if name not in _PEOPLE]
    return Header(
        channel=channels[-1] if channels else None,
        recipient=recipients[-1] if recipients else None,
        is_json=_constrained(text) is not None,
        full=text.startswith("<|start|>"),
    )


class Harmony(MarkedEntry):
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
            yield from _read_call(cursor, header.recipient, header.is_json)
        elif header.channel == "analysis":
            yield from pass_on(cursor, _body_stops, "thinking")
        elif cursor.refusing:
            if not header.full:
                raise NotACall("a header inside thinking")
            # The thinking was left open; the answer is still an answer.
            yield from pass_on(cursor, _body_stops, "text")
            marker, _ = _leftovers.at(cursor.text, cursor.position, final=True)
            cursor.position += len(marker or "")


class HarmonyRecipient(Harmony):
    """The first message of a reply, whose `<|start|>assistant` belongs to the prompt: it begins with the recipient."""

    openers = ()
    place: Place = "message"

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _begins_header(text, at):
            return True
        return None if not final and len(text) - at < 200 and _may_begin_header(text, at) else False


def _read_call(cursor: Cursor, recipient: str, is_json: bool) -> Reader:
    name = recipient.removeprefix("functions.").rstrip(".")
    if not name or name == "functions":
        cursor.commit()
        raise Spoilt("the recipient names no function")
    if recipient == "python" and not is_json:
        yield from _read_code(cursor, name)
    else:
        yield from read_framed_call(cursor, name, None, _closers, _body)


def _read_code(cursor: Cursor, name: str) -> Reader:
    """The builtin python tool takes source text as it stands. Without a closer nobody knows whether it is all there."""
    cursor.start_call(name)
    cursor.delta('{"code": "')
    mark = cursor.begin()
    marker = yield from run_value(cursor, _body_stops, streamed=True)
    code = cursor.since(mark)
    if marker in CLOSERS:
        cursor.position += len(marker)
    else:
        cursor.repair("closed_wrapper")
    cursor.delta('"}')
    cursor.finish_call(name, {"code": code})


def write_harmony(calls: Sequence[ToolCall]) -> str:
    messages = []
    for number, call in enumerate(calls):
        if not _is_recipient(call.name):
            raise CannotExpress(f"$[{number}].name", "a recipient holds no blanks, no `<`, `?` or `=`")
        header = f"<|channel|>commentary to=functions.{call.name} <|constrain|>json"
        messages.append(f"{header}{_MESSAGE}{write_json(call.arguments)}<|call|>")
    return "<|start|>assistant".join(messages)
