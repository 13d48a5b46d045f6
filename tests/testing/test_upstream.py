"""The upstream sends scripted replies and the listed faults over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from dragoman.client import Client, HttpTransport, Retries, Timeouts
from dragoman.errors import ConfigError
from dragoman.testing import Fault, ScriptedModel, ScriptExhausted, Upstream, call
from dragoman.testing.faults import FaultKind, compress_blanks
from dragoman.types import Message, Reply, Request, Text

QUESTION = Request("", [Message("user", [Text("Is it warm?")])])
NEVER_AGAIN = Retries(attempts=1)


def ask(upstream: Upstream, *, whole: bool = True, retries: Retries = NEVER_AGAIN, timeouts: Any = None) -> Reply:
    async def run() -> Reply:
        transport = HttpTransport()
        client = Client(upstream.endpoint(), transport=transport, retries=retries, timeouts=timeouts)
        try:
            return await client.ask(QUESTION, whole=whole)
        finally:
            await transport.close()

    return asyncio.run(run())


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("spoken", ["openai_chat", "anthropic", "gemini", "ollama", "bedrock"])
def test_it_plays_a_script_over_sockets(spoken: str, whole: bool) -> None:
    with Upstream([["Let me look.", call("weather", city="Paris")]], wire=spoken) as upstream:
        reply = ask(upstream, whole=whole)
    assert (reply.text, [made.arguments for made in reply.calls]) == ("Let me look.", [{"city": "Paris"}])
    assert upstream.requests[0].messages[0].text == "Is it warm?"
    assert upstream.received[0].headers["content-type"] == "application/json"


def test_it_is_entered_from_async_code_too() -> None:
    async def run() -> str:
        async with Upstream(["Yes."]) as upstream, Client(upstream.endpoint()) as client:
            return (await client.ask(QUESTION)).text

    assert asyncio.run(run()) == "Yes."


def test_connections_are_kept_between_requests() -> None:
    async def run(upstream: Upstream) -> list[str]:
        async with Client(upstream.endpoint()) as client:
            return [(await client.ask(QUESTION)).text for _ in range(3)]

    with Upstream(["a", "b", "c"]) as upstream:
        assert asyncio.run(run(upstream)) == ["a", "b", "c"]
        assert upstream.connections == 1


def test_a_fault_replaces_the_answer_of_a_request_or_damages_the_next_reply() -> None:
    patient = Retries(attempts=5, base=0.0)
    script = [Fault("status", status=503), Fault("reset"), Fault("close", at=0), "spoilt", "Yes."]
    with Upstream(script) as upstream:
        assert ask(upstream, retries=patient).text == "Yes."
        assert len(upstream.received) == 4
        assert len(upstream.requests) == 2


def test_faults_of_a_model_are_given_apart() -> None:
    with Upstream(ScriptedModel(["Yes."]), faults=[Fault("status", status=401), None]) as upstream:
        failure = ask(upstream).failure
        assert failure is not None and failure.kind == "unauthorized"
        assert ask(upstream).text == "Yes."


def test_a_fault_with_nothing_to_spoil_is_a_mistake_in_the_test() -> None:
    with pytest.raises(ConfigError, match="none follows it"):
        Upstream(["Yes.", Fault("reset", at=3)])


def test_a_script_at_its_end_fails_the_test_that_uses_it() -> None:
    with pytest.raises(ScriptExhausted, match="sent one more request"), Upstream([]) as upstream:
        assert ask(upstream).failure is not None


BROKEN: dict[FaultKind, tuple[int | None, str]] = {
    "reset": (20, "stream_cut"),
    "close": (20, "stream_cut"),
    "end": (20, "stream_cut"),
    "garbage": (None, "broken_protocol"),
    "html": (None, "broken_protocol"),
    "redirect": (None, "broken_protocol"),
    "status": (None, "overloaded"),
    "bad_chunk": (1, "broken_protocol"),
    "huge_head": (None, "too_large"),
    "many_headers": (None, "too_large"),
    "bomb": (None, "too_large"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_spoilt_stream_is_never_a_good_reply(kind: FaultKind) -> None:
    at, expected = BROKEN[kind]
    fault = Fault(kind, at=at, size=1 << 27 if kind == "bomb" else 0)
    with Upstream([fault, *([] if fault.answers else ["It is warm."])]) as upstream:
        reply = ask(upstream, whole=False)
    assert reply.failure is not None and reply.failure.kind == expected, reply.failure


@pytest.mark.parametrize("kind", ["short_length", "long_length"])
def test_a_wrong_length_spoils_a_whole_body(kind: FaultKind) -> None:
    with Upstream([Fault(kind, at=30), "It is warm."]) as upstream:
        reply = ask(upstream)
    assert reply.failure is not None and reply.text == ""


@pytest.mark.parametrize(
    "fault",
    [Fault("stall"), Fault("slow_head", at=9), Fault("stall", at=5)],
    ids=["no answer", "half a head", "half a body"],
)
def test_silence_ends_when_the_client_goes_away(fault: Fault) -> None:
    with Upstream([fault, *([] if fault.answers else ["It is warm."])]) as upstream:
        reply = ask(upstream, whole=False, timeouts=Timeouts(first_byte=0.05, idle=0.05))
        assert reply.failure is not None and reply.failure.kind == "timed_out"
        assert upstream.wait_for_hangup()


def test_a_slow_answer_goes_on_when_the_test_says_so() -> None:
    with Upstream([Fault("slow", at=40), "It is warm."]) as upstream:
        replies: list[Reply] = []
        asking = threading.Thread(target=lambda: replies.append(ask(upstream, whole=False)))
        asking.start()
        assert upstream.wait_for_request()
        while asking.is_alive():
            upstream.go_on()
            asking.join(0.001)
    assert replies[0].text == "It is warm."


def test_a_dropped_a_doubled_and_a_swapped_frame_are_seen_by_the_reader() -> None:
    words = "one two three four five six seven"
    seen = {}
    for kind in ("drop", "duplicate", "reorder"):
        with Upstream([Fault(kind, at=2), words], deltas=8) as upstream:  # the frame in front opens the message
            seen[kind] = ask(upstream, whole=False).text
    assert seen == {
        "drop": "one two ur five six seven",
        "duplicate": "one two three fothree four five six seven",
        "reorder": "one two ur five three fosix seven",
    }


def test_an_inserted_frame_stands_between_two_others() -> None:
    error = b'data: {"error": {"message": "overloaded", "code": 529}}\n\n'
    with Upstream([Fault("insert", at=2, body=error), "It is warm in Paris today."]) as upstream:
        reply = ask(upstream, whole=False)
    assert reply.failure is not None and "overloaded" in reply.failure.message


def test_trailing_bytes_never_answer_the_next_request() -> None:
    async def run(upstream: Upstream) -> list[str]:
        async with Client(upstream.endpoint(), retries=NEVER_AGAIN) as client:
            return [(await client.ask(QUESTION)).text for _ in range(2)]

    with Upstream([Fault("trailing_bytes"), "one", "two"]) as upstream:
        assert asyncio.run(run(upstream)) == ["one", "two"]
        assert upstream.connections == 2


def test_a_bomb_is_small_on_the_wire() -> None:
    assert len(compress_blanks(1 << 26)) < 1 << 17


def test_stopping_does_not_wait_for_clients() -> None:
    with Upstream([Fault("stall")]) as upstream:
        held = socket.create_connection(("127.0.0.1", int(upstream.url.split(":")[2].split("/")[0])))
        held.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        assert upstream.wait_for_request()
    held.settimeout(5)
    assert held.recv(1) == b""
    held.close()
