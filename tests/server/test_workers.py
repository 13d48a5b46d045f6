"""Several processes of one gateway: their start, their end, and the end of one of them or of their parent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server import load_endpoint, processes
from tests.server.processes import Answer, Running, get
from tests.server.test_shutdown import (
    CANARIES,
    END,
    check_cut_off,
    check_left_nothing,
    open_streams,
    read_all,
    wait_until_closed,
)

from dragoman.errors import ConfigError
from dragoman.server.settings import EndpointSettings, GatewaySettings, share_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


@contextmanager
def gateway_of(folder: Path, workers: int, *, grace: float = 30.0) -> Iterator[tuple[Running, Running]]:
    (folder / "temporary").mkdir(exist_ok=True)
    with processes.started(load_endpoint.COMMAND, folder / "endpoint.log") as endpoint:
        options = ("--workers", str(workers))
        with processes.serving(folder, f"{endpoint.url}/v1", *options, gateway=f"grace = {grace}\n") as gateway:
            try:
                wait_until(lambda: len(workers_of(gateway)) == workers, "all workers run")
                yield gateway, endpoint
            finally:
                # A test that fails must not leave workers behind.
                for each in workers_of(gateway):
                    os.kill(each, signal.SIGKILL)


def workers_of(gateway: Running) -> list[int]:
    process = gateway.process.pid
    try:
        said = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(word) for word in said.split()]


def is_alive(process: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + END
    while not holds():
        assert time.monotonic() < end, f"it did not happen that {what}"
        os.sched_yield()


def ask(gateway: Running, canary: str = "canary-1-0001", round: int = 1) -> Answer:
    orders = load_endpoint.write_orders(canary, round=round, of=1)
    return asyncio.run(processes.exchange(gateway.port, processes.write_request("openai_chat", orders)))


def test_a_worker_that_dies_is_replaced_and_clients_are_served_meanwhile(tmp_path: Path) -> None:
    with gateway_of(tmp_path, 3) as (gateway, _):
        assert gateway.said["workers"] == 3
        before = workers_of(gateway)
        alive = {*before}
        for victim, how in ((before[0], signal.SIGKILL), (before[1], signal.SIGTERM)):
            os.kill(victim, how)
            alive.discard(victim)
            wait_until(lambda: {*before} & {*workers_of(gateway)} == alive, "the worker is gone")
            assert get(gateway.port, "/healthz").status == 200
        wait_until(lambda: len(workers_of(gateway)) == 3, "there are three workers again")
        assert before[2] in workers_of(gateway)
        assert ask(gateway).status == 200
        said = gateway.log.read_text(encoding="utf-8")
        assert "worker 1 ended by signal 9; another one starts in 0.5 s" in said
        assert re.search(r"worker 2 ended with exit code \d+; another one starts", said), said
        gateway.process.send_signal(signal.SIGTERM)
        check_left_nothing(gateway, tmp_path)
        assert gateway.process.stdout is not None and gateway.process.stdout.read() == "", "one start message"


def test_a_signal_to_every_process_of_the_gateway_finishes_the_streams(tmp_path: Path) -> None:
    """A terminal and a service manager send their signal to the workers as well, and it must not count twice."""
    with gateway_of(tmp_path, 2, grace=60.0) as (gateway, endpoint):

        async def run() -> list[Answer]:
            clients = await open_streams(gateway, 1, more=1)
            for each in (gateway.process.pid, *workers_of(gateway)):
                os.kill(each, signal.SIGINT)
            for each in workers_of(gateway):
                os.kill(each, signal.SIGTERM)
            await wait_until_closed(gateway)
            await load_endpoint.release(endpoint.port, 1, len(CANARIES) + 1)
            await asyncio.gather(*(client.ended for client in clients))
            return read_all(clients)

        for place, answer in enumerate(asyncio.run(run())):
            assert answer.status == 200 and answer.is_whole, answer
            assert f"argument-{CANARIES[place]}".encode() in answer.body, answer
        check_left_nothing(gateway, tmp_path)


def test_a_second_signal_to_the_parent_cuts_the_streams_of_all_workers_off(tmp_path: Path) -> None:
    with gateway_of(tmp_path, 2, grace=600.0) as (gateway, _):
        workers = workers_of(gateway)

        async def run() -> list[Answer]:
            clients = await open_streams(gateway, 1, more=1)
            gateway.process.send_signal(signal.SIGINT)
            await wait_until_closed(gateway)
            gateway.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*(client.ended for client in clients))
            return read_all(clients)

        check_cut_off(asyncio.run(run()))
        check_left_nothing(gateway, tmp_path)
        assert not any(map(is_alive, workers))


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with gateway_of(tmp_path, 2, grace=0.1) as (gateway, _):
        workers = workers_of(gateway)
        gateway.process.kill()
        gateway.process.wait()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers end")
        asyncio.run(wait_until_closed(gateway))
        assert gateway.log.read_text(encoding="utf-8").count("its parent has ended") == 2


def test_a_stopped_worker_does_not_keep_the_gateway_from_ending(tmp_path: Path) -> None:
    with gateway_of(tmp_path, 2, grace=0.1) as (gateway, _):
        os.kill(workers_of(gateway)[0], signal.SIGSTOP)
        gateway.process.send_signal(signal.SIGTERM)
        check_left_nothing(gateway, tmp_path)
        assert "does not end, and is killed" in gateway.log.read_text(encoding="utf-8")


def test_all_workers_read_the_settings_again_also_one_that_starts_later(tmp_path: Path) -> None:
    with gateway_of(tmp_path, 2) as (gateway, _):
        log = gateway.log
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: log.read_text(encoding="utf-8").count("the settings were reloaded") == 2, "both read")
        os.kill(workers_of(gateway)[0], signal.SIGKILL)
        wait_until(lambda: log.read_text(encoding="utf-8").count("the settings were reloaded") == 3, "the new one")
        gateway.process.send_signal(signal.SIGTERM)
        check_left_nothing(gateway, tmp_path)


def test_metrics_are_those_of_all_workers_and_never_fall(tmp_path: Path) -> None:
    def count() -> int:
        said = get(gateway.port, "/metrics").body.decode()
        return sum(int(line.split()[-1]) for line in said.splitlines() if line.startswith("dragoman_exchanges_total"))

    with gateway_of(tmp_path, 2) as (gateway, _):
        for number in range(1, 9):
            assert ask(gateway, round=number).status == 200
        wait_until(lambda: [count() for _ in range(6)] == [8] * 6, "each worker shows all exchanges")
        before = workers_of(gateway)
        for victim in before:
            os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len({*workers_of(gateway)} - {*before}) == 2, "there are two workers again")
        wait_until(lambda: [count() for _ in range(6)] == [8] * 6, "the new workers go on")


def test_the_limits_of_an_endpoint_are_divided_among_the_workers() -> None:
    row = EndpointSettings("openai:m", requests_per_minute=10, tokens_per_minute=1000, max_concurrent=3)
    settings = GatewaySettings(endpoints={"e": row, "free": EndpointSettings("openai:n")})
    parts = [share_of(settings, number, 3).endpoints for number in (1, 2, 3)]
    assert [part["e"].requests_per_minute for part in parts] == [4, 3, 3]
    assert [part["e"].tokens_per_minute for part in parts] == [334, 333, 333]
    assert [part["e"].max_concurrent for part in parts] == [1, 1, 1]
    assert all(part["free"] == settings.endpoints["free"] for part in parts)
    assert share_of(settings, 1, 1) == settings
    with pytest.raises(ConfigError, match="max_concurrent = 3, and there are 4 workers"):
        share_of(settings, 1, 4)


def test_a_gateway_that_cannot_start_says_so_once(tmp_path: Path) -> None:
    rows = [
        (["--to", "http://127.0.0.1:9/v1", "--workers", "3"], "no server answers"),
        (["-m", "openai:m", "--workers", "2", "--host", "0.0.0.0"], "clients need no key"),
        (["-m", "openai:m", "--workers", "0"], "--workers is 0"),
        (["-m", "openai:m", "--workers", "2", "--inspector"], "the exchanges of one process"),
    ]
    for arguments, said in rows:
        command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", *arguments]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "DRAGOMAN_FACTS": "off"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert ended.returncode not in (0, None) and ended.returncode > 0, (arguments, ended)
        assert ended.stderr.count(said) == 1 and "Traceback" not in ended.stderr, (arguments, ended)
        assert ended.stdout == "", (arguments, ended)
