"""The streamable HTTP transport of MCP: each request is a POST, and the answer is JSON or a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

from dragoman.client.http import HttpTransport
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.mcp import protocol
from dragoman.mcp.protocol import (
    METHOD_NOT_FOUND,
    ErrorReply,
    Limits,
    Receive,
    ServerFault,
    ServerLost,
    SessionGone,
    clean_line,
)
from dragoman.mcp.servers import OLD_TRANSPORT, OLD_TRANSPORT_HINT, HttpServer, shown_address, why_unsafe
from dragoman.mcp.tokens import Authorizer
from dragoman.types import JsonObject
from dragoman.wire.framing import SseBroken, SseDecoder, SseEvent

_SESSION = "mcp-session-id"
_is_session = re.compile(r"[\x21-\x7e]{1,1024}").fullmatch
_RESUMES = 3
_PAUSE = 0.5
_DAY = 86_400.0
_RENEWALS = 2
_PROBE_SECONDS = 5.0
_LARGEST_REASON = 64 * 1024
# What servers say about a session that they do not know. The specification wants 404, and many answer with 400.
_is_about_session = re.compile(r"session|not initiali[sz]ed|before initiali[sz]|no transport", re.IGNORECASE).search
_names_session = re.compile(r"session[ _-]?id|server not initiali[sz]ed", re.IGNORECASE).search


class _OldTransport(ServerFault):
    """The first event of the transport before streamable HTTP."""


class HttpChannel:
    """One session with a server at a URL."""

    needs_headers = True
    is_lost = False
    """Every request has its own connection, so the failure of one does not affect the next."""

    def __init__(
        self, server: HttpServer, limits: Limits, receive: Receive, authorizer: Authorizer | None = None
    ) -> None:
        self._server = server
        self._authorizer = authorizer
        self._limits = limits
        self._receive = receive
        self._transport = HttpTransport(proxy="env")
        self._session_headers: dict[str, str] = {}
        self._session = ""
        self._has_begun = False
        self._replies: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        why = why_unsafe(self._server)
        if why:
            raise ServerFault(why)

    def begin_session(self, headers: dict[str, str]) -> None:
        self._session_headers = headers
        self._has_begun = True

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        response = await self._post(headers, seconds, protocol.write(message))
        try:
            await self._check_status(response, message)
            if message["method"] == "initialize":
                self._take_session(response)
            kind = _content_type(response)
            if kind == "application/json":
                return self._find_answer(messages_in(await self._read_body(response)), message["id"])
            if kind != "text/event-stream":
                raise ServerFault(f"the server answered with {kind[:60] or 'no content type'!r} instead of JSON")
            return await self._follow(response, message["id"], headers, seconds)
        finally:
            await response.close()

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        response = await self._send("POST", headers, self._limits.close_seconds, protocol.write(message))
        await response.close()

    async def listen(self, headers: dict[str, str]) -> None:
        """Keep a stream open for messages that the server initiates; many servers have none (405)."""
        response = await self._send("GET", headers, _DAY)
        try:
            if response.status != 200 or _content_type(response) != "text/event-stream":
                raise ServerFault("the server sends no messages on its own")
            async for message in self._messages(response, SseDecoder(self._limits.message_bytes)):
                self._take(message)
        except TransportFault as fault:
            raise ServerLost(fault.message) from None
        finally:
            await response.close()

    async def close(self) -> None:
        for task in self._replies:
            task.cancel()
        if self._session:
            with contextlib.suppress(ServerFault, TimeoutError):
                async with asyncio.timeout(self._limits.close_seconds):
                    response = await self._send("DELETE", {}, self._limits.close_seconds)
                    await response.close()
        await self._transport.close()

    def diagnosis(self) -> str:
        return ""

    # ---- one request -----------------------------------------------------------------------------------------------

    async def _post(self, headers: dict[str, str], seconds: float, body: bytes) -> HttpResponse:
        """Send a request; after a rejection of the token, once more with a new one. The server did not run it then."""
        for attempt in range(_RENEWALS + 1):
            token = await self._token()
            response = await self._send("POST", headers, seconds, body, token)
            if self._authorizer is None or response.status not in (401, 403) or attempt == _RENEWALS:
                break
            try:
                challenge = response.headers.get("www-authenticate", "")
                if not await self._authorizer.renew(response.status, challenge, token):
                    break
            except BaseException:
                await response.close()
                raise
            await response.close()
        return response

    async def _token(self) -> str:
        return await self._authorizer.token() if self._authorizer is not None else ""

    async def _send(
        self, method: str, headers: dict[str, str], seconds: float, body: bytes = b"", token: str | None = None
    ) -> HttpResponse:
        token = await self._token() if token is None else token
        sent = {
            **self._server.headers,
            **({"Authorization": f"Bearer {token}"} if token else {}),
            "Accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
            **({"Content-Type": "application/json"} if body else {}),
            **self._session_headers,
            **headers,
            **({_SESSION: self._session} if self._session else {}),
        }
        timeouts = Timeouts(connect=min(10.0, seconds), first_byte=seconds, idle=seconds)
        try:
            return await self._transport.send(HttpRequest(method, self._server.url, sent, body), timeouts)
        except TransportFault as fault:
            raise ServerLost(fault.message) from None
        except ConfigError as problem:
            raise ServerFault(str(problem)) from None

    async def _check_status(self, response: HttpResponse, message: JsonObject) -> None:
        status = response.status
        if status == 200:
            return
        if status == 202:
            raise ServerFault("the server accepted the request, but will not answer it (status 202)")
        if 300 <= status < 400:
            place = shown_address(response.headers.get("location", ""))
            raise ServerFault(f"the server redirects to {place}; use that URL if it is correct")
        body = b""
        with contextlib.suppress(ServerLost):
            body = await self._read_body(response)
        self._check_session(status, body, message)
        if message["method"] == "initialize" and status not in (401, 403) and await self._is_old_transport():
            raise ServerFault(f"{OLD_TRANSPORT}; {OLD_TRANSPORT_HINT}")
        if _content_type(response) == "application/json":
            for found in _errors_in(body):
                protocol.result_of(found)
        if status in (401, 403):
            raise ServerFault(f"the server denies access (status {status}); check the headers of its row")
        if status in (400, 404, 405, 406, 415):
            raise ErrorReply(METHOD_NOT_FOUND, f"the server answered with status {status}")
        raise ServerFault(f"the server answered with status {status}")

    def _check_session(self, status: int, body: bytes, message: JsonObject) -> None:
        """Raise SessionGone if a server does not know our session, because it was restarted or forgot it."""
        if not self._has_begun or message["method"] == "initialize" or status not in (400, 404, 409, 410, 422):
            return
        if status in (404, 410):
            raise SessionGone("the server has dropped the session")
        errors = _errors_in(body)
        said = clean_line(errors[0]["error"].get("message"), 200) if errors else ""
        why = f"the server answered with status {status}" + (f": {said}" if said else "")
        # A server that answers with our id has read the request. Its tool may have another kind of session.
        was_read = any(found.get("id") == message["id"] for found in errors)
        is_named = (_names_session if was_read else _is_about_session)(
            body[:_LARGEST_REASON].decode("utf-8", "replace")
        )
        if is_named:
            raise SessionGone(why)
        if status == 400 and not was_read:
            raise SessionGone(why, is_certain=False)

    async def _is_old_transport(self) -> bool:
        """Whether the URL belongs to the transport before streamable HTTP: a stream that begins with an address."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self.listen({})
        except _OldTransport:
            return True
        except (ServerFault, TimeoutError):
            return False
        return False

    def _take_session(self, response: HttpResponse) -> None:
        session = response.headers.get(_SESSION, "")
        if session and _is_session(session) is None:
            raise ServerLost("the server sent a session id that is not valid in a header")
        self._session = session

    async def _read_body(self, response: HttpResponse) -> bytes:
        body = bytearray()
        try:
            async for piece in response.pieces():
                body += piece
                if len(body) > self._limits.message_bytes:
                    raise ServerLost(f"the server sent a message of more than {self._limits.message_bytes} bytes")
        except TransportFault as fault:
            raise ServerLost(fault.message) from None
        return bytes(body)

    # ---- streams ---------------------------------------------------------------------------------------------------

    async def _follow(
        self, response: HttpResponse, identity: int, headers: dict[str, str], seconds: float
    ) -> JsonObject:
        """Return the answer from a stream; a broken stream is resumed if the server allows that."""
        decoder = SseDecoder(self._limits.message_bytes)
        why = "the server ended its stream before the answer"
        for attempt in range(_RESUMES + 1):
            try:
                async for message in self._messages(response, decoder):
                    if protocol.is_answer(message):
                        if message.get("id") == identity:
                            return message
                    else:
                        self._take(message)
            except TransportFault as fault:
                why = fault.message
            finally:
                await response.close()
            if not decoder.last_id or attempt == _RESUMES:
                break
            await asyncio.sleep(_PAUSE)
            response = await self._send("GET", {**headers, "Last-Event-ID": decoder.last_id}, seconds)
            if response.status != 200 or _content_type(response) != "text/event-stream":
                await response.close()
                break
        raise ServerLost(why)

    async def _messages(self, response: HttpResponse, decoder: SseDecoder) -> AsyncIterator[JsonObject]:
        async for piece in response.pieces():
            for message in self._read_events(decoder.feed(piece)):
                yield message
        for message in self._read_events(decoder.close()):
            yield message

    def _read_events(self, events: list[SseEvent | SseBroken]) -> list[JsonObject]:
        found: list[JsonObject] = []
        for event in events:
            if isinstance(event, SseBroken):
                raise ServerLost(f"the server sent a message of more than {self._limits.message_bytes} bytes")
            if event.event == "endpoint" and not self._has_begun:
                raise _OldTransport(f"{OLD_TRANSPORT}; {OLD_TRANSPORT_HINT}")
            # An event without data only contains the position from which to resume.
            if event.complete and event.data and event.event in (None, "message"):
                found += messages_in(event.data)
        return found

    def _find_answer(self, found: list[JsonObject], identity: int) -> JsonObject:
        for message in found:
            if not protocol.is_answer(message):
                self._take(message)
            elif message.get("id") == identity or (message.get("id") is None and message.get("error") is not None):
                return message
        raise ServerFault("the server answered a request that was not sent")

    def _take(self, message: JsonObject) -> None:
        reply = self._receive(message)
        if reply is not None and len(self._replies) < 16:
            protocol.start_background(self._replies, protocol.notify_quietly(self, reply))


def messages_in(data: bytes | str) -> list[JsonObject]:
    """Return the messages in a body or an event. Raises ServerLost."""
    try:
        return protocol.read(data)
    except protocol.InvalidMessage as problem:
        raise ServerLost(f"the server sent an invalid message ({problem})") from None


def _errors_in(body: bytes) -> list[JsonObject]:
    """Return the errors in the body of a rejection, if it has any."""
    with contextlib.suppress(protocol.InvalidMessage):
        return [found for found in protocol.read(body) if isinstance(found.get("error"), dict)]
    return []


def _content_type(response: HttpResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()
