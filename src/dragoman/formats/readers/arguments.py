"""The shared parts of the readers: typed arguments, values and message bodies."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any, Literal

from dragoman.args.coercion import read_text
from dragoman.args.decoder import Undecodable, decode
from dragoman.args.tolerant import Repaired, repair
from dragoman.events import TextDelta, ThinkingDelta
from dragoman.formats.cursor import BrokenCall, Cursor, Markers, PassThrough, Reader, Truncated, escape, write_json
from dragoman.formats.entities import unescape_text
from dragoman.formats.envelope import is_plain_text, properties_of, schema_of
from dragoman.formats.json_reader import JsonBody, read_object
from dragoman.formats.nested import read_nested
from dragoman.formats.pairs import begins_line, own_lines
from dragoman.formats.steps import read_or_skip
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# Longer stretches of text: the value of an argument, the body of a channel, JSON after a name.


def run_value(cursor: Cursor, stops: Markers, *, streamed: bool, to_end: bool = False) -> Generator[None, None, str]:
    """Move to the marker that ends a value and return it. `streamed` values are emitted as part of a JSON string.

    With `to_end`, the end of the text ends the value as well, and None is returned; otherwise it raises Truncated.
    """
    quiet = PassThrough(stops.wakes, "string" if streamed else "silent")
    while True:
        hit = stops.find(cursor.text, cursor.position, final=cursor.final)
        stop = len(cursor.text) if hit is None else hit[0]
        if streamed and stop > cursor.position:
            cursor.delta(escape(cursor.text[cursor.position : stop])[1:-1])
        cursor.position = stop
        if hit is not None and hit[1] is not None:
            return hit[1]
        if to_end and cursor.final:
            return ""
        if hit is None:
            cursor.quiet = quiet
        yield from cursor.need()
        cursor.quiet = None


def pass_on(cursor: Cursor, stops: Markers, kind: Literal["text", "thinking"]) -> Reader:
    """Drop the tile as framing; emit all that follows, up to one of the markers or the end, as text or thinking."""
    cursor.drop()
    event = TextDelta if kind == "text" else ThinkingDelta
    while True:
        hit = stops.find(cursor.text, cursor.position, final=cursor.final)
        stop = len(cursor.text) if hit is None else hit[0]
        if stop > cursor.position:
            cursor.out.append(event(cursor.text[cursor.position : stop]))
            cursor.position = stop
            cursor.open_tile(stop)
        if cursor.final or (hit is not None and hit[1] is not None):
            return
        if hit is None:
            cursor.quiet = PassThrough(stops.wakes, kind)
        yield
        cursor.quiet = None
        # Pieces that passed unread are not stored, so a new tile must begin after them.
        cursor.open_tile(cursor.position)


def read_slot(cursor: Cursor, stops: Markers, limit: int = 300) -> Generator[None, None, str]:
    """Read a short text up to a marker, and stop before the marker. Raise NotACall if the text is too long."""
    found = ""
    while True:
        # Search only what may belong to the slot; otherwise many consecutive openers would cost quadratic time.
        window = cursor.text[cursor.position : cursor.position + limit - len(found) + 1]
        last = cursor.final and cursor.position + len(window) == len(cursor.text)
        hit = stops.find(window, 0, final=last)
        length = len(window) if hit is None else hit[0]
        cursor.position += length
        found += window[:length]
        if hit is not None and hit[1] is not None:
            return found
        if len(found) + len(window) - length > limit:
            raise BrokenCall("the text after the opener is too long")
        yield from cursor.need()


def read_framed_call(cursor: Cursor, name: str, closers: Markers, body: JsonBody) -> Reader:
    """Read JSON arguments after a known name, and the closer, which a model may omit."""
    cursor.commit()
    arguments = yield from read_or_skip(cursor, _read_json(cursor, name, closers, body), closers, body.stops)
    yield from cursor.close_wrapper(closers)
    cursor.finish_call(name, arguments)


def _read_json(cursor: Cursor, name: str, closers: Markers, body: JsonBody) -> Generator[None, None, JsonObject]:
    found, _ = yield from cursor.look(closers)
    if found is not None:
        cursor.start_call(name)
        cursor.delta("{}")
        return {}
    character = yield from cursor.peek()
    if not character:
        raise Truncated
    cursor.start_call(name)
    if character not in '{"':
        raise BrokenCall(f"{character!r} where the arguments should begin")
    return (yield from read_object(cursor, body))


# --------------------------------------------------------------------------------------------------------------------
# Arguments that arrive one by one as text: the schema determines their types, and each is emitted once it is certain.


class Arguments:
    """The arguments of an announced call that have been read so far."""

    __slots__ = ("_written", "read", "tool")

    def __init__(self, tool: Tool | None) -> None:
        self.tool = tool
        self.read: JsonObject = {}
        self._written = False

    def add(self, cursor: Cursor, key: str, value: Any) -> None:
        """Add an argument with a known value."""
        cursor.delta(self.lead(key) + write_json(value))
        self.keep(cursor, key, value)

    def add_text(self, cursor: Cursor, key: str, text: str) -> None:
        """Add an argument from plain text."""
        self.add(cursor, key, self._type(text, schema_of(self.tool, key)))

    def add_json(self, cursor: Cursor, text: str) -> None:
        """Add arguments from the text of one JSON object."""
        mended = repair(text)
        if not isinstance(mended.value, dict):
            raise BrokenCall(f"the arguments are not a JSON object: {mended.error}")
        self.add_mended(cursor, mended)

    def add_mended(self, cursor: Cursor, mended: Repaired) -> None:
        """Add the members of an object that the tolerant reader read."""
        cursor.repair(*mended.rules)
        for key, value in mended.value.items():
            self.add(cursor, key, value)

    def declares(self, key: str) -> bool:
        return schema_of(self.tool, key) is not None

    def read_value(
        self,
        cursor: Cursor,
        key: str,
        stops: Markers,
        *,
        schema: JsonObject | None = None,
        decodes: bool = False,
        to_end: bool = False,
        entities: bool = False,
    ) -> Generator[None, None, str]:
        """Read a value up to a marker, and return the marker. A string is emitted while it grows.

        The text itself may state a `schema`. With `decodes`, typed values are read as JSON if they are JSON. With
        `entities`, a text that was escaped is decoded.
        """
        schema = schema or schema_of(self.tool, key)
        # Only the end of an element shows whether the line end before its text is layout.
        streamed = is_plain_text(schema) and not (entities and (yield from begins_line(cursor)))
        if streamed:
            cursor.delta(self.lead(key) + '"')
        mark = cursor.begin()
        marker = yield from run_value(cursor, stops, streamed=streamed, to_end=to_end)
        text = cursor.since(mark)
        if entities and (framed := own_lines(text)) is not None:
            text = framed[1]
        if entities and schema is not None and (plain := unescape_text(text)) != text:
            cursor.repair("decoded_entities")
            text = plain
        if streamed:
            cursor.delta('"')
            self.keep(cursor, key, text)
        else:
            root = self.tool.parameters if self.tool else None
            nested = read_nested(text, schema, root) if entities else None
            self.add(cursor, key, self._type(text, schema, decodes=decodes) if nested is None else nested)
        return marker

    def take(self, arguments: JsonObject) -> None:
        """Set all arguments at once; their text has been emitted already."""
        self.read = arguments
        self._written = True

    def finish(self, cursor: Cursor, name: str, identity: str | None = None) -> None:
        if not self._written:
            cursor.delta("}" if self.read else "{}")
        cursor.finish_call(name, self.read, identity)

    def lead(self, key: str) -> str:
        """Return the JSON text before the value."""
        return (", " if self.read else "{") + write_json(key) + ": "

    def _type(self, text: str, schema: JsonObject | None, *, decodes: bool = False) -> Any:
        if decodes and schema is not None:
            with suppress(Undecodable):
                return decode(text)
        return read_text(text, schema, root=self.tool.parameters if self.tool else None).value

    def keep(self, cursor: Cursor, key: str, value: Any) -> None:
        if key in self.read:
            cursor.repair("repeated_argument")
        self.read[key] = value


def single_parameter(tool: Tool | None) -> str | None:
    """Return the parameter for a single value without a key: the only required one, or the only one."""
    if tool is None:
        return None
    required = tool.parameters.get("required")
    if isinstance(required, list) and required:
        return required[0] if len(required) == 1 and isinstance(required[0], str) else None
    properties = properties_of(tool)
    return next(iter(properties)) if len(properties) == 1 else None
