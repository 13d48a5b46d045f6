"""The configuration of nginx in the guide: it is read, streams arrive at once, and disconnections are passed on."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server import load_endpoint, processes
from tests.server.processes import Running

GUIDE = Path(__file__).parents[2] / "docs/guides/gateway-at-scale.md"
MAIN = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/dragoman.conf;
}}
"""
END = 20.0


def write_configuration(folder: Path, ports: list[int], port: int) -> Path:
    """Write the configuration of the guide, with the addresses of this test."""
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    text = found[1].replace("listen 80;", f"listen 127.0.0.1:{port};")
    for place, each in enumerate(ports):
        address = f"10.0.0.1{place + 1}:4000"
        assert address in text
        text = text.replace(address, f"127.0.0.1:{each}")
    (folder / "dragoman.conf").write_text(text, encoding="utf-8")
    main = folder / "nginx.conf"
    main.write_text(MAIN.format(folder=folder), encoding="utf-8")
    return main


@contextmanager
def nginx_before(folder: Path, gateways: list[Running]) -> Iterator[int]:
    """Run nginx in front of gateways, and yield its port."""
    program = shutil.which("nginx")
    assert program is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    main = write_configuration(folder, [each.port for each in gateways], port)
    command = [program, "-p", str(folder), "-c", str(main), "-e", str(folder / "nginx.log")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + END
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None and time.monotonic() < end, (folder / "nginx.log").read_text()
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.mark.needs("nginx", package="nginx-light")
def test_streams_pass_through_nginx_at_once_and_a_replica_may_end(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with processes.started(load_endpoint.COMMAND, tmp_path / "endpoint.log") as endpoint:
        url, hosts = f"{endpoint.url}/v1", 'hosts = ["gateway.example"]\n'
        with (
            processes.serving(tmp_path / "one", url, gateway=hosts) as one,
            processes.serving(tmp_path / "two", url, gateway=hosts) as two,
            nginx_before(tmp_path, [one, two]) as port,
        ):
            asyncio.run(stream(port, endpoint, round=1))
            large = load_endpoint.write_orders("canary-4-0004", round=100, of=1) + "x" * 5_000_000
            sent = processes.write_request("openai_chat", large, stream=False)
            assert asyncio.run(asyncio.wait_for(processes.exchange(port, sent), END)).status == 200
            one.process.terminate()
            assert one.process.wait(END) == 0
            for number in range(2, 6):
                asyncio.run(stream(port, endpoint, round=number))


async def stream(port: int, endpoint: Running, round: int) -> None:
    """A client receives the first piece of a stream while the endpoint holds the rest."""
    orders = load_endpoint.write_orders("canary-3-0003", round=round, of=2)
    client = await processes.connect(port, processes.write_request("openai_chat", orders))
    await asyncio.wait_for(client.first, END)
    before = bytes(client.received)
    assert b"200 OK" in before and b"[DONE]" not in before, before
    while b"canary-3-0003" not in client.received:
        await asyncio.sleep(0)
    await load_endpoint.release(endpoint.port, round, 2)
    answer = processes.read_answer(await asyncio.wait_for(client.ended, END))
    assert answer.is_whole and b"[DONE]" in answer.body, answer


@pytest.mark.needs("nginx", package="nginx-light")
def test_a_client_that_leaves_nginx_leaves_the_endpoint(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with (
        processes.Flood() as flood,
        processes.serving(tmp_path / "one", flood.url, gateway='hosts = ["gateway.example"]\n') as gateway,
        nginx_before(tmp_path, [gateway, gateway]) as port,
    ):

        async def leave() -> None:
            client = await processes.connect(port, processes.write_request("openai_chat", "Go."))
            await asyncio.wait_for(client.first, END)
            client.transport.abort()

        asyncio.run(leave())
        assert flood.left.wait(END), "the request to the endpoint goes on"
