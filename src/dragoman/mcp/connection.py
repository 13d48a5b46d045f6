"""One server, which is kept running while its tools are in use: starts, restarts, lists of tools, quarantine.

The next call restarts a server that ended or violated the protocol, a few times. Its tools are listed again each time,
and whenever it reports a change: a tool with another definition is disabled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.logs import get_log
from dragoman.mcp import protocol
from dragoman.mcp.definitions import Definition, Pin, Pins, read_definitions, write_headers
from dragoman.mcp.elicitation import Ask, Elicitation
from dragoman.mcp.login import BrowserLogin, log_in, open_page
from dragoman.mcp.oauth import LoginNeeded
from dragoman.mcp.protocol import (
    UNSUPPORTED_VERSION,
    Channel,
    ErrorReply,
    Limits,
    Receive,
    RequestNotSent,
    RequestTimeout,
    ServerFault,
    SessionGone,
    clean_line,
)
from dragoman.mcp.servers import HttpServer, Server
from dragoman.mcp.session import Progress, Session
from dragoman.mcp.tokens import Authorizer, TokenStore
from dragoman.types import JsonObject

APPROVE = "approve it with `dragoman approvals mcp approve {key}`, then start again"
_MOST_PROBLEMS = 50
_MOST_CHECKS = 50
_HIDDEN = "[redacted]"
_LISTS = {
    "resources": ("resources", "resources/list"),
    "resourceTemplates": ("resources", "resources/templates/list"),
    "prompts": ("prompts", "prompts/list"),
}
"""The capability and the request of each list that is fetched when somebody asks for it."""
_log = get_log("mcp")
T = TypeVar("T")


class Setup(Struct, frozen=True):
    """What the servers of a toolbox share."""

    limits: Limits
    pins: Pins
    tokens: TokenStore
    environment: Mapping[str, str]
    """The variables of which programs inherit a few."""
    login: BrowserLogin | None = None
    """The user who may be asked to log in while the servers are connected; None: nobody."""


class Connection:
    """A server with its tools. All its code runs on one event loop."""

    def __init__(self, server: Server, setup: Setup) -> None:
        self.server = server
        self.definitions: list[Definition] = []
        """Every tool that the server has offered, as it was first seen; a change never replaces one."""
        self.pins: dict[str, Pin] = {}
        self.revision = 0
        """Counts the changes of `offered`."""
        self.version = ""
        self.failure = ""
        """Why the server cannot be used, if its first connection failed."""
        self._setup = setup
        self._limits = setup.limits
        may_log_in = isinstance(server, HttpServer) and server.may_log_in
        self._authorizer = Authorizer(server, setup.tokens) if may_log_in and isinstance(server, HttpServer) else None
        self._elicitation = Elicitation(server, setup.limits, self._visit)
        self._problems: dict[str, None] = {}
        self._off: dict[str, str] = {}
        self._gone: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        self._was_started = False
        self._restarts = 0
        self._answers = 0
        self._is_renewal_futile = False
        self._checking: asyncio.Task[None] | None = None
        self._check_again = False
        self._checks = 0
        self._is_listed = False
        self._closings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    @property
    def offered(self) -> list[Definition]:
        """The tools that the server offered when it was last asked."""
        return [each for each in self.definitions if each.name not in self._gone]

    def secrets(self) -> list[str]:
        """The values that must never be shown."""
        return [*self.server.secrets(), *(self._authorizer.secrets() if self._authorizer is not None else [])]

    async def open(self) -> None:
        """Connect for the first time. An error affects only this server."""
        self._problems.pop(self.failure, None)
        self.failure = ""
        why = await self._try_to_open()
        login = self._setup.login
        if isinstance(why, LoginNeeded) and login is not None and isinstance(self.server, HttpServer):
            try:
                await log_in(self.server, self._setup.tokens, login, why.challenge)
            except (ServerFault, ConfigError) as fault:
                why = fault
            else:
                assert self._authorizer is not None
                await self._authorizer.read()
                why = await self._try_to_open()
        if isinstance(why, TimeoutError):
            self.failure = self._tell(f"did not start within {self._limits.start_seconds:g} seconds")
        elif why is not None:
            self.failure = self._tell(f"cannot be used: {why}")

    async def _try_to_open(self) -> Exception | None:
        """Connect, and return the reason if that fails."""
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                self._session = await self._start()
        except (TimeoutError, ServerFault) as fault:
            return fault
        except Exception as problem:  # An unexpected message must not affect the other servers.
            return ServerFault(f"{type(problem).__name__}: {problem}")
        return None

    async def recall(self) -> bool:
        """Offer the saved tools, without a connection. The first call starts the server and compares them."""
        found = await asyncio.to_thread(self._setup.pins.recall, self.server, self._limits)
        if found is None:
            return False
        self.definitions, self.pins = found
        self._is_listed = True
        self._compare({each.name: each for each in self.definitions}, self.pins)
        self.revision += 1
        if self._authorizer is not None:
            # The tokens count as secrets from the start.
            with contextlib.suppress(ServerFault):
                await self._authorizer.read()
        return True

    async def call(
        self, definition: Definition, arguments: JsonObject, seconds: float, progress: Progress, ask: Ask | None = None
    ) -> JsonObject:
        """Return the result of a call. Raises ServerFault."""
        params = {"name": definition.name, "arguments": arguments}
        headers = write_headers(definition.headers, arguments)
        more: dict[str, Any] = {"headers": headers, "progress": progress, "ask": ask}
        return await self.request("tools/call", params, seconds, definition, **more)

    async def request(
        self, method: str, params: JsonObject, seconds: float, definition: Definition | None = None, **more: Any
    ) -> JsonObject:
        """Return the result of a request, without secrets. Raises ServerFault."""
        try:
            async with asyncio.timeout(seconds):
                return self._hide_in(await self._request(method, params, seconds, definition, {"ask": None, **more}))
        except TimeoutError:
            raise RequestTimeout(f"the server did not answer within {seconds:g} seconds") from None
        except ServerFault as fault:
            fault.args = (self._hide(str(fault)),)
            raise

    async def fetch_list(self, kind: str) -> list[Any]:
        """Return the whole list of `resources`, `resourceTemplates` or `prompts`. Raises ServerFault."""
        capability, method = _LISTS[kind]
        session = await self._ready()
        if capability not in session.capabilities:
            return []
        try:
            found = await self._fetch_list(session, method, kind)
        except SessionGone:
            found = await self._fetch_list(await self._renew(session), method, kind)
        except ErrorReply as refusal:
            if refusal.code != protocol.METHOD_NOT_FOUND:
                raise
            # Many servers have resources and no templates.
            found = []
        return [self._hide_in(each) for each in found]

    async def close(self) -> None:
        self._is_closed = True
        if self._checking is not None:
            self._checking.cancel()
        session, self._session = self._session, None
        if session is not None:
            self._part_from(session)
        await asyncio.gather(*self._closings, return_exceptions=True)

    # ---- calls -----------------------------------------------------------------------------------------------------

    async def _request(
        self, method: str, params: JsonObject, seconds: float, definition: Definition | None, more: dict[str, Any]
    ) -> JsonObject:
        try:
            session = await self._ready()
        except ServerFault as fault:
            raise RequestNotSent(str(fault)) from None
        if self._checking is not None:
            await asyncio.wait((self._checking,))
        self._require(definition)
        try:
            result = await session.request_with_input(method, params, seconds=seconds, **more)
        except (SessionGone, ErrorReply) as fault:
            if not self._may_renew(fault):
                raise
            # The server did not run the request. It was restarted, or it forgot the session.
            session = await self._renew(session)
            self._require(definition)
            result = await self._request_again(session, method, params, seconds=seconds, **more)
        self._answers += 1
        self._checks = 0
        if self._answers >= self._limits.calls_to_recover:
            self._restarts = 0
        return result

    def _may_renew(self, fault: ServerFault) -> bool:
        if isinstance(fault, SessionGone):
            return fault.is_certain or not self._is_renewal_futile
        return isinstance(fault, ErrorReply) and fault.code == UNSUPPORTED_VERSION

    async def _request_again(self, session: Session, method: str, params: JsonObject, **more: Any) -> JsonObject:
        try:
            return await session.request_with_input(method, params, **more)
        except SessionGone as gone:
            # A new session has no effect on this answer: the next one like it opens none.
            self._is_renewal_futile = self._is_renewal_futile or not gone.is_certain
            raise

    def _require(self, definition: Definition | None) -> None:
        if definition is not None and definition.name in self._off:
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
            if not self._was_started:
                self._session = await self._start()
                return self._session
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
        protocol.start_background(self._closings, session.close())

    # ---- starting and listing --------------------------------------------------------------------------------------

    async def _start(self) -> Session:
        session = Session(self._limits, self._see_change, self._elicitation)
        self._was_started = True
        try:
            await session.open(lambda: self._make_channel(session.receive))
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
        listed: list[Any] = []
        if "tools" in session.capabilities:
            listed = await self._fetch_list(session, "tools/list", "tools")
        found, problems = read_definitions(self.server, listed, self._limits)
        for problem in problems:
            self._note(problem)
        try:
            pins = await asyncio.to_thread(self._setup.pins.see, found, self.server)
        except ConfigError as problem:
            raise ServerFault(str(problem)) from None
        now = {each.name: each for each in found}
        known = {each.name for each in self.definitions}
        added = [each for each in found if each.name not in known]
        if added and self._is_listed:
            _log.info("%s: %d new tools, for the next run", self.server.name, len(added))
        self.definitions = [*self.definitions, *added]
        self.pins = {**self.pins, **{each.key: pins[each.key] for each in added}}
        self._compare(now, pins)
        self._is_listed = True
        self.revision += 1

    def _compare(self, now: Mapping[str, Definition], pins: Mapping[str, Pin]) -> None:
        """Disable the tools whose definition is not the one that was first seen or approved."""
        self._gone = frozenset(each.name for each in self.definitions if each.name not in now)
        off: dict[str, str] = {}
        for definition in self.definitions:
            if why := self._why_off(definition, now.get(definition.name), pins.get(definition.key)):
                off[definition.name] = why
                self._note(f"{self.server.name}: the tool {definition.name!r} is disabled: {why}")
        self._off = off

    @staticmethod
    def _why_off(held: Definition, now: Definition | None, pin: Pin | None) -> str:
        if now is None or pin is None:
            return "the server no longer offers it"
        if pin.state == "changed" or now.digest != held.digest:
            return "its definition has changed since it was first seen or approved; " + APPROVE.format(key=held.key)
        return ""

    async def _fetch_list(self, session: Session, method: str, kind: str) -> list[Any]:
        listed: list[Any] = []
        cursor: Any = None
        for _ in range(self._limits.pages):
            params = {} if cursor is None else {"cursor": cursor}
            page = await session.request(method, params, seconds=self._limits.start_seconds)
            entries = page.get(kind)
            if not isinstance(entries, list):
                raise ServerFault(f"its list of {kind} is not a list")
            listed += entries
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(listed) > self._limits.tools:
                return listed
        self._note(f"{self.server.name}: its list of {kind} does not end; the first part is used")
        return listed

    def _make_channel(self, receive: Receive) -> Channel:
        # Imported late, because most toolboxes need only one of the two.
        if isinstance(self.server, HttpServer):
            from dragoman.mcp.http import HttpChannel

            return HttpChannel(self.server, self._limits, receive, self._authorizer)
        from dragoman.mcp.stdio import StdioChannel

        return StdioChannel(self.server, self._limits, receive, self._setup.environment)

    async def _visit(self, url: str) -> None:
        login = self._setup.login
        await (asyncio.to_thread(open_page, url) if login is None else login.visit(url))

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

    def _tell(self, what: str, session: Session | None = None) -> str:
        """Note what happened to the server, and what it wrote. Returns the problem as it is shown."""
        problem = self._note(f"{self.server.name}: {what}") if what else ""
        if session is not None and (said := session.diagnosis()):
            self._note(f"{self.server.name} wrote: {said}")
        return problem

    def _note(self, problem: str) -> str:
        shown = self._hide(clean_line(problem, 1500))
        if len(self._problems) < _MOST_PROBLEMS and shown not in self._problems:
            self._problems[shown] = None
            _log.warning("%s", shown)
        return shown

    def _hide(self, text: str) -> str:
        for secret in self.secrets():
            text = text.replace(secret, _HIDDEN)
        return text

    def _hide_in(self, result: T) -> T:
        """Return a result without the tokens of the login. A server could send them back, to have them shown."""
        tokens = self._authorizer.secrets() if self._authorizer is not None else []
        encoded = msgspec.json.encode(result).decode() if tokens else ""
        if not any(token in encoded for token in tokens):
            return result
        for token in tokens:
            encoded = encoded.replace(token, _HIDDEN)
        hidden: T = msgspec.json.decode(encoded)
        return hidden
