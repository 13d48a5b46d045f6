"""A scripted model: a transport that answers requests from a script."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field, structs

from dragoman import wire
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.events import ArgumentsDelta, Event, TextDelta, ThinkingDelta
from dragoman.providers import Endpoint, Provider, resolve
from dragoman.replies import unfold
from dragoman.types import (
    Failure,
    File,
    Image,
    JsonObject,
    Message,
    Part,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from dragoman.wire.codec import as_object
from dragoman.wire.registry import ROWS, match_path, read_path

# --------------------------------------------------------------------------------------------------------------------
# The wire and the model of a request, and whether it requests a stream.


def find_wire(url: str, preferred: str) -> str:
    """Return the wire that the path of a request belongs to: the preferred one, if the path fits it."""
    fitting = match_path(urlsplit(url).path)
    return preferred if preferred in fitting or not fitting else fitting[0]


def read_request(url: str, body: bytes, spoken: str) -> tuple[Request, JsonObject]:
    """Return the request in neutral form, and its body as JSON."""
    model, streams = read_path(spoken, urlsplit(url).path)
    fields = as_object(body)
    return wire.get(spoken).decode_request(fields, model=model, stream=streams or None), fields


# --------------------------------------------------------------------------------------------------------------------
# Scripted replies, and helpers to write them.
#
# A scripted reply is a text, calls, parts, a whole `Reply`, a `Failure`, raw bytes, an exception, or a function of the
# request that returns one of these. `as_reply` converts the replies that a model can produce into a
# `Reply`.

NO_USAGE = Usage()
Say = str | Part | Sequence[str | Part] | Reply
"""A reply that a model can produce."""


class Answer(Struct, frozen=True):
    """A raw HTTP answer, for answers that the codecs would not write.

    `body` is bytes, a text, or data that becomes JSON; `pieces`, if given, is the body in pieces. After the last piece
    the connection fails with `fault`, if one is given. With `stalls` no more data arrives, and the connection stays
    open until the client gives up.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = b""
    pieces: Sequence[bytes] | None = None
    fault: BaseException | None = None
    stalls: bool = False

    def parts(self) -> list[bytes]:
        """Return the body in pieces that are not empty."""
        pieces = [self.bytes()] if self.pieces is None else self.pieces
        return [bytes(piece) for piece in pieces if piece]

    def bytes(self) -> bytes:
        """Return the body as bytes."""
        if self.pieces is not None:
            return b"".join(self.pieces)
        if isinstance(self.body, bytes | bytearray):
            return bytes(self.body)
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


Scripted = Say | Failure | Answer | BaseException
"""An answer of a model, its server, or the connection."""
Script = Scripted | Callable[[Request], Scripted | Awaitable[Scripted]]


def call(tool: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> ToolCall:
    """Return a call for a script: `call("weather", city="Paris")`. Its id is generated when it is sent."""
    return ToolCall("", tool, {**(arguments or {}), **more})


def calls(*made: ToolCall, say: str = "") -> list[str | Part]:
    """Return several calls in one reply, with optional text before them."""
    return [*([say] if say else []), *made]


def text(words: str) -> Text:
    """Return a text part of a reply."""
    return Text(words)


def thinking(words: str) -> Thinking:
    """Return a thinking part of a reply."""
    return Thinking(words)


def sse(frames: Iterable[Any], *, done: bool = True) -> Answer:
    """Return a raw stream of server-sent events: data becomes JSON, texts are unchanged, `[DONE]` ends it."""
    written = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
    pieces = [f"data: {data}\n\n".encode() for data in [*written, *(["[DONE]"] if done else [])]]
    return Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)


def as_reply(said: Say, *, usage: Usage = NO_USAGE) -> Reply:
    """Convert a scripted reply into a `Reply`. The stop reason depends on whether it contains calls."""
    if isinstance(said, Reply):
        return said
    parts = [Text(part) if isinstance(part, str) else part for part in _listed(said)]
    called = any(isinstance(part, ToolCall) for part in parts)
    return Reply(Message("assistant", parts), usage, "tool_calls" if called else "end")


def _listed(said: Any) -> list[str | Part]:
    if isinstance(said, str | Text | Thinking | Image | File | ToolCall):
        return [said]
    if isinstance(said, Sequence) and all(
        isinstance(part, str | Text | Thinking | Image | File | ToolCall) for part in said
    ):
        return list(said)
    raise ConfigError(
        f"a scripted model cannot say {said!r:.200}",
        hint="script a text, call(...), a list of them, a Reply, a Failure, an Answer, an exception, or a function",
    )


def number_calls(reply: Reply, next_id: Callable[[], str]) -> Reply:
    """Return the reply with an id for every call that has none."""
    parts: list[Part] = [
        structs.replace(part, id=next_id()) if isinstance(part, ToolCall) and not part.id else part
        for part in reply.message.parts
    ]
    return structs.replace(reply, message=structs.replace(reply.message, parts=parts))


def write_as_text(reply: Reply, format: str) -> Reply:
    """Return the reply of a model without native calls: its calls are text in a format, and it stops with `end`."""
    from dragoman import formats

    made = [part for part in reply.message.parts if isinstance(part, ToolCall)]
    if not made:
        return reply
    others = [part for part in reply.message.parts if not isinstance(part, ToolCall)]
    spoken = any(isinstance(part, Text) for part in others)
    written = Text(("\n" if spoken else "") + formats.render(made, format))
    message = structs.replace(reply.message, parts=[*others, written])
    return structs.replace(reply, message=message, stop="end" if reply.stop == "tool_calls" else reply.stop)


# --------------------------------------------------------------------------------------------------------------------
# The scripted model: a transport that answers requests from a script.
#
# It replaces the network: the client encodes its request, the script decodes it with the server half of the same wire,
# stores it, and answers with the next reply, whole or streamed as requested. So all code between your program and the
# socket really runs.

Pieces = int | Literal["frames", "whole"] | Callable[[bytes], Iterable[bytes]]
"""How the bytes of a stream are split: into n bytes each, one frame each, not at all, or by a function."""


DEFAULT_TIMEOUTS = Timeouts()
Waited = TypeVar("Waited")


class ScriptExhausted(AssertionError):
    """The client sent more requests than the script has replies."""


class Exchange(Struct, frozen=True):
    """One received request: the bytes, their JSON, and the decoded request."""

    sent: HttpRequest
    wire: str
    body: JsonObject
    request: Request


class ScriptedResponse:
    """A prepared answer, returned piece by piece."""

    def __init__(self, answer: Answer, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in answer.headers.items()}
        self._answer = answer
        self._idle = timeouts.idle
        self._gone = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._answer.parts():
            if self._gone.is_set():
                return
            yield piece
        if self._answer.stalls:
            await wait_for(self._gone.wait(), self._idle, "idle")
        if self._answer.fault is not None:
            raise self._answer.fault

    async def close(self) -> None:
        self._gone.set()


async def wait_for(waited: Awaitable[Waited], seconds: float, code: str) -> Waited:
    """Wait like a transport: a timeout is a fault of the connection."""
    try:
        return await asyncio.wait_for(waited, seconds)
    except TimeoutError:
        raise TransportFault("timed_out", f"nothing came for {seconds:g} seconds", code=code) from None


class ScriptedModel:
    """A transport that simulates a model.

    `replies` are used one after another; `dragoman.testing.script` describes the possible values. `loop=True` starts
    again at the end; otherwise a request without a reply is an AssertionError that shows the request. `wire` is the
    wire of `endpoint()`; a request on another wire is answered on that one. With `native=False` calls are written as
    text in `format`. `pieces` splits the bytes of a stream, `deltas` is the number of characters in one event. `usage`
    is reported with every reply that has none. `name` is the name of the model; an agent that has several scripted
    models distinguishes them by it. An empty request uses no reply: it is answered 400 on `wire`, and 404 elsewhere, as
    `dragoman.client.detect` expects it from a server.
    """

    def __init__(
        self,
        replies: Iterable[Script] | Script = (),
        *,
        wire: str = "openai_chat",
        native: bool = True,
        format: str = "hermes",
        loop: bool = False,
        pieces: Pieces = "frames",
        deltas: int = 16,
        usage: Usage = NO_USAGE,
        name: str = "scripted",
    ) -> None:
        self._script = as_script(replies)
        self._name = name
        self._wire = wire
        self._native = native
        self._format = format
        self._loop = loop
        self._pieces = pieces
        self._deltas = max(deltas, 1)
        self._usage = usage
        self._played = self._numbered = 0
        self._lock = threading.Lock()  # one script may serve runs in several threads
        self.exchanges: list[Exchange] = []
        self.closed = False

    # ---- inspection ---------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in neutral form."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def bodies(self) -> list[JsonObject]:
        """The JSON of all requests so far."""
        return [exchange.body for exchange in self.exchanges]

    @property
    def left(self) -> int:
        """The number of unused replies."""
        return max(len(self._script) - self._played, 0)

    def assert_finished(self) -> None:
        """Fail unless every reply was used."""
        if self.left:
            raise AssertionError(f"{self.left} of {len(self._script)} scripted replies were not used")

    def endpoint(self, model: str = "", **settings: Any) -> Endpoint:
        """Return the endpoint for an agent that uses this transport; it needs no key."""
        return scripted_endpoint(self._wire, self._native, model=model or self._name, format=self._format, **settings)

    # ---- the transport ------------------------------------------------------------------------------------------

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        if request.method != "POST":
            return ScriptedResponse(Answer(404, {"content-type": "application/json"}, {"error": "not found"}))
        if request.body == b"{}":
            # The detection of a server asks which paths it has. A real one complains about the missing fields.
            status = 400 if find_wire(request.url, "") == self._wire else 404
            return ScriptedResponse(Answer(status, {"content-type": "application/json"}, {"error": "no messages"}))
        spoken = find_wire(request.url, self._wire)
        neutral, body = read_request(request.url, request.body, spoken)
        with self._lock:
            self.exchanges.append(Exchange(request, spoken, body, neutral))
            scripted = self._next(neutral)
        said = await self._say(scripted, neutral, timeouts)
        return ScriptedResponse(self._answer(said, neutral, spoken), timeouts)

    async def close(self) -> None:
        self.closed = True

    async def _say(self, scripted: Script, request: Request, timeouts: Timeouts) -> Scripted:
        if not callable(scripted):
            return scripted
        said = scripted(request)
        return await wait_for(said, timeouts.first_byte, "first_byte") if inspect.isawaitable(said) else said

    def _next(self, request: Request) -> Script:
        if self._loop and self._script:
            self._played = self._played % len(self._script)
        if self._played >= len(self._script):
            raise ScriptExhausted(_describe_surplus(len(self._script), request))
        self._played += 1
        return self._script[self._played - 1]

    def _answer(self, scripted: Scripted, request: Request, spoken: str) -> Answer:
        if isinstance(scripted, BaseException):
            raise scripted
        if isinstance(scripted, Answer):
            return scripted
        if isinstance(scripted, Failure):
            return write_failure(scripted, spoken)
        reply = number_calls(as_reply(scripted, usage=self._usage), self._number)
        if not self._native:
            reply = write_as_text(reply, self._format)
        if not reply.model:
            reply = structs.replace(reply, model=request.model)
        if not request.options.get("stream"):
            body = wire.get(spoken).encode_reply(reply)
            return Answer(200, {"content-type": "application/json"}, body)
        frames = write_stream(reply, spoken, deltas=self._deltas)
        headers = {"content-type": ROWS[spoken].stream_type}
        return Answer(200, headers, pieces=cut(frames, self._pieces))

    def _number(self) -> str:
        with self._lock:
            self._numbered += 1
            return f"call_{self._numbered}"


def scripted_endpoint(
    wire: str = "openai_chat",
    native: bool = True,
    *,
    model: str = "scripted",
    base_url: str = "http://scripted.invalid/v1",
    format: str = "hermes",
    **settings: Any,
) -> Endpoint:
    """Return an endpoint without a known vendor that needs no key. `settings` are those of `providers.resolve`."""
    provider = Provider(
        "scripted",
        "A script",
        base_url=base_url,
        auth="none",
        wires=(wire,),
        native="yes" if native else "no",
        format=format,
    )
    return resolve(provider, model, **settings)


def write_failure(failure: Failure, spoken: str) -> Answer:
    """Return the HTTP answer of a server that fails in this way."""
    status, body = wire.get(spoken).encode_failure(failure)
    headers = {"content-type": "application/json"}
    if failure.retry_after is not None:
        headers["retry-after"] = f"{failure.retry_after:g}"
    return Answer(status, headers, body)


def write_stream(reply: Reply, spoken: str, *, deltas: int = 16) -> list[bytes]:
    """Return the frames of a streamed reply, with at most `deltas` characters in each event."""
    stage = wire.get(spoken).event_stream(model=reply.model, id=reply.id)
    frames = [frame for event in unfold(reply) for smaller in _split(event, deltas) for frame in stage.feed(smaller)]
    return [*frames, *stage.close()]


def cut(frames: list[bytes], pieces: Pieces) -> list[bytes]:
    """Split the bytes of a stream into pieces."""
    if pieces == "frames":
        return frames
    data = b"".join(frames)
    if isinstance(pieces, int):
        return [data[place : place + pieces] for place in range(0, len(data), max(pieces, 1))]
    return [data] if isinstance(pieces, str) else list(pieces(data))


def _split(event: Event, size: int) -> list[Event]:
    if not isinstance(event, TextDelta | ThinkingDelta | ArgumentsDelta) or len(event.text) <= size:
        return [event]
    return [structs.replace(event, text=event.text[place : place + size]) for place in range(0, len(event.text), size)]


def as_script(replies: Any) -> list[Script]:
    """Return the list of replies; a single reply may be given without a list."""
    if isinstance(replies, list | tuple):
        return list(replies)
    if isinstance(replies, str | Struct | BaseException) or callable(replies):
        return [replies]
    return list(replies)


def _describe_surplus(count: int, request: Request) -> str:
    last = request.messages[-1] if request.messages else None
    shown = msgspec.json.encode(last, enc_hook=repr).decode()[:2000] if last is not None else "no message at all"
    return (
        f"the script has {count} replies, and the client sent one more request.\n"
        f"Its last message ({len(request.messages)} in all): {shown}\n"
        "hint: add a reply to the script, or use loop=True"
    )
