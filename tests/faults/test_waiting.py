"""Faults 23 and 24: a server that is slow, sends nothing, or sends only signs of life."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.faults.streams import ONCE, QUESTION, TWICE

from dragoman.client import Client, HttpTransport, Timeouts
from dragoman.testing import Fault, Upstream
from dragoman.types import Reply


def ask(
    upstream: Upstream, *, timeouts: Timeouts | None = None, seconds: float | None = None, retries: object = ONCE
) -> Reply:
    async def run() -> Reply:
        transport = HttpTransport()
        client = Client(
            upstream.endpoint(), transport=transport, retries=ONCE if retries is ONCE else TWICE, timeouts=timeouts
        )
        deadline = None if seconds is None else time.monotonic() + seconds
        try:
            return await client.ask(QUESTION, whole=False, deadline=deadline)
        finally:
            await transport.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault("slow_head", at=12), "first_byte"),
        (Fault("stall"), "first_byte"),
        (Fault("stall", at=30), "idle"),
        (Fault("slow", at=1), "idle"),
    ],
    ids=["half a head", "no answer", "half a body", "one byte"],
)
def test_23_a_server_that_dawdles_is_left_and_not_asked_again(fault: Fault, code: str) -> None:
    script = [fault, *([] if fault.answers else ["It is warm."]), "never"]
    with Upstream(script) as upstream:
        reply = ask(upstream, timeouts=Timeouts(first_byte=0.1, idle=0.1), retries=TWICE)
        assert reply.failure is not None and (reply.failure.kind, reply.failure.code) == ("timed_out", code)
        assert upstream.wait_for_hangup(), "the connection is dropped, so that the server can stop too"
        assert len(upstream.received) == 1


def test_24_pings_alone_keep_nothing_alive_beyond_the_deadline() -> None:
    with Upstream([Fault("pings", seconds=0.005)]) as upstream:
        reply = ask(upstream, timeouts=Timeouts(first_byte=60, idle=60), seconds=0.2)
        assert reply.failure is not None and (reply.failure.kind, reply.failure.code) == ("timed_out", "deadline")
        assert upstream.wait_for_hangup()
