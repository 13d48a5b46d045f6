"""An HTTP answer read as the events of a reply, whatever the server chose to send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import structs

from dragoman.client.delays import read_delay
from dragoman.client.transport import HttpResponse, TransportFault
from dragoman.events import Event, ReplyEnded, ReplyFailed
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.stage import Stage
from dragoman.types import Failure
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.values import BROKEN, parse

_STREAMS = frozenset(
    {
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/json-lines",
        "application/stream+json",
        "application/vnd.amazon.eventstream",
    }
)
# Said by servers that did not think about it: what came is looked at instead.
_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
_MOST_OF_AN_ERROR = 1024 * 1024
_QUOTED = 200
_BLANKS = b" \t\r\n\xef\xbb\xbf"

Pull = Callable[[], Awaitable[bytes | None]]


def fail_reply(failure: Failure) -> list[Event]:
    """The events of a reply that failed before it began."""
    return [ReplyFailed(failure), ReplyEnded("error")]


def from_fault(fault: TransportFault) -> Failure:
    return Failure(fault.kind, fault.message, code=fault.code)


class AnswerReader:
    """Reads one answer. `next` gives the events as they come, and None behind the last; it raises nothing.

    `pull` gives the pieces of the body, and None behind the last.
    """

    def __init__(
        self,
        codec: Codec,
        prepared: Prepared,
        scrubber: RequestRedactor,
        response: HttpResponse,
        pull: Pull,
        *,
        whole: bool,
        now: float,
    ) -> None:
        self._codec = codec
        self._prepared = prepared
        self._scrubber = scrubber
        self._response = response
        self._pull = pull
        self._whole = whole
        self._now = now
        self._stage: Stage[bytes, Event] | None = None
        self._began = False

    async def next(self) -> list[Event] | None:
        if not self._began:
            self._began = True
            return await self._begin()
        return await self._read_on() if self._stage is not None else None

    async def _begin(self) -> list[Event] | None:
        """Decide what kind of answer this is: by its status, its content type, or its first bytes."""
        status = self._response.status
        if status >= 300 or status < 200:
            return fail_reply(await self._read_failure())
        kind = self._response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _STREAMS:
            return await self._open_stream()
        if kind in _VAGUE:
            return await self._sniff()
        if kind == "application/json" or kind.endswith("+json"):
            return await self._read_whole()
        return fail_reply(await self._refuse(f"the answer is {kind}, not what was asked for"))

    # ---- streams ----------------------------------------------------------------------------------------------------

    async def _open_stream(self, head: bytes = b"") -> list[Event] | None:
        stage = self._stage = self._codec.reply_stream(self._prepared)
        return (stage.feed(head) if head else None) or await self._read_on()

    async def _read_on(self) -> list[Event] | None:
        stage = self._stage
        assert stage is not None
        try:
            while (piece := await self._pull()) is not None:
                if events := stage.feed(piece):
                    return events
        except TransportFault as fault:
            self._stage = None
            return blame(stage.close(), fault)
        self._stage = None
        return stage.close()

    async def _sniff(self) -> list[Event] | None:
        """The server did not say what it sends: one JSON object, or frames."""
        head = b""
        try:
            while not head.lstrip(_BLANKS):
                piece = await self._pull()
                if piece is None:
                    break
                head += piece
        except TransportFault as fault:
            return fail_reply(from_fault(fault))
        if self._whole or (head.lstrip(_BLANKS)[:1] in (b"{", b"<") and self._codec.name != "ollama"):
            return await self._read_whole(head)
        return await self._open_stream(head)

    # ---- whole bodies -----------------------------------------------------------------------------------------------

    async def _read_whole(self, head: bytes = b"") -> list[Event]:
        parts = [head] if head else []
        try:
            while (piece := await self._pull()) is not None:
                parts.append(piece)
        except TransportFault as fault:
            return fail_reply(from_fault(fault))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        body = parse(data)
        if isinstance(body, dict):
            return self._codec.open_reader(self._prepared).read_whole(body)
        if not self._whole and b"\n" in data.strip():
            # A stream that calls itself JSON, as some proxies of Ollama do.
            stage = self._codec.reply_stream(self._prepared)
            events = [*stage.feed(data), *stage.close()]
            if not any(isinstance(event, ReplyFailed) for event in events):
                return events
        what = "is not JSON" if body is BROKEN else "is no JSON object"
        return fail_reply(self._broken(f"the answer {what}", data))

    async def _refuse(self, message: str) -> Failure:
        return self._broken(message, await self._read_some(64 * _QUOTED))

    def _broken(self, message: str, data: bytes) -> Failure:
        # Scrubbed before it is cut: half a secret would not be recognised.
        begins = self._scrubber.data(data[: 64 * _QUOTED]).decode("utf-8", "replace")[:_QUOTED]
        return Failure("broken_protocol", f"{message}; it begins: {begins!r}", body=begins)

    # ---- errors -----------------------------------------------------------------------------------------------------

    async def _read_failure(self) -> Failure:
        status, headers = self._response.status, self._response.headers
        if 300 <= status < 400:
            return self._redirect(status, headers)
        data = self._scrubber.data(await self._read_some(_MOST_OF_AN_ERROR))
        body: Any = parse(data)
        if body is BROKEN:
            body = data.decode("utf-8", "replace")[: 5 * _QUOTED]
        failure = self._codec.decode_failure(status, body, headers)
        message = failure.message or (body if isinstance(body, str) else "") or "without a word"
        if failure.message != message:
            message = f"status {status}: {' '.join(message.split())[:_QUOTED]}"
        delay = read_delay(headers, self._now)
        return structs.replace(failure, message=message, status=status, retry_after=delay)

    async def _read_some(self, most: int) -> bytes:
        """The beginning of a body. A connection that breaks ends it: an error is worth no more than its first words."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < most and (piece := await self._pull()) is not None:
                parts.append(piece)
                size += len(piece)
        except TransportFault:
            pass
        return b"".join(parts)[:most]

    def _redirect(self, status: int, headers: Mapping[str, str]) -> Failure:
        place = self._scrubber.address(headers.get("location", ""))[:_QUOTED] or "nowhere"
        message = (
            f"the server redirects to {place}, which is not followed: a key is sent to the address given and no other"
        )
        return Failure("broken_protocol", message, status=status, code="redirect")


def blame(events: list[Event], fault: TransportFault) -> list[Event]:
    """The end of a reply with the true reason: the wire only knows that the stream was cut."""
    failure = from_fault(fault)
    return [
        ReplyFailed(failure) if isinstance(event, ReplyFailed) and event.failure.kind == "stream_cut" else event
        for event in events
    ]
