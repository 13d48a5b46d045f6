"""Messages over the standard input and output of a process: one in each line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from dragoman.mcp import messages
from dragoman.mcp.channels import Receive
from dragoman.mcp.environments import clean_environment
from dragoman.mcp.errors import ServerFault, ServerLost
from dragoman.mcp.limits import Limits
from dragoman.mcp.processes import ServerProcess
from dragoman.mcp.servers import StdioServer
from dragoman.mcp.texts import clean_line
from dragoman.types import JsonObject


class StdioChannel:
    """One life of one server. After it ended, a new channel starts it again."""

    needs_headers = False

    def __init__(self, server: StdioServer, limits: Limits, receive: Receive, inherited: Mapping[str, str]) -> None:
        self._environment = clean_environment(inherited, server.environment)
        self._limits = limits
        self._receive = receive
        self._process = ServerProcess(server, limits, self._take, self._lost)
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._noise = 0
        self._why_lost = ""

    @property
    def is_lost(self) -> bool:
        return bool(self._why_lost)

    async def open(self) -> None:
        await self._process.start(self._environment)

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        identity: int = message["id"]
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        try:
            if self._why_lost:
                raise ServerLost(self._why_lost)
            await self._process.write(messages.write(message))
            return await answer
        finally:
            del self._waiting[identity]
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, although writing may have failed before anybody could look

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        self._process.write_now(messages.write(message))

    async def listen(self, headers: dict[str, str]) -> None:
        """Everything comes over the one pipe, so there is nothing to open."""
        raise ServerFault("there is nothing else to listen to")

    def begin_session(self, headers: dict[str, str]) -> None:
        """Nothing to do: the session is the process."""

    async def close(self) -> None:
        self._lost("the connection was closed")
        await self._process.close()

    def diagnosis(self) -> str:
        return clean_line(self._process.stderr()[-2000:], 1000)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if line.lstrip()[:1] not in (b"{", b"["):
            # A greeting or a log line of a careless server; it cannot be mistaken for a message.
            self._noise += 1
            if self._noise > self._limits.noise_lines:
                self._process.end("the server keeps writing to its output what is no message")
            return
        try:
            found = messages.read(line)
        except messages.NoMessage as problem:
            self._process.end(f"the server sent what is no message ({problem})")
            return
        for message in found:
            self._take_message(message)

    def _take_message(self, message: JsonObject) -> None:
        if messages.is_answer(message):
            identity = message.get("id")
            answer = self._waiting.get(identity) if type(identity) is int else None
            # Answers that nobody waits for (late, twice, to a wrong number) are nobody's.
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        reply = self._receive(message)
        if reply is not None:
            self._process.write_now(messages.write(reply))

    def _lost(self, why: str) -> None:
        self._why_lost = self._why_lost or why
        for answer in self._waiting.values():
            if not answer.done():
                with contextlib.suppress(asyncio.InvalidStateError):
                    answer.set_exception(ServerLost(why))
