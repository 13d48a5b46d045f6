"""The interface of every wire: a client half, a server half, and encoding of definitions and results."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, InvalidTool
from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted
from dragoman.replies import fold
from dragoman.stage import Stage
from dragoman.toolset import SharedTools, Toolset, as_tool
from dragoman.types import (
    Failure,
    JsonObject,
    Message,
    Reply,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire.aliases import Aliases, Namer, NameRule
from dragoman.wire.eventstream import EventStreamDecoder
from dragoman.wire.failures import Loss
from dragoman.wire.framing import StreamDecoder
from dragoman.wire.history import SHARED, History, HistoryRules, arrange, spread
from dragoman.wire.media import leave_out_media
from dragoman.wire.options import WIRES
from dragoman.wire.quirks import DEFAULTS, Quirks
from dragoman.wire.schemas import compile_schema
from dragoman.wire.values import BROKEN, Ambiguous, as_plain, parse, parse_frame, to_utf8
from dragoman.wire.writer import stop_of_refusal

if TYPE_CHECKING:
    from dragoman.wire.reader import Reader

# --------------------------------------------------------------------------------------------------------------------
# Conversion of tool results to one type.


def as_result(value: ToolResult | Mapping[str, Any]) -> ToolResult:
    """A ToolResult from one, or from a dict: `call_id`, `tool_call_id` or `tool_use_id`; `content` or `output`;
    `is_error`, or `success` for its opposite."""
    if isinstance(value, ToolResult):
        return value

    def first(*keys: str) -> Any:
        return next((value[key] for key in keys if key in value), None)

    identity = first("call_id", "tool_call_id", "tool_use_id", "id")
    if not isinstance(identity, str):
        raise InvalidTool("a tool result without the id of its call", hint='give it as "call_id"')
    content = first("content", "output", "result")
    if not isinstance(content, str | list):
        content = "" if content is None else json.dumps(content, ensure_ascii=False, default=str)
    is_error = value["is_error"] if "is_error" in value else value.get("success") is False
    name = value.get("name")
    return ToolResult(
        call_id=identity,
        name=name if isinstance(name, str) else "",
        content=content,
        is_error=bool(is_error),
        data=value.get("data"),
    )


# --------------------------------------------------------------------------------------------------------------------
# Requests of one conversation differ only in their messages. What depends on the rest is computed once.

T = TypeVar("T")
_pack = msgspec.msgpack.Encoder().encode


def content_key(value: object) -> bytes | None:
    """Return bytes that only values have that JSON cannot tell apart; None for a value that is not JSON.

    Values are compared by content and not by identity, because a schema may have been changed in place.
    """
    try:
        return _pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


class Kept(Generic[T]):
    """The results for the last inputs, by their content: a number of entries, and of bytes in their keys."""

    def __init__(self, entries: int = 64, size: int = 2_000_000, longest: int = 512_000) -> None:
        self._entries, self._size, self._longest = entries, size, longest
        self._kept: dict[Hashable, tuple[int, T]] = {}
        self._used = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: bytes, *more: Hashable) -> T | None:
        """Return the result for an input; `more` are further inputs."""
        found = self._kept.get((key, *more))
        return None if found is None else found[1]

    def add(self, result: T, key: bytes, *more: Hashable) -> None:
        """Keep a result. The oldest ones make room."""
        if len(key) > self._longest:
            return
        while self._kept and (len(self._kept) >= self._entries or self._used + len(key) > self._size):
            try:
                size, _ = self._kept.pop(next(iter(self._kept)))
            except (KeyError, RuntimeError, StopIteration):
                continue  # another thread was faster
            self._used -= size
        if self._kept.setdefault((key, *more), (len(key), result))[1] is result:
            self._used += len(key)


# --------------------------------------------------------------------------------------------------------------------
# The tools of a request for one wire: names by its rule, and schemas in its dialect.


class Offered(Struct, frozen=True):
    """One tool: ours, its name on the wire, and the schema of its parameters for the wire."""

    tool: Tool
    name: str
    schema: JsonObject


class Offer(Struct, frozen=True):
    """The tools that can be offered, and the losses. A tool that the wire cannot express is left out."""

    tools: list[Offered]
    losses: list[Loss]
    namer: Namer
    undo: dict[str, Any]

    def name_of(self, ours: str) -> str | None:
        """Return the name on the wire of an offered tool; None for any other."""
        return next((offered.name for offered in self.tools if offered.tool.name == ours), None)


class _Plan(Struct, frozen=True):
    """The result for a list of tools, computed once and reused for every equal list."""

    entries: list[tuple[int, str, JsonObject | None]]
    """The place of each tool that is offered, its name on the wire, and its schema; None: its own, as it is."""
    losses: tuple[Loss, ...]
    namer: Namer
    undo: dict[str, Any]


_plans: Kept[_Plan] = Kept()


def offer(tools: Iterable[Tool], names: NameRule, target: Callable[[Tool], str], quirks: Quirks) -> Offer:
    """Compile each tool for its schema target and name them by a rule."""
    given = [tool if type(tool) is Tool else as_tool(tool) for tool in tools]
    plan = _plan(given, [target(tool) for tool in given], names, quirks)
    offered = [
        Offered(given[place], name, given[place].parameters if schema is None else schema)
        for place, name, schema in plan.entries
    ]
    # The names of calls in the history are added to those of the tools, so each request gets its own namer.
    return Offer(offered, list(plan.losses), plan.namer.fork(), dict(plan.undo))


def _plan(given: list[Tool], targets: list[str], names: NameRule, quirks: Quirks) -> _Plan:
    key = content_key([targets, [(tool.name, tool.parameters) for tool in given]])
    if key is None:
        return _make_plan(given, targets, names, quirks)
    more = (names, quirks.name_limit, quirks.inline_references)
    known = _plans.find(key, *more)
    if known is None:
        known = _make_plan(given, targets, names, quirks)
        _plans.add(known, key, *more)
    return known


def _make_plan(given: list[Tool], targets: list[str], names: NameRule, quirks: Quirks) -> _Plan:
    losses: list[Loss] = []
    namer = Namer(names, [tool.name for tool in given], quirks.name_limit)
    entries: list[tuple[int, str, JsonObject | None]] = []
    undo: dict[str, Any] = {}
    seen: set[str] = set()
    for place, tool in enumerate(given):
        where = f"tool {tool.name}"
        if tool.name in seen:
            losses.append(Loss("left_out", where, "a second tool of the same name was left out"))
            continue
        seen.add(tool.name)
        compiled = compile_schema(tool, targets[place], inline=quirks.inline_references)
        losses += compiled.losses
        if compiled.schema is None:
            continue
        name = namer.name(tool.name)
        if name != tool.name:
            losses.append(Loss("renamed", where, f"it is called {name} on this wire"))
        if compiled.undo:
            undo[tool.name] = compiled.undo
        entries.append((place, name, None if compiled.schema is tool.parameters else compiled.schema))
    return _Plan(entries, tuple(losses), namer, undo)


# --------------------------------------------------------------------------------------------------------------------
# The interface of every wire: a client half, a server half, and three functions, without network code.
#
# A codec is a value: a wire and the quirks of one endpoint. The client half encodes requests and decodes replies; the
# server half decodes requests and encodes replies. Both work whole and streamed.


class Prepared(Struct, frozen=True):
    """An encoded request, its losses, and the data that the decoder of the reply needs."""

    body: JsonObject
    losses: tuple[Loss, ...] = ()
    aliases: Aliases = Aliases()
    tools: Toolset | None = None
    limit: int | None = None
    """The requested limit of output tokens."""


_MARKS = frozenset({"added", "json_schema"})
"""What a wire notes of the form in which a tool came; it says nothing to others."""
_STRICT = ("openai_chat", "openai_responses", "mistral")


def wants_strict(tool: Tool) -> bool:
    """Whether a client asked for a strict schema on any of the wires that have the same word for it."""
    return any(isinstance(own := tool.metadata.get(wire), dict) and own.get("strict") is True for wire in _STRICT)


def _find_foreign(tools: Iterable[Offered], wire: str) -> list[Loss]:
    """What other wires said of tools and this one has no place for."""
    losses: list[Loss] = []
    for offered in tools:
        for other, fields in offered.tool.metadata.items():
            if other == wire or other not in WIRES or not isinstance(fields, dict):
                continue
            shared = {*_MARKS, "strict"} if {wire, other} <= set(_STRICT) else _MARKS
            said = spread(fields)
            known = shared | SHARED.get((other, wire), _MARKS)
            names = sorted(name for name in said.keys() - known if said[name] not in (None, False))
            losses += [
                Loss("dropped", f"tool {offered.tool.name}", f"{name}, which only {other} knows") for name in names
            ]
    return losses


class Draft(Struct):
    """The input for the body of a request. The wire adds to `losses` what it cannot write."""

    request: Request
    offered: Offer
    history: History
    losses: list[Loss]
    limit: int | None
    """The limit of output tokens; a wire that always sends a limit sets it."""
    shape: Shape
    """What the request is without its messages."""


class Shape(Struct):
    """What a codec knows of all requests with the same tools and options. Nothing in it may be changed."""

    quirks: Quirks
    offered: Offer
    losses: tuple[Loss, ...]
    tools: Toolset | None
    fields: JsonObject | None = None
    """The fields of the body beside the messages, on wires whose messages do not change them."""
    field_losses: tuple[Loss, ...] = ()


_shapes: Kept[Shape] = Kept()
_requests: Kept[tuple[list[Tool], dict[str, Any]]] = Kept()


class ReplyStream:
    """A stage from the bytes of a streamed reply to its events."""

    def __init__(self, framing: Stage[bytes, Any], reader: Reader) -> None:
        self._framing = framing
        self._reader = reader

    def feed(self, piece: bytes, /) -> list[Event]:
        frames = self._framing.feed(piece)
        if len(frames) == 1:
            return self._reader.read(frames[0])
        events: list[Event] = []
        for frame in frames:
            events += self._reader.read(frame)
        return events

    def feed_chunk(self, chunk: Any) -> list[Event]:
        """Take a chunk of a stream as another client gives it: a dict, or an object with `model_dump`."""
        if hasattr(chunk, "model_dump"):
            chunk = chunk.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if isinstance(self._framing, EventStreamDecoder):
            raise ConfigError("the frames of this wire are binary", hint="feed the bytes of the stream")
        return self.feed(b"data: %b\n\n" % msgspec.json.encode(chunk))

    def close(self) -> list[Event]:
        """The body ended as its transport announced it."""
        return self._finish(clean=True)

    def cut(self) -> list[Event]:
        """The connection ended, and nobody knows whether the body did."""
        return self._finish(clean=False)

    def _finish(self, *, clean: bool) -> list[Event]:
        events: list[Event] = []
        for frame in self._framing.close():
            events += self._reader.read(frame)
        events += self._reader.close(clean=clean)
        return events


_FIELDS = (b"data:", b"event:", b"error:")


def read_streamed(stream: ReplyStream, body: Any) -> list[Event] | None:
    """Return the events of a whole body that is a stream; None if it is none."""
    data = to_utf8(body) if isinstance(body, str) else bytes(body)
    events = [*stream.feed(data), *stream.close()]
    # Any text is a stream in which nothing comes but its end.
    if any(not isinstance(event, ReplyStarted | ReplyFailed | ReplyEnded) for event in events):
        return events
    said = any(isinstance(event, ReplyFailed) and event.failure.kind != "stream_cut" for event in events)
    return events if said and data.lstrip().startswith(_FIELDS) else None


class Codec(ABC):
    """One wire. `codec.name` is the key of its opaque data in `part.extra`.

    `prepare`, `decode_request`, `define` and `encode_reply` are template methods: they contain the common part of all
    wires, and call the methods with an underscore for the part of one wire.
    """

    name: ClassVar[str]
    rules: ClassVar[HistoryRules]
    path: ClassVar[str] = ""
    """The path after the base URL, if it is constant."""
    reader: ClassVar[type[Reader]]
    has_refusals: ClassVar[bool] = False
    """Whether a reply of this wire has a place for a refusal besides the stop reason."""
    framing: ClassVar[type[Stage[bytes, Any]]] = StreamDecoder
    is_shared = False
    """Whether nobody changes the values that this codec returns, so that those of equal requests may be the same."""

    def __init__(self, quirks: Quirks = DEFAULTS) -> None:
        self.quirks = quirks

    def __repr__(self) -> str:
        return f"<wire {self.name}>"

    # ---- client side --------------------------------------------------------------------------------------------

    def prepare(self, request: Request) -> Prepared:
        """Encode a request. Returns the body, the losses, and the data for the decoder of the reply."""
        shape = self._find_shape(request)
        # The names of calls in the history are added to those of the tools, so each request gets its own namer.
        offered = replace(shape.offered, namer=shape.offered.namer.fork())
        losses = list(shape.losses)
        messages = self._select_messages(request, losses)
        if not self.quirks.images:
            messages = leave_out_media(messages, losses)
        history = arrange(messages, self._history_rules(), offered.namer, self._history_quirks())
        losses += history.losses
        limit = request.options.get("max_tokens")
        draft = Draft(request, offered, history, losses, limit if isinstance(limit, int) else None, shape)
        body = self._write_body(draft)
        aliases = Aliases(offered.namer.back, history.identifier.back, offered.undo)
        return Prepared(body, tuple(losses), aliases, shape.tools, draft.limit)

    def _find_shape(self, request: Request) -> Shape:
        if not self.is_shared:
            return self._make_shape(request)
        # No wire sends the functions of a tool, and they have no content to compare.
        tools = [tool if tool.run is None else replace(tool, run=None, inspect=None) for tool in request.tools]
        key = content_key((tools, request.options))
        if key is None:
            return self._make_shape(request)
        more = (self.name, id(self.quirks))
        known = _shapes.find(key, *more)
        if known is None or known.quirks is not self.quirks:
            # A copy, because the caller may change the tools later.
            tools, options = msgspec.msgpack.decode(key, type=tuple[list[Tool], dict[str, Any]])
            known = self._make_shape(replace(request, tools=tools, options=options))
            _shapes.add(known, key, *more)
        return known

    def _make_shape(self, request: Request) -> Shape:
        offered = self._offer(request.tools)
        losses = (*offered.losses, *_find_foreign(offered.tools, self.name))
        tools = self._known_tools(request)
        return Shape(self.quirks, offered, losses, Toolset(tools) if tools else None)

    @abstractmethod
    def _write_body(self, draft: Draft) -> JsonObject:
        """Write the body of a request whose tools and history are prepared for this wire."""

    def _offer(self, tools: Iterable[Tool]) -> Offer:
        target = self._schema_target()
        return offer(tools, self.rules.names, lambda _: target, self.quirks)

    def _schema_target(self) -> str:
        """Return the name of the schema target in `schemas.targets`."""
        return self.name

    def _history_rules(self) -> HistoryRules:
        return self.rules

    def _history_quirks(self) -> Quirks:
        return self.quirks

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        """Return the messages to send, before they are arranged."""
        return request.messages

    def _known_tools(self, request: Request) -> list[Tool]:
        """Return the tools that the reply may call."""
        return request.tools

    def keep_history(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for a caller that keeps the conversation itself and sends all of it with each request."""
        return dict(options)

    def encode_request(self, request: Request) -> JsonObject:
        """Return the body of a request."""
        return self.prepare(request).body

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        """Return the path of requests, after the base URL."""
        return self.path

    def open_reader(self, sent: Prepared | None) -> Reader:
        """Return what reads the reply to a request of this wire."""
        return self.reader(self.name, sent, self.quirks)

    def read_body(self, body: JsonObject, sent: Prepared) -> list[Event]:
        """Return the events of a whole reply to a request."""
        return self.open_reader(sent).read_whole(body)

    def decode_reply(self, body: JsonObject | bytes | str, sent: Prepared | None = None) -> Reply:
        """Decode a whole body to a reply. An error body gives a reply with `failure`.

        Some servers stream whatever the request says: a body that is a stream is read as one.
        """
        plain = self._parse(body)
        streamed = read_streamed(self.reply_stream(sent), body) if plain is BROKEN else None
        if streamed is not None:
            return fold(streamed)
        return fold(self.open_reader(sent).read_whole(self._as_body(plain)))

    @staticmethod
    def _parse(body: Any) -> Any:
        """Return the JSON value of a body, or BROKEN; a body that is no text is returned as it is."""
        if isinstance(body, bytes | bytearray | str):
            return parse_frame(bytes(body) if isinstance(body, bytearray) else body)
        return body

    def _as_body(self, plain: Any) -> Any:
        """Return what a reader takes for a whole body, from any JSON value."""
        return plain if isinstance(plain, dict) else {}

    def reply_stream(self, sent: Prepared | None = None) -> ReplyStream:
        """Return a stage from the bytes of a streamed reply to events."""
        return ReplyStream(self.framing(), self.open_reader(sent))

    @staticmethod
    @abstractmethod
    def decode_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        """Decode an error response to a Failure."""

    # ---- server side --------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        """Decode a body to a request. `model` and `stream` are for wires that send them in the path."""
        request = self._read_request(as_object(body), model)
        if stream:
            request.options["stream"] = True
        return request

    def _read_rest(
        self, fields: JsonObject, apart: Container[str], read: Callable[[JsonObject], tuple[list[Tool], dict[str, Any]]]
    ) -> tuple[list[Tool], dict[str, Any]]:
        """Return the tools and the options of a body, which `read` finds in all fields but those of the conversation.

        An agent program sends the same ones with every request, often a hundred kilobytes of them.
        """
        rest = {name: value for name, value in fields.items() if name not in apart}
        key = content_key(rest) if self.is_shared else None
        if key is None:
            return read(rest)
        known = _requests.find(key, self.name)
        if known is None:
            tools, options = read(rest)
            known = (SharedTools(tools), options)
            _requests.add(known, key, self.name)
        return known[0], known[1].copy()

    @abstractmethod
    def _read_request(self, fields: JsonObject, model: str) -> Request:
        """Read the request from the fields of a body; `model` comes from the path, or is empty."""

    def encode_reply(self, reply: Reply, *, created: int = 0) -> JsonObject:
        """Encode a reply to a whole body. `created` is the time in seconds, for wires that send it."""
        if reply.failure is not None:
            return self.encode_failure(reply.failure)[1]
        if not self.has_refusals and any([type(part) is Text and part.is_refusal for part in reply.message.parts]):
            reply = replace(reply, stop=stop_of_refusal(reply.stop))
        return self._write_reply(reply, created)

    @abstractmethod
    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        """Write the body of a reply that did not fail."""

    @abstractmethod
    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        """Return a stage from events to the bytes of a streamed reply; `model` and `id` are defaults for the events."""

    def keep_alive(self, model: str = "", created: int = 0) -> bytes:
        """Return a frame without content, for a stream that is silent for some time."""
        return b": keep-alive\n\n"

    @staticmethod
    @abstractmethod
    def encode_failure(failure: Failure) -> tuple[int, JsonObject]:
        """Return the HTTP status and the body of an error response."""

    # ---- single functions ---------------------------------------------------------------------------------------

    def define(self, tools: list[Tool]) -> tuple[list[JsonObject], list[Loss], Aliases]:
        """Encode the definitions of tools. Returns them with the losses and the mapping back."""
        offered = self._offer(tools)
        losses = list(offered.losses)
        definitions = self._write_definitions(offered, losses)
        return definitions, losses, Aliases(offered.namer.back, {}, offered.undo)

    @abstractmethod
    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]: ...

    def encode_definitions(self, tools: Iterable[object]) -> list[JsonObject]:
        """Return the definitions of tools in the form of the wire."""
        return self.define(list(Toolset.of(tools) or ()))[0]

    @staticmethod
    @abstractmethod
    def find_calls(body: Any) -> JsonObject:
        """Return a whole body from a body, a message, a list of calls or a single call."""

    def decode_tool_calls(self, body: Any) -> list[ToolCall]:
        """Return the calls in a body, a message or a list of calls; an empty list if there are none.

        The body may be an object of an official client. A flat call, `{"name": ..., "parameters": ...}`, is read on
        every wire.
        """
        plain = as_plain(body)
        if isinstance(plain, str | bytes | bytearray):
            plain = parse_frame(bytes(plain) if isinstance(plain, bytearray) else plain)
        if any(isinstance(each, Ambiguous) for each in (plain if isinstance(plain, list) else [plain])):
            return []
        if isinstance(plain, dict):
            plain = _complete(plain)
        elif isinstance(plain, list):
            plain = [_complete(each) if isinstance(each, dict) else each for each in plain]
        return self.decode_reply(self.find_calls(plain)).calls

    @abstractmethod
    def write_result(self, result: ToolResult) -> JsonObject:
        """Return a tool result as this wire writes it."""
        ...

    def encode_result(self, result: ToolResult | Mapping[str, Any]) -> JsonObject:
        """Encode one result to a message of this wire."""
        return self.write_result(as_result(result))


_FLAT = ("arguments", "parameters", "args", "input")


def _complete(entry: JsonObject) -> JsonObject:
    """Return a flat call with its arguments under the key of every wire; each wire reads its own."""
    given = next((key for key in _FLAT if key in entry), None)
    if given is None or "type" in entry or not isinstance(entry.get("name"), str):
        return entry
    return {**dict.fromkeys(_FLAT, entry[given]), **entry}


def as_object(body: Any, read: Callable[[str | bytes], Any] = parse) -> JsonObject:
    """Return a JSON object from an object or its text; an empty one for anything else."""
    if isinstance(body, bytes | bytearray | str):
        body = read(bytes(body) if isinstance(body, bytearray) else body)
    return body if isinstance(body, dict) else {}
