"""Readers of unmarked calls: JSON objects and Python."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.tolerant import TolerantReader
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats import envelope
from dragoman.formats.envelope import by_position, properties_of, required_of
from dragoman.formats.intent import TYPE_NAMES
from dragoman.formats.loose.candidates import OfferedNames
from dragoman.toolset import fold
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# The source of arguments, if it is not the text itself.
#
# A call inside a quoted string escapes its own quotes, "[f(a=\"x\")]", and is read without those escapes. A long text
# is read through a window, because a failed attempt costs time in proportion to the text before it (the JSON scanner
# of the standard library counts lines for its error message).

_ESCAPED_QUOTE = re.compile(r"\\+([\"'])")
_UNESCAPED = {quote: re.compile(rf"(?<!\\){quote}") for quote in "\"'"}
_CLOSED = {quote: re.compile(rf"\)\s*{quote}\s*(?=[,\]}}\n)]|\Z)") for quote in "\"'"}
_OPENED_REVERSED = re.compile(r"[\s\[({]{0,40}([\"'])")
_WINDOW = 16_384


def escaped_until(text: str, start: int) -> int:
    """Return the end of the quoted string in which a call with escaped quotes begins at `start`; 0 if there is none."""
    opened = _OPENED_REVERSED.match(text[max(0, start - 60) : start][::-1])
    if opened is None or text[start - opened.end() - 1 : start - opened.end()] == "\\":
        return 0
    closed = _UNESCAPED[opened[1]].search(text, start)
    end = len(text) if closed is None else closed.start()
    return end if text.find("\\" + opened[1], start, end) >= 0 else 0


def quoted_call_end(text: str, start: int, position: int) -> int | None:
    """Return the index of the parenthesis that closes a call in a quoted string; the quote after it shows it."""
    opened = _OPENED_REVERSED.match(text[max(0, start - 60) : start][::-1])
    if opened is None:
        return None
    closed = _CLOSED[opened[1]].search(text, position)
    return None if closed is None else closed.start() + 1


class Source:
    """A text to read from, and the conversion between its offsets and those of the text as received."""

    __slots__ = ("_base", "text")

    def __init__(self, text: str, base: int = 0) -> None:
        self.text = text
        self._base = base

    def inner(self, outer: int) -> int:
        """Convert an offset in the text as received to an offset in this source."""
        return outer - self._base

    def outer(self, inner: int) -> int:
        """Convert an offset in this source to an offset in the text as received."""
        return inner + self._base

    def near(self, text: str, outer: int) -> Source:
        """Return a source for a read at an offset: this one, unless the offset is too large."""
        if outer - self._base <= _WINDOW:
            return self
        return Source(text[outer:], outer)


class Unescaped(Source):
    """A text without the backslashes before its quotes."""

    __slots__ = ("_removed",)

    def __init__(self, text: str) -> None:
        self._removed: list[int] = []
        """The original offset of every removed backslash."""
        for match in _ESCAPED_QUOTE.finditer(text):
            self._removed.extend(range(match.start(), match.end() - 1))
        super().__init__(_ESCAPED_QUOTE.sub(r"\1", text))

    def inner(self, outer: int) -> int:
        return outer - bisect_left(self._removed, outer)

    def outer(self, inner: int) -> int:
        low, high = 0, len(self._removed)
        while low < high:
            middle = (low + high) // 2
            if self._removed[middle] - middle < inner:
                low = middle + 1
            else:
                high = middle
        return inner + low


# --------------------------------------------------------------------------------------------------------------------
# Calls as objects: which of the many keys names the tool, and where its arguments are.

NAME_KEYS = (*envelope.NAME_KEYS, "function_call", "func", "method", "api")
ARGUMENT_KEYS = envelope.ARGUMENT_KEYS
_ARGUMENT_KEYS = frozenset(ARGUMENT_KEYS)
_ENVELOPE_KEYS = frozenset(("id", "type", "call_id", "tool_call_id", "index"))
"""Members of a flat call that are not arguments, unless the tool declares them."""
_LIST_KEYS = ("tool_calls", "function_calls", "calls", "tool_uses", "functions", "actions", "tools")

OPENING = re.compile(r"\{\s*(?:\\*[\"'`“‘]|[^\W\d]\w*\s*:)")
"""Matches a brace that may open an object; code blocks and formulas (`{x}`, `{a + b}`) are not tried."""

# Read from the brace backwards: NAME{  NAME\n{  NAME: {  "NAME": {  'NAME', {  **NAME** = {
_NAME_REVERSED = re.compile(r"\s{0,40}([:,=>]?)\s{0,8}([\"'`*]{0,3})([\w.\-\\]{1,200})([\"'`*]{0,3})")


class ObjectCall(Struct, gc=False):
    """The call that an object states."""

    tool: Tool
    arguments: JsonObject
    repairs: list[str]


def read_value(text: str, position: int) -> tuple[Any, int, list[str]]:
    """Read the JSON-like value at an index. Returns the value, its end and the repairs; raises Unreadable."""
    if not text.startswith("{'", position):
        try:
            value, end = raw_decode(text, position)
            return value, end, []
        except Undecodable:
            pass
    try:
        return _read(TolerantReader(text), position)
    except Unreadable as error:
        if error.cut:
            raise
    return _read(TolerantReader(text, python=True), position)


def _read(reader: TolerantReader, position: int) -> tuple[Any, int, list[str]]:
    value, end = reader.value(position)
    return value, end, reader.rules


declares = re.compile(r"(?:declaration|definition)s?:", re.IGNORECASE).match
"""Matches the beginning of a name that says what it is: `declaration:default_api:NAME{...}` is an echoed definition."""
_DECLARES_REVERSED = re.compile(r"(?:[\w.\-]{1,60}:){0,2}s?noit(?:aralced|inifed)\b", re.IGNORECASE)


class NameBefore(Struct, gc=False):
    """A name before an object."""

    start: int
    tool: Tool
    item: bool
    """Name and object are items of a list or a tuple: ['NAME', {...}]."""


def name_before(text: str, brace: int, floor: int, offered: OfferedNames) -> NameBefore | None:
    """Find the tool whose name is before an object, as its key, its title or the item before it."""
    head = text[max(floor, brace - 280) : brace][::-1]
    match = _NAME_REVERSED.match(head)
    if match is None:
        return None
    written = match[3][::-1]
    start = brace - match.end(3)
    if written.lower() in _ARGUMENT_KEYS:
        # {'NAME', 'parameters': {...}}: the name is before the key.
        return name_before(text, start - len(match[2]), floor, offered)
    tool = offered.find(written)
    if tool is None and "." in written and not match[1]:
        # A sentence without a blank before the call: `Let me look.get_weather`, and the object on the next line.
        written = written.rpartition(".")[2]
        tool, start = offered.find(written), brace - match.start(3) - len(written)
    elif match[2] and match[4] == match[2]:
        start -= len(match[4])
    if tool is None or (text.startswith(":", start - 1) and _is_declared(text, start - 1)):
        return None
    return NameBefore(start, tool, match[1] == ",")


def _is_declared(text: str, colon: int) -> bool:
    """Whether the name after a colon is that of an echoed declaration."""
    return _DECLARES_REVERSED.match(text[max(0, colon - 200) : colon][::-1]) is not None


def read_object(value: JsonObject, offered: OfferedNames, depth: int = 0) -> ObjectCall | None:
    """Return the call that an object states, under any known keys; None if it states none."""
    for key in NAME_KEYS:
        named = value.get(key)
        if isinstance(named, str):
            tool = offered.find(named) if named else None
            if tool is not None:
                return _with_arguments(value, key, tool, offered)
            inner = _wrapped(value, named)
        else:
            inner = named
        if isinstance(inner, dict) and depth < 3:
            spoken = read_object(inner, offered, depth + 1)
            if spoken is not None:
                return spoken
            spoken = _split(value, key, inner, offered)
            if spoken is not None:
                return spoken
    return _keyed(value, offered) if len(value) == 1 and not offered.open else None


def _keyed(value: JsonObject, offered: OfferedNames) -> ObjectCall | None:
    """Read {"NAME": {...}}: the only key is the name."""
    ((key, arguments),) = value.items()
    tool = offered.find(key) if isinstance(arguments, dict) else None
    if tool is None or is_definition(arguments, tool):
        return None
    return ObjectCall(tool, arguments, [])


def _wrapped(value: JsonObject, named: str) -> Any:
    """Read the inner call of {"name": "tool_call", "arguments": {"name": ..., "arguments": ...}}."""
    if fold(named) in ("toolcall", "functioncall", "function", "tool", "call"):
        return next((value[key] for key in ARGUMENT_KEYS if key in value), None)
    return None


def _split(value: JsonObject, key: str, inner: JsonObject, offered: OfferedNames) -> ObjectCall | None:
    """Read {"function": {"name": "f"}, "arguments": {...}}: the arguments are outside of the object with the name."""
    named = inner.get("name")
    if isinstance(named, str) and any(argument in value for argument in ARGUMENT_KEYS):
        tool = offered.find(named)
        if tool is not None:
            return _with_arguments(value, key, tool, offered)
    return None


def holds_calls(value: JsonObject, offered: OfferedNames) -> bool:
    """Whether an object is only the wrapper of calls: {"tool_calls": [...]}, or tool names as keys."""
    if any(isinstance(value.get(key), list | dict) for key in _LIST_KEYS):
        return True
    if offered.open or not value:
        return False
    return all(isinstance(inner, dict) and offered.find(key) is not None for key, inner in value.items())


def read_typed_object(value: JsonObject, offered: OfferedNames) -> ObjectCall | None:
    """Read {"type": "NAME", ...}, an item of a list of calls."""
    named = value.get("type")
    tool = offered.find(named) if isinstance(named, str) and not offered.open else None
    return None if tool is None else _with_arguments(value, "type", tool, offered)


def _with_arguments(value: JsonObject, name_key: str, tool: Tool, offered: OfferedNames) -> ObjectCall | None:
    for key in ARGUMENT_KEYS:
        if key in value and key != name_key:
            arguments, repairs = as_arguments(value[key], tool)
            if arguments is None or is_definition(arguments, tool):
                return None
            return ObjectCall(tool, arguments, repairs)
    if offered.open:
        return None
    return _flat(value, name_key, tool)


def _flat(value: JsonObject, name_key: str, tool: Tool) -> ObjectCall | None:
    """Read {"name": "f", "city": "Paris"}: arguments next to the name, if the tool declares all of them."""
    known = {fold(name) for name in properties_of(tool)}
    arguments = {
        key: inner
        for key, inner in value.items()
        if key != name_key and (key not in _ENVELOPE_KEYS or fold(key) in known)
    }
    if not all(fold(key) in known for key in arguments):
        return None
    if not arguments:
        return None if required_of(tool) else ObjectCall(tool, {}, [])
    return ObjectCall(tool, arguments, ["flat_arguments"])


def as_arguments(raw: Any, tool: Tool) -> tuple[JsonObject | None, list[str]]:
    """Convert a value to arguments: an object, JSON text of one, or the values in the declared order."""
    if isinstance(raw, dict):
        return raw, []
    if raw is None or raw == "":
        return {}, []
    if isinstance(raw, str):
        return _from_text(raw)
    if isinstance(raw, list):
        if len(raw) == 1 and isinstance(raw[0], dict):
            return raw[0], ["unwrapped_arguments"]
        return by_position(raw, {}, tool), ["positional_arguments"]
    return None, []


def _from_text(raw: str) -> tuple[JsonObject | None, list[str]]:
    try:
        value, end, rules = read_value(raw, 0)
    except Unreadable:
        return None, []
    if isinstance(value, dict) and not raw[end:].strip():
        return value, ["double_encoded", *rules]
    return None, []


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """Whether the arguments are a schema: the model repeated or invented the definition of a tool."""
    declared = properties_of(tool)
    if isinstance(arguments.get("properties"), dict) and "properties" not in declared:
        return True
    return bool(arguments) and all(map(_is_declaration, arguments.values()))


def _is_declaration(value: Any) -> bool:
    """Whether a value is the declaration of a parameter: {"type": "string", "description": ...}, or "string"."""
    if isinstance(value, dict):
        return isinstance(value.get("type"), str) and "description" in value
    return isinstance(value, str) and value in TYPE_NAMES


# --------------------------------------------------------------------------------------------------------------------
# Calls in Python: the name before a parenthesis, and the arguments after it.

# Read from the parenthesis backwards: NAME(  'NAME'(  NAME (  **NAME**(
_CALLEE_REVERSED = re.compile(r"( ?)([\"'`*]{0,3})([\w.\-\\]{1,200})(.?)", re.DOTALL)
_LEADING = re.compile(r"(?:\d+\.)?[\-.\\]*")
DEFINED_BODY = re.compile(r"[ \t]*\{")
"""Matches the body that makes `name(...)` a definition in languages with braces."""
_DEFINING_REVERSED = re.compile(r"[ \t]+(?:fed|ssalc|cnuf|nf|bus)(?!\w)")


class Callee(Struct, gc=False):
    """A name directly before a parenthesis."""

    start: int
    tool: Tool
    spaced: bool
    """There is a blank between the name and the parenthesis."""
    defines: bool
    """`def name(` and similar: the text defines the function and does not call it."""


def callee_before(text: str, paren: int, floor: int, offered: OfferedNames) -> Callee | None:
    """Return the offered name before a parenthesis, if there is one."""
    head = text[max(floor, paren - 220) : paren][::-1]
    match = _CALLEE_REVERSED.match(head)
    if match is None:
        return None
    written = match[3][::-1]
    start = paren - match.end(3)
    leading = _LEADING.match(written)
    if leading is not None and leading.end():
        if written[leading.end() - 1 : leading.end()] == "." and leading.end() == 1 and match[4]:
            # A method of another object: result.name(
            return None
        written = written[leading.end() :]
        start += leading.end()
    tool = offered.find(written) if written and (written[0].isalpha() or written[0] == "_") else None
    if tool is None:
        return None
    defines = _DEFINING_REVERSED.match(head, match.end(3)) is not None
    if match[2] and match[2][-1] == match[4]:
        start -= 1
    return Callee(start, tool, bool(match[1]), defines)


class ReadArguments(Struct, gc=False):
    """The arguments between the parentheses."""

    arguments: JsonObject
    end: int
    repairs: list[str]
    positional: int


def read_arguments(text: str, position: int, tool: Tool) -> ReadArguments | None:
    """Read the arguments after a parenthesis; None if positional arguments have no names."""
    reader = TolerantReader(text, python=True)
    positional, keywords, end = reader.arguments(position)
    repairs = list(reader.rules)
    if "object_as_arguments" in repairs and not _names_parameters(keywords, tool):
        # name({...}) where the object is the value of the first parameter.
        repairs.remove("object_as_arguments")
        positional, keywords = [keywords], {}
    arguments: JsonObject | None = keywords
    if positional:
        arguments = by_position(positional, keywords, tool)
        repairs.append("positional_arguments")
    if arguments is None:
        return None
    return ReadArguments(arguments, end, repairs, len(positional))


def _names_parameters(keywords: JsonObject, tool: Tool) -> bool:
    """Whether the keys of an object are parameters of the tool; True if the tool declares none."""
    properties = properties_of(tool)
    if not properties or not keywords:
        return True
    known = set(map(fold, properties))
    return any(fold(name) in known for name in keywords)
