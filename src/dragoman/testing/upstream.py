"""A loopback HTTP server that answers from a script and injects faults."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from msgspec import Struct, field, structs

from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.providers import Endpoint
from dragoman.testing.faults import Fault, IntendedAnswer, Step, apply_fault, chunk
from dragoman.testing.script import Exchange, Script, ScriptedModel, as_script
from dragoman.types import JsonObject, Request

# --------------------------------------------------------------------------------------------------------------------
# The server side of HTTP/1.1, as far as tests need it: it reads requests, one after another.

_PIECE = 1 << 16


class Received(Struct, frozen=True):
    """A received request. Header names are in lower case; of a repeated header, the last one counts."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Incoming:
    """Reads the requests of a client, and can wait for its disconnection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._held = bytearray()

    async def wait_for_end(self) -> None:
        """Wait until the client disconnects. Data that it sends in the meantime is kept."""
        while await self._fill():
            pass

    async def read(self) -> Received | None:
        """Return the next request, or None at the end."""
        while b"\r\n\r\n" not in self._held:
            if not await self._fill():
                return None
        head = await self._take(self._held.index(b"\r\n\r\n") + 4)
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "chunked" in headers.get("transfer-encoding", ""):
            return Received(method, target, headers, await self._read_chunks())
        return Received(method, target, headers, await self._take(int(headers.get("content-length", "0"))))

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            while b"\r\n" not in self._held:
                await self._fill_or_fail()
            size = int(await self._take(self._held.index(b"\r\n") + 2), 16)
            body += (await self._take(size + 2))[:size]
            if size == 0:
                return bytes(body)

    async def _take(self, count: int) -> bytes:
        while len(self._held) < count:
            await self._fill_or_fail()
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    async def _fill_or_fail(self) -> None:
        if not await self._fill():
            raise ConnectionResetError("the client disconnected in the middle of a request")

    async def _fill(self) -> bool:
        try:
            piece = await self._reader.read(_PIECE)
        except ConnectionError:
            return False
        self._held += piece
        return bool(piece)


# --------------------------------------------------------------------------------------------------------------------
# A real HTTP server on this machine that answers from a script, with the faults that you list.
#
# It runs in its own thread, so that tests of blocking and of asynchronous code can use it:
#
#     with Upstream([Fault("status", status=429), call("weather", city="Paris"), "It is warm."]) as upstream:
#         agent = dragoman.Agent(upstream.endpoint(), tools=[weather])

_PATIENT = Timeouts(3600.0, 3600.0, 3600.0)
_SECONDS_TO_STOP = 10.0


class Upstream:
    """A server at `upstream.url` that answers from a script.

    `script` is a `ScriptedModel`, or a list of its replies. A `Fault` in the list damages the reply after it; a fault
    that is its own answer (`Fault("status")`) answers one request. With a `ScriptedModel`, `faults` is a separate list,
    with one entry for each request, None for no fault. `options` are those of `ScriptedModel`.
    """

    def __init__(
        self,
        script: ScriptedModel | Iterable[Script | Fault] | Script = (),
        *,
        faults: Sequence[Fault | None] = (),
        tls: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(script, ScriptedModel):
            self.model, self._faults = script, list(faults)
        else:
            replies, listed = _sort(script)
            self.model, self._faults = ScriptedModel(replies, **options), [*listed, *faults]
        self._tls = tls
        self.received: list[Received] = []
        """All received requests, including those that a fault answered."""
        self.connections = 0
        self.errors: list[BaseException] = []
        """The errors of the script itself; the end of the `with` block raises the first."""
        self._hangups = threading.Semaphore(0)
        self._arrivals = threading.Semaphore(0)
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._port = 0

    # ---- inspection ---------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}/v1"

    @property
    def exchanges(self) -> list[Exchange]:
        """The requests that arrived, with their answers."""
        return self.model.exchanges

    @property
    def requests(self) -> list[Request]:
        """The requests that the script answered, in neutral form."""
        return self.model.requests

    @property
    def bodies(self) -> list[JsonObject]:
        """The JSON bodies of the requests that arrived."""
        return self.model.bodies

    def endpoint(self, model: str = "scripted", **settings: Any) -> Endpoint:
        """Return the endpoint for an agent; it needs no key."""
        return self.model.endpoint(model, base_url=self.url, **settings)

    def go_on(self) -> None:
        """Let a `slow` answer send its next piece."""
        self._loop.call_soon_threadsafe(self._turns.release)

    def wait_for_request(self, seconds: float = 10.0) -> bool:
        """Wait until one more request has arrived. Returns False after a timeout."""
        return self._arrivals.acquire(timeout=seconds)

    def wait_for_hangup(self, seconds: float = 10.0) -> bool:
        """Wait until one more client has disconnected in the middle of an answer. Returns False after a timeout."""
        return self._hangups.acquire(timeout=seconds)

    # ---- starting and stopping ----------------------------------------------------------------------------------

    def __enter__(self) -> Upstream:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="upstream", daemon=True)
        self._thread.start()
        self._started.wait(_SECONDS_TO_STOP)
        if not self._port:
            raise self.errors[0] if self.errors else RuntimeError("the upstream did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_STOP)
        if self.errors and error is None:
            raise self.errors[0]

    async def __aenter__(self) -> Upstream:
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.__exit__, *error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._turns = asyncio.Semaphore(0)
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
            self._port = server.sockets[0].getsockname()[1]
        except OSError as error:
            self.errors.append(error)
            return
        finally:
            self._started.set()
        await self._stopped.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- one connection -----------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        # So that `drain` waits until everything is on its way. With TLS and a limit of 0, asyncio takes an empty buffer
        # for a full one, and a stream would wait for good.
        writer.transport.set_write_buffer_limits(0 if self._tls is None else 1, 0)
        try:
            await self._serve_connection(Incoming(reader), writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        except Exception as error:
            self.errors.append(error)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_connection(self, incoming: Incoming, writer: asyncio.StreamWriter) -> None:
        """Answer the requests on one connection, one after another, until a fault or the client ends it."""
        goes_on = True
        while goes_on and (received := await incoming.read()) is not None:
            number = len(self.received)
            self.received.append(received)
            self._arrivals.release()
            fault = self._faults[number] if number < len(self._faults) else None
            goes_on = await self._answer_until_hangup(received, fault, incoming, writer)

    async def _answer_until_hangup(
        self, received: Received, fault: Fault | None, incoming: Incoming, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the answer unless the client disconnects first. Returns whether the connection stays open."""
        leaving = asyncio.create_task(incoming.wait_for_end())
        sending = asyncio.create_task(self._answer(received, fault, writer))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not isinstance(sending.exception(), ConnectionError):
                return sending.result()
            self._hangups.release()
            return False
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)

    async def _answer(self, received: Received, fault: Fault | None, writer: asyncio.StreamWriter) -> bool:
        if fault is not None and fault.answers:
            return await self._send(apply_fault(fault, IntendedAnswer()), writer)
        url = self.url.removesuffix("/v1") + received.target
        try:
            response = await self.model.send(
                HttpRequest(received.method, url, received.headers, received.body), _PATIENT
            )
            meant = IntendedAnswer(response.status, dict(response.headers), [], _streams(response.headers))
            if fault is None and meant.chunked:
                return await self._relay(meant, response, writer)
            meant = structs.replace(meant, pieces=[piece async for piece in response.pieces()])
        except TransportFault:
            return await self._send([Step(then="reset")], writer)
        except AssertionError as error:
            # The script has no more replies: the end of the `with` block raises the error.
            self.errors.append(error)
            return await self._send(apply_fault(Fault("status", status=400, body=str(error)), IntendedAnswer()), writer)
        return await self._send(apply_fault(fault, meant), writer)

    async def _relay(self, meant: IntendedAnswer, response: HttpResponse, writer: asyncio.StreamWriter) -> bool:
        """Send a stream without faults: each piece when it arrives."""
        await self._write(meant.head(), writer)
        async for piece in response.pieces():
            await self._write(chunk(piece), writer)
        await self._write(chunk(b""), writer)
        return True

    async def _send(self, steps: list[Step], writer: asyncio.StreamWriter) -> bool:
        for step in steps:
            await self._write(step.data, writer)
            while step.repeats:
                await asyncio.sleep(step.seconds)
                await self._write(step.data, writer)
            if step.then == "pause":
                await asyncio.sleep(step.seconds)
            elif step.then == "wait":
                await self._turns.acquire()
            elif step.then == "stall":
                await self._stopped.wait()
            elif step.then == "reset":
                reset(writer)
                return False
            elif step.then == "close":
                return False
        return True

    async def _write(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if data:
            writer.write(data)
            await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Drop a connection so that the other side sees a reset and not an end."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _streams(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "")
    return any(word in kind for word in ("event-stream", "eventstream", "ndjson"))


def _sort(script: Any) -> tuple[list[Script], list[Fault | None]]:
    """Return the replies of a list, and the fault of each request: a fault damages the reply after it."""
    replies: list[Script] = []
    faults: list[Fault | None] = []
    waiting: Fault | None = None
    for entry in as_script(script):
        if not isinstance(entry, Fault):
            replies.append(entry)
            faults.append(waiting)
            waiting = None
        elif entry.answers:
            faults.append(entry)
        else:
            waiting = entry
    if waiting is not None:
        raise ConfigError(f"Fault({waiting.kind!r}) damages a reply, and none follows it", hint="add a reply after it")
    return replies, faults
