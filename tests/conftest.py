"""What every test shares: the examples of hypothesis, default signals, and the rule that CI accepts no silent skip."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType, ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from dragoman.secrets.fields import is_secret_variable

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# By default the examples are the same ones in every run: a change fails for what it changed. `make test-full` searches
# for new ones with the profile `random`, and tries more. A deadline per example measures the machine and not
# the code, so there is none. No profile keeps examples: a failure of one run would change the next.
settings.register_profile(
    "fixed",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("random", settings.get_profile("fixed"), derandomize=False, max_examples=100)
settings.load_profile("fixed")

# Hypothesis also uses the constants of all modules that are loaded. Which ones are loaded depends on the tests that
# ran before in the same process, so the examples would depend on how the tests are spread over the workers. There is
# no setting for it; tests/project/test_same_examples.py notices when this name changes.
providers._get_local_constants = Constants

# What an agent of a test learns about an endpoint must not get into the file of the person who runs the tests.
os.environ.setdefault("DRAGOMAN_FACTS", "off")

# An agent hides the secrets of its environment, and holds text back until it cannot be the start of one. So a secret of
# the person who runs the tests would change the pieces in which a text arrives.
for name in [name for name in os.environ if is_secret_variable(name)]:
    del os.environ[name]

# The reference data is outside the checkout and not part of the project. Only this data may be absent in CI.
_MAY_BE_ABSENT = "../shared"


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data(root: Path) -> Callable[[str], Path]:
    """Find a file of the reference data: skips when there is none of it, fails when only this file is missing."""

    def find(name: str) -> Path:
        folder = root.parent / "shared" / "data"
        if not folder.is_dir():
            pytest.skip("the reference data is not beside this checkout (../shared/data)")
        path = folder / name
        assert path.is_file(), f"../shared/data is there, but {name} is not in it"
        return path

    return find


@pytest.fixture(scope="session")
def shared_script(shared_data: Callable[[str], Path]) -> Callable[[str], ModuleType]:
    """Load a module of the reference data, and write no bytecode next to it: the data is read-only."""

    def load(name: str) -> ModuleType:
        path = shared_data(name)
        module = ModuleType(path.stem)
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
        return module

    return load


def pytest_report_header(config: pytest.Config) -> str:
    if settings.get_current_profile_name() == "fixed":
        return "examples: the same in every run"
    seed = config.getoption("--hypothesis-seed")
    if seed is None:
        return "examples: random; give --hypothesis-seed to be able to repeat them"
    return f"examples: random, from the seed {seed}; `make test-full SEED={seed}` repeats them"


@functools.cache
def _register_random() -> None:
    """Hypothesis registers its generator with its first test, and fails if a command has frozen the heap before."""
    given(st.none())(lambda nothing: None)()


def pytest_sessionstart(session: pytest.Session) -> None:
    # The process that only hands out tests to workers keeps its signals, so that they inherit what `nohup` asked for.
    if session.config.getoption("dist", "no") == "no":
        _restore_signals()


def _restore_signals() -> None:
    """Give this process, and every program that a test starts, the signals that a program has in a terminal.

    `nohup`, `trap '' INT` and `&` in a script start programs with signals ignored, others with signals blocked, and
    children inherit both. Python itself ignores SIGPIPE and SIGXFSZ; it gives children the defaults of these two.
    """
    handlers = {"SIGINT": signal.default_int_handler, "SIGHUP": _stay_alive}
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGCHLD", "SIGUSR1", "SIGUSR2"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handlers.get(name, signal.SIG_DFL))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _stay_alive(number: int, frame: FrameType | None) -> None:
    """A run under `nohup` outlives its terminal. A handler, unlike an ignored signal, is not inherited by programs."""


def _unshield() -> None:
    """A run shields the imports of its process for good. Every test begins without that."""
    own_code = sys.modules.get("dragoman.own_code")
    if own_code is not None:
        own_code._protect.cache_clear()
        own_code._shield._tops = ()
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not own_code._shield]


def pytest_runtest_setup(item: pytest.Item) -> None:
    _unshield()
    _register_random()
    # The library takes the jitter of its retries from this generator.
    random.seed(item.config.getoption("--hypothesis-seed") or 0)
    for mark in item.iter_markers("needs"):
        command: str = mark.args[0]
        if shutil.which(command) is None:
            package = mark.kwargs.get("package", command)
            pytest.skip(f"the command {command!r} is not installed (package {package}): run scripts/system-parts")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _fail_on_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_on_skip(report)
    return report


def _fail_on_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (IN_CI and report.outcome == "skipped"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if _MAY_BE_ABSENT not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be skipped: {reason}"
