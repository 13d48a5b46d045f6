"""The witness of processes, closed after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builtin.commands.witnesses import Witness


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    found = Witness(tmp_path)
    yield found
    found.close()
