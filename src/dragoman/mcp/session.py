"""A session with one server: protocol version, requests and answers, restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.logs import get_log
from dragoman.mcp import protocol
from dragoman.mcp.definitions import Definition, Pin, Pins, read_definitions, write_headers, write_value
from dragoman.mcp.protocol import (
    UNSUPPORTED_VERSION,
    Channel,
    ErrorReply,
    Limits,
    Receive,
    RequestNotSent,
    RequestTimeout,
    ServerFault,
    ServerLost,
    SessionGone,
    clean_line,
)
from dragoman.mcp.servers import Server
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# A session with one server: the protocol version, requests and answers, and messages that the server initiates.
#
# Since 2026-07-28 there is no handshake: every request names its protocol version. dragoman tries that first
# (`server/discover`). If a server does not answer, dragoman uses the older handshake (`initialize`).

STATELESS = ("2026-07-28",)
"""Protocol versions without a handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions with a handshake, the newest first."""
_CLIENT = {"name": "dragoman", "version": __version__}
_MOST_PROGRESS = 100
_LISTENS = 5
_PAUSE = 0.5
_DAY = 86_400.0

Progress = Callable[[str, float | None], None]


class Session:
    """One session. `changed` is called when the server reports that its tools changed."""

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
                await self._greet()
                return
            raise fault from None
        if is_spoken:
            return
        try:
            await self._greet()
        except ErrorReply as refusal:
            # The server may have started slowly, and may still answer the first request.
            if refusal.code != UNSUPPORTED_VERSION or not await self._discover():
                raise

    async def close(self) -> None:
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
        if "id" in message:
            return protocol.reply_to(message)
        params = message.get("params")
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

    async def _greet(self) -> None:
        asked = {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": _CLIENT}
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
        is_probe: bool = False,
    ) -> JsonObject:
        """Return the result of a request. Raises ServerFault. A timeout or cancellation is sent to the server."""
        self._last += 1
        identity = self._last
        meta: JsonObject = self._envelope()
        if progress is not None:
            self._progress[identity] = (progress, _MOST_PROGRESS)
            meta["progressToken"] = identity
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
        return protocol.result_of(answer)

    @property
    def _is_stateless(self) -> bool:
        return self.version in STATELESS

    def _envelope(self) -> JsonObject:
        if not self._is_stateless:
            return {}
        meta = {"protocolVersion": self.version, "clientInfo": _CLIENT, "clientCapabilities": {}}
        return {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}

    def _headers(self, method: str, params: JsonObject, more: dict[str, str] | None) -> dict[str, str]:
        if not (self._is_stateless and self.channel.needs_headers):
            return {}
        named = {"Mcp-Name": write_value(str(params["name"]))} if method == "tools/call" else {}
        return {"MCP-Protocol-Version": self.version, "Mcp-Method": method, **named, **(more or {})}

    def _give_up(self, identity: int, is_probe: bool) -> None:
        """Cancel a request at the server. On stateless HTTP the end of the stream does that."""
        if is_probe or (self._is_stateless and self.channel.needs_headers):
            return
        params = {"requestId": identity, "reason": "the client no longer waits for the answer"}
        message = protocol.notification("notifications/cancelled", params)
        protocol.do_beside(self._farewells, protocol.tell_quietly(self.channel, message))

    def _take_progress(self, params: JsonObject) -> None:
        token = params.get("progressToken")
        waiting = self._progress.get(token) if type(token) is int else None
        if waiting is None or waiting[1] <= 0:
            return
        report, left = waiting
        self._progress[params["progressToken"]] = (report, left - 1)
        report(clean_line(params.get("message")), _fraction(params.get("progress"), params.get("total")))

    # ---- messages of the server ------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Start to receive notifications of changes. Not all older servers announce them, so this listens to all."""
        tools = self.capabilities.get("tools")
        if isinstance(tools, dict) and (tools.get("listChanged") is True or not self._is_stateless):
            self._listening = asyncio.get_running_loop().create_task(self._listen())
            self._listening.add_done_callback(_forgive)

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


def _forgive(task: asyncio.Task[None]) -> None:
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


# --------------------------------------------------------------------------------------------------------------------
# One server, which is kept running while its tools are in use.
#
# The next call restarts a server that ended or violated the protocol, a few times. Its tools are listed again each
# time, and whenever it reports a change: a tool with another definition is disabled.

APPROVE = "approve it with `dragoman approvals mcp approve {key}`, then start again"
_MOST_PROBLEMS = 50
_MOST_CHECKS = 50
_HIDDEN = "[redacted]"
_log = get_log("mcp")


class Connection:
    """A server with its tools. All its code runs on one event loop."""

    def __init__(self, server: Server, limits: Limits, pins: Pins, make: Callable[[Receive], Channel]) -> None:
        self.server = server
        self.definitions: list[Definition] = []
        """The tools at the time of the first connection; they never change."""
        self.pins: dict[str, Pin] = {}
        self.version = ""
        self._limits = limits
        self._store = pins
        self._make = make
        self._problems: dict[str, None] = {}
        self._off: dict[str, str] = {}
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        self._restarts = 0
        self._answers = 0
        self._checking: asyncio.Task[None] | None = None
        self._check_again = False
        self._checks = 0
        self._is_listed = False
        self._closings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    async def open(self) -> None:
        """Connect for the first time. An error affects only this server."""
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                self._session = await self._start()
        except TimeoutError:
            self._tell(f"did not start within {self._limits.start_seconds:g} seconds")
        except ServerFault as fault:
            self._tell(f"cannot be used: {fault}")
        except Exception as problem:  # An unexpected message must not affect the other servers.
            self._tell(f"cannot be used: {type(problem).__name__}: {problem}")

    async def call(
        self, definition: Definition, arguments: JsonObject, seconds: float, progress: Progress
    ) -> JsonObject:
        """Return the unchanged result of a call. Raises ServerFault."""
        try:
            async with asyncio.timeout(seconds):
                return await self._call(definition, arguments, seconds, progress)
        except TimeoutError:
            raise RequestTimeout(f"the server did not answer within {seconds:g} seconds") from None
        except ServerFault as fault:
            fault.args = (self._hide(str(fault)),)
            raise

    async def close(self) -> None:
        self._is_closed = True
        if self._checking is not None:
            self._checking.cancel()
        session, self._session = self._session, None
        if session is not None:
            self._part_from(session)
        await asyncio.gather(*self._closings, return_exceptions=True)

    # ---- calls -----------------------------------------------------------------------------------------------------

    async def _call(
        self, definition: Definition, arguments: JsonObject, seconds: float, progress: Progress
    ) -> JsonObject:
        try:
            session = await self._ready()
        except ServerFault as fault:
            raise RequestNotSent(str(fault)) from None
        if self._checking is not None:
            await asyncio.wait((self._checking,))
        self._require(definition)
        params = {"name": definition.name, "arguments": arguments}
        headers = write_headers(definition.headers, arguments)
        try:
            result = await session.request("tools/call", params, seconds=seconds, headers=headers, progress=progress)
        except SessionGone:
            session = await self._renew(session)
            self._require(definition)
            result = await session.request("tools/call", params, seconds=seconds, headers=headers, progress=progress)
        self._answers += 1
        if self._answers >= self._limits.calls_to_recover:
            self._restarts = 0
        return result

    def _require(self, definition: Definition) -> None:
        if definition.name in self._off:
            raise RequestNotSent(self._off[definition.name])

    async def _ready(self) -> Session:
        """Return the session. Open a new one if the server ended."""
        async with self._lock:
            session = self._session
            if self._is_closed:
                raise ServerFault("the connection to the server was closed")
            if session is not None and not session.channel.is_lost:
                return session
            if session is not None:
                self._session = None
                self._tell("ended, or violated the protocol", session)
                self._part_from(session)
            delays = self._limits.restart_delays
            if self._restarts >= len(delays):
                raise ServerFault(f"the server failed {len(delays) + 1} times, and is not restarted")
            delay = delays[self._restarts]
            self._restarts += 1
            self._answers = 0
            await asyncio.sleep(delay)
            self._session = await self._start()
            return self._session

    async def _renew(self, session: Session) -> Session:
        async with self._lock:
            if self._session is session:
                self._session = None
                self._part_from(session)
            if self._session is None:
                self._session = await self._start()
            return self._session

    def _part_from(self, session: Session) -> None:
        """Close a session in the background: a server may be slow to end."""
        protocol.do_beside(self._closings, session.close())

    # ---- starting and listing --------------------------------------------------------------------------------------

    async def _start(self) -> Session:
        session = Session(self._limits, self._see_change)
        try:
            await session.open(lambda: self._make(session.receive))
            await self._check(session)
        except BaseException as problem:
            if isinstance(problem, ServerFault):
                self._tell("", session)
            self._part_from(session)
            raise
        session.listen()
        self.version = session.version
        _log.info("%s: connected, protocol %s, %d tools", self.server.name, self.version, len(self.definitions))
        return session

    async def _check(self, session: Session) -> None:
        """List the tools, and compare them with their pins and with the first list."""
        listed = await self._list(session)
        found, problems = read_definitions(self.server, listed, self._limits)
        for problem in problems:
            self._note(problem)
        try:
            pins = await asyncio.to_thread(self._store.see, found)
        except ConfigError as problem:
            raise ServerFault(str(problem)) from None
        if not self._is_listed:
            self.definitions, self.pins, self._is_listed = found, pins, True
        now = {each.name: each for each in found}
        self._off.clear()
        for definition in self.definitions:
            if why := self._why_off(definition, now.pop(definition.name, None), pins.get(definition.key)):
                self._off[definition.name] = why
                self._note(f"{self.server.name}: the tool {definition.name!r} is disabled: {why}")
        for name in now:
            self._note(f"{self.server.name}: the tool {name!r} is new, and is available after a restart")

    @staticmethod
    def _why_off(held: Definition, now: Definition | None, pin: Pin | None) -> str:
        if now is None or pin is None:
            return "the server no longer offers it"
        if pin.state == "changed" or now.digest != held.digest:
            return "its definition has changed since it was first seen or approved; " + APPROVE.format(key=held.key)
        return ""

    async def _list(self, session: Session) -> list[Any]:
        listed: list[Any] = []
        cursor: Any = None
        if "tools" not in session.capabilities:
            return listed
        for _ in range(self._limits.pages):
            params = {} if cursor is None else {"cursor": cursor}
            page = await session.request("tools/list", params, seconds=self._limits.start_seconds)
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise ServerFault("its list of tools is not a list")
            listed += tools
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(listed) > self._limits.tools:
                return listed
        self._note(f"{self.server.name}: its list of tools does not end; the first part is used")
        return listed

    def _see_change(self) -> None:
        """Handle a notification that the tools changed; there may be any number of them."""
        self._check_again = True
        if self._checking is None and self._session is not None and self._checks < _MOST_CHECKS:
            self._checking = asyncio.get_running_loop().create_task(self._check_changes())

    async def _check_changes(self) -> None:
        try:
            while self._check_again and self._session is not None and self._checks < _MOST_CHECKS:
                self._check_again = False
                self._checks += 1
                with contextlib.suppress(ServerFault):
                    await self._check(self._session)
        finally:
            self._checking = None

    # ---- problems --------------------------------------------------------------------------------------------------

    def _tell(self, what: str, session: Session | None = None) -> None:
        if what:
            self._note(f"{self.server.name}: {what}")
        if session is not None and (said := session.diagnosis()):
            self._note(f"{self.server.name} wrote: {said}")

    def _note(self, problem: str) -> None:
        shown = self._hide(clean_line(problem, 1500))
        if len(self._problems) < _MOST_PROBLEMS and shown not in self._problems:
            self._problems[shown] = None
            _log.warning("%s", shown)

    def _hide(self, text: str) -> str:
        for secret in self.server.secrets():
            text = text.replace(secret, _HIDDEN)
        return text
