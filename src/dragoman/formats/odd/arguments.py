"""Arguments that arrive one by one as text: each is typed by the schema, and handed on as soon as it is certain."""

from __future__ import annotations

from typing import Any

from dragoman.args.coercion import read_text
from dragoman.args.tolerant import repair
from dragoman.formats.cursor import Cursor, Reader, Spoilt, write_json
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import is_plain_text, run_value, schema_of
from dragoman.types import JsonObject, Tool


class Arguments:
    """The arguments of a call that was announced, as far as they have been read."""

    __slots__ = ("_written", "read", "tool")

    def __init__(self, tool: Tool | None) -> None:
        self.tool = tool
        self.read: JsonObject = {}
        self._written = False

    def add(self, cursor: Cursor, key: str, value: Any) -> None:
        """An argument whose value is known."""
        cursor.delta(self._lead(key) + write_json(value))
        self._keep(cursor, key, value)

    def add_text(self, cursor: Cursor, key: str, text: str) -> None:
        """An argument given as plain text."""
        self.add(cursor, key, self._type(key, text))

    def add_json(self, cursor: Cursor, text: str) -> None:
        """Several arguments as the text of one JSON object."""
        mended = repair(text)
        if not isinstance(mended.value, dict):
            raise Spoilt(f"the arguments are no JSON object: {mended.error}")
        for rule in mended.rules:
            cursor.repair(rule)
        for key, value in mended.value.items():
            self.add(cursor, key, value)

    def declares(self, key: str) -> bool:
        return schema_of(self.tool, key) is not None

    def read_value(self, cursor: Cursor, key: str, stops: Markers, *, to_end: bool = False) -> Reader:
        """The text from here to a marker is the value. A string is handed on while it grows."""
        streamed = is_plain_text(schema_of(self.tool, key))
        if streamed:
            cursor.delta(self._lead(key) + '"')
        mark = cursor.begin()
        yield from run_value(cursor, stops, streamed=streamed, to_end=to_end)
        text = cursor.since(mark)
        if streamed:
            cursor.delta('"')
            self._keep(cursor, key, text)
        else:
            self.add_text(cursor, key, text)

    def take(self, arguments: JsonObject) -> None:
        """All arguments at once, which were handed on while they were read."""
        self.read = arguments
        self._written = True

    def finish(self, cursor: Cursor, name: str, identity: str | None = None) -> None:
        if not self._written:
            cursor.delta("}" if self.read else "{}")
        cursor.finish_call(name, self.read, identity)

    def _lead(self, key: str) -> str:
        return (", " if self.read else "{") + write_json(key) + ": "

    def _type(self, key: str, text: str) -> Any:
        return read_text(text, schema_of(self.tool, key), root=self.tool.parameters if self.tool else None).value

    def _keep(self, cursor: Cursor, key: str, value: Any) -> None:
        if key in self.read:
            cursor.repair("repeated_argument")
        self.read[key] = value


def single_parameter(tool: Tool | None) -> str | None:
    """The parameter that a lone value can only mean: the single required one, or the only one there is."""
    if tool is None:
        return None
    required = tool.parameters.get("required")
    if isinstance(required, list) and required:
        return required[0] if len(required) == 1 and isinstance(required[0], str) else None
    properties = tool.parameters.get("properties")
    return next(iter(properties)) if isinstance(properties, dict) and len(properties) == 1 else None
