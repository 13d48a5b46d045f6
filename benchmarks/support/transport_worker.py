"""Measures one HTTP client on the loopback: CPU time of a request with a JSON answer, and of a piece of a stream.

Run as `transport_worker.py CLIENT PORT COUNT`; it prints one JSON object. Every client sends the same bytes over a
connection that is kept, and gives out the body as bytes. Other libraries run in an environment of their own.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from time import process_time
from typing import Any

HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer key-of-nobody"}
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 300}]}).encode()
STREAMS = 10

Ask = Callable[[str], Awaitable[tuple[int, int]]]
"""Sends a request to a path, and gives the number of bytes and of pieces."""


async def ask_dragoman(port: int) -> Ask:
    from dragoman.client.http import HttpTransport
    from dragoman.client.transport import HttpRequest, Timeouts

    transport, timeouts = HttpTransport(), Timeouts()

    async def ask(path: str) -> tuple[int, int]:
        response = await transport.send(HttpRequest("POST", f"http://127.0.0.1:{port}{path}", HEADERS, BODY), timeouts)
        sizes = [len(piece) async for piece in response.pieces()]
        await response.close()
        return sum(sizes), len(sizes)

    return ask


async def ask_http_client(port: int) -> Ask:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    async def ask(path: str) -> tuple[int, int]:
        connection.request("POST", path, BODY, HEADERS)
        response = connection.getresponse()
        sizes = []
        while piece := response.read1():
            sizes.append(len(piece))
        response.read()
        return sum(sizes), len(sizes)

    return ask


async def ask_aiohttp(port: int) -> Ask:
    session = import_module("aiohttp").ClientSession()

    async def ask(path: str) -> tuple[int, int]:
        async with session.post(f"http://127.0.0.1:{port}{path}", data=BODY, headers=HEADERS) as response:
            sizes = [len(piece) async for piece in response.content.iter_any()]
        return sum(sizes), len(sizes)

    return ask


async def ask_httpx(port: int) -> Ask:
    client = import_module("httpx").AsyncClient()

    async def ask(path: str) -> tuple[int, int]:
        url = f"http://127.0.0.1:{port}{path}"
        async with client.stream("POST", url, content=BODY, headers=HEADERS) as response:
            sizes = [len(piece) async for piece in response.aiter_raw()]
        return sum(sizes), len(sizes)

    return ask


async def ask_pyreqwest(port: int) -> Ask:
    client = import_module("pyreqwest.client").ClientBuilder().build()
    await client.__aenter__()

    async def ask(path: str) -> tuple[int, int]:
        request = client.post(f"http://127.0.0.1:{port}{path}").headers(HEADERS).body_bytes(BODY).build_streamed()
        sizes = []
        async with request as response:
            while piece := await response.body_reader.read_chunk():
                sizes.append(len(piece))
        return sum(sizes), len(sizes)

    return ask


CLIENTS: dict[str, Callable[[int], Awaitable[Ask]]] = {
    "dragoman": ask_dragoman,
    "http.client": ask_http_client,
    "aiohttp": ask_aiohttp,
    "httpx": ask_httpx,
    "pyreqwest": ask_pyreqwest,
}


async def measure(name: str, port: int, count: int) -> dict[str, Any]:
    ask = await CLIENTS[name](port)
    size, _ = await ask("/whole")
    streamed, _ = await ask("/stream")
    start = process_time()
    for _ in range(count):
        await ask("/whole")
    request = (process_time() - start) / count
    start = process_time()
    for _ in range(STREAMS):
        await ask("/stream")
    stream = (process_time() - start) / STREAMS
    return {"request": request * 1e6, "stream": stream * 1e6, "bytes": [size, streamed]}


def main() -> None:
    name, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    library, _, loop = name.partition("+")
    run = import_module("uvloop").run if loop == "uvloop" else asyncio.run
    figures = run(measure(library, port, count))
    own = library in ("dragoman", "http.client")
    print(json.dumps({**figures, "version": "" if own else version(library)}), flush=True)


if __name__ == "__main__":
    # Sessions are not closed: the process ends here, and what they warn about is not measured.
    import warnings

    warnings.simplefilter("ignore")
    main()
