"""Limits that several processes of a gateway share: in Postgres, and in a file of one machine."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests.postgres import PostgresServer
from tests.server import load_endpoint, processes
from tests.server.processes import Answer, Running

from dragoman.client.rate_limit import Slot
from dragoman.errors import ConfigError
from dragoman.journal import JournalFailed
from dragoman.providers import Fact, MemoryFacts
from dragoman.server import ledger as ledgers
from dragoman.server import shared
from dragoman.server.keys import KeyLimits, add_key, revoke_key
from dragoman.server.ledger import LEASE_SECONDS, Ledger, StoreAway
from dragoman.server.quotas import Account, Amount, Quota, Spent, open_limiter, read_usage
from dragoman.server.settings import ServerSettings
from dragoman.server.shared import FileBackend, PostgresBackend, SharedFacts, SharedStore, open_sharing
from dragoman.types import Failure

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
ROUNDS = iter(range(1, 10_000))


# ---- the ledger ------------------------------------------------------------------------------------------------------


def test_a_ledger_decides_like_the_quota_of_one_process() -> None:
    """The same requests at the same times: the shared rules are those of a single process."""
    for seed in range(40):
        compare(seed)


def compare(seed: int) -> None:
    rows = random.Random(seed)

    def choose(*values: Any) -> Any:
        return rows.choice([None, *values])

    limits = KeyLimits(choose(3, 8), choose(200, 1000), choose(1, 3), choose(500, 5000), choose(0.5))
    now = [NOON + seed * 3600]
    account, ledger = Account(), Ledger()
    alone = Quota(limits, account, lambda: datetime.fromtimestamp(now[0], UTC), open_limiter(limits, lambda: now[0]))
    running: list[tuple[str, Slot, Amount | None]] = []
    for step in range(120):
        now[0] += rows.choice([0, 0.5, 7, 61])
        for id, _, _ in running:
            ledgers.renew(id, ledger, now[0])
        if running and rows.random() < 0.4:
            id, slot, held = running.pop(rows.randrange(len(running)))
            used = Amount(rows.randrange(100), rows.random() / 10)
            slot.report(used.tokens)
            if alone.has_budget:
                alone.charge(used.tokens, used.dollars)
            if held is not None:
                account.add(held, -1)
            slot.release()
            for _ in range(2):
                ledgers.close(id, used, alone.has_budget, ledger, now[0])
            continue
        id, tokens = str(step), rows.randrange(300)
        admitted = alone.admit(tokens)
        failure = ledgers.admit(limits, id, tokens, ledger, now[0])
        assert failure == (admitted if isinstance(admitted, Failure) else None), (seed, step)
        if isinstance(admitted, Failure):
            continue
        held = None
        if alone.has_budget:
            amounts = Amount(tokens, tokens / 1000), Amount(tokens + 200, (tokens + 200) / 1000)
            refused = alone.reserve(*amounts)
            assert ledgers.reserve(limits, id, *amounts, ledger, now[0]) == refused, (seed, step)
            held = None if refused is not None else amounts[1]
        running.append((id, admitted, held))
    assert (ledger.tokens, round(ledger.dollars, 6)) == (account.spent.tokens, round(account.spent.dollars, 6))


def test_what_a_dead_process_had_reserved_counts_as_used() -> None:
    limits, ledger = KeyLimits(max_concurrent=1, tokens_per_day=1000), Ledger()
    assert ledgers.admit(limits, "a", 10, ledger, NOON) is None
    assert ledgers.reserve(limits, "a", Amount(10), Amount(400), ledger, NOON) is None
    assert ledgers.admit(limits, "b", 10, ledger, NOON + LEASE_SECONDS / 2) is not None, "one at a time"
    assert ledgers.admit(limits, "b", 10, ledger, NOON + LEASE_SECONDS + 1) is None
    assert ledger.tokens == 400
    # It was only paused: its request is counted once.
    ledgers.close("a", Amount(50), True, ledger, NOON + LEASE_SECONDS + 2)
    assert ledger.tokens == 400


def test_one_process_and_several_use_the_same_file(tmp_path: Path) -> None:
    path, today = tmp_path / "gateway-usage.json", datetime.now(UTC).date().isoformat()
    path.write_bytes(msgspec.json.encode({"k": Spent(today, 90), "old": Spent("2001-01-01", 50)}))
    limits, results = KeyLimits(tokens_per_day=100, requests_per_minute=9), []
    for number, whole in enumerate((10, 5)):
        backend = FileBackend(path)
        backend.check()

        def change(ledger: Ledger, now: float, id: str = str(number), whole: int = whole) -> None:
            results.append(ledgers.admit(limits, id, 1, ledger, now))
            results.append(ledgers.reserve(limits, id, Amount(1), Amount(whole), ledger, now))
            ledgers.close(id, Amount(whole), True, ledger, now)

        backend.change("k", change)
    assert results[:2] == [None, None]
    assert all(isinstance(each, Failure) and "100 tokens a day" in each.message for each in results[2:]), results
    assert {name: each.tokens for name, each in read_usage(path, Spent).items()} == {"k": 100}
    path.write_text("damaged", encoding="utf-8")
    FileBackend(path).change("k", change)
    assert results[4:] == [None, None], "as with one process, the usage begins at zero"


# ---- two processes ---------------------------------------------------------------------------------------------------


@contextmanager
def two_gateways(folder: Path, url: str) -> Iterator[tuple[Running, list[Running]]]:
    """An endpoint, and two gateways with the same keys: as replicas with a database, or as workers without."""
    keys = folder / "gateway-keys.json"
    with ExitStack() as stack:
        endpoint = stack.enter_context(processes.started(load_endpoint.COMMAND, folder / "endpoint.log"))
        table = f'keys = "{keys}"\ngrace = 0.1\n'
        running = []
        for name in ("one", "two") if url else ("one",):
            (folder / name).mkdir()
            options = () if url else ("--workers", "2")
            rows = f'{table}shared = "{url}"\n' if url else table
            running.append(
                stack.enter_context(processes.serving(folder / name, f"{endpoint.url}/v1", *options, gateway=rows))
            )
        yield endpoint, running
        for gateway in running:
            gateway.process.terminate()
            assert gateway.process.wait(20) == 0
            assert "Traceback" not in gateway.log.read_text(encoding="utf-8")


def request(key: str, *, round: int = 0, of: int = 1) -> bytes:
    orders = load_endpoint.write_orders("canary-7-0007", round=round or next(ROUNDS), of=of)
    return processes.write_request("openai_chat", orders, headers=f"Authorization: Bearer {key}\r\n")


def ask(gateway: Running, key: str) -> Answer:
    return asyncio.run(processes.exchange(gateway.port, request(key)))


def ask_all(gateways: list[Running], key: str, number: int) -> list[Answer]:
    async def run() -> list[Answer]:
        ports = [gateways[place % len(gateways)].port for place in range(number)]
        return list(await asyncio.gather(*(processes.exchange(port, request(key)) for port in ports)))

    return asyncio.run(run())


def test_two_processes_hold_the_limits_of_a_key_together(tmp_path: Path, postgres: PostgresServer) -> None:
    for kind, url in (("replicas", postgres.new_database()), ("workers", "")):
        folder = tmp_path / kind
        folder.mkdir()
        keys = folder / "gateway-keys.json"
        rate = add_key(keys, "rate", KeyLimits(requests_per_minute=10))
        alone = add_key(keys, "alone", KeyLimits(max_concurrent=3))
        budget = add_key(keys, "budget", KeyLimits(tokens_per_day=20_000))
        with two_gateways(folder, url) as (endpoint, gateways):
            assert Counter(each.status for each in ask_all(gateways, rate, 30)) == {200: 10, 429: 20}, kind
            for key, most in ((alone, 3), (budget, 4)):
                assert asyncio.run(hold(endpoint, gateways, key)) == {200: most, 429: 12 - most}, (kind, key)
            # What was reserved is free again, and only what was used is counted.
            assert [ask(gateway, key).status for key in (alone, budget) for gateway in gateways * 2] == [200] * 4 * len(
                gateways
            ), kind
            revoke_key(keys, "budget")
            assert [ask(gateway, budget).status for gateway in gateways * 2] == [401, 401] * len(gateways), kind


async def hold(endpoint: Running, gateways: list[Running], key: str) -> Counter[int]:
    """Send 12 requests at the same time. The endpoint answers none of them before all of them have an answer."""
    round = next(ROUNDS)
    clients = [
        await processes.connect(gateways[place % len(gateways)].port, request(key, round=round, of=100))
        for place in range(12)
    ]
    await asyncio.gather(*(client.first for client in clients))
    heads = Counter(processes.read_answer(bytes(client.received)).status for client in clients)
    await load_endpoint.release(endpoint.port, round, heads[200] + 1)
    for client in clients:
        client.transport.close()
    return heads


def test_a_budget_ends_for_all_processes_and_outlives_them(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.new_database()
    key = add_key(tmp_path / "gateway-keys.json", "k", KeyLimits(tokens_per_day=300))
    for start in range(2):
        (tmp_path / str(start)).mkdir()
        (tmp_path / str(start) / "gateway-keys.json").write_bytes((tmp_path / "gateway-keys.json").read_bytes())
        (tmp_path / str(start) / "gateway-keys.json").chmod(0o600)
        with two_gateways(tmp_path / str(start), url) as (_, gateways):
            statuses: list[int] = []
            while len(statuses) < 60 and statuses[-2:] != [429, 429]:
                statuses += [ask(gateway, key).status for gateway in gateways]
            assert statuses[-2:] == [429, 429] and (200 in statuses) == (start == 0), statuses
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT content FROM dragoman_gateway.ledgers").fetchone()
        assert row is not None
    kept = msgspec.json.decode(row[0], type=Ledger)
    assert 0 < kept.tokens <= 300 and kept.running == {}


def test_without_its_database_a_gateway_refuses_budgets_and_goes_on_with_rates(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        keys = tmp_path / "gateway-keys.json"
        budget = add_key(keys, "budget", KeyLimits(tokens_per_day=20_000))
        rate = add_key(keys, "rate", KeyLimits(requests_per_minute=5))
        free = add_key(keys, "free")
        with two_gateways(tmp_path, server.new_database()) as (_, gateways):
            assert [ask(each, key).status for each in gateways for key in (budget, rate, free)] == [200] * 6
            server.stop("immediate")
            for gateway in gateways:
                begun = time.monotonic()
                refused = ask(gateway, budget)
                assert time.monotonic() - begun < 10, "no request hangs"
                assert refused.status == 503 and "retry-after" in refused.headers, refused
                assert json.loads(refused.body)["error"]["code"] == "limits_unavailable"
                # Each process counts alone until the database is back.
                assert [ask(gateway, rate).status for _ in range(6)] == [200] * 5 + [429]
                assert ask(gateway, free).status == 200
            server.start()
            for gateway in gateways:
                end = time.monotonic() + 20
                while (status := ask(gateway, budget).status) != 200:
                    assert status == 503 and time.monotonic() < end
            assert "the shared limits are there again" in gateways[0].log.read_text(encoding="utf-8")
    finally:
        server.remove()


class SilentBackend:
    """A database that accepts everything and answers nothing, until it is released."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.released = threading.Event()
        self.asked = 0

    def change(self, account: str, change: Callable[[Ledger, float], None]) -> None:
        self.asked += 1
        assert self.released.wait(20)
        change(self.ledger, NOON)

    def check(self) -> None:
        assert self.released.wait(20)

    def close(self) -> None:
        pass


def test_a_silent_database_delays_one_request_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "WAIT_SECONDS", 0.05)
    backend = SilentBackend()
    store = SharedStore(backend)
    limits = KeyLimits(tokens_per_day=100)

    async def run() -> None:
        for number in range(50):
            with pytest.raises(StoreAway):
                await store.apply("a", partial(ledgers.admit, limits, str(number), 1))
        assert backend.asked == 1, "only the first one asked"
        # Its request has ended meanwhile, and must not be counted as a running one.
        store.send("a", partial(ledgers.close, "0", None, True))
        backend.released.set()
        while store.is_away or backend.ledger.running:
            await asyncio.sleep(0)
        monkeypatch.setattr(shared, "WAIT_SECONDS", 20.0)
        assert await store.apply("a", partial(ledgers.admit, limits, "last", 1)) is None
        assert [*backend.ledger.running] == ["last"]

    asyncio.run(run())
    store.close()


# ---- facts and settings ----------------------------------------------------------------------------------------------


def test_facts_are_shared_and_the_own_ones_remain_without_the_database(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    PostgresBackend(url).open()
    here, there = (
        SharedFacts(MemoryFacts(), backend, SharedStore(backend))
        for backend in (PostgresBackend(url), PostgresBackend(url))
    )
    here.put("http://x/v1", "m", Fact(native_tool_calls=False, why="it says so"))
    there.put("http://x/v1", "n", Fact(wire="openai_responses"))
    for each in (here, there, here):
        each.exchange(at_once=True)
    for each in (here, there):
        assert each.get("http://x/v1", "m") == Fact(native_tool_calls=False, why="it says so")
        assert each.get("http://x/v1", "n") == Fact(wire="openai_responses")
    there.put("http://x/v1", "m", Fact(format="hermes"))
    there.exchange(at_once=True)
    here.exchange(at_once=True)
    assert here.get("http://x/v1", "m") == Fact(native_tool_calls=False, why="it says so", format="hermes")
    for each in (here, there):
        each.close()


def test_replicas_have_one_secret_and_an_unusable_database_is_an_error(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    first, second = (open_sharing(ServerSettings(shared=url, keys=False), {}) for _ in range(2))
    assert first.secret == second.secret != open_sharing(ServerSettings(shared=postgres.new_database()), {}).secret
    named = open_sharing(ServerSettings(shared_env="PLACE"), {"PLACE": url})
    assert named.secret == first.secret
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA dragoman_gateway TO plain")
        connection.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dragoman_gateway TO plain")
    plain = open_sharing(ServerSettings(shared=url.replace("tester@", "plain@")), {})
    assert plain.secret == first.secret, "only the first start creates tables"
    rows: list[tuple[dict[str, Any], str]] = [
        ({"shared": "postgres://tester:hunter2@127.0.0.1:9/none"}, "127.0.0.1:9/none cannot be reached"),
        ({"shared": url + "missing"}, "does not exist"),
        ({"shared": postgres.new_database().replace("tester@", "plain@")}, "permission denied"),
        ({"shared": "redis://there"}, "not the address of a Postgres database"),
        ({"shared_env": "NOWHERE"}, "NOWHERE has no value"),
    ]
    for fields, said in rows:
        with pytest.raises((ConfigError, JournalFailed), match=said) as caught:
            open_sharing(ServerSettings(**fields), {})
        assert "hunter2" not in str(caught.value)
        assert ("CREATE" in caught.value.next_step) == (said == "permission denied")
