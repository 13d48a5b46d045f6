"""A session with one server: protocol version, requests and answers, messages that the server initiates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman import __version__
from dragoman.mcp import protocol
from dragoman.mcp.definitions import write_value
from dragoman.mcp.elicitation import CANCEL, Ask, Elicitation
from dragoman.mcp.protocol import (
    METHOD_NOT_FOUND,
    PAGE_NEEDED,
    UNSUPPORTED_VERSION,
    Channel,
    ErrorReply,
    Limits,
    RequestTimeout,
    ServerFault,
    ServerLost,
    clean_line,
)
from dragoman.types import JsonObject

# Since 2026-07-28 there is no handshake: every request names its protocol version. dragoman tries that first
# (`server/discover`). If a server does not answer, dragoman uses the older handshake (`initialize`).

STATELESS = ("2026-07-28",)
"""Protocol versions without a handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions with a handshake, the newest first."""
_CLIENT = {"name": "dragoman", "version": __version__}
_CAPABILITIES: JsonObject = {"elicitation": {"form": {}, "url": {}}}
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Requests whose object is repeated in the header `Mcp-Name`, with its parameter."""
_ROUNDS = 10
MOST_QUESTIONS = 10
"""Of a server to the user, during one call."""
_SHORT_PAUSE = 0.05
_MOST_PROGRESS = 100
_LISTENS = 5
_PAUSE = 0.5
_DAY = 86_400.0

Progress = Callable[[str, float | None], None]


class Session:
    """One session. `changed` is called when the server reports that its tools changed."""

    def __init__(self, limits: Limits, changed: Callable[[], None], elicitation: Elicitation) -> None:
        self._limits = limits
        self._changed = changed
        self._elicitation = elicitation
        self._asks: dict[int, _Questions] = {}
        self._channel: Channel | None = None
        self._last = 0
        self._progress: dict[int, tuple[Progress, int]] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self.version = ""
        self.capabilities: JsonObject = {}

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "a session is opened before it is used"
        return self._channel

    async def open(self, connect: Callable[[], Channel]) -> None:
        """Connect and negotiate a protocol version. Raises ServerFault; the caller closes the session even then."""
        self._channel = connect()
        await self._channel.open()
        try:
            is_spoken = await self._discover()
        except ServerLost as fault:
            if not self._channel.is_lost:
                raise
            # Some servers exit after an unknown request; they may support the older handshake.
            await self._channel.close()
            self._channel = connect()
            await self._channel.open()
            with contextlib.suppress(ServerLost):
                await self._initialize()
                return
            raise fault from None
        if is_spoken:
            return
        try:
            await self._initialize()
        except ErrorReply as refusal:
            # The server may have started slowly, and may still answer the first request.
            if refusal.code != UNSUPPORTED_VERSION or not await self._discover():
                raise

    async def close(self) -> None:
        self._asks.clear()
        tasks = [*self._farewells, *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()

    def diagnosis(self) -> str:
        return self._channel.diagnosis() if self._channel is not None else ""

    def receive(self, message: JsonObject) -> JsonObject | None:
        """Handle a message that the server initiates."""
        params = message.get("params")
        if "id" in message:
            return self._take_request(message["id"], message["method"], params)
        if message["method"] == "notifications/tools/list_changed":
            self._changed()
        elif message["method"] == "notifications/progress" and isinstance(params, dict):
            self._take_progress(params)
        return None  # logs and other notifications are ignored

    # ---- agreeing on a protocol ------------------------------------------------------------------------------------

    async def _discover(self) -> bool:
        """Probe the newest protocol. Returns whether the server supports it and needs no handshake."""
        try:
            self.version = STATELESS[0]
            found = await self.request("server/discover", {}, seconds=self._limits.probe_seconds, is_probe=True)
        except ErrorReply as refusal:
            known = _supported(refusal)
            if known and not set(known) & {*STATELESS, *HANDSHAKE}:
                words = ", ".join(clean_line(each, 20) for each in known[:5])
                raise ServerFault(f"it supports only unknown versions of the protocol: {words}") from None
            return False
        except RequestTimeout:
            return False
        finally:
            version, self.version = self.version, ""
        versions = found.get("supportedVersions")
        if not isinstance(versions, list) or version not in versions:
            return False
        self._adopt(version, found)
        return True

    async def _initialize(self) -> None:
        asked = {"protocolVersion": HANDSHAKE[0], "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
        found = await self.request("initialize", asked, seconds=self._limits.start_seconds, is_probe=True)
        version = found.get("protocolVersion")
        if version not in HANDSHAKE:
            raise ServerFault(f"it uses the unknown version {clean_line(str(version), 20)!r} of the protocol")
        self._adopt(version, found)
        # Servers before that version do not know the header.
        self.channel.begin_session({"MCP-Protocol-Version": version} if version >= "2025-06-18" else {})
        await self.channel.tell(protocol.notification("notifications/initialized"), {})

    def _adopt(self, version: str, found: JsonObject) -> None:
        self.version = version
        capabilities = found.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}

    # ---- requests --------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        seconds: float,
        headers: dict[str, str] | None = None,
        progress: Progress | None = None,
        ask: Ask | None = None,
        is_probe: bool = False,
    ) -> JsonObject:
        """Return the result of a request. Raises ServerFault. A timeout or cancellation is sent to the server.

        `ask` answers the questions of the server to the user until the result arrives.
        """
        self._last += 1
        identity = self._last
        meta: JsonObject = self._envelope()
        if progress is not None:
            self._progress[identity] = (progress, _MOST_PROGRESS)
            meta["progressToken"] = identity
        questions = self._asks[identity] = _Questions(ask, MOST_QUESTIONS)
        message = protocol.request(identity, method, {**params, "_meta": meta} if meta else params)
        try:
            async with asyncio.timeout(seconds):
                answer = await self.channel.exchange(message, self._headers(method, params, headers), seconds)
        except (TimeoutError, asyncio.CancelledError) as problem:
            self._give_up(identity, is_probe)
            if isinstance(problem, TimeoutError):
                raise RequestTimeout(f"the server did not answer within {seconds:g} seconds") from None
            raise
        finally:
            self._progress.pop(identity, None)
            self._asks.pop(identity, None)
            questions.cancel()
        return protocol.result_of(answer)

    async def request_with_input(self, method: str, params: JsonObject, *, ask: Ask | None, **more: Any) -> JsonObject:
        """Like `request`, for requests that a server may answer with questions. It gets the answers in a second one."""
        sent = params
        left = MOST_QUESTIONS
        for number in range(_ROUNDS):
            result = await self._request_or_visit(method, sent, ask=ask, **more)
            if result.get("resultType", "complete") == "complete":
                return result
            asked, state = result.get("inputRequests"), result.get("requestState")
            if result["resultType"] != "input_required" or not (isinstance(asked, dict) or isinstance(state, str)):
                raise ServerFault("the server answered with a result of an unknown kind")
            sent = {**params, **({"requestState": state} if isinstance(state, str) else {})}
            if isinstance(asked, dict) and asked:
                left -= len(asked)
                sent["inputResponses"] = {
                    key: await self._answer(each, ask if left >= 0 else None) for key, each in asked.items()
                }
            else:
                await asyncio.sleep(_SHORT_PAUSE * min(number + 1, 5))
        raise ServerFault(f"the server asked for more input {_ROUNDS} times")

    async def _answer(self, request: Any, ask: Ask | None) -> JsonObject:
        if not isinstance(request, dict):
            raise ServerFault("the server sent a question that cannot be read")
        try:
            return await self._elicitation.answer(request.get("method"), request.get("params"), ask)
        except ErrorReply as refusal:
            raise ServerFault(f"the server asked for something that is not offered: {refusal}") from None

    async def _request_or_visit(self, method: str, params: JsonObject, *, ask: Ask | None, **more: Any) -> JsonObject:
        """Send a request. If it needs pages that the user opens first, ask the user about them."""
        try:
            return await self.request(method, params, ask=ask, **more)
        except ErrorReply as refusal:
            pages = refusal.data.get("elicitations") if isinstance(refusal.data, dict) else None
            if refusal.code != PAGE_NEEDED or not isinstance(pages, list):
                raise
        done = [await self._answer({"method": "elicitation/create", "params": page}, ask) for page in pages[:_ROUNDS]]
        if all(each.get("action") == "accept" for each in done):
            raise ServerFault("the server needs a page that the user has just opened; repeat the call when it is done")
        raise ServerFault("the server needs a page that the user did not open")

    @property
    def _is_stateless(self) -> bool:
        return self.version in STATELESS

    def _envelope(self) -> JsonObject:
        if not self._is_stateless:
            return {}
        meta = {"protocolVersion": self.version, "clientInfo": _CLIENT, "clientCapabilities": _CAPABILITIES}
        return {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}

    def _headers(self, method: str, params: JsonObject, more: dict[str, str] | None) -> dict[str, str]:
        if not (self._is_stateless and self.channel.needs_headers):
            return {}
        named = {"Mcp-Name": write_value(str(params[_NAMED[method]]))} if method in _NAMED else {}
        return {"MCP-Protocol-Version": self.version, "Mcp-Method": method, **named, **(more or {})}

    def _give_up(self, identity: int, is_probe: bool) -> None:
        """Cancel a request at the server. On stateless HTTP the end of the stream does that."""
        if is_probe or (self._is_stateless and self.channel.needs_headers):
            return
        params = {"requestId": identity, "reason": "the client no longer waits for the answer"}
        message = protocol.notification("notifications/cancelled", params)
        protocol.start_background(self._farewells, protocol.notify_quietly(self.channel, message))

    def _take_progress(self, params: JsonObject) -> None:
        token = params.get("progressToken")
        waiting = self._progress.get(token) if type(token) is int else None
        if waiting is None or waiting[1] <= 0:
            return
        report, left = waiting
        self._progress[params["progressToken"]] = (report, left - 1)
        report(clean_line(params.get("message")), _fraction(params.get("progress"), params.get("total")))

    # ---- messages of the server ------------------------------------------------------------------------------------

    def _take_request(self, identity: Any, method: str, params: Any) -> JsonObject | None:
        """Answer a request of the server: it gets no model and no files, and the user only during a call."""
        if method == "ping":
            return protocol.reply(identity, {})
        if method == "roots/list":
            return protocol.reply(identity, {"roots": []})
        if method != "elicitation/create":
            return protocol.reply(identity, ErrorReply(METHOD_NOT_FOUND, "this client does not support it"))
        # The request does not say which call it belongs to. The newest one that has a user is the best guess.
        asks = [each for each in self._asks.values() if each.ask is not None and each.left > 0]
        if not asks:
            return protocol.reply(identity, CANCEL)
        asks[-1].begin(self._answer_later(identity, params, asks[-1].ask))
        return None

    async def _answer_later(self, identity: Any, params: Any, ask: Ask | None) -> None:
        try:
            result: JsonObject | ErrorReply = await self._elicitation.answer("elicitation/create", params, ask)
        except ErrorReply as refusal:
            result = refusal
        await protocol.notify_quietly(self.channel, protocol.reply(identity, result))

    def listen(self) -> None:
        """Start to receive notifications of changes. Not all older servers announce them, so this listens to all."""
        tools = self.capabilities.get("tools")
        if isinstance(tools, dict) and (tools.get("listChanged") is True or not self._is_stateless):
            self._listening = asyncio.get_running_loop().create_task(self._listen())
            self._listening.add_done_callback(_ignore_failure)

    async def _listen(self) -> None:
        wanted = {"notifications": {"toolsListChanged": True}}
        for attempt in range(_LISTENS):
            await asyncio.sleep(attempt * _PAUSE)
            if attempt:
                self._changed()  # changes in the meantime are not reported again
            with contextlib.suppress(ServerLost, RequestTimeout):
                if self._is_stateless:
                    await self.request("subscriptions/listen", wanted, seconds=_DAY)
                else:
                    await self.channel.listen({})


class _Questions:
    """The questions of a server during one request."""

    def __init__(self, ask: Ask | None, left: int) -> None:
        self.ask = ask
        self.left = left
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.left -= 1
        protocol.start_background(self._tasks, work)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


def _ignore_failure(task: asyncio.Task[None]) -> None:
    """Ignore a server without notifications: its tools are listed again at the next start."""
    if not task.cancelled():
        task.exception()


def _supported(refusal: ErrorReply) -> list[str]:
    """Return the versions that a server names when it rejects ours."""
    data: Any = refusal.data if refusal.code == UNSUPPORTED_VERSION else None
    found = data.get("supported") if isinstance(data, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _fraction(done: Any, total: Any) -> float | None:
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        return min(1.0, max(0.0, done / total))
    return None
