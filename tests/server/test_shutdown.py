"""The end of a gateway under load: by one signal, by two, by Ctrl-C, and without a warning."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server import load_endpoint, processes
from tests.server.processes import CLIENTS, Answer, RawClient, Running

from dragoman.server.keys import KeyLimits, add_key

MOST_RESERVED = 5000
"""Tokens for the prompt and the answer of one request, while it runs."""
CANARIES = [f"canary-{number}-{number:04x}" for number in range(10 * len(CLIENTS))]
END = 20.0
"""Seconds after which a process that does not end is a failure."""


@contextmanager
def gateway_with_endpoint(folder: Path, *, grace: float) -> Iterator[tuple[Running, Running]]:
    (folder / "temporary").mkdir(exist_ok=True)
    with processes.started(load_endpoint.COMMAND, folder / "endpoint.log") as endpoint:
        table = f"grace = {grace}\n"
        with processes.serving(folder, f"{endpoint.url}/v1", gateway=table) as gateway:
            yield gateway, endpoint


async def open_streams(gateway: Running, round: int, *, more: int) -> list[RawClient]:
    """Open streams of every wire, half of them as whole replies, and wait until each stream has begun.

    The endpoint holds them until `more` other requests have arrived.
    """
    clients: dict[int, RawClient] = {}
    # The whole ones first: the gateway has them when the streams have begun.
    for number in sorted(range(len(CANARIES)), key=lambda number: number % 2 == 0):
        orders = load_endpoint.write_orders(CANARIES[number], round=round, of=len(CANARIES) + more)
        data = processes.write_request(CLIENTS[number % len(CLIENTS)], orders, stream=number % 2 == 0)
        clients[number] = await processes.connect(gateway.port, data)
    await asyncio.gather(*(client.first for number, client in clients.items() if number % 2 == 0))
    return [clients[number] for number in range(len(CANARIES))]


async def wait_until_closed(gateway: Running) -> None:
    """Connect until nobody listens."""
    end = time.monotonic() + END
    while time.monotonic() < end:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.close()
        except OSError:
            return
    raise AssertionError("the gateway still listens")


def read_all(clients: list[RawClient]) -> list[Answer]:
    return [processes.read_answer(bytes(client.received)) for client in clients]


def check_left_nothing(gateway: Running, folder: Path) -> None:
    assert gateway.process.wait(END) == 0
    assert "Traceback" not in gateway.log.read_text(encoding="utf-8")
    assert list((folder / "temporary").iterdir()) == []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", gateway.port))


def check_cut_off(answers: list[Answer]) -> None:
    """Every client was told in its own wire that the gateway ends, and received no part of a call."""
    for number, answer in enumerate(answers):
        wire, is_stream = CLIENTS[number % len(CLIENTS)], number % 2 == 0
        where = f"{wire} {'streamed' if is_stream else 'whole'}: {answer}"
        assert answer.is_whole and b"argument-" not in answer.body, where
        assert b"shuts down" in answer.body, where
        if is_stream:
            reply = processes.read_stream(wire, answer.body)
            assert answer.status == 200 and reply.failure is not None and not reply.calls, where
            assert CANARIES[number] in reply.text, where
        else:
            assert answer.status == 503 and isinstance(json.loads(answer.body), dict), where


def test_fault_54_streams_are_finished_after_a_signal_and_no_new_ones_begin(tmp_path: Path) -> None:
    with gateway_with_endpoint(tmp_path, grace=60.0) as (gateway, endpoint):

        async def run() -> list[Answer]:
            clients = await open_streams(gateway, 1, more=1)
            gateway.process.send_signal(signal.SIGTERM)
            await wait_until_closed(gateway)
            await load_endpoint.release(endpoint.port, 1, len(CANARIES) + 1)
            await asyncio.gather(*(client.ended for client in clients))
            return read_all(clients)

        for place, answer in enumerate(asyncio.run(run())):
            assert answer.status == 200 and answer.is_whole, answer
            assert f"argument-{CANARIES[place]}".encode() in answer.body, answer
        check_left_nothing(gateway, tmp_path)


def test_fault_54_after_the_grace_period_streams_end_with_an_error_of_their_wire(tmp_path: Path) -> None:
    with gateway_with_endpoint(tmp_path, grace=0.1) as (gateway, _):

        async def run() -> list[Answer]:
            clients = await open_streams(gateway, 1, more=1)
            gateway.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*(client.ended for client in clients))
            return read_all(clients)

        check_cut_off(asyncio.run(run()))
        check_left_nothing(gateway, tmp_path)


def test_fault_55_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with gateway_with_endpoint(tmp_path, grace=600.0) as (gateway, _):

        async def run() -> list[Answer]:
            clients = await open_streams(gateway, 1, more=1)
            gateway.process.send_signal(signal.SIGINT)
            await wait_until_closed(gateway)
            gateway.process.send_signal(signal.SIGINT)
            await asyncio.gather(*(client.ended for client in clients))
            return read_all(clients)

        check_cut_off(asyncio.run(run()))
        check_left_nothing(gateway, tmp_path)


def test_fault_54_a_client_that_reads_nothing_does_not_keep_the_gateway_from_ending(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    with (
        processes.Flood() as flood,
        processes.serving(tmp_path, flood.url, gateway="grace = 0.1\n") as gateway,
        socket.create_connection(("127.0.0.1", gateway.port)) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(processes.write_request("anthropic", "Go."))
        assert client.recv(1) == b"H"
        gateway.process.send_signal(signal.SIGTERM)
        check_left_nothing(gateway, tmp_path)


def test_fault_55_a_kill_leaves_keys_and_budgets_intact(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key = add_key(keys, "laptop", KeyLimits(tokens_per_day=100_000_000, max_concurrent=1000))
    stored, usage = keys.read_bytes(), tmp_path / "gateway-usage.json"
    spent: list[int] = []

    async def run(gateway: Running, name: int, round: int) -> list[Answer]:
        clients = []
        for place, canary in enumerate(CANARIES):
            orders = load_endpoint.write_orders(canary, round=round, of=len(CANARIES))
            own = f"x-dragoman-key: {key}\r\n"
            data = processes.write_request(CLIENTS[place % len(CLIENTS)], orders, headers=own)
            clients.append(await processes.connect(gateway.port, data))
        if name == signal.SIGTERM:
            await asyncio.gather(*(client.ended for client in clients))
        else:
            await clients[-1].first
        gateway.process.send_signal(name)
        await asyncio.gather(*(client.ended for client in clients))
        return read_all(clients)

    with processes.started(load_endpoint.COMMAND, tmp_path / "endpoint.log") as endpoint:
        for round, name in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), 1):
            with processes.serving(tmp_path, f"{endpoint.url}/v1", "--keys", str(keys)) as gateway:
                answers = asyncio.run(run(gateway, name, round))
                assert gateway.process.wait(END) == (0 if name == signal.SIGTERM else -signal.SIGKILL)
            if name == signal.SIGTERM:
                assert all(answer.status == 200 and answer.is_whole for answer in answers)
            assert keys.read_bytes() == stored
            spent.append(sum(row["tokens"] for row in json.loads(usage.read_bytes()).values()))
    tokens = 10 * len(CANARIES)
    # Nobody knows what the requests that were cut off cost, so what was reserved for them counts as spent.
    reserved = MOST_RESERVED * len(CANARIES)
    assert spent[0] == tokens and spent[0] <= spent[1] <= tokens + reserved and spent[2] >= spent[1] + tokens, spent
