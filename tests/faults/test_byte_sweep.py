"""Faults 4, 5 and 6: the connection breaks at every byte of a streamed reply, on every wire.

Never a complete call unless the reply really ended; the text up to the break is delivered; the request is sent again
only if nothing was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.faults.streams import ONCE, QUESTION, TWICE, WIRES, header, read_plainly, record

from dragoman.client import Client, TransportFault
from dragoman.client.retry import NOTICES, RequestRetried
from dragoman.events import CallEnded, Event, ReplyEnded, ReplyFailed, ReplyStarted, TextDelta
from dragoman.replies import fold
from dragoman.testing import Answer, Fault, ScriptedModel, Upstream, call, calls
from dragoman.testing.faults import FaultKind
from dragoman.types import JsonObject, Reply

STREAMS = {spoken: b"".join(record(spoken)) for spoken in WIRES}
AGAIN = "The second answer."


def reset() -> TransportFault:
    return TransportFault("stream_cut", "the connection was reset", code="reset")


async def follow(client: Client) -> tuple[list[Event], int]:
    """The events of one question, and how often it was asked again."""
    events: list[Event] = []
    retried = 0
    async for event in client.stream(QUESTION):
        retried += isinstance(event, RequestRetried)
        if not isinstance(event, NOTICES):
            events.append(event)
    return events, retried


def sweep(
    spoken: str, fault: Callable[[], TransportFault | None], step: int = 11
) -> list[tuple[int, list[Event], int]]:
    data = STREAMS[spoken]

    async def run() -> list[tuple[int, list[Event], int]]:
        seen = []
        for place in (*range(0, len(data), step), len(data)):
            cut = Answer(200, header(spoken), pieces=[data[:place]], fault=fault())
            script = ScriptedModel([cut, AGAIN], wire=spoken)
            client = Client(script.endpoint(), transport=script, retries=TWICE)
            seen.append((place, *await follow(client)))
        return seen

    return asyncio.run(run())


def named(reply: Reply) -> list[tuple[str, JsonObject]]:
    return [(made.name, made.arguments) for made in reply.calls]


def is_delivery(event: Event) -> bool:
    return not isinstance(event, ReplyStarted | ReplyFailed | ReplyEnded)


@pytest.mark.parametrize(
    "fault", [reset, lambda: None], ids=["4 connection reset at every byte", "5 clean EOF at every byte"]
)
# Every fifth byte is enough for every run of the tests; all of them are tried with those that take long.
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("spoken", WIRES)
def test_a_break_at_every_byte(spoken: str, fault: Callable[[], TransportFault | None], step: int) -> None:
    full = read_plainly(spoken, STREAMS[spoken])
    assert (len(full.calls), full.text) == (2, "Let me look: °C.")
    counts = {"retried": 0, "cut": 0, "whole": 0}
    for place, events, retried in sweep(spoken, fault, step):
        plain = read_plainly(spoken, STREAMS[spoken][:place])
        reply = fold(events)
        if retried:
            # Nothing but the beginning may have come of the first answer.
            assert (plain.text, plain.calls, plain.message.parts) == ("", [], []), place
            assert (reply.text, reply.failure) == (AGAIN, None), place
            counts["retried"] += 1
        elif reply.failure is not None:
            assert any(map(is_delivery, events)), place
            assert reply.calls == [] and not any(isinstance(event, CallEnded) for event in events), place
            assert (reply.failure.kind, reply.stop) == ("stream_cut", "error"), place
            assert reply.text == plain.text and full.text.startswith(reply.text), place
            counts["cut"] += 1
        else:
            assert (named(reply), reply.text) == (named(full), full.text), place
            counts["whole"] += 1
    assert counts["retried"] and counts["cut"] and counts["whole"], counts
    # The end is at the end: what follows the last frame is a blank line at most, or (Bedrock) the usage.
    last = record(spoken)[-1] if spoken != "bedrock" else b"".join(record(spoken)[-2:])
    assert counts["whole"] <= len(last) + 1


@pytest.mark.parametrize("spoken", WIRES)
def test_text_is_delivered_as_far_as_it_came(spoken: str) -> None:
    lengths = [
        sum(len(event.text) for event in events if isinstance(event, TextDelta))
        for _, events, retried in sweep(spoken, reset)
        if not retried
    ]
    assert lengths == sorted(lengths)
    assert lengths[-1] == len("Let me look: °C.")
    assert len(set(lengths)) > 2, "the text comes in several pieces"


@pytest.mark.parametrize("how", ["reset", "end"])
@pytest.mark.parametrize("spoken", WIRES)
def test_6_an_end_right_after_the_last_argument_byte_runs_nothing(spoken: str, how: str) -> None:
    frames = record(spoken)
    last = max(number for number, frame in enumerate(frames) if b"days" in frame or b"3}" in frame or b"rich" in frame)
    if last == len(frames) - 1:
        # The wire ends a reply in the frame of its last call: the frame itself is cut, behind the arguments.
        frame = frames[last]
        pieces = [*frames[:last], frame[: frame.rindex(b"3") + 1]]
    else:
        pieces = frames[: last + 1]
    cut = Answer(200, header(spoken), pieces=pieces, fault=reset() if how == "reset" else None)
    script = ScriptedModel([cut, AGAIN], wire=spoken)
    client = Client(script.endpoint(), transport=script, retries=TWICE)
    events, retried = asyncio.run(follow(client))
    reply = fold(events)
    assert retried == 0
    assert reply.failure is not None and reply.failure.kind == "stream_cut"
    assert reply.calls == []


SAMPLES = 12


@pytest.mark.parametrize("kind", ["reset", "close", "end"])
@pytest.mark.parametrize("spoken", ["openai_chat", "anthropic", "ollama", "bedrock"])
def test_4_5_a_sample_of_the_sweep_over_sockets(spoken: str, kind: FaultKind) -> None:
    length = len(STREAMS[spoken]) * 3 // 4  # behind it some wires have only the usage left to tell
    places = range(0, length, length // SAMPLES)
    said = calls(call("weather", city="Paris"), call("weather", city="Zürich", days=3), say="Let me look: °C.")
    script = [entry for place in places for entry in (Fault(kind, at=place), said)]

    async def run(upstream: Upstream) -> list[Reply]:
        replies = []
        for _ in places:
            async with Client(upstream.endpoint(), retries=ONCE) as client:
                replies.append(await client.ask(QUESTION, whole=False))
        return replies

    with Upstream(script, wire=spoken, deltas=6) as upstream:
        replies = asyncio.run(run(upstream))
    lengths = [len(reply.text) for reply in replies]
    assert lengths == sorted(lengths) and lengths[0] == 0 < lengths[-1]
    for reply in replies:
        assert reply.calls == []
        assert reply.failure is not None and reply.failure.kind == "stream_cut"
