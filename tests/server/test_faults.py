"""Faults 14 to 28 on real sockets: what the clients of every wire receive when an endpoint fails.

A fault before the first output is retried or sent to a fallback; after it, the client gets an error of its own wire
and no part of a call.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, NamedTuple

from tests.server import processes
from tests.server.gateways import FixedServer, RunningGateway, run_gateway
from tests.server.processes import CLIENTS, Answer

from dragoman import wire as wires
from dragoman.client.client import Client
from dragoman.providers import resolve
from dragoman.server.router import Router
from dragoman.server.settings import EndpointSettings, GatewaySettings, RouteProfile, RouteSettings, ServerSettings
from dragoman.testing import Answer as Raw
from dragoman.testing import Fault, Upstream, call, calls
from dragoman.types import Message, Reply

KEY = "sk-upstream-0123456789abcdefghij"
TEXT = "I will save it now, in a minute. "
GOOD = calls(call("save", note="hello", copies=2), say=TEXT)
MODES = [(wire, stream) for wire in CLIENTS for stream in (False, True)]
SHORT = {"first_byte_timeout": 0.3, "idle_timeout": 0.3, "total_timeout": 0.6}
IDLE = {"idle_timeout": 1.0}


class Row(NamedTuple):
    """A fault, and what is expected. Without a kind of failure, the clients receive the reply."""

    name: str
    script: list[Any]
    kind: str = ""
    status: int = 502
    attempts: int = 1
    words: str = ""
    said: bool = False
    """A streaming client receives text before the error."""
    modes: tuple[bool, ...] = (False, True)
    settings: dict[str, float] | None = None
    waits: tuple[tuple[float, float], ...] = ()
    """The least and the most of each wait before a retry."""


def status(code: int, message: str = "it failed", **headers: str) -> Fault:
    body = json.dumps({"error": {"message": message, "type": "error"}})
    return Fault(
        "status", status=code, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body
    )


def error_event(at: int) -> Fault:
    return Fault("insert", at=at, body=b'data: {"error": {"message": "the model crashed", "type": "server_error"}}\n\n')


def in_seconds(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


PAGE = f"<html>Sign in to the network. You sent {KEY}. " + "x" * 5000
CRASHED = Raw(200, {"content-type": "application/json"}, {"error": {"message": "the model crashed", "code": 500}})
PICTURE = Raw(200, {"content-type": "image/png"}, {"choices": [{"message": {"content": "x"}}]})
BROTLI = Raw(200, {"content-type": "application/json", "content-encoding": "br"}, b"\x0b")
ENCODED = base64.b64encode(KEY.encode()).decode()
STREAMED, WHOLE = (True,), (False,)
HALF = ((0, 0.5),)
REFUSED = "refused the key of the gateway"
ROWS = [
    Row("14 an error event after text", [error_event(3), GOOD], "server_error", said=True, modes=STREAMED),
    Row("14 an error event before text", [error_event(0), GOOD, GOOD], attempts=2, modes=STREAMED),
    Row("14 an error instead of a reply", [CRASHED, GOOD], attempts=2, modes=WHOLE),
    Row("15 a wait in seconds", [status(429, retry_after="7"), GOOD], attempts=2, waits=((7, 7.5),)),
    Row("15 a wait until a date", [status(429, retry_after=in_seconds(15)), GOOD], attempts=2, waits=((0, 15.5),)),
    Row("15 a wait in the past", [status(429, retry_after=in_seconds(-3600)), GOOD], attempts=2, waits=HALF),
    Row("15 a negative wait", [status(429, retry_after="-5"), GOOD], attempts=2, waits=HALF),
    Row("15 a wait that is no number", [status(429, retry_after="soon"), GOOD], attempts=2, waits=HALF),
    Row("15 an absurd wait", [status(429, retry_after="1000000000")], "rate_limited", 429),
    Row("15 a wait without end", [status(429, retry_after="inf")], "rate_limited", 429),
    Row("16 no wait is named", [status(429)] * 3, "rate_limited", 429, attempts=3, waits=(*HALF, (0, 1.0))),
    *(
        Row(f"17 status {code}", [status(code)] * 3, "*", code, 3, waits=(*HALF, (0, 1.0)), modes=(code % 2 == 0,))
        for code in (500, 502, 503, 504, 529)
    ),
    *(Row(f"17 status {code} once", [status(code), GOOD], attempts=2) for code in (500, 502, 503, 504, 529)),
    Row("19 a refused key", [status(401, f"bad key {KEY}, {ENCODED}")], "unauthorized", 401, words=REFUSED),
    Row("19 a key without rights", [status(403, f"bad key {KEY}")], "unauthorized", 403, words=REFUSED),
    *(Row(f"20 status {code}", [status(code), GOOD], attempts=2) for code in (408, 409, 425)),
    Row("21 a page", [Fault("html", body=PAGE)], "broken_protocol", words="Sign in"),
    Row("21 another type", [PICTURE], "broken_protocol", words="image/png"),
    Row("23 a head that stops", [Fault("slow_head"), GOOD], "timed_out", 504, settings=SHORT),
    Row("23 no answer at all", [Fault("stall")], "timed_out", 504, settings=SHORT),
    Row("23 a body that stops", [Fault("stall", at=450), GOOD], "timed_out", said=True, modes=STREAMED, settings=IDLE),
    Row("23 a body that stops before text", [Fault("stall", at=1), GOOD], "timed_out", 504, settings=SHORT),
    Row("23 a byte now and then", [Fault("slow", at=1, seconds=0.05), GOOD], "timed_out", 504, settings=SHORT),
    Row("24 signs of life and nothing else", [Fault("pings")], "timed_out", 504, settings=SHORT),
    Row("26 another coding", [BROTLI], "broken_protocol"),
    Row("27 a large header", [Fault("huge_head", size=1_000_000)], "too_large"),
    Row("27 many headers", [Fault("many_headers", size=10_000)], "too_large"),
    Row("28 more than announced", [Fault("short_length", at=40), GOOD], "broken_protocol", modes=WHOLE),
    Row("28 less than announced", [Fault("long_length", at=40), GOOD] * 3, "stream_cut", attempts=3, modes=WHOLE),
    Row("28 less than announced, after the last event", [Fault("long_length", at=40), GOOD], modes=STREAMED),
    Row("28 less than announced, after text", [Fault("close", at=450), GOOD], "stream_cut", said=True, modes=STREAMED),
    Row("28 a malformed chunk", [Fault("bad_chunk", at=4), GOOD], "broken_protocol", said=True, modes=STREAMED),
    Row("28 a malformed first chunk", [Fault("bad_chunk"), GOOD], "broken_protocol"),
    Row("28 bytes that are no HTTP", [Fault("garbage")], "broken_protocol"),
    Row("28 bytes after the end", [Fault("trailing_bytes"), GOOD]),
]


class NotingRouter(Router):
    """Notes the waits before retries instead of waiting. Its clients are ahead of the time by `clock` seconds."""

    def __init__(self, waits: list[float], ahead: list[float], *given: Any, **named: Any) -> None:
        self._waits = waits
        self._ahead = ahead
        super().__init__(*given, **named)

    def open_client(self, *given: Any, **named: Any) -> Client:
        async def note(seconds: float) -> None:
            self._waits.append(seconds)

        client = super().open_client(*given, **named)
        client._sleep = note
        client._clock = lambda: time.monotonic() + self._ahead[0]
        return client


def gateway_for(
    *upstreams: Upstream,
    waits: list[float] | None = None,
    clock: list[float] | None = None,
    gateway: ServerSettings | None = None,
    profile: RouteProfile = "compat",
    **endpoint: Any,
) -> AbstractContextManager[RunningGateway]:
    """A gateway with an endpoint, and fallbacks behind it."""
    names = [f"endpoint_{number}" for number in range(len(upstreams))]
    row = EndpointSettings(url="http://there.invalid/v1", key=KEY, **endpoint)
    route = RouteSettings(to=names[0], fallback=names[1:], profile=profile)
    settings = GatewaySettings(gateway or ServerSettings(port=0), dict.fromkeys(names, row), [route])
    servers: Any = {
        name: FixedServer(resolve("custom:m", base_url=upstream.url))
        for name, upstream in zip(names, upstreams, strict=True)
    }
    own = [] if waits is None else waits, [0.0] if clock is None else clock
    return run_gateway(lambda transport: NotingRouter(*own, settings, servers=servers, transport=transport))


def read(wire: str, stream: bool, answer: Answer) -> Reply:
    """What a client makes of an answer."""
    codec = wires.get(wire)
    answer.body.decode()
    if answer.status >= 400:
        failure = codec.decode_failure(answer.status, json.loads(answer.body), answer.headers)
        return Reply(Message("assistant", []), failure=failure)
    return processes.read_stream(wire, answer.body) if stream else codec.decode_reply(json.loads(answer.body))


def ask(gateway: RunningGateway, wire: str, stream: bool) -> Answer:
    return asyncio.run(processes.exchange(gateway.port, processes.write_request(wire, "Go.", stream=stream)))


def ask_together(gateway: RunningGateway, modes: list[tuple[str, bool]]) -> list[Answer]:
    async def run() -> list[Answer]:
        requests = [processes.write_request(wire, "Go.", stream=stream) for wire, stream in modes]
        return await asyncio.gather(*(processes.exchange(gateway.port, request) for request in requests))

    return asyncio.run(run())


def find_wrong(row: Row, wire: str, stream: bool, answer: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    reply = read(wire, stream, answer)
    if not answer.is_whole:
        return f"it was cut off: {answer}"
    if KEY in str(answer) or base64.b64encode(KEY.encode()) in answer.body:
        return f"it shows the key of the endpoint: {answer}"
    if row.kind:
        # Gemini has no status 529.
        expected = 200 if stream and row.said else 503 if (wire, row.status) == ("gemini", 529) else row.status
        message = reply.failure.message if reply.failure is not None else ""
        if answer.status != expected or reply.failure is None or reply.calls or row.words not in message:
            return f"{answer.status}, not {expected}; {reply.failure}, {reply.calls}"
        if (answer.status >= 400 and len(answer.body) > 1500) or bool(reply.text) != (stream and row.said):
            return f"{len(answer.body)} bytes, text {reply.text!r}"
        return ""
    made = [(each.name, each.arguments) for each in reply.calls]
    if (answer.status, reply.text.strip(), made) != (200, TEXT.strip(), [("save", {"note": "hello", "copies": 2})]):
        return f"{answer.status}, {reply}"
    return ""


def check_row(row: Row) -> list[str]:
    modes = [(wire, stream) for wire, stream in MODES if stream in row.modes]
    waits: list[float] = []
    with (
        Upstream(row.script * len(modes)) as upstream,
        gateway_for(upstream, waits=waits, **(row.settings or {})) as gateway,
    ):
        answers = ask_together(gateway, modes) if row.settings else [ask(gateway, *mode) for mode in modes]
        wrong = [
            f"{wire} {'streamed' if stream else 'whole'}: {said}"
            for (wire, stream), answer in zip(modes, answers, strict=True)
            if (said := find_wrong(row, wire, stream, answer))
        ]
        if len(upstream.received) != row.attempts * len(modes):
            wrong.append(f"{len(upstream.received)} requests of {len(modes)} clients")
        if row.kind and not all(
            report.get("failure", "").startswith(row.kind.strip("*")) for report in gateway.reports
        ):
            wrong.append(f"reported as {gateway.reports[0].get('failure')}")
        if gateway.gateway.records.running:
            wrong.append("an exchange did not end")
    each = [waits[place :: len(row.waits)] for place in range(len(row.waits))]
    for (least, most), found in zip(row.waits, each, strict=True):
        if len(found) != len(modes) or not all(least <= wait <= most for wait in found):
            wrong.append(f"waits of {found}")
    return [f"{row.name}: {said}" for said in wrong]


def test_faults_14_to_28_reach_every_client_as_an_error_of_its_own_wire() -> None:
    # Most of the time of a row is the end of its gateway.
    with ThreadPoolExecutor(8) as threads:
        wrong = [said for found in threads.map(check_row, ROWS) for said in found]
    assert not wrong, "\n".join([f"{len(wrong)} are wrong", *wrong])
