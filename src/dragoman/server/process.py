"""The process of a gateway: it opens the socket, runs the server, and ends without leaving anything behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from dragoman import wire as wires
from dragoman.client.http import HttpTransport, Limits
from dragoman.errors import ConfigError, DragomanError
from dragoman.extras import missing_extra
from dragoman.providers import Facts
from dragoman.server.access import Access
from dragoman.server.asgi import Receive, Scope, Send
from dragoman.server.gateway import Gateway
from dragoman.server.paths import TRANSLATED
from dragoman.server.router import Router, find_servers
from dragoman.server.settings import GatewaySettings, ServerSettings, read_settings

log = logging.getLogger("dragoman.server")
SECONDS_TO_END = 2
"""After the grace period, for the last words to clients that read them."""
MakeGateway = Callable[[Router, Access | None], Gateway]
"""Makes the application of a gateway."""
_OTHER_FILES = 64
_MOST_FILES = 65536


def open_socket(host: str, port: int) -> socket.socket:
    """Listen at an address. Port 0 chooses a free port. Raises a ConfigError that says who may use the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OverflowError):
            why, hint = "there is no such port", "choose one up to 65535 with --port, or 0 for any"
        elif error.errno in (errno.EADDRINUSE, errno.EACCES):
            why, hint = error.strerror or "", "choose another port with --port, or 0 for any"
        else:
            why, hint = error.strerror or "", "choose an address of this machine with --host"
        raise ConfigError(f"cannot listen at {host}:{port}: {why}", hint=hint) from None
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL of a socket, as a client on this machine reaches it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def raise_file_limit() -> None:
    """Let this process have as many files as the system allows it. The usual limit means 480 clients."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def require_server() -> None:
    """Raise a ConfigError that says what to install, if the packages of a server are not there."""
    try:
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise missing_extra(f"a server needs {error.name}", "server") from None


def count_connections(most: int) -> int:
    """Return how many clients there may be at the same time: each needs a connection, and one to an endpoint."""
    try:
        import resource
    except ImportError:
        return most
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, (soft - _OTHER_FILES) // 2))


async def open_gateway(
    settings: GatewaySettings,
    facts: Facts | None = None,
    access: Access | None = None,
    make: MakeGateway | None = None,
    secret: bytes | None = None,
    proxy: str = "env",
) -> tuple[Gateway, HttpTransport]:
    """Detect the servers, and return the application. The caller closes the transport. `make` makes the application.

    Without `make`, `secret` is that of the boundaries of results, which several processes share. `proxy` is that of the
    transport.
    """
    own = settings.gateway
    limits = Limits(
        body_bytes=own.most_of_a_reply,
        wire_bytes=own.most_of_a_reply,
        connections=count_connections(own.most_connections),
    )
    transport = HttpTransport(limits=limits, proxy=proxy)
    try:
        servers = await find_servers(settings, transport)
        router = Router(settings, servers=servers, transport=transport, facts=facts)
        return Gateway(router, secret=secret, access=access) if make is None else make(router, access), transport
    except BaseException:
        await transport.close()
        raise


def load_pipeline() -> None:
    """Load the parsers of all formats, and compile their patterns. Everything else at a start takes less time."""
    from dragoman.extraction import extract, extractor
    from dragoman.extraction.text_results import compile_marks

    import_module("dragoman.pipeline.exchange")

    # When the process has no file left, errors still have to be written.
    for wire in {*TRANSLATED.values(), "gemini"}:
        wires.get(wire)
    compile_marks()
    tools = [{"name": "look", "description": "Looks."}]
    extract("One line.\nAnother one: look() and {}", tools=tools, trust="compat")
    stage = extractor(tools=tools, trust="compat")
    stage.feed("One line.\nAnother ")
    stage.close()


class Application(Protocol):
    """What a server needs of an ASGI application."""

    access: Access
    loading: asyncio.Future[None] | None

    @property
    def settings(self) -> ServerSettings: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def refuse_excess(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


class GatewayServer:
    """Serves an application on a socket until it is told to stop."""

    def __init__(
        self, gateway: Application, listener: socket.socket, load: Callable[[], None] | None = load_pipeline
    ) -> None:
        """`load` prepares what the application needs, beside the loop."""
        require_server()
        import uvicorn

        from dragoman.server.protocol import StrictProtocol

        config: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", "server_header": False}
        own = gateway.settings
        limits = {"head_seconds": own.head_seconds, "body_seconds": own.body_seconds}
        most = count_connections(own.most_connections)
        config["http"] = partial(StrictProtocol, **limits, most=most, excess=gateway.refuse_excess)
        config |= {"ws": "none", "proxy_headers": False, "timeout_graceful_shutdown": own.grace + SECONDS_TO_END}
        self._gateway = gateway
        self._prepare = load
        self._grace = own.grace
        self._server = uvicorn.Server(uvicorn.Config(gateway, **config))
        self._listener = listener
        # The gateway logs its errors itself, and a request that the end of the process cuts off is none.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def run(self) -> None:
        """Serve until `stop`. Requests that have begun are finished first."""
        # The server's own signal handlers would replace those of the command.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        loading = asyncio.ensure_future(self._load())
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            await loading
            self._gateway.access.quotas.close()
            self._gateway.close()

    async def _load(self) -> None:
        """Load the pipeline beside the loop, so that the server answers meanwhile."""
        if self._prepare is None:
            return
        gateway, loop = self._gateway, asyncio.get_running_loop()
        gateway.loading = loop.run_in_executor(None, self._prepare)
        try:
            await gateway.loading
        except Exception:
            # Every exchange will fail in the same way, and say so to its client.
            log.exception("the parsers of the gateway cannot be loaded")
        finally:
            gateway.loading = None

    def stop(self, *, at_once: bool = False) -> None:
        """End the server: no new connections; requests that have begun are finished, unless `at_once`."""
        self._gateway.end()
        if at_once:
            self._cut_off()
        elif not self._server.should_exit:
            asyncio.get_running_loop().call_later(self._grace, self._cut_off)
        self._server.should_exit = True
        self._server.force_exit = at_once

    def _cut_off(self) -> None:
        for task in list(self._server.server_state.tasks):
            task.cancel()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve as long as the block runs."""
        task = asyncio.ensure_future(self.run())
        try:
            while not (self._server.started and self._gateway.loading is None) and not task.done():
                await asyncio.sleep(0.005)
            yield
        finally:
            self.stop()
            await task


def handle_signals(server: GatewayServer, reload: Callable[[], object] | None) -> None:
    """SIGINT and SIGTERM end the server, a second one at once; SIGHUP reads the settings again.

    Without settings to read, SIGHUP ends the server too: its terminal was closed.
    """
    loop = asyncio.get_running_loop()
    count = 0

    def stop() -> None:
        nonlocal count
        count += 1
        server.stop(at_once=count > 1)

    answers: dict[str, Callable[[], object]] = {"SIGINT": stop, "SIGTERM": stop, "SIGHUP": reload or stop}
    for name, answer in answers.items():
        if hasattr(signal, name):
            _handle_signal(loop, getattr(signal, name), answer)


def _handle_signal(loop: asyncio.AbstractEventLoop, number: signal.Signals, answer: Callable[[], object]) -> None:
    try:
        loop.add_signal_handler(number, answer)
    except RuntimeError:
        # The loop of Windows takes no signals. The handler of the interpreter wakes the loop.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(answer))


async def reload_settings(
    gateway: Gateway,
    path: Path,
    transport: HttpTransport,
    facts: Facts | None = None,
    prepare: Callable[[GatewaySettings], GatewaySettings] | None = None,
) -> str:
    """Read the settings file again. Return the error if it cannot be used; the old settings then stay.

    `prepare` returns the part of the settings for this process.
    """
    try:
        settings = read_settings(path)
        settings = settings if prepare is None else prepare(settings)
        servers = await find_servers(settings, transport)
        gateway.use(Router(settings, servers=servers, transport=transport, facts=facts))
        gateway.access.use(settings.gateway)
    except DragomanError as error:
        log.error("the settings were not reloaded, and the old ones stay: %s; %s", error, error.next_step)
        return str(error)
    log.info("the settings were reloaded from %s", path)
    return ""
