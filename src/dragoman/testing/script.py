"""A model that says what you wrote down: a transport that answers requests from a script.

It stands where the network would: the client encodes its request, the script reads it with the server half of the same
wire, keeps it, and answers with the next reply, whole or streamed as the request asks. So everything between your code
and the socket runs for real.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from dragoman import wire
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault
from dragoman.events import ArgumentsDelta, Event, TextDelta, ThinkingDelta
from dragoman.providers import Endpoint, Provider, resolve
from dragoman.replies import unfold
from dragoman.testing.addressing import find_wire, read_request
from dragoman.testing.answers import NO_USAGE, Answer, Script, Scripted, as_reply, number_calls, write_as_text
from dragoman.types import Failure, JsonObject, Reply, Request, Usage

Pieces = int | Literal["frames", "whole"] | Callable[[bytes], Iterable[bytes]]
"""How the bytes of a stream are cut: into n bytes each, one frame each, not at all, or by a function."""

_STREAM_TYPES = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}


DEFAULT_TIMEOUTS = Timeouts()
Waited = TypeVar("Waited")


class ScriptExhausted(AssertionError):
    """The client asked once more than the script has replies."""


class Exchange(Struct, frozen=True):
    """One request as it arrived: the bytes, the JSON in them, and what they mean."""

    sent: HttpRequest
    wire: str
    body: JsonObject
    request: Request


class ScriptedResponse:
    """An answer that is already known, given out piece by piece."""

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
    """Wait as a transport does: too long is a fault of the connection."""
    try:
        return await asyncio.wait_for(waited, seconds)
    except TimeoutError:
        raise TransportFault("timed_out", f"nothing came for {seconds:g} seconds", code=code) from None


class ScriptedModel:
    """A transport that plays a model.

    `replies` are said one after another; see `dragoman.testing.answers` for all that may stand there. `loop=True`
    begins again at the end; otherwise one request too many is an AssertionError that shows what was asked.
    `wire` is the protocol that `endpoint()` speaks; a request in another one is answered in that one. With
    `native=False` calls are written as text in `format`. `pieces` cuts the bytes of a stream, `deltas` is how many
    characters of text or arguments stand in one event. `usage` is reported with every reply that names none.
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
    ) -> None:
        self._script = _as_script(replies)
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

    # ---- what the test looks at ---------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in neutral form."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def bodies(self) -> list[JsonObject]:
        """The JSON of every request so far, as it was sent."""
        return [exchange.body for exchange in self.exchanges]

    @property
    def left(self) -> int:
        """How many replies have not been asked for."""
        return max(len(self._script) - self._played, 0)

    def assert_finished(self) -> None:
        """Fail unless every reply was asked for."""
        if self.left:
            raise AssertionError(f"{self.left} of {len(self._script)} scripted replies were never asked for")

    def endpoint(self, model: str = "scripted", **settings: Any) -> Endpoint:
        """The endpoint to give to an agent together with this transport; it needs no key."""
        return scripted_endpoint(self._wire, self._native, model=model, format=self._format, **settings)

    # ---- the transport ------------------------------------------------------------------------------------------

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        if request.method != "POST":
            return ScriptedResponse(Answer(404, {"content-type": "application/json"}, {"error": "not found"}))
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
        headers = {"content-type": _STREAM_TYPES.get(spoken, "text/event-stream")}
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
    """An endpoint of no known vendor that needs no key. `settings` are those of `providers.resolve`."""
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
    """The HTTP answer of a server that fails in this way."""
    status, body = wire.get(spoken).encode_failure(failure)
    headers = {"content-type": "application/json"}
    if failure.retry_after is not None:
        headers["retry-after"] = f"{failure.retry_after:g}"
    return Answer(status, headers, body)


def write_stream(reply: Reply, spoken: str, *, deltas: int = 16) -> list[bytes]:
    """The frames of a streamed reply, with at most `deltas` characters in each event."""
    stage = wire.get(spoken).event_stream(model=reply.model, id=reply.id)
    frames = [frame for event in unfold(reply) for smaller in _split(event, deltas) for frame in stage.feed(smaller)]
    return [*frames, *stage.close()]


def cut(frames: list[bytes], pieces: Pieces) -> list[bytes]:
    """The bytes of a stream in the pieces that arrive."""
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


def _as_script(replies: Any) -> list[Script]:
    """A single reply may be given without a list; a list is always a list of replies."""
    if isinstance(replies, list | tuple):
        return list(replies)
    if isinstance(replies, str | Struct | BaseException) or callable(replies):
        return [replies]
    return list(replies)


def _describe_surplus(count: int, request: Request) -> str:
    last = request.messages[-1] if request.messages else None
    shown = msgspec.json.encode(last, enc_hook=repr).decode()[:2000] if last is not None else "no message at all"
    return (
        f"the script has {count} replies, and the client asked once more.\n"
        f"Its last message ({len(request.messages)} in all): {shown}\n"
        "hint: add a reply to the script, or use loop=True"
    )
