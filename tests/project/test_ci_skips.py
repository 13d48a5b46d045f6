"""In CI a skip is a failure, so that a missing system part is noticed; only the reference data may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = (Path(__file__).resolve().parents[1] / "conftest.py").read_text(encoding="utf-8")

TESTS = """
import pytest

@pytest.mark.needs("no-such-command", package="no-such-package")
def test_system_part(): ...

@pytest.mark.needs("sh")
def test_part_that_is_there(): ...

@pytest.mark.xfail(raises=ZeroDivisionError)
def test_known_fault(): 1 / 0

def test_data(): pytest.skip("../shared/data is absent")
"""
WHOLE_FILE = "import pytest\npytest.skip('no browser', allow_module_level=True)"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_parts=TESTS, test_whole_file=WHOLE_FILE)
    pytester.makeini("[pytest]\nmarkers = needs: a system part\n")
    return pytester


def test_on_a_users_machine_it_is_a_skip_with_the_next_step(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, skipped=3, xfailed=1)
    result.stdout.fnmatch_lines(["*no-such-package*run scripts/system-parts*"])


def test_in_ci_it_fails(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, skipped=1, xfailed=1, errors=2)
    result.stdout.fnmatch_lines(["*nothing may be skipped*no-such-command*"])
