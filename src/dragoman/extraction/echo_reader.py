"""The untrusted strings of a conversation, and the calls in it that are the model's own. The theory is in `echo`."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import unquote_to_bytes

from dragoman import formats
from dragoman.extraction.echo import EchoIndex
from dragoman.extraction.regions import Regions, SpanList, is_in_sentence
from dragoman.toolset import Toolset
from dragoman.types import File, Image, Message, Part, Text, Thinking, Tool, ToolCall, ToolResult

UNTRUSTED = "untrusted"
"""The key in `Message.extra` of a message that is untrusted whatever its role: a task that another agent wrote after it
had read untrusted content."""
SUMMARY = "compacted"
"""The key in `Message.extra` of a message that replaces others. A model wrote it from their results."""

# In text mode, results are sent in a user message.
_holds_results = re.compile(
    r"<<result\b|<tool_result\b|<tool_response>|<function_results?>|<\|tool_response\|?>|<tool_results>"
)
_FOREIGN = "mcp:"
"""The origin of a tool that a server defines, with the name of the server."""
_OPAQUE = ("item", "block", "part", "citations", "annotations")
_OF_THE_MODEL = ("audio", "content", "function_call", "parts", "reasoning", "thinking", "thought", "tool_calls")
_may_hold_calls = re.compile(r"[{(<\[]")


class EchoReader:
    """Reads the messages of a growing conversation in order, and remembers which call each result answers."""

    def __init__(self, tools: Toolset | None, *, include_user: bool = False) -> None:
        self.index = EchoIndex(tools=tools)
        self._tools = tools
        self._include_user = include_user
        self._names: dict[str, str] = {}
        self._written: list[ToolCall] = []
        """The calls in the text of the latest message. They are calls of the model if a result follows."""
        self._read_definitions(tools or ())

    def _read_definitions(self, tools: Iterable[Tool]) -> None:
        """Add what servers say about their tools. A call may be split over several texts of one server."""
        servers: dict[str, list[Tool]] = {}
        for tool in tools:
            origin = str(tool.metadata.get("origin", ""))
            if tool.metadata.get("untrusted") is True or origin.startswith(_FOREIGN):
                servers.setdefault(origin, []).append(tool)
                schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)
                self._add((tool.description, schema), f"description of {tool.name}")
        for origin, defined in servers.items():
            words = [[tool.description, *_schema_texts(tool.parameters)] for tool in defined]
            source = f"definitions of {origin.removeprefix(_FOREIGN)}" if origin else "definitions of tools"
            for texts in ([text for each in words for text in each], [each[0] for each in words]):
                if len(texts) > 1:
                    self.index.add("\n".join(texts), source)

    def read(self, message: Message) -> None:
        """Add the next message."""
        if self._written and _brings_results(message):
            for call in self._written:
                self._note(call)
        self._written = []
        if message.role == "user" and (UNTRUSTED in message.extra or SUMMARY in message.extra):
            is_summary = SUMMARY in message.extra
            source = "a summary of earlier messages" if is_summary else "the task that another agent wrote"
            self._add(message.parts, source)
            return
        for part in message.parts:
            self._read_part(part, message.role)
            if not isinstance(part, ToolResult):
                self._read_opaque(part)
        if message.role == "assistant":
            self._read_annotations(message.extra)
        if message.role == "assistant" and not any(isinstance(part, ToolCall) for part in message.parts):
            # Calls beside those of the wire are text.
            for part in message.parts:
                self._written += self._find_written(part.text) if isinstance(part, Text) else ()

    def _read_part(self, part: Part, role: str) -> None:
        if isinstance(part, ToolCall):
            self._note(part)
        elif isinstance(part, ToolResult):
            self._add_result(part, part.name, part.call_id)
        elif role == "tool":
            self._add_result(part, "", "")
        elif role == "user":
            self._read_user(part)

    def _read_user(self, part: Part) -> None:
        if self._include_user:
            self._add(part, "message of the user")
        elif isinstance(part, Text) and _holds_results.search(part.text):
            self._add(part, "results in a message")
        else:
            self._add(part, "a message of the user", is_typed=True)

    def _find_written(self, text: str) -> list[ToolCall]:
        """Return the calls of an answer, except those that it quotes or discusses: they never ran.

        A call that only a loose search finds counts if there is no other: some profiles accept it.
        """
        if _may_hold_calls.search(text) is None:
            return []
        found = formats.parse(text, tools=self._tools, loose=self._tools is not None).calls
        spans = [call.provenance.span for call in found if call.provenance is not None]
        regions, units = Regions(text, spans), SpanList(spans)
        made = [
            call
            for call in found
            if call.provenance is None
            or (
                regions.find(call.provenance.span) == "answer" and not is_in_sentence(text, call.provenance.span, units)
            )
        ]
        return [call for call in made if not _is_loose(call)] or made

    def _read_opaque(self, part: Part) -> None:
        """Add what tools of the provider returned, and citations. They are in opaque data for the codec of the wire."""
        for data in part.extra.values():
            for key in _OPAQUE:
                held = data.get(key) if isinstance(data, Mapping) else None
                kind = str(held.get("type")) if isinstance(held, Mapping) else ""
                # The item of a call or an image is the model's, unless it has a result.
                is_foreign = isinstance(part, Text | Thinking) and not kind.endswith(("reasoning", "thinking"))
                if isinstance(held, Mapping | list | str) and (
                    is_foreign or kind.endswith("tool_result") or "output" in held
                ):
                    name = held.get("name") if isinstance(held, Mapping) else ""
                    self._add_result(held, str(name or ""), "")

    def _read_annotations(self, extra: Mapping[str, object]) -> None:
        """Add what the wire gives beside an answer, such as sources, except what the model wrote itself."""
        for data in extra.values():
            for key, held in data.items() if isinstance(data, Mapping) else ():
                if isinstance(held, Mapping | list) and not str(key).startswith(_OF_THE_MODEL):
                    self._add_result(held, "", "")

    def _note(self, call: ToolCall) -> None:
        self._names[call.wire_id or call.id] = self._names[call.id] = call.name
        self.index.add_own(call)

    def _add_result(self, value: object, name: str, identity: str) -> None:
        name = name or self._names.get(identity, "")
        source = f"result of {name}" if name else "result of a tool"
        self._add(value, f"{source} ({identity})" if identity else source)

    def _add(self, value: object, source: str, *, is_typed: bool = False) -> None:
        self.index.add("\n".join(strings(value, self.index.forget)), source, is_typed=is_typed)


def _brings_results(message: Message) -> bool:
    return message.role == "tool" or any(
        isinstance(part, ToolResult)
        or (message.role == "user" and isinstance(part, Text) and _holds_results.search(part.text) is not None)
        for part in message.parts
    )


def _is_loose(call: ToolCall) -> bool:
    return call.provenance is not None and call.provenance.format == "loose"


# --------------------------------------------------------------------------------------------------------------------
# Every string of a value. A walk with a stack has no depth at which it would stop.

_MOST_VALUES, _MOST_CHARACTERS = 200_000, 1 << 24
"""The data of a caller may contain itself."""
_MOST_BINARY = 2000
"""Data that is no text is an image or the like. A short one may as well be a word."""
_data_address = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),").match


def strings(value: object, cut: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield every text in a value: the fields of parts, keys and values at any depth, and data that is text.

    If there is too much, `cut` is called.
    """
    pending: list[object] = [value]
    values, characters = 0, 0
    while pending and values < _MOST_VALUES and characters < _MOST_CHARACTERS:
        values += 1
        each = pending.pop()
        if isinstance(each, str):
            characters += len(each)
            yield each if _data_address(each) is None else _read_address(each)
        elif isinstance(each, Mapping) and each:
            # The brackets show that what is inside belongs together, as in a call.
            pending.append("}")
            for key, inner in reversed(list(each.items())):
                pending += (_read_data(inner) if key == "data" and isinstance(inner, str) else inner, str(key))
            pending.append("{")
        elif isinstance(each, list | tuple):
            pending += reversed(each)
        else:
            pending += _fields(each)
    if pending:
        cut()


_NO_TEXT = frozenset({"type", "format", "required", "$ref"})


def _schema_texts(schema: object) -> Iterator[str]:
    """Yield the texts of a schema in order, without its keywords and the names of its properties."""
    pending: list[object] = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            pending += [inner for key, inner in reversed(list(each.items())) if key not in _NO_TEXT]
        elif isinstance(each, list | tuple):
            pending += reversed(each)


def _fields(part: object) -> list[object]:
    """Return what a part holds, in reverse order. Numbers and the objects of a caller hold no text."""
    if isinstance(part, Text | Thinking):
        return [part.extra, part.text]
    if isinstance(part, ToolResult):
        parts = part.content if isinstance(part.content, list) else [part.content]
        # A call may be split over several texts, so these come first, without anything in between.
        texts = [each.text if isinstance(each, Text) else each for each in parts if not isinstance(each, Image | File)]
        return [part.extra, part.data, [each for each in parts if not isinstance(each, str)], texts]
    if isinstance(part, Image):
        return [part.extra, _read_data(part.data or ""), part.url]
    if isinstance(part, File):
        return [part.extra, _read_data(part.data or ""), part.url, part.name]
    return []


def _read_address(address: str) -> str:
    """Return an address, with its content if it is a `data:` address."""
    head = _data_address(address)
    if head is None:
        return address
    body = address[head.end() :]
    if "base64" not in head[2]:
        return address
    return f"{head[0]} {_read_data(unquote_to_bytes(body.encode('utf-8', 'replace')).decode('ascii', 'ignore'))}"


def _read_data(data: str) -> str:
    """Return data in base64 with the text that it contains. Only the data of images and the like is left out."""
    try:
        octets = b64decode(data, validate=True)
    except ValueError:
        return data
    encoding = "utf-16" if octets[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return f"{octets.decode(encoding)}\n{data[:_MOST_BINARY]}"
    except UnicodeDecodeError:
        return data if len(data) < _MOST_BINARY else ""
