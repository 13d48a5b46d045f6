"""The probe for processes, which is closed after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builtin.commands.process_probe import ProcessProbe


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[ProcessProbe]:
    found = ProcessProbe(tmp_path)
    yield found
    found.close()
