from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A Postgres server for all tests of this process. Each test makes its own database."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def _collect_connections() -> Iterator[None]:
    """DBOS leaves connections to the garbage collector when it ends while a thread of it waits for the server."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()
