"""Web sites on the loopback, their host names, and the tool that fetches from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dragoman.builtin.web.fetch import make_web_fetch
from dragoman.tools import Error, Ok, ToolContext
from dragoman.types import Operand, Tool

Answering = Callable[[str], bytes | None]
"""From the path of a request to the bytes of the answer; None leaves the request without one."""


class Site:
    """A server, and the requests that it received."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        self.requests: list[str] = []
        self.hung_up = asyncio.Event()


def reply(
    body: bytes | str = b"", status: str = "200 OK", kind: str = "text/html; charset=utf-8", extra: Sequence[str] = ()
) -> bytes:
    """Return the bytes of an ordinary answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *([f"Content-Type: {kind}"] if kind else []), *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nSet-Cookie: id=7\r\nLocation: ".encode() + (
        location.encode() + b"\r\n\r\n"
    )


@asynccontextmanager
async def site(answering: Answering, hosts: Sequence[str] = ("127.0.0.1",), **settings: Any) -> AsyncIterator[Site]:
    """A running site; `answering` may also be the same bytes for every path."""
    state: list[Site] = []
    tasks: set[asyncio.Task[None]] = set()

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = state[0]
        here.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            here.requests.append(head)
            data = answering(head.split(" ")[1])
            if data is not None:
                writer.write(data)
                await writer.drain()
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            here.hung_up.set()
            writer.close()

    writers: list[asyncio.StreamWriter] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.ensure_future(work(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    first = await asyncio.start_server(begin, hosts[0], 0, **settings)
    state.append(Site(first.sockets[0].getsockname()[1]))
    listeners = [first]
    for host in hosts[1:]:
        try:
            listeners.append(await asyncio.start_server(begin, host, state[0].port, **settings))
        except OSError:  # Not every machine has IPv6.
            continue
    try:
        yield state[0]
    finally:
        for listener in listeners:
            listener.close()
        for _ in range(5):  # A connection that was just taken gets its writer a few steps later.
            await asyncio.sleep(0)
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


class Names:
    """A resolver from a table. Names with several answers give one after the other, and keep the last one."""

    def __init__(self, **known: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.known = {name.replace("_", "."): list(answers) for name, answers in known.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.known.get(host)
        if answers is None:
            raise OSError("no such name")
        if answers and not isinstance(answers[0], str):
            return answers.pop(0) if len(answers) > 1 else answers[0]
        return answers


LOCAL = Names(example_test=["127.0.0.1"], other_test=["127.0.0.1"])


def fetcher(*sites: Site, **settings: Any) -> Tool:
    """Return the tool for these sites. Each host is allowed only with its own port."""
    given: dict[str, Any] = {
        "ports": [each.port for each in sites],
        "allow_private": [f"127.0.0.1:{each.port}" for each in sites],
        "resolver": LOCAL,
        **settings,
    }
    return make_web_fetch(**given)


async def fetch(tool: Tool, url: str, *, decided: str = "", deadline: float | None = None, **arguments: Any) -> str:
    """Return the text for the model, or `Error: ...`."""
    operands = (Operand("url", decided, "send"),) if decided else ()
    assert tool.run is not None
    try:
        found = await tool.run({"url": url, **arguments}, ToolContext(operands=operands, deadline=deadline))
    except Error as problem:
        return f"Error: {problem.reason}"
    assert isinstance(found, Ok)
    return str(found.value)
