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
    # DBOS leaves a connection to the garbage collector when it ends while one of its threads waits for the server.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
