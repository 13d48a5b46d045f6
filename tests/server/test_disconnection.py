"""The work of a request ends with its client, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from dragoman.server.asgi import HttpCall, run_until_disconnect

Work = Callable[["Client"], Awaitable[None]]


class Client:
    """A client that sends its messages when `says` is set, and then stays silent."""

    def __init__(self, *messages: str | Exception) -> None:
        self._messages = list(messages)
        self.says = asyncio.Event()
        self.trace: list[str] = []

    async def receive(self) -> MutableMapping[str, Any]:
        await self.says.wait()
        if not self._messages:
            await asyncio.Event().wait()
        message = self._messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return {"type": message}

    async def run(self, work: Work) -> object:
        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        call = HttpCall(scope, self.receive, lambda _: asyncio.sleep(0))
        try:
            end: object = await run_until_disconnect(call, work(self))
        except (Exception, asyncio.CancelledError) as error:
            end = type(error)
        task = asyncio.current_task()
        assert task is not None
        self.trace.append(f"{task.cancelling()} cancellations left")
        return end


async def waits(client: Client) -> None:
    client.says.set()
    try:
        await asyncio.Event().wait()
    finally:
        client.trace.append("stopped")


async def cleans_up(client: Client) -> None:
    try:
        await waits(client)
    finally:
        await asyncio.sleep(0)
        client.trace.append("cleaned up")


async def swallows(client: Client) -> None:
    try:
        await waits(client)
    except asyncio.CancelledError:
        client.trace.append("went on")


async def answers(client: Client) -> None:
    client.says.set()
    client.trace.append("answered")


async def fails(client: Client) -> None:
    raise LookupError


GONE = "http.disconnect"
CASES: list[tuple[Work, tuple[str | Exception, ...], object, list[str]]] = [
    (answers, (GONE,), True, ["answered"]),
    (answers, (), True, ["answered"]),
    (fails, (GONE,), LookupError, []),
    (waits, (GONE,), False, ["stopped"]),
    (waits, ("http.request", GONE), False, ["stopped"]),
    (waits, (OSError("broken"),), False, ["stopped"]),
    (cleans_up, (GONE,), False, ["stopped", "cleaned up"]),
    (swallows, (GONE,), True, ["stopped", "went on"]),
]


def test_the_work_of_a_request_ends_when_its_client_disconnects() -> None:
    async def check() -> None:
        for work, messages, end, trace in CASES:
            client = Client(*messages)
            assert await client.run(work) == end, (work.__name__, messages)
            assert client.trace == [*trace, "0 cancellations left"], (work.__name__, messages)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(check())


def test_a_request_that_the_server_cancels_stays_cancelled() -> None:
    async def check() -> None:
        for also_gone in (False, True):
            client = Client(*([GONE] if also_gone else []))
            task = asyncio.ensure_future(client.run(waits))
            await asyncio.sleep(0)
            task.cancel()
            assert await task is asyncio.CancelledError
            assert client.trace == ["stopped", "1 cancellations left"]

    asyncio.run(check())
