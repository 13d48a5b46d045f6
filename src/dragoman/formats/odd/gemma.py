"""Gemma's own notation: bare keys, strings between special tokens, everything else nearly JSON.

<|tool_call>call:search{query:<|"|>a, b<|"|>,limit:3,tags:[<|"|>x<|"|>]}<tool_call|>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dragoman.args.decoder import has_surrogate
from dragoman.errors import CannotExpress
from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt
from dragoman.formats.entry import MarkedEntry
from dragoman.formats.jsonbody import JsonBody, read_calls, report
from dragoman.formats.markers import Markers
from dragoman.formats.odd.gemma_values import PLAIN_KEY, Dialect, GemmaReader
from dragoman.formats.recovery import read_or_skip
from dragoman.formats.writing import write_json
from dragoman.types import ToolCall

_head = re.compile(r"(call:\s*)?([^\W\d][\w.\-:/]*+)\s*\{").match
_growing_head = re.compile(r"(?:[^\W\d][\w.\-:/]*+\s*(?:[^\W\d][\w.\-:/]*+\s*)?)?\Z").match
_HEAD_LIMIT = 300
_is_plain_key = re.compile(rf"{PLAIN_KEY}\Z").match
_is_name = re.compile(r"[^\W\d][\w.\-:/]{0,200}\Z").match


class GemmaCalls(MarkedEntry):
    """One call behind its opener; plain JSON behind it is read as well."""

    def __init__(self, format_name: str, opener: str, closer: str, quote: str) -> None:
        self.format = format_name
        self.openers = (opener,)
        self.dialect = Dialect(closer, quote)
        self._opener = Markers((opener,))
        self._closers = self.dialect.closers
        self._body = JsonBody(stops=self._closers)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        found, ahead = yield from cursor.look(self._closers)
        if found is not None:
            cursor.position += ahead + len(found)
            return
        yield from read_or_skip(cursor, self._read_either(cursor), self._closers)

    def _read_either(self, cursor: Cursor) -> Reader:
        if (yield from cursor.peek()) == "{":
            yield from self._read_json(cursor)
        else:
            yield from self._read_call(cursor)

    def _read_json(self, cursor: Cursor) -> Reader:
        wish = yield from read_calls(cursor, self._body)
        yield from self._close(cursor)
        if wish is None:
            raise Spoilt("no call between the markers")
        report(cursor, wish)

    def _read_call(self, cursor: Cursor) -> Reader:
        while (head := _head(cursor.text, cursor.position)) is None:
            if len(cursor.text) - cursor.position > _HEAD_LIMIT or _growing_head(cursor.text, cursor.position) is None:
                raise NotACall("no name and no arguments follow the opener")
            yield from cursor.need()
        if head[1] is None:
            cursor.repair("added_prefix")
        name = head[2]
        cursor.position = head.end() - 1
        arguments = yield from GemmaReader(cursor, self.dialect, cursor.start_call(name)).read_object()
        yield from self._close(cursor)
        cursor.finish_call(name, arguments)

    def _close(self, cursor: Cursor) -> Reader:
        found, ahead = yield from cursor.look(self._closers)
        if found is None:
            cursor.repair("closed_wrapper")
        else:
            cursor.position += ahead + len(found)


class GemmaWriter:
    """Writes calls in one of the two dialects."""

    def __init__(self, entry: GemmaCalls) -> None:
        dialect = entry.dialect
        self._opener = entry.openers[0]
        self._dialect = dialect
        self._forbidden = (dialect.quote, dialect.closer)

    def __call__(self, calls: Sequence[ToolCall]) -> str:
        return "".join(self._write_call(call) for call in calls)

    def _write_call(self, call: ToolCall) -> str:
        if not _is_name(call.name):
            raise CannotExpress("$", f"{call.name!r} cannot stand before the arguments")
        return f"{self._opener}call:{call.name}{self._write(call.arguments, '$')}{self._dialect.closer}"

    def _write(self, value: Any, path: str) -> str:
        if isinstance(value, str):
            return self._write_text(value, path)
        if isinstance(value, dict):
            members = (
                f"{self._write_key(key, path)}:{self._write(each, f'{path}.{key}')}" for key, each in value.items()
            )
            return "{" + ",".join(members) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(self._write(each, f"{path}[{index}]") for index, each in enumerate(value)) + "]"
        try:
            return write_json(value)
        except (TypeError, ValueError):
            raise CannotExpress(path, f"{value!r} is no JSON value") from None

    def _write_key(self, key: Any, path: str) -> str:
        if not isinstance(key, str):
            raise CannotExpress(path, f"the key {key!r} is no text")
        return key if _is_plain_key(key) else self._write_text(key, path)

    def _write_text(self, text: str, path: str) -> str:
        for marker in self._forbidden:
            if marker in text:
                raise CannotExpress(path, f"the text holds {marker!r}, and this format has no escape for it")
        quote = self._dialect.quote
        # A text that ends in the beginning of the delimiter would move it.
        if (text + quote).find(quote) != len(text) or has_surrogate(text):
            raise CannotExpress(path, "this format cannot write the text unchanged")
        return quote + text + quote
