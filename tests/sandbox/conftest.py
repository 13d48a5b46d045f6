"""Running commands in boxes, for the tests of the sandbox."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from dragoman.sandbox import Box, Sandbox, find_sandbox

TIERS = [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap", package="bubblewrap")), "landlock"]


class Ran(NamedTuple):
    code: int
    output: str
    errors: str
    put_back: tuple[str, ...]


def start(sandbox: Sandbox, argv: Sequence[str], box: Box) -> tuple[Any, subprocess.Popen[bytes]]:
    launch = sandbox.launch(argv, box)
    process = subprocess.Popen(
        launch.argv,
        env=launch.environment,
        pass_fds=launch.pass_fds,
        cwd=launch.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    launch.started()
    return launch, process


def run(sandbox: Sandbox, command: str | Sequence[str], box: Box) -> Ran:
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    ran = sandbox.run(argv, box, timeout=60)
    assert not ran.timed_out
    return Ran(ran.code, ran.output.decode(), ran.errors.decode(), ran.put_back)


@pytest.fixture
def run_in() -> Callable[..., Ran]:
    return run


@pytest.fixture
def start_in() -> Callable[..., Any]:
    return start


@pytest.fixture(params=TIERS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each kind of sandbox in turn."""
    return find_sandbox(request.param)


@pytest.fixture
def bubblewrap() -> Sandbox:
    return find_sandbox("bubblewrap")


@pytest.fixture
def landlock() -> Sandbox:
    return find_sandbox("landlock")
