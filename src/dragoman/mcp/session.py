"""A conversation with one server: which protocol is spoken, requests with their answers, and what comes unasked.

Since 2026-07-28 there is no handshake: every request says which protocol it follows. Servers are asked in that way
first (`server/discover`); whoever does not answer it is greeted in the older way (`initialize`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from dragoman import __version__
from dragoman.mcp import messages
from dragoman.mcp.channels import Channel
from dragoman.mcp.errors import UNSUPPORTED_VERSION, Refusal, ServerFault, ServerLost, Unanswered
from dragoman.mcp.limits import Limits
from dragoman.mcp.parameters import write_value
from dragoman.mcp.texts import clean_line
from dragoman.types import JsonObject

STATELESS = ("2026-07-28",)
"""Protocols in which every request stands for itself."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocols that begin with a handshake, the newest first."""
_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "dragoman", "version": __version__}
_MOST_PROGRESS = 100
_LISTENS = 5
_PAUSE = 0.5
_DAY = 86_400.0

Progress = Callable[[str, float | None], None]


class Session:
    """One session. `changed` is called when the server says that its tools are others now."""

    def __init__(self, limits: Limits, changed: Callable[[], None]) -> None:
        self._limits = limits
        self._changed = changed
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

    @property
    def has_channel(self) -> bool:
        return self._channel is not None

    async def open(self, connect: Callable[[], Channel]) -> None:
        """Connect and agree on a protocol. Raises ServerFault; the caller closes the session then, too."""
        self._channel = connect()
        await self._channel.open()
        try:
            supported = await self._discover()
        except ServerLost as fault:
            if not self._channel.is_lost:
                raise
            # Some servers end when they are asked what they do not know; the older way they may understand.
            await self._channel.close()
            self._channel = connect()
            await self._channel.open()
            with contextlib.suppress(ServerLost):
                await self._greet()
                return
            raise fault from None
        if supported is None:
            await self._greet_or_discover()

    async def close(self) -> None:
        tasks = [*self._farewells, *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()

    def receive(self, message: JsonObject) -> JsonObject | None:
        """Take what the server says of its own accord."""
        if "id" in message:
            return messages.reply_to(message)
        params = message.get("params")
        if message["method"] == "notifications/tools/list_changed":
            self._changed()
        elif message["method"] == "notifications/progress" and isinstance(params, dict):
            self._take_progress(params)
        return None  # logs and the rest are of no use to anybody here

    # ---- agreeing on a protocol ------------------------------------------------------------------------------------

    async def _discover(self) -> bool | None:
        """Ask in the newest way: True if the server speaks it, None if it has to be greeted."""
        try:
            self.version = STATELESS[0]
            found = await self.request("server/discover", {}, seconds=self._limits.probe_seconds, is_probe=True)
        except Refusal as refusal:
            known = _supported(refusal)
            if known and not set(known) & {*STATELESS, *HANDSHAKE}:
                words = ", ".join(clean_line(each, 20) for each in known[:5])
                raise ServerFault(f"it speaks only versions of the protocol that are not known here: {words}") from None
            return None
        except Unanswered:
            return None
        finally:
            version, self.version = self.version, ""
        versions = found.get("supportedVersions")
        if not isinstance(versions, list) or version not in versions:
            return None
        self._adopt(version, found)
        return True

    async def _greet_or_discover(self) -> None:
        try:
            await self._greet()
        except Refusal as refusal:
            # It may have been slow to start, and have taken our first question for the beginning after all.
            if refusal.code != UNSUPPORTED_VERSION or not await self._discover():
                raise

    async def _greet(self) -> None:
        asked = {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": _CLIENT}
        found = await self.request("initialize", asked, seconds=self._limits.start_seconds, is_probe=True)
        version = found.get("protocolVersion")
        if version not in HANDSHAKE:
            raise ServerFault(f"it speaks version {clean_line(str(version), 20)!r} of the protocol, unknown here")
        self._adopt(version, found)
        # Servers before that version do not know the header.
        self.channel.begin_session({"MCP-Protocol-Version": version} if version >= "2025-06-18" else {})
        await self.channel.tell(messages.notification("notifications/initialized"), {})

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
        is_probe: bool = False,
    ) -> JsonObject:
        """The result of a request. Raises ServerFault. If it takes too long or is cancelled, the server is told."""
        self._last += 1
        identity = self._last
        meta: JsonObject = self._envelope()
        if progress is not None:
            self._progress[identity] = (progress, _MOST_PROGRESS)
            meta["progressToken"] = identity
        body = {**params, "_meta": meta} if meta else params
        message = messages.request(identity, method, body)
        try:
            async with asyncio.timeout(seconds):
                answer = await self.channel.exchange(message, self._headers(method, params, headers), seconds)
        except TimeoutError:
            self._give_up(identity, is_probe)
            raise Unanswered(f"the server did not answer within {seconds:g} seconds") from None
        except asyncio.CancelledError:
            self._give_up(identity, is_probe)
            raise
        finally:
            self._progress.pop(identity, None)
        return messages.result_of(answer)

    @property
    def _is_stateless(self) -> bool:
        return self.version in STATELESS

    def _envelope(self) -> JsonObject:
        if not self._is_stateless:
            return {}
        return {
            f"{_META}protocolVersion": self.version,
            f"{_META}clientInfo": _CLIENT,
            f"{_META}clientCapabilities": {},
        }

    def _headers(self, method: str, params: JsonObject, more: dict[str, str] | None) -> dict[str, str]:
        if not (self._is_stateless and self.channel.needs_headers):
            return {}
        named = {"Mcp-Name": write_value(str(params["name"]))} if method == "tools/call" else {}
        return {"MCP-Protocol-Version": self.version, "Mcp-Method": method, **named, **(more or {})}

    def _give_up(self, identity: int, is_probe: bool) -> None:
        """Tell the server that nobody waits any more. Of stateless HTTP the end of the stream says it."""
        if is_probe or (self._is_stateless and self.channel.needs_headers):
            return
        params = {"requestId": identity, "reason": "nobody waits for the answer any more"}
        task = asyncio.get_running_loop().create_task(
            self._tell(messages.notification("notifications/cancelled", params))
        )
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _tell(self, message: JsonObject) -> None:
        with contextlib.suppress(ServerFault):
            await self.channel.tell(message, {})

    def _take_progress(self, params: JsonObject) -> None:
        token = params.get("progressToken")
        waiting = self._progress.get(token) if type(token) is int else None
        if waiting is None or waiting[1] <= 0:
            return
        report, left = waiting
        self._progress[params["progressToken"]] = (report, left - 1)
        report(clean_line(params.get("message")), _fraction(params.get("progress"), params.get("total")))

    # ---- what comes unasked ----------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Begin to hear of changes. Of the older servers not all say that they tell of them, so all are listened to."""
        tools = self.capabilities.get("tools")
        if isinstance(tools, dict) and (tools.get("listChanged") is True or not self._is_stateless):
            self._listening = asyncio.get_running_loop().create_task(self._listen())
            self._listening.add_done_callback(_forgive)

    async def _listen(self) -> None:
        wanted = {"notifications": {"toolsListChanged": True}}
        for attempt in range(_LISTENS):
            await asyncio.sleep(attempt * _PAUSE)
            if attempt:
                self._changed()  # nothing is told again of what happened meanwhile
            with contextlib.suppress(ServerLost, Unanswered):
                if self._is_stateless:
                    await self.request("subscriptions/listen", wanted, seconds=_DAY)
                else:
                    await self.channel.listen({})


def _forgive(task: asyncio.Task[None]) -> None:
    """A server that does not let us listen is asked again for its tools at the next start, and that is enough."""
    if not task.cancelled():
        task.exception()


def _supported(refusal: Refusal) -> list[str]:
    """The versions that a server names when it refuses ours."""
    data: Any = refusal.data if refusal.code == UNSUPPORTED_VERSION else None
    found = data.get("supported") if isinstance(data, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _fraction(done: Any, total: Any) -> float | None:
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        return min(1.0, max(0.0, done / total))
    return None
