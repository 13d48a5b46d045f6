"""Which sandbox is chosen, and what is said when the wanted one does not work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.sandbox import AutoSandbox, Box, NoSandbox, SandboxMissing, detection, find_sandbox, why_not


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    detection._look.cache_clear()
    yield
    detection._look.cache_clear()


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def broken_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_bubblewrap_is_the_first_choice() -> None:
    assert find_sandbox().tier == "bubblewrap"
    assert find_sandbox() is find_sandbox()
    assert why_not("auto") == ()


def test_landlock_is_the_second_choice(no_bubblewrap: None) -> None:
    assert find_sandbox().tier == "landlock"
    assert why_not("auto") == ("bubblewrap: bwrap is not installed",)


def test_one_that_is_installed_and_does_not_work_is_not_chosen(broken_bubblewrap: None) -> None:
    assert find_sandbox().tier == "landlock"
    assert why_not("auto") == ("bubblewrap: bwrap: No permissions to create new namespace",)


def test_none_is_what_is_left(no_bubblewrap: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.sandbox.landlock.landlock_version", lambda: 0)
    found = find_sandbox()

    assert isinstance(found, NoSandbox)
    assert not found.confines


def test_the_wanted_one_or_nothing(no_bubblewrap: None) -> None:
    with pytest.raises(SandboxMissing, match=r"'bubblewrap' does not work here: .*not installed") as caught:
        find_sandbox("bubblewrap")
    assert "apt-get install bubblewrap" in caught.value.explain()


@pytest.mark.parametrize(("version", "words"), [(0, "has no Landlock"), (2, "Linux 6.2")])
def test_a_kernel_that_is_too_old_is_named(version: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.sandbox.landlock.landlock_version", lambda: version)
    with pytest.raises(SandboxMissing, match=words):
        find_sandbox("landlock")


def test_another_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert find_sandbox().tier == "none"
    with pytest.raises(SandboxMissing, match="there is none for darwin"):
        find_sandbox("landlock")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SandboxMissing, match="unknown sandbox 'docker'"):
        find_sandbox("docker")  # type: ignore[arg-type]


def test_a_sandbox_that_is_found_later_is_looked_for_when_it_is_used(tmp_path: Path, no_bubblewrap: None) -> None:
    sandbox = AutoSandbox()
    assert detection._look.cache_info().misses == 0
    assert (sandbox.tier, sandbox.confines) == ("landlock", True)
    assert detection._look.cache_info().misses == 1
    assert sandbox.run(["true"], Box(workspace=str(tmp_path))).code == 0


def test_a_sandbox_that_is_found_later_may_be_none(no_bubblewrap: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.sandbox.landlock.landlock_version", lambda: 0)
    sandbox = AutoSandbox()
    assert (sandbox.tier, sandbox.confines) == ("none", False)
