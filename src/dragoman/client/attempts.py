"""One attempt: the request signed and sent once, the answer read as events, and the circuit told how it went."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, structs

from dragoman.client.answers import AnswerReader, fail_reply, from_fault
from dragoman.client.auth import Auth
from dragoman.client.breaker import Breaker, counts
from dragoman.client.sending import Exchange
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.events import Event, ReplyFailed
from dragoman.secrets.exchanges import RequestRedactors
from dragoman.types import Failure
from dragoman.wire.codec import Codec, Prepared


class Plan(Struct):
    """One request, ready to be sent any number of times."""

    request: HttpRequest
    prepared: Prepared
    whole: bool
    model: str
    origin: str


class Attempt:
    """`next` gives the events as they come, and None behind the last. Every fault becomes a failure in them.

    Pulled, and not a generator in a generator: `close` is then the one place where a connection ends, at once.
    """

    def __init__(
        self,
        plan: Plan,
        exchange: Exchange,
        auth: Auth,
        breaker: Breaker,
        scrubbers: RequestRedactors,
        codec: Codec,
        clock: Callable[[], float],
        calendar: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._exchange = exchange
        self._auth = auth
        self._breaker = breaker
        self._scrubbers = scrubbers
        self._codec = codec
        self._clock, self._calendar = clock, calendar
        self._reader: AnswerReader | None = None
        self._failure: Failure | None = None
        self._began = self._ended = self._counted = False
        self._names_key = False

    async def next(self) -> list[Event] | None:
        if self._ended:
            return None
        if not self._began:
            self._began = True
            refusal = await self._begin()
            if refusal is not None:
                self._ended = True
                return fail_reply(refusal)
        assert self._reader is not None
        events = await self._reader.next()
        if events is None:
            self._ended = True
            return None
        # A failure never comes alone: an end stands behind it.
        if len(events) > 1:
            events = [self._look(event) if type(event) is ReplyFailed else event for event in events]
        return events

    async def close(self) -> None:
        """Drop what was not read, and tell the circuit what became of it."""
        if self._counted:
            if not self._ended:
                self._breaker.abandoned()
            elif self._failure is not None and counts(self._failure):
                self._breaker.failed(self._clock())
            else:
                self._breaker.succeeded()
            self._counted = False
        await self._exchange.close()

    async def _begin(self) -> Failure | None:
        """Send the request; the failure, if no answer came."""
        wait = self._breaker.allow(self._clock())
        if wait:
            message = f"{self._plan.origin} failed again and again and is left alone for {wait:.0f} s"
            return Failure("overloaded", message, code="circuit_open", retry_after=wait)
        self._counted = True
        try:
            request = await self._exchange.within(self._auth.sign(self._plan.request))
            scrubber = self._scrubbers.knowing(self._auth.secrets)
            response = await self._exchange.send(request, scrubber)
        except TransportFault as fault:
            self._failure = from_fault(fault)
            return self._failure
        self._names_key = response.status in (401, 403)
        self._reader = AnswerReader(
            self._codec,
            self._plan.prepared,
            scrubber,
            response,
            self._exchange.next_piece,
            whole=self._plan.whole,
            now=self._calendar(),
        )
        return None

    def _look(self, event: ReplyFailed) -> ReplyFailed:
        """Remember the failure; and name the key that was refused, never what it says."""
        failure = event.failure
        if self._names_key and self._auth.source:
            failure = structs.replace(failure, message=f"{failure.message} (key: {self._auth.source})")
            event = ReplyFailed(failure)
        self._failure = failure
        return event
