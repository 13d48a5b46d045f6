"""Asking: the questions of an examination sent to the endpoint, each once, with what came over the wire kept."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from dragoman.client.auth import choose_auth
from dragoman.client.client import Client, base_of, open_transport
from dragoman.client.keys import Secret, find_key
from dragoman.client.retry import NOTICES, Breakers, RequestPrepared, Retries
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.doctor.questions import Question, Sight
from dragoman.events import Event
from dragoman.extraction.tool_mode import Composed, compose, open_reader, settle_manner
from dragoman.providers import Endpoint
from dragoman.replies import Folding
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Usage
from dragoman.wire.codec import Codec

MOST_KEPT = 1 << 20
"""Bytes of one answer that are looked at."""
_BOUNDARIES = 4
_NEVER = 1_000_000


class Tap:
    """A transport that keeps what comes through it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.kept = bytearray()

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        self.kept = bytearray()
        return _Tapped(await self._transport.send(request, timeouts), self.kept)

    async def close(self) -> None:
        await self._transport.close()


class _Tapped:
    def __init__(self, response: HttpResponse, kept: bytearray) -> None:
        self._response = response
        self._kept = kept

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._response.pieces():
            if len(self._kept) < MOST_KEPT:
                self._kept += piece
            yield piece

    async def close(self) -> None:
        await self._response.close()


class Asker:
    """Speaks to one endpoint for an examination. `close` it at the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: Transport | None = None,
        key: str | Secret | None = None,
        environment: Mapping[str, str],
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        tokens: int = 1024,
        seconds: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self._environment = environment
        carrier = open_transport(endpoint) if transport is None else transport
        self._owned = carrier if transport is None else None
        self._tap = Tap(carrier)
        self._timeouts = timeouts or Timeouts()
        self._client = Client(
            endpoint,
            transport=self._tap,
            key=key,
            environment=environment,
            timeouts=self._timeouts,
            # Failures are what is looked for here: they are neither hidden by trying again nor held against anybody.
            retries=retries or Retries(attempts=1),
            breakers=Breakers(failures=_NEVER),
            clock=clock,
        )
        self._auth = choose_auth(endpoint, find_key(endpoint, key, None, environment), environment)
        self._tokens = tokens
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[str, Sight] = {}
        self.usage = Usage()

    @property
    def base_url(self) -> str:
        return base_of(self.endpoint, self._environment)

    @property
    def scrubber(self) -> RequestRedactor:
        """Takes the key out of what is shown: an endpoint may repeat it in its answer."""
        return RequestRedactor(self._auth.secrets)

    @property
    def requests(self) -> int:
        """How many requests were sent to the model."""
        return len(self._seen)

    async def close(self) -> None:
        await self._client.close()
        if self._owned is not None:
            await self._owned.close()

    # ---- the model ---------------------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> Sight:
        """What came back. The same question is asked once."""
        if question.name not in self._seen:
            self._seen[question.name] = await self._ask(question)
        return self._seen[question.name]

    async def _ask(self, question: Question) -> Sight:
        composed = self._compose(question)
        reader = open_reader(composed, question.messages)
        folding = Folding()
        events: list[Event] = []
        losses = list(composed.losses)
        started = self._clock()
        stream = self._client.stream(composed.request, whole=not question.stream, deadline=started + self._seconds)
        async for event in stream:
            if isinstance(event, RequestPrepared):
                losses += event.losses
            elif not isinstance(event, NOTICES):
                folding.add(event)
                reader.feed(event)
                events.append(event)
        reader.close()
        reply = folding.reply()
        self.usage = _add(self.usage, reply.usage)
        frames = read_frames(self._client.codec, bytes(self._tap.kept)) if question.stream else ()
        seconds = self._clock() - started
        return Sight(question, reply, tuple(events), reader.extraction, frames, tuple(losses), seconds)

    def _compose(self, question: Question) -> Composed:
        endpoint = self.endpoint
        if question.format:
            endpoint = structs.replace(
                endpoint, profile=structs.replace(endpoint.profile, prompt_format=question.format)
            )
        offered = Toolset(question.tools)
        manner = settle_manner(endpoint, offered, "text" if question.mode == "text" else "native")
        options = {"temperature": 0, "max_tokens": self._tokens, **question.options}
        boundaries = [secrets.token_hex(8) for _ in range(_BOUNDARIES)] if question.mode == "text" else []
        return compose(question.messages, manner, options, boundaries=boundaries)

    # ---- what costs no tokens ----------------------------------------------------------------------------------------

    async def look_up(self, url: str, body: JsonObject | None = None) -> Any:
        """The JSON at an address of the endpoint; None where there is none."""
        data = b"" if body is None else msgspec.json.encode(body)
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            signed = await self._auth.sign(HttpRequest("GET" if body is None else "POST", url, headers, data))
            return await fetch(self._tap, signed, self._timeouts)
        except TransportFault:
            return None


async def fetch(transport: Transport, request: HttpRequest, timeouts: Timeouts) -> Any:
    """The JSON of an answer; None where it is an error, too long, or no JSON. Raises TransportFault."""
    response = await transport.send(request, timeouts)
    try:
        if response.status != 200:
            return None
        data = bytearray()
        async for piece in response.pieces():
            data += piece
            if len(data) > 4 * MOST_KEPT:
                return None
        return msgspec.json.decode(bytes(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    finally:
        await response.close()


def read_frames(codec: Codec, data: bytes) -> tuple[JsonObject, ...]:
    """The JSON objects in the bytes of a stream."""
    framing = codec.open_framing()
    frames = []
    for frame in [*framing.feed(data), *framing.close()]:
        text = getattr(frame, "data", None)
        if not isinstance(text, str | bytes):
            continue
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(found, dict):
            frames.append(found)
    return tuple(frames)


def _add(one: Usage, other: Usage) -> Usage:
    return Usage(*(first + second for first, second in zip(structs.astuple(one), structs.astuple(other), strict=True)))
