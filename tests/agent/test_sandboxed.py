"""The mode `sandboxed`: commands run without an approval, and only in a sandbox that passed its check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agent.runs import agent, wait

from dragoman.builtin import Bash
from dragoman.sandbox import NoSandbox
from dragoman.testing import call

COMMAND = "echo made > made.txt; echo secret > ../outside.txt; cat made.txt"


def said(tmp_path: Path, **settings: Any) -> str:
    workspace = tmp_path / "here"
    workspace.mkdir()
    made = agent([call("bash", command=COMMAND), "done"], Bash, workspace=str(workspace), mode="sandboxed", **settings)
    return str(wait(made.arun("hi")).results[0].content)


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_a_command_runs_in_the_sandbox_that_is_found_and_reaches_nothing_else(tmp_path: Path) -> None:
    told = said(tmp_path)
    assert "made" in told and "exit code 0" in told
    assert (tmp_path / "here" / "made.txt").read_text(encoding="utf-8") == "made\n"
    assert not (tmp_path / "outside.txt").exists()


def test_without_a_sandbox_that_holds_it_is_asked_about(tmp_path: Path) -> None:
    told = said(tmp_path, sandbox=NoSandbox())
    assert "nobody is there" in told and "no sandbox that works" in told
    assert not (tmp_path / "here" / "made.txt").exists()


def test_a_sandbox_that_does_not_hold_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman import sandbox
    from dragoman.sandbox import Attempt, ProbeReport

    class Leaky(NoSandbox):
        confines = True

    escaped = ProbeReport("landlock", 0, (Attempt("write outside", False, "it was written"),))
    assert not escaped.holds
    monkeypatch.setattr(sandbox, "proof", lambda each: escaped)
    told = said(tmp_path, sandbox=Leaky())
    assert "nobody is there" in told
    assert not (tmp_path / "here" / "made.txt").exists()
