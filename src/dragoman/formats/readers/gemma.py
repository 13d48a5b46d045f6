"""The reader of Gemma's notation: bare keys, strings between special tokens, otherwise close to JSON."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from dragoman.args.coercion import read_text
from dragoman.args.decoder import Undecodable, decode, has_surrogate
from dragoman.args.tolerant import repair
from dragoman.formats.cursor import (
    BrokenCall,
    Cursor,
    Mark,
    Markers,
    NotACall,
    PassThrough,
    Reader,
    Truncated,
    escape,
    write_json,
)
from dragoman.formats.envelope import schema_of
from dragoman.formats.json_reader import JsonBody, read_closed_calls, run_to
from dragoman.formats.notation import PLAIN_KEY
from dragoman.formats.steps import read_or_skip
from dragoman.formats.template import Entry
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# The values of Gemma's notation: objects, lists, strings between delimiters, and words without any.
#
# Strings are emitted while they grow. The models sometimes omit the delimiter of a string; if the rest of the call
# shows which one is missing, the reader adds it and reports a repair.

MAX_DEPTH = 100
_key = re.compile(r"([^\s:{}\[\],<\"][^:{}\[\],<\"\n]{0,200}?)[ \t]{0,20}:").match
_growing_key = re.compile(r"[^:{}\[\],<\"\n]{0,221}\Z").match
_pair_at_end = re.compile(rf",\s*{PLAIN_KEY}\s*:\s*\Z").search
_any_pair = re.compile(rf",\s*{PLAIN_KEY}\s*:").search
_number = re.compile(r"[-+]?\.?[0-9][0-9.eE+\-_]*\Z").match
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_QUOTED = Markers(['"', "\\"])
_LOOKAHEAD = 120
_UNCLEAR = "a string is not closed, and its end is ambiguous"


class Dialect:
    """The delimiter of strings and the closer of calls, which differ between the two dialects."""

    def __init__(self, closer: str, quote: str) -> None:
        self.quote = quote
        self.closer = closer
        self.closers = Markers((closer,))
        self.quotes = Markers((quote,))
        self.string_stops = Markers((quote, closer))
        self.bare_stops = Markers((quote, closer, ",", "}", "]"))
        self.next_string = Markers((quote, "call:"))
        self.after_string = Markers((",", "}", "]", closer))
        self.values = Markers((quote, '"', "{", "[", "}", "]", closer))
        literal = re.escape(quote)
        self.pair_ahead = re.compile(rf",\s*(?:{PLAIN_KEY}\s*:|{literal}|\"|[}}\]])").match
        self.pair_grows = re.compile(rf",\s*(?:{PLAIN_KEY}\s*|<[^,:}}]{{0,{len(quote) - 2}}})?\Z").match


class GemmaReader:
    """Reads one object. The open containers are in a list, so there is no recursion."""

    def __init__(self, cursor: Cursor, dialect: Dialect, tool: Tool | None) -> None:
        self.cursor = cursor
        self.dialect = dialect
        self.tool = tool
        self.open: list[JsonObject | list[Any]] = []
        self.prefix = ""
        """The JSON text before the next value: a comma, a key."""
        self._all_closed = False
        self._at_whole_value = False
        """The text up to here ends with a value whose end was seen: a string with its delimiter, or a bracket."""
        # A search back over a long string is not repeated for each of many delimiters in it.
        self._checks = 8

    def read_object(self) -> Generator[None, None, JsonObject]:
        """Read the arguments, from the opening brace to the closing one."""
        cursor = self.cursor
        root: JsonObject = {}
        cursor.position += 1
        self._enter(root, "{")
        while self.open:
            character = yield from cursor.peek()
            container = self.open[-1]
            closing = "}" if isinstance(container, dict) else "]"
            if not character:
                if not self._at_whole_value:
                    raise Truncated
                cursor.ended = False
                cursor.repair("closed_brackets", "closed_wrapper")
                while self.open:
                    self._leave()
                break
            if character == closing:
                cursor.position += 1
                self._leave()
            elif character == self.dialect.closer[0] and (yield from cursor.look(self.dialect.closers))[0]:
                if not self._all_closed:
                    cursor.repair("closed_brackets")
                while self.open:
                    self._leave()
            elif character == ",":
                cursor.position += 1
                self._at_whole_value = False
            else:
                yield from self._read_member(container)
        return root

    def _enter(self, container: JsonObject | list[Any], bracket: str) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise BrokenCall(f"nested deeper than {MAX_DEPTH}")
        self.open.append(container)
        self.cursor.delta(self.prefix + bracket)
        self.prefix = ""

    def _leave(self) -> None:
        self.cursor.delta("}" if isinstance(self.open.pop(), dict) else "]")
        self._at_whole_value = True

    def _read_member(self, container: JsonObject | list[Any]) -> Reader:
        comma = ", " if container else ""
        key: str | None = None
        if isinstance(container, dict):
            key = yield from self._read_key()
            if key in container:
                raise BrokenCall(f"duplicate key {key!r}")
            comma += write_json(key) + ": "
        self.prefix = comma
        yield from self._read_value(container, key)

    def _put(self, container: JsonObject | list[Any], key: str | None, value: Any) -> None:
        if isinstance(container, dict):
            container[key or ""] = value
        else:
            container.append(value)

    # ---- keys --------------------------------------------------------------------------------------------------------

    def _read_key(self) -> Generator[None, None, str]:
        cursor = self.cursor
        found, _ = yield from cursor.look(self.dialect.values)
        if found == self.dialect.quote:
            cursor.position += len(found)
            mark = cursor.begin()
            yield from self._reach(self.dialect.quotes)
            key = cursor.since(mark)
            cursor.position += len(found)
        elif found == '"':
            key = yield from self._run_quoted()
        elif found is not None:
            raise BrokenCall(f"{found!r} where a key should be")
        else:
            while (match := _key(cursor.text, cursor.position)) is None:
                if _growing_key(cursor.text, cursor.position) is None:
                    raise BrokenCall("no key and no value")
                yield from cursor.need()
            cursor.position = match.end()
            return match[1]
        character = yield from cursor.peek()
        if character != ":":
            raise BrokenCall("no colon after a key") if character else Truncated
        cursor.position += 1
        return key

    # ---- values ------------------------------------------------------------------------------------------------------

    def _read_value(self, container: JsonObject | list[Any], key: str | None) -> Reader:
        cursor = self.cursor
        if not (yield from cursor.peek()):
            raise Truncated
        found, _ = yield from cursor.look(self.dialect.values)
        self._at_whole_value = found == '"' or found == self.dialect.quote
        if found == "{" or found == "[":
            inner: JsonObject | list[Any] = {} if found == "{" else []
            cursor.position += 1
            self._put(container, key, inner)
            self._enter(inner, found)
            return
        if found == self.dialect.quote:
            cursor.position += len(found)
            value: Any = yield from self._read_string()
        elif found == '"':
            value = yield from self._run_quoted()
            cursor.delta(self.prefix + write_json(value))
        elif found is not None:
            raise BrokenCall(f"{found!r} where a value should be")
        else:
            value = yield from self._read_bare(key)
            cursor.delta(self.prefix + write_json(value))
        if isinstance(value, str) and has_surrogate(value):
            raise BrokenCall("lone surrogate")
        self._put(container, key, value)

    def _read_string(self) -> Generator[None, None, str]:
        """Read text up to a delimiter after which the call continues; any other delimiter is part of the text."""
        cursor, dialect = self.cursor, self.dialect
        quiet = PassThrough(dialect.string_stops.wakes, "string")
        cursor.delta(self.prefix + '"')
        mark = cursor.begin()
        doubtful = False
        while True:
            hit = dialect.string_stops.find(cursor.text, cursor.position, final=cursor.final)
            self._say(len(cursor.text) if hit is None else hit[0])
            if hit is None or hit[1] is None:
                cursor.quiet = quiet if hit is None else None
                yield from cursor.need()
                cursor.quiet = None
                continue
            if hit[1] == dialect.closer:
                if (yield from self._goes_on_after_closer(cursor.since(mark))):
                    self._say(cursor.position + len(dialect.closer))
                    continue
                value = self._close_at_end(cursor.since(mark), doubtful=doubtful)
                break
            following, ahead = yield from cursor.look(dialect.after_string, len(dialect.quote))
            if following is not None:
                value = cursor.since(mark)
                cursor.position += len(dialect.quote)
                break
            if cursor.final and cursor.position + ahead >= len(cursor.text):
                if doubtful:
                    raise Truncated
                value = cursor.since(mark)
                cursor.position += len(dialect.quote)
                break
            closed = self._close_before_pair(mark)
            if closed is not None:
                value = closed
                break
            doubtful = True
            cursor.repair("escaped_quotes")
            self._say(cursor.position + len(dialect.quote))
        cursor.delta('"')
        return value

    def _goes_on_after_closer(self, text: str) -> Generator[None, None, bool]:
        """Whether the closer is part of the string: the delimiter follows, and no other call begins before it."""
        cursor, dialect = self.cursor, self.dialect
        if self._checks <= 0 or text.rstrip().endswith(("}", "]")):
            return False
        self._checks -= 1
        while True:
            start = cursor.position + len(dialect.closer)
            hit = dialect.next_string.find(cursor.text, start, final=cursor.final)
            if hit is not None and hit[1] is not None:
                break
            if cursor.final:
                return False
            yield
        if hit[1] != dialect.quote:
            return False
        following, _ = yield from cursor.look(dialect.after_string, hit[0] + len(dialect.quote) - cursor.position)
        return following is not None

    def _say(self, stop: int) -> None:
        cursor = self.cursor
        if stop > cursor.position:
            cursor.delta(escape(cursor.text[cursor.position : stop])[1:-1])
        cursor.position = stop

    def _close_before_pair(self, mark: Mark) -> str | None:
        """End the string before `, key:` if a delimiter follows: that one opens the next string, and one is missing."""
        self._checks -= 1
        if self._checks < 0:
            return None
        text = self.cursor.since(mark)
        forgotten = _pair_at_end(text, max(0, len(text) - _LOOKAHEAD))
        if forgotten is None:
            return None
        if _any_pair(text, 0, forgotten.start()):
            raise BrokenCall(_UNCLEAR)
        self.cursor.return_to(mark)
        self.cursor.position += forgotten.start()
        self.cursor.repair("closed_string")
        return text[: forgotten.start()]

    def _close_at_end(self, text: str, *, doubtful: bool) -> str:
        """End the string at the end of the call, if the open brackets are closed before it: a delimiter is missing."""
        rest = text.rstrip()
        for container in self.open:
            closing = "}" if isinstance(container, dict) else "]"
            if not rest.endswith(closing):
                raise BrokenCall("a string is not closed")
            rest = rest.removesuffix(closing).rstrip()
        if doubtful or _any_pair(rest):
            raise BrokenCall(_UNCLEAR)
        self.cursor.repair("closed_string")
        self._all_closed = True
        return rest

    def _run_quoted(self) -> Generator[None, None, str]:
        """Read a string in plain quotes, as in JSON."""
        cursor = self.cursor
        mark = cursor.begin()
        cursor.position += 1
        while True:
            if not (yield from run_to(cursor, _QUOTED)):
                raise Truncated
            if cursor.text[cursor.position] == '"':
                break
            while cursor.position + 2 > len(cursor.text):
                yield from cursor.need()
            cursor.position += 2
        cursor.position += 1
        mended = repair(cursor.since(mark))
        if not isinstance(mended.value, str):
            raise BrokenCall(mended.error or "no text between the quotes")
        cursor.repair(*mended.rules)
        return mended.value

    # ---- values without quotes ---------------------------------------------------------------------------------------

    def _read_bare(self, key: str | None) -> Generator[None, None, Any]:
        """Read a number, a word, or a string without one or both of its delimiters."""
        cursor, dialect = self.cursor, self.dialect
        mark = cursor.begin()
        found = yield from self._reach(dialect.bare_stops)
        if found == "," and key is not None and not _is_literal(cursor.since(mark)):
            while found == "," and not (yield from self._pair_follows()):
                cursor.position += 1
                found = yield from self._reach(dialect.bare_stops)
        text = cursor.since(mark)
        if found == dialect.quote:
            cursor.position += len(found)
            cursor.repair("opened_string")
            return text
        return self._read_word(text.rstrip(), key)

    def _reach(self, stops: Markers) -> Generator[None, None, str]:
        if not (yield from run_to(self.cursor, stops)):
            raise Truncated
        return stops.at(self.cursor.text, self.cursor.position, final=True)[0] or ""

    def _pair_follows(self) -> Generator[None, None, bool]:
        """Whether the comma here ends the value: another key follows, or a bracket is closed after it."""
        cursor, dialect = self.cursor, self.dialect
        while not cursor.final and dialect.pair_grows(cursor.text, cursor.position) is not None:
            yield
        return dialect.pair_ahead(cursor.text, cursor.position) is not None

    def _read_word(self, text: str, key: str | None) -> Any:
        if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
            self.cursor.repair("single_quotes")
            return text[1:-1]
        schema = schema_of(self.tool, key) if key is not None and len(self.open) == 1 else None
        if schema is not None and self.tool is not None:
            value = read_text(text, schema, root=self.tool.parameters, path=f"$.{key}").value
        else:
            value = _read_literal(text)
        if isinstance(value, str):
            self.cursor.repair("added_quotes")
        return value


def _is_literal(text: str) -> bool:
    text = text.strip()
    return text in _WORDS or _number(text) is not None


def _read_literal(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _number(text) is None:
        return text
    try:
        return decode(text)
    except Undecodable:
        return text


# --------------------------------------------------------------------------------------------------------------------
# The calls in Gemma's notation.
#
# <|tool_call>call:search{query:<|"|>a, b<|"|>,limit:3,tags:[<|"|>x<|"|>]}<tool_call|>

_head = re.compile(r"(?:(call:\s*)|[:\-]\s*)?([^\W\d][\w.\-:/]*+)\s*\{").match
_growing_head = re.compile(r"(?:[:\-]\s*)?(?:[^\W\d][\w.\-:/]*+\s*(?:[^\W\d][\w.\-:/]*+\s*)?)?\Z").match
_HEAD_LIMIT = 300
_before_json = re.compile(r"call:\s*(?=\{)").match
_growing_before_json = re.compile(r"c(?:a(?:l(?:l(?::\s*)?)?)?)?\Z").match


class GemmaCalls(Entry):
    """One call after its opener; plain JSON after it is read as well."""

    def __init__(self, format_name: str, opener: str, closer: str, quote: str) -> None:
        self.format = format_name
        self.openers = (opener,)
        self.dialect = Dialect(closer, quote)
        self._opener = Markers((opener,))
        self._closers = self.dialect.closers
        self._body = JsonBody(stops=self._closers)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        if (yield from cursor.take(self._closers)) is None:
            yield from cursor.try_match(_before_json, _growing_before_json)
            in_json = (yield from cursor.peek()) == "{"
            reading = read_closed_calls(cursor, self._body, self._closers) if in_json else self._read_call(cursor)
            yield from read_or_skip(cursor, reading, self._closers)

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
        yield from cursor.close_wrapper(self._closers)
        cursor.finish_call(name, arguments)
