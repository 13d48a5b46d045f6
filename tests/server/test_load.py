"""Many streams at the same time, some of which fail: every client gets its own reply, and the gateway stays small."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from pathlib import Path

import pytest
import uvloop
from tests.server import load_endpoint, processes
from tests.server.processes import CLIENTS, Answer, Running

FAULTS = ("reset", "cut", "error", "silent", "malformed")
STREAMS = 1000
EVERY = 100
"""One stream in so many fails."""
MOST_MEMORY = 180.0
"""MB of the gateway with 1,000 open streams."""
MOST_GROWTH = 30.0
"""MB that the second round may add to the first: what was read in turns of conversations is kept, up to a size."""
_canaries = re.compile(rb"canary-\d+-[0-9a-f]+").findall


def name_canary(round: int, number: int) -> str:
    return f"canary-{round}{number:04}-{hashlib.sha256(f'{round} {number}'.encode()).hexdigest()[:16]}"


def fault_of(number: int) -> str:
    if number % EVERY == 7:
        return FAULTS[number // EVERY % len(FAULTS)]
    return "slow" if number % EVERY == 57 else ""


async def ask_all(port: int, round: int, count: int) -> list[Answer]:
    """Send the requests of a round. The endpoint holds all streams until the last one has begun."""

    def write(number: int) -> bytes:
        canary = name_canary(round, number)
        orders = load_endpoint.write_orders(canary, round=round, of=count, fault=fault_of(number))
        return processes.write_request(CLIENTS[number % len(CLIENTS)], orders)

    return await asyncio.gather(*(processes.exchange(port, write(number)) for number in range(count)))


def find_wrong(answer: Answer, wire: str, canary: str, fault: str) -> str:
    """What is wrong with the answer to one request; empty if nothing is."""
    seen = {found.decode() for found in _canaries(answer.body)}
    if seen != {canary}:
        return f"it has {len(seen)} canaries"
    if answer.status != 200 or not answer.is_whole:
        return f"status {answer.status}, {'whole' if answer.is_whole else 'cut off'}"
    reply = processes.read_stream(wire, answer.body)
    if not reply.text.startswith("".join(load_endpoint.write_text(canary)).strip()):
        return f"text is missing: {reply.text!r}"
    if fault in FAULTS:
        if reply.failure is None or reply.calls or b"argument-canary" in answer.body:
            return f"no error, or a part of a call: {reply.failure}, {reply.calls}, {answer.body[-600:]!r}"
        return ""
    calls = [(call.name, call.arguments) for call in reply.calls]
    expected = [("save", {"note": f"argument-{canary}", "copies": 2})]
    return "" if calls == expected and reply.failure is None else f"{calls}, {reply.failure}"


def run_round(gateway: Running, round: int, count: int) -> None:
    answers = uvloop.run(ask_all(gateway.port, round, count))
    rows = [
        (CLIENTS[number % len(CLIENTS)], fault_of(number), name_canary(round, number), answer)
        for number, answer in enumerate(answers)
    ]
    checked = [(wire, fault, find_wrong(answer, wire, canary, fault)) for wire, fault, canary, answer in rows]
    wrong = [f"{wire} {fault or 'healthy'}: {said}" for wire, fault, said in checked if said]
    assert not wrong, "\n".join([f"{len(wrong)} of {count} answers are wrong", *wrong[:10]])


def wait_for_files(gateway: Running, count: int) -> None:
    """Ask the gateway until it has closed all connections; each question takes it a turn of its loop."""
    for _ in range(20_000):
        metrics = processes.get(gateway.port, "/metrics").body
        if gateway.files <= count:
            assert b"dragoman_running 0\n" in metrics
            return
    raise AssertionError(f"{gateway.files} files are open, {count} before")


@pytest.mark.skipif(sys.platform != "linux", reason="memory and files of a process are read in /proc")
@pytest.mark.timeout(300)
def test_fault_53_a_thousand_streams_get_their_own_replies_and_leave_nothing_behind(tmp_path: Path) -> None:
    with (
        processes.started(load_endpoint.COMMAND, tmp_path / "endpoint.log") as endpoint,
        processes.serving(tmp_path, f"{endpoint.url}/v1") as gateway,
    ):
        processes.get(gateway.port, "/metrics")
        files = gateway.files
        run_round(gateway, 1, STREAMS)
        first = gateway.memory
        run_round(gateway, 2, STREAMS)
        print(f"memory: {first:.0f} and {gateway.memory:.0f} MB, at most {gateway.most_memory:.0f} MB")
        assert gateway.memory - first < MOST_GROWTH
        assert gateway.most_memory < MOST_MEMORY
        endpoint.process.terminate()
        endpoint.process.wait(20)
        wait_for_files(gateway, files)
        assert "Traceback" not in gateway.log.read_text(encoding="utf-8")
