"""Faults 18, 21 and 22, 25 to 28: unexpected answers, and answers that are too large."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from typing import Any

import pytest
from tests.faults.streams import ONCE, QUESTION, TWICE, WIRES, ask, header

from dragoman.client import Client, HttpTransport, Limits
from dragoman.client.transport import Timeouts, TransportFault
from dragoman.providers import resolve
from dragoman.testing import Answer, Fault, ScriptedModel, Upstream, call, every_split, sse
from dragoman.testing.faults import FaultKind
from dragoman.types import Failure, Reply

KEY = "sk-test-0123456789abcdef"


def over_sockets(upstream: Upstream, *, whole: bool = False, limits: Limits | None = None, **settings: Any) -> Reply:
    async def run() -> Reply:
        transport = HttpTransport(limits=limits)
        endpoint = settings.pop("endpoint", None) or upstream.endpoint()
        client = Client(endpoint, transport=transport, retries=settings.pop("retries", ONCE), **settings)
        try:
            return await client.ask(QUESTION, whole=whole)
        finally:
            await transport.close()

    return asyncio.run(run())


# ---- 18 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoken", WIRES)
def test_18_a_conversation_that_is_too_long_is_told_and_not_tried_again(spoken: str) -> None:
    script = ScriptedModel([Failure("context_too_long", "the prompt is too long: 300000 tokens"), "never"], wire=spoken)
    reply = ask(script, retries=TWICE)
    assert reply.failure is not None and reply.failure.kind == "context_too_long"
    assert script.left == 1


# ---- 21 and 22 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
def test_21_a_page_of_html_is_no_reply_and_is_quoted_without_secrets(whole: bool) -> None:
    page = f"<html>Sign in to the network. You sent {KEY}. " + "x" * 5000
    with Upstream([Fault("html", body=page)]) as upstream:
        reply = over_sockets(upstream, whole=whole, endpoint=resolve("custom:m", base_url=upstream.url), key=KEY)
        assert upstream.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert reply.failure is not None and reply.failure.kind == "broken_protocol"
    assert "Sign in" in reply.failure.message and len(reply.failure.message) < 400
    assert KEY not in str(reply.failure)


@pytest.mark.parametrize("kind", ["text/html", "image/png", "application/pdf"])
def test_21_a_wrong_content_type_is_not_read_as_a_reply(kind: str) -> None:
    body = {"choices": [{"message": {"content": "looks right"}}]}
    reply = ask(ScriptedModel([Answer(200, {"content-type": kind}, body)]), whole=True)
    assert reply.failure is not None and (reply.failure.kind, reply.text) == ("broken_protocol", "")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_22_a_redirect_is_not_followed_and_no_key_goes_elsewhere(status: int) -> None:
    with Upstream(["never"]) as elsewhere:
        place = Fault("redirect", status=status, headers={"location": f"{elsewhere.url}/chat/completions"})
        with Upstream([place]) as upstream:
            reply = over_sockets(upstream, headers={"Authorization": f"Bearer {KEY}"}, retries=TWICE)
            assert reply.failure is not None and reply.failure.code == "redirect"
            assert len(upstream.received) == 1
        assert elsewhere.received == [] and elsewhere.connections == 0


# ---- 25: characters --------------------------------------------------------------------------------------------------


def test_25_a_character_that_is_split_between_pieces_arrives_whole() -> None:
    frame = 'data: {"choices":[{"delta":{"content":"Zürich 🌡"}}]}\n\ndata: [DONE]\n\n'.encode()
    for pieces in every_split(frame):
        assert ask(ScriptedModel([Answer(200, header("openai_chat"), pieces=pieces)])).text == "Zürich 🌡"


def test_25_bytes_that_are_no_characters_are_replaced_in_text_and_break_a_call() -> None:
    text = b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n'
    calls = (
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather",'
        b'"arguments":"{\\"city\\": \\"Par\xffis\\"}"}}]}}]}\n\n'
    )
    end = b"data: [DONE]\n\n"
    assert ask(ScriptedModel([Answer(200, header("openai_chat"), pieces=[text, end])])).text == "a\ufffdb"
    reply = ask(ScriptedModel([Answer(200, header("openai_chat"), pieces=[calls, end])]))
    assert [made.arguments for made in reply.calls] in ([], [{"city": "Par\ufffdis"}])


def test_25_half_a_character_in_an_escape_never_leaves_as_one() -> None:
    arguments = '{"city": "\\\\ud83d"}'
    frame = (
        '{"choices":[{"delta":{"content":"x\\ud83dy","tool_calls":[{"index":0,"id":"a","function":'
        '{"name":"weather","arguments":"' + arguments.replace('"', '\\"') + '"}}]}}]}'
    )
    reply = ask(ScriptedModel([sse([frame])]))
    reply.text.encode()  # what was delivered can be written
    assert reply.calls == [] or all(str(made.arguments).isprintable() for made in reply.calls)


# ---- 26 to 28: too much, and too little ------------------------------------------------------------------------------


def peak() -> int:
    """The most memory that this process ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def test_26_a_compressed_bomb_is_given_up_at_the_limit() -> None:
    with Upstream([Fault("bomb", size=1 << 28)]) as upstream:
        before = peak()
        reply = over_sockets(upstream, whole=True, limits=Limits(body_bytes=1 << 20))
        grown = peak() - before
    assert reply.failure is not None and reply.failure.kind == "too_large"
    assert grown < 100 << 20


def test_27_a_line_without_end_is_given_up_at_the_limit() -> None:
    with Upstream([Fault("long_line", size=200 << 20)]) as upstream:
        before = peak()
        reply = over_sockets(upstream, limits=Limits(body_bytes=8 << 20))
        grown = peak() - before
        assert upstream.wait_for_hangup()
    assert reply.failure is not None and reply.failure.kind == "too_large"
    assert grown < 100 << 20


@pytest.mark.parametrize("kind", ["huge_head", "many_headers"])
def test_27_a_head_without_end_is_given_up_at_the_limit(kind: FaultKind) -> None:
    with Upstream([Fault(kind, size=1_000_000)]) as upstream:
        reply = over_sockets(upstream)
    assert reply.failure is not None and reply.failure.kind == "too_large"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "fault",
    [Fault("short_length", at=40), Fault("bad_chunk"), Fault("bad_chunk", at=1), Fault("garbage")],
    ids=["short length", "bad chunk", "bad later chunk", "no HTTP"],
)
def test_28_broken_framing_is_never_a_reply_with_calls(fault: Fault, whole: bool) -> None:
    script = [fault, *([] if fault.answers else [call("weather", city="Paris")])]
    with Upstream(script) as upstream:
        reply = over_sockets(upstream, whole=whole)
    assert reply.failure is not None and reply.failure.kind in ("broken_protocol", "stream_cut")
    assert reply.calls == []


def test_28_a_length_that_is_too_long_spoils_a_whole_body() -> None:
    with Upstream([Fault("long_length"), call("weather", city="Paris")]) as upstream:
        reply = over_sockets(upstream, whole=True)
    assert reply.failure is not None and reply.calls == []


def test_28_and_57_what_stands_behind_an_answer_is_never_the_next_one() -> None:
    async def run(upstream: Upstream) -> list[str]:
        async with Client(upstream.endpoint(), retries=ONCE) as client:
            return [(await client.ask(QUESTION)).text for _ in range(3)]

    body = b'{"choices":[{"message":{"content":"stolen"}}]}'
    stray = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    script = [Fault("trailing_bytes", body=stray), "one", Fault("trailing_bytes", body=stray), "two", "three"]
    with Upstream(script) as upstream:
        assert asyncio.run(run(upstream)) == ["one", "two", "three"]


REFERENCES = [
    *(Fault(kind) for kind in ("reset", "close", "html", "garbage", "redirect", "bad_chunk")),
    *(Fault(kind, at=30) for kind in ("reset", "close", "end", "long_length")),
    *(Fault("status", status=code, body="no") for code in (400, 401, 429, 500)),
    *(Fault("bomb", size=size) for size in (1 << 20, 1 << 24)),
    *(Fault(kind, size=1 << 20) for kind in ("huge_head", "many_headers")),
    *(Fault("stall", at=at) for at in (None, 1, 100)),
    *(Fault("slow_head"), Fault("pings"), Fault("slow", at=1, seconds=0.01)),
]  # fmt: skip


def find_faults() -> list[TransportFault]:
    return [each for each in gc.get_objects() if isinstance(each, TransportFault)]


def test_26_a_fault_keeps_no_body_until_the_next_garbage_collection() -> None:
    """A fault refers to the frames that it passed, and these to bodies of megabytes."""

    async def run(upstream: Upstream, whole: bool) -> list[str]:
        transport = HttpTransport(limits=Limits(body_bytes=1 << 22))
        timeouts = Timeouts(first_byte=0.1, idle=0.1, total=0.2)
        client = Client(upstream.endpoint(), transport=transport, retries=ONCE, timeouts=timeouts)
        await client.ask(QUESTION, whole=whole)
        await transport.close()
        # The event loop forgets the callback that ended the last wait.
        await asyncio.sleep(0)
        return [repr(kept) for kept in find_faults()]

    gc.collect()
    gc.disable()
    # What other tests keep in their tables does not count, and is not looked at again.
    gc.freeze()
    try:
        for fault in REFERENCES:
            for whole in (True, False):
                script = [fault] if fault.answers else [fault, "a long answer " * 20]
                with Upstream(script) as upstream:
                    kept = asyncio.run(run(upstream, whole))
                assert kept == [], (fault, whole)
                gc.collect()
    finally:
        gc.unfreeze()
        gc.enable()
