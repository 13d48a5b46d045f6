"""Calls in the manner of Perl, as MiniMax writes them behind some hosts.

[TOOL_CALL]
{tool => "search", args => { --query "x" --limit 3 }}
[/TOOL_CALL]
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.tolerant import Tolerant
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt, write_json
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_calls, report
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import run_value
from dragoman.types import JsonObject, ToolCall

_closers = Markers(["[/TOOL_CALL]", "\n/TOOL_CALL"])
_ends = Markers(["[/TOOL_CALL]", "/TOOL_CALL"])
_HEAD_LIMIT = 500
_quote = Markers(['"'])
_body = JsonBody(stops=_closers)
_head = re.compile(
    r"""\{?\s*tool\s*(?:=>|[:=])?\s*["']([^"'\n]{1,200})["']\s*[,;]?\s*(?:args|arguments|parameters)\s*(?:=>|[:=])?\s*\{"""
).match
_key = re.compile(r"""[\s,;]*(?:--)?["']?([A-Za-z_][\w.\-]{0,99})["']?[ \t]*(?:=>|[:=])?[ \t]*""").match
_end = re.compile(r"[\s,;]*\}[\s}]*\Z").match
_scalar = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[\s,;}])|(?:true|false|null)(?=[\s,;}])").match
_next_option = re.compile(r"[ \t]--[A-Za-z_]|\n").search
_is_name = re.compile(r"[A-Za-z_][\w.\-]{0,99}\Z").match


class Perl(MarkedEntry):
    format = "perl"
    openers: tuple[str, ...] = ("[TOOL_CALL]",)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(self.openers[0])
        if (yield from cursor.peek()) != "{":
            raise NotACall("no call between the markers")
        quoted, _ = yield from cursor.look(_quote, 1)
        if quoted is not None:
            yield from self._read_json(cursor)
        else:
            yield from self._read_perl(cursor)

    def _read_json(self, cursor: Cursor) -> Reader:
        """The same markers around JSON, which is what a model writes that was not told better."""
        wish = yield from read_calls(cursor, _body)
        yield from _close(cursor)
        if wish is not None:
            report(cursor, wish)

    def _read_perl(self, cursor: Cursor) -> Reader:
        name = yield from _read_head(cursor)
        cursor.start_call(name)
        mark = cursor.begin()
        yield from run_value(cursor, _closers, streamed=False)
        text = cursor.since(mark)
        yield from _close(cursor)
        arguments = _read_arguments(cursor, text)
        cursor.delta(write_json(arguments))
        cursor.finish_call(name, arguments)


class PerlWithoutBrackets(Perl):
    """The markers without their brackets, each on a line of its own."""

    openers = ("TOOL_CALL",)
    place: Place = "line"


def _close(cursor: Cursor) -> Reader:
    found, ahead = yield from cursor.look(_ends)
    if found is None:
        cursor.repair("closed_wrapper")
    else:
        cursor.position += ahead + len(found)


def _read_head(cursor: Cursor) -> Generator[None, None, str]:
    """Everything up to the brace before the arguments. It is short, or this is no call."""
    while True:
        head = _head(cursor.text, cursor.position)
        if head is not None:
            cursor.position = head.end()
            return head[1].strip()
        if cursor.final or len(cursor.text) - cursor.position > _HEAD_LIMIT:
            raise NotACall("no call between the markers")
        yield


def _read_arguments(cursor: Cursor, text: str) -> JsonObject:
    position = 0
    arguments: JsonObject = {}
    tolerant = Tolerant(text)
    while not _end(text, position):
        key = _key(text, position)
        if key is None:
            raise Spoilt(f"{text[position : position + 20]!r} is no argument")
        value, position = _read_value(cursor, tolerant, text, key.end())
        if key[1] in arguments:
            cursor.repair("repeated_argument")
        arguments[key[1]] = value
    for rule in tolerant.rules:
        cursor.repair(rule)
    return arguments


def _read_value(cursor: Cursor, tolerant: Tolerant, text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] in ('"', "'", "{", "["):
        try:
            return raw_decode(text, position)
        except Undecodable:
            pass
        try:
            return tolerant.value(position)
        except Unreadable as failure:
            raise Spoilt(failure.why) from None
    scalar = _scalar(text, position)
    if scalar is not None:
        return raw_decode(text, position)[0], scalar.end()
    stop = _next_option(text, position)
    # Braces that close the call may stand on the same line.
    end = stop.start() if stop is not None else len(text.rstrip("} \t\r\n"))
    bare = text[position:end].strip()
    if not bare:
        raise Spoilt("an argument without a value")
    cursor.repair("unquoted_value")
    return bare, end


def write_perl(calls: Sequence[ToolCall]) -> str:
    return "\n".join(_write_call(call) for call in calls)


def _write_call(call: ToolCall) -> str:
    if re.search(r"[\"'\n]", call.name) or not call.name.strip() or len(call.name) > 200:
        raise CannotExpress("$.name", f"{call.name[:40]!r} does not fit between quotes")
    lines = []
    for key, value in call.arguments.items():
        if not _is_name(key):
            raise CannotExpress(f"$.{key}", f"{key[:40]!r} is no name of an option")
        # A closer inside a string is escaped, so that it does not end the call.
        lines.append(f"  --{key} {write_json(value).replace('[/TOOL_CALL]', chr(92) + 'u005b/TOOL_CALL]')}\n")
    return '[TOOL_CALL]\n{tool => "' + call.name + '", args => {\n' + "".join(lines) + "}}\n[/TOOL_CALL]"
