"""The tests pass however they are started: under `nohup`, with signals that are ignored, or with blocked ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")

# Becomes another program, with signals that are ignored or blocked.
START = """
import os, signal, sys
numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGCHLD]
if sys.argv[1] == "ignored":
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

TESTS = """
import signal, subprocess, sys
import pytest

def test_an_interrupt_is_raised():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

def test_the_signal_of_the_time_limit_arrives():
    assert signal.getsignal(signal.SIGALRM) is not signal.SIG_IGN
    assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGALRM"])
def test_a_program_ends_by_a_signal(name):
    done = subprocess.run(["sh", "-c", f"kill -s {name[3:]} $$; exit 0"])
    assert done.returncode == -getattr(signal, name)
"""
HANGUP = """
import signal

def test_a_hangup_is_outlived():
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
"""


def start(how: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START, how, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=folder)


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(("how", "passed"), [("ignored", 7), ("blocked", 6)])
def test_signals_are_the_default_ones(pytester: pytest.Pytester, how: str, passed: int, workers: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_signals=TESTS)
    if how == "ignored":
        # A program that ignores a hangup, as `nohup` does, has to outlive its terminal.
        pytester.makepyfile(test_hangup=HANGUP)
    done = start(how, "-n", workers, folder=pytester.path)
    assert (done.returncode, f"{passed} passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_the_tests_of_interrupts_pass(how: str) -> None:
    done = start(how, "tests/client/test_portal.py", "tests/client/test_threadloops.py", "-k", "interrupt", folder=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
