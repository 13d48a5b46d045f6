from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import postgres as postgres

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """DBOS leaves connections to the garbage collector when it ends while a thread of it waits for the server.

    The collector may run in the next test of this folder.
    """
    ignored = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(ignored)


@pytest.fixture(autouse=True, scope="module")
def _collect_connections() -> Iterator[None]:
    """Collect them before the tests of another folder run. A collection takes long, so there is one per module."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()
