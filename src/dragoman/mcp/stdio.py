"""The stdio transport of MCP: a server as a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping

from dragoman.mcp import protocol
from dragoman.mcp.protocol import Limits, Receive, ServerFault, ServerLost, clean_line
from dragoman.mcp.servers import StdioServer
from dragoman.own_code import note_code
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The environment of a server: what every program needs, and what its own row says. Nothing else.
#
# A server is somebody else's program. It gets none of the keys that lie in the environment of the user.

INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"}
    # What programs on Windows do not start without.
    | {"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"}
)


def clean_environment(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server is started with; `own` are those of its row, and win."""
    kept = {
        name: value
        for name, value in inherited.items()
        # Old shells carry functions in variables; what looks like one is left out.
        if (name.upper() in INHERITED or name.startswith("LC_")) and not value.startswith("()")
    }
    return {**kept, **own}


# --------------------------------------------------------------------------------------------------------------------
# A server as a process of ours: in its own group, with bounded pipes, and gone for certain when it is closed.
#
# Messages go over its standard input and output: one in each line.

_LAST_WORDS = 1.0
"""Seconds in which the output of a process that ended may still arrive; a child of it may hold the pipe for ever."""
_IN, _OUT, _ERR = 0, 1, 2
_FORCE: signal.Signals = getattr(signal, "SIGKILL", signal.SIGTERM)


class StdioChannel(asyncio.SubprocessProtocol):
    """One life of one server, seen from the event loop. After it ended, a new channel starts it again."""

    needs_headers = False

    def __init__(self, server: StdioServer, limits: Limits, receive: Receive, inherited: Mapping[str, str]) -> None:
        self._server = server
        self._environment = clean_environment(inherited, server.environment)
        self._limits = limits
        self._receive = receive
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._noise = 0
        self._line = bytearray()
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._open_pipes = {_IN, _OUT, _ERR}
        self._over = asyncio.Event()
        self._why_lost = ""

    @property
    def is_lost(self) -> bool:
        return self._over.is_set()

    async def open(self) -> None:
        note_code(*(os.path.join(self._server.cwd or "", word) for word in self._server.command))
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *self._server.command, env=self._environment, cwd=self._server.cwd, start_new_session=True
            )
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or str(problem)
            raise ServerFault(f"{self._server.command[0]!r} cannot be started: {why}") from None

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        identity: int = message["id"]
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        try:
            await self._write(protocol.write(message))
            return await answer
        finally:
            del self._waiting[identity]
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, although writing may have failed before anybody could look

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        self._write_now(message)

    async def listen(self, headers: dict[str, str]) -> None:
        """Everything comes over the one pipe, so there is nothing to open."""
        raise ServerFault("there is nothing else to listen to")

    def begin_session(self, headers: dict[str, str]) -> None:
        """Nothing to do: the session is the process."""

    async def close(self) -> None:
        """End the server: first by the end of its input, then by a signal, then by force; its group with it."""
        self._give_up("the connection was closed")
        transport = self._transport
        if transport is None:
            return
        try:
            pipe = self._input()
            if pipe is not None:
                pipe.close()
            if not await self._wait() and os.name != "nt":
                self._signal(signal.SIGTERM)
                await self._wait()
        finally:
            self._signal(_FORCE)
            await self._wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                transport.close()

    def diagnosis(self) -> str:
        return clean_line(self._stderr.decode("utf-8", "replace")[-2000:], 1000)

    # ---- writing and ending ----------------------------------------------------------------------------------------

    async def _write(self, line: bytes) -> None:
        """Write one line; waits while the server does not read. Raises ServerLost."""
        await self._may_write.wait()
        pipe = self._input()
        if pipe is None or pipe.is_closing():
            # It takes a moment to learn how the server ended.
            await self._over.wait()
        if self.is_lost or pipe is None:
            raise ServerLost(self._why_lost)
        pipe.write(line + b"\n")

    def _write_now(self, message: JsonObject) -> None:
        """Write what is of use only now, such as a cancellation; a server that does not read does without."""
        pipe = self._input()
        if not self.is_lost and self._may_write.is_set() and pipe is not None and not pipe.is_closing():
            pipe.write(protocol.write(message) + b"\n")

    def _input(self) -> asyncio.WriteTransport | None:
        pipe = None if self._transport is None else self._transport.get_pipe_transport(_IN)
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None

    async def _wait(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.close_seconds):
                await self._exited.wait()
        return self._exited.is_set()

    def _signal(self, number: signal.Signals) -> None:
        transport = self._transport
        if transport is None or self._exited.is_set():
            # Its number may by now be that of somebody else.
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "nt":
                transport.kill()
            else:
                os.killpg(transport.get_pid(), number)

    def _end(self, why: str) -> None:
        """Nothing more is taken from the server; the process is ended without ceremony."""
        if not self.is_lost:
            self._give_up(why)
            self._signal(_FORCE)

    def _give_up(self, why: str) -> None:
        if self.is_lost:
            return
        self._why_lost = why
        self._over.set()
        self._may_write.set()
        self._line.clear()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ServerLost(why))

    # ---- what the event loop tells ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _ERR:
            # Read however much it is, so that the server is not held up; the last of it is enough to find a fault.
            self._stderr += data[-self._limits.stderr_bytes :]
            del self._stderr[: -self._limits.stderr_bytes]
        elif not self.is_lost:
            self._take_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if fd == _IN:
            self._may_write.set()
        self._see_the_end()

    def process_exited(self) -> None:
        # Children of it may live on in its group, and keep its number from being given to anybody else.
        self._signal(_FORCE)
        self._exited.set()
        self._see_the_end()

    def pause_writing(self) -> None:
        if not self.is_lost:
            self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _see_the_end(self) -> None:
        """The process and its pipes end one after the other; the last of them may take a moment, or for ever."""
        has_exited = self._exited.is_set()
        code = None if self._transport is None else self._transport.get_returncode()
        why = f"the server ended ({_ending(code)})" if has_exited else "the server closed its input or output"
        if has_exited and self._open_pipes <= {_IN}:
            self._end(why)
        elif not self.is_lost and (has_exited or not {_IN, _OUT} <= self._open_pipes):
            asyncio.get_running_loop().call_later(_LAST_WORDS, self._end, why)

    # ---- messages --------------------------------------------------------------------------------------------------

    def _take_output(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        most = self._limits.message_bytes
        for line in lines:
            if len(self._line) + len(line) > most:
                break
            whole = bytes(self._line + line) if self._line else line
            self._line.clear()
            self._take(whole)
            if self.is_lost:
                return
        else:
            self._line += rest
            if len(self._line) <= most:
                return
        self._end(f"the server sent a message of more than {most} bytes")

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if line.lstrip()[:1] not in (b"{", b"["):
            # A greeting or a log line of a careless server; it cannot be mistaken for a message.
            self._noise += 1
            if self._noise > self._limits.noise_lines:
                self._end("the server keeps writing to its output what is no message")
            return
        try:
            found = protocol.read(line)
        except protocol.InvalidMessage as problem:
            self._end(f"the server sent what is no message ({problem})")
            return
        for message in found:
            self._take_message(message)

    def _take_message(self, message: JsonObject) -> None:
        if protocol.is_answer(message):
            identity = message.get("id")
            answer = self._waiting.get(identity) if type(identity) is int else None
            # Answers that nobody waits for (late, twice, to a wrong number) are nobody's.
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        reply = self._receive(message)
        if reply is not None:
            self._write_now(reply)


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-code).name}"
    return f"by signal {-code}"
