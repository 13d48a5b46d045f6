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
from dragoman.own_code import note_code, resolve_once
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The environment of a server: the variables that every program needs, and those of its row. Nothing else.
#
# A server is untrusted code. It gets none of the keys in the environment of the user.

INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"}
    # Programs on Windows need these to start.
    | {"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"}
)


def clean_environment(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server; `own` are the variables of its row, which have priority."""
    kept = {
        name: value
        for name, value in inherited.items()
        # Old shells store functions in variables; such values are omitted.
        if (name.upper() in INHERITED or name.startswith("LC_")) and not value.startswith("()")
    }
    return {**kept, **own}


# --------------------------------------------------------------------------------------------------------------------
# A server as a child process: in its own group, with bounded pipes, and always ended when the channel is closed.
#
# Each line of its standard input and output is one message.

_LAST_WORDS = 1.0
"""Seconds in which the output of an ended process may still arrive; a child may keep the pipe open for ever."""
_IN, _OUT, _ERR = 0, 1, 2
_FORCE: signal.Signals = getattr(signal, "SIGKILL", signal.SIGTERM)


class StdioChannel(asyncio.SubprocessProtocol):
    """One process of a server. After its end, a new channel starts another one."""

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
        name, *words = self._server.command
        note_code(*(os.path.join(self._server.cwd or "", word) for word in self._server.command))
        # A server may be started again after tools have run.
        program = resolve_once(name, self._environment.get("PATH", os.defpath))
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, program, *words, env=self._environment, cwd=self._server.cwd, start_new_session=True
            )
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or str(problem)
            raise ServerFault(f"cannot start {self._server.command[0]!r}: {why}") from None

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
                answer.exception()  # mark it as retrieved: the write may have failed before

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        self._write_now(message)

    async def listen(self, headers: dict[str, str]) -> None:
        """All messages use the same pipe, so there is nothing to open."""
        raise ServerFault("this transport has no other connection")

    def begin_session(self, headers: dict[str, str]) -> None:
        """Nothing to do: the session is the process."""

    async def close(self) -> None:
        """End the server and its process group: close its input, then send SIGTERM, then SIGKILL."""
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
            # The exit status arrives a moment later.
            await self._over.wait()
        if self.is_lost or pipe is None:
            raise ServerLost(self._why_lost)
        pipe.write(line + b"\n")

    def _write_now(self, message: JsonObject) -> None:
        """Write a message without waiting, such as a cancellation; it is dropped if the server does not read."""
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
            # The pid may already belong to another process.
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "nt":
                transport.kill()
            else:
                os.killpg(transport.get_pid(), number)

    def _end(self, why: str) -> None:
        """Stop reading from the server, and kill the process."""
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

    # ---- callbacks of the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _ERR:
            # Read everything, so that the server does not block; the last part is enough to find a fault.
            self._stderr += data[-self._limits.stderr_bytes :]
            del self._stderr[: -self._limits.stderr_bytes]
        elif not self.is_lost:
            self._take_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if fd == _IN:
            self._may_write.set()
        self._handle_exit()

    def process_exited(self) -> None:
        # Children may survive in its group, which keeps the group id in use.
        self._signal(_FORCE)
        self._exited.set()
        self._handle_exit()

    def pause_writing(self) -> None:
        if not self.is_lost:
            self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _handle_exit(self) -> None:
        """Handle the end of the process and its pipes, which happens in steps; the last one may never happen."""
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
            # A greeting or a log line of a careless server; it cannot be confused with a message.
            self._noise += 1
            if self._noise > self._limits.noise_lines:
                self._end("the server keeps writing other text to its output")
            return
        try:
            found = protocol.read(line)
        except protocol.InvalidMessage as problem:
            self._end(f"the server sent an invalid message ({problem})")
            return
        for message in found:
            self._take_message(message)

    def _take_message(self, message: JsonObject) -> None:
        if protocol.is_answer(message):
            identity = message.get("id")
            answer = self._waiting.get(identity) if type(identity) is int else None
            # Answers without a waiting request (late, duplicate, wrong id) are ignored.
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
