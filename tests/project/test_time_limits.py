"""A test that hangs fails with a stack trace, and the tests after it run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SETTINGS = Path(__file__).resolve().parents[2] / "pyproject.toml"

TESTS = """
import signal, threading

def wait_for_ever():
    threading.Event().wait()

def test_hangs():
    wait_for_ever()

def test_comes_after_it():
    assert True
"""
# Stands for native code that hangs: no signal gets through to it.
DEAF = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    threading.Event().wait()"


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """Run the tests with the settings of the project, and other limits."""
    file = pytester.makepyfile(test_hanging=tests)
    where = ("-c", SETTINGS, f"--rootdir={pytester.path}", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*where, *options, file, timeout=90)


def test_every_test_has_a_limit_below_that_of_its_process(pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("timeout")) < float(pytestconfig.getini("faulthandler_timeout"))
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True


def test_a_test_that_hangs_fails_and_the_run_goes_on(pytester: pytest.Pytester) -> None:
    result = run(pytester, TESTS, "-o", "timeout=0.5")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*in wait_for_ever*", "*Timeout*0.5*"])


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_worker_that_hangs_is_replaced(pytester: pytest.Pytester) -> None:
    deaf = TESTS.replace("threading.Event().wait()", DEAF)
    result = run(pytester, deaf, "-n", "1", "-o", "timeout=0.5", "-o", "faulthandler_timeout=1")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed while running 'test_hanging.py::test_hangs'*"])
    result.stderr.fnmatch_lines(["*in wait_for_ever*"])
