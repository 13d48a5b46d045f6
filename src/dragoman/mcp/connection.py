"""One server, kept up for as long as its tools are in use.

A server that ends or breaks the protocol is started again by the next call, a few times. Its tools are listed anew each
time, and whenever it says that they changed: a tool that is not what it was is off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from dragoman.errors import ConfigError
from dragoman.mcp.channels import Channel, Receive
from dragoman.mcp.definitions import Definition, read_definitions
from dragoman.mcp.errors import ServerFault, SessionGone, Unanswered, Unsent
from dragoman.mcp.limits import Limits
from dragoman.mcp.parameters import write_headers
from dragoman.mcp.pins import Pin, Pins
from dragoman.mcp.servers import Server
from dragoman.mcp.session import Progress, Session
from dragoman.mcp.texts import clean_line
from dragoman.types import JsonObject

APPROVE = "approve it with `dragoman approvals mcp approve {key}`, then start again"
_MOST_PROBLEMS = 50
_MOST_CHECKS = 50
_HIDDEN = "[redacted]"


class Connection:
    """A server with its tools. Everything here runs on one event loop."""

    def __init__(self, server: Server, limits: Limits, pins: Pins, make: Callable[[Receive], Channel]) -> None:
        self.server = server
        self.definitions: list[Definition] = []
        """The tools as they were when the server was first reached; they stay that until the end."""
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
        """Reach the server for the first time. What goes wrong is a problem of this server, and of no other."""
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                self._session = await self._start()
        except TimeoutError:
            self._tell(f"did not come up within {self._limits.start_seconds:g} seconds")
        except ServerFault as fault:
            self._tell(f"cannot be used: {fault}")
        except Exception as problem:  # Whatever it sent that nobody thought of, the other servers are not to blame.
            self._tell(f"cannot be used: {type(problem).__name__}: {problem}")

    async def call(
        self, definition: Definition, arguments: JsonObject, seconds: float, progress: Progress
    ) -> JsonObject:
        """The result of a call, as the server gave it. Raises ServerFault."""
        try:
            async with asyncio.timeout(seconds):
                return await self._call(definition, arguments, seconds, progress)
        except TimeoutError:
            raise Unanswered(f"the server did not answer within {seconds:g} seconds") from None
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
            raise Unsent(str(fault)) from None
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
            raise Unsent(self._off[definition.name])

    async def _ready(self) -> Session:
        """The session, which is opened anew where the server is gone."""
        async with self._lock:
            session = self._session
            if self._is_closed:
                raise ServerFault("the connection to the server was closed")
            if session is not None and not session.channel.is_lost:
                return session
            if session is not None:
                self._session = None
                self._tell("ended, or broke the protocol", session)
                self._part_from(session)
            delays = self._limits.restart_delays
            if self._restarts >= len(delays):
                raise ServerFault(f"the server failed {len(delays) + 1} times, and is not started again")
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
        """Close a session beside everything else: a server may take its time to end."""
        task = asyncio.get_running_loop().create_task(session.close())
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)

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
        return session

    async def _check(self, session: Session) -> None:
        """List the tools, and compare them with their pins and with what they were."""
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
            why = self._why_off(definition, now.get(definition.name), pins.get(definition.key))
            if why:
                self._off[definition.name] = why
                self._note(f"{self.server.name}: the tool {definition.name!r} is off: {why}")
        known = {each.name for each in self.definitions}
        for name in now.keys() - known:
            self._note(f"{self.server.name}: the tool {name!r} is new, and can be used after the next start")

    @staticmethod
    def _why_off(held: Definition, now: Definition | None, pin: Pin | None) -> str:
        if now is None or pin is None:
            return "the server does not offer it any more"
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
                raise ServerFault("its list of tools is no list")
            listed += tools
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(listed) > self._limits.tools:
                return listed
        self._note(f"{self.server.name}: its list of tools does not end; what came so far is used")
        return listed

    def _see_change(self) -> None:
        """The server says that its tools are others now; it may say so as often as it likes."""
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
        said = session.channel.diagnosis() if session is not None and session.has_channel else ""
        words = [f"{self.server.name}: {what}" if what else "", f"{self.server.name} wrote: {said}" if said else ""]
        for word in filter(None, words):
            self._note(word)

    def _note(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[self._hide(clean_line(problem, 1500))] = None

    def _hide(self, text: str) -> str:
        for secret in self.server.secrets():
            text = text.replace(secret, _HIDDEN)
        return text
