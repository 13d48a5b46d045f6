"""The laws try the same examples in every run, and `make test-full` repeats a random run from its seed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")

# Each test writes what it was given into a file of its own, so that workers do not mix their lines.
TESTS = """
import os, random
import pytest
from hypothesis import given, strategies as st

if "LOAD" in os.environ:
    import loaded

def note(name, value):
    with open(name, "a", encoding="utf-8") as file:
        print(repr(value), file=file)

@given(st.text(), st.integers(), st.floats())
def test_law(text, number, ratio):
    note("examples.txt", (text, number, ratio))

@pytest.mark.parametrize("name", ["one", "two"])
def test_random(name):
    note(f"{name}.txt", random.random())
"""
FAILS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_fails(number):
    assert number < 99
"""
# By itself hypothesis uses the constants of modules that are loaded.
LOADED = "WORDS = ['zebra', 'okapi', 'tapir']\nNUMBERS = [7001, 7013, 7019, 7027, 7039]\nRATIOS = [0.7001, 0.7013]\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_law=TESTS, loaded=LOADED)
    return pytester


def run(project: pytest.Pytester, *options: str, header: str) -> list[str]:
    """What the tests were given in one run, whose header says which examples it tries."""
    for file in project.path.glob("*.txt"):
        file.unlink()
    done = project.runpytest_subprocess("-p", "no:cacheprovider", *options)
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines([header])
    texts = [(project.path / f"{name}.txt").read_text(encoding="utf-8") for name in ("examples", "one", "two")]
    return [line for text in texts for line in text.splitlines()]


def test_every_run_tries_the_same_examples(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """They depend neither on the workers nor on the modules that are loaded."""
    header = "examples: the same in every run"
    first = run(project, header=header)
    assert len(first) > 30
    monkeypatch.setenv("LOAD", "1")
    assert run(project, "-n", "2", header=header) == first


@pytest.mark.full
def test_a_failure_leaves_no_example_behind_for_the_next_run(project: pytest.Pytester) -> None:
    project.makepyfile(test_fails=FAILS)
    for profile in ("fixed", "random"):
        project.runpytest_subprocess("-p", "no:cacheprovider", f"--hypothesis-profile={profile}").assert_outcomes(
            passed=3, failed=1
        )
        assert not (project.path / ".hypothesis" / "examples").exists()


@pytest.mark.full
def test_a_random_run_is_repeated_from_its_seed(project: pytest.Pytester) -> None:
    random, header = "--hypothesis-profile=random", "examples: random, from the seed {0}; *SEED={0}*"
    first = run(project, random, "--hypothesis-seed=123", header=header.format(123))
    assert run(project, random, "--hypothesis-seed=123", "-n", "1", header=header.format(123)) == first
    assert run(project, random, "--hypothesis-seed=124", header=header.format(124)) != first


def test_the_header_asks_for_a_seed_where_there_is_none(project: pytest.Pytester) -> None:
    done = project.runpytest_subprocess("-p", "no:cacheprovider", "--collect-only", "--hypothesis-profile=random")
    done.stdout.fnmatch_lines(["examples: random; give --hypothesis-seed *"])


def recipe(*words: str) -> str:
    return subprocess.run(["make", "-n", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout


def test_make_test_is_the_same_in_every_run() -> None:
    assert "PYTHONHASHSEED=0" in recipe("test")
    assert "--hypothesis-profile" not in recipe("test")


def test_make_test_full_takes_a_seed() -> None:
    assert "--hypothesis-profile=random" in recipe("test-full")
    assert re.search(r"\bseed=123\b", recipe("test-full", "SEED=123"))
