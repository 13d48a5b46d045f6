from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from tests.postgres import postgres as postgres


@pytest.fixture(autouse=True)
def _collect_connections() -> Iterator[None]:
    """DBOS leaves connections to the garbage collector when it ends while a thread of it waits for the server."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()
