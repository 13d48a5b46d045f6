"""Programs that lie in the workspace are named before they run: a model may have written them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from dragoman.builtin.commands.bash import Bash, make_bash
from dragoman.builtin.commands.operands import find_programs
from dragoman.tools import ToolContext
from dragoman.types import Operand

SCRIPT = "#!/bin/sh\necho evil\n"


def put(path: Path, content: str = SCRIPT, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".venv" / "bin").mkdir(parents=True)
    return folder


@pytest.fixture
def venv(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the workspace that is searched first, as that of an active virtual environment is."""
    folder = work / ".venv" / "bin"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def operands_of(command: str, work: Path) -> list[Operand]:
    assert Bash.inspect is not None
    return list(Bash.inspect({"command": command}, ToolContext(workspace=str(work))))[1:]


def test_a_program_in_the_workspace_is_told_with_its_content(work: Path, venv: Path) -> None:
    assert operands_of("ls", work) == []
    found = put(venv / "ls").stat()
    assert operands_of("ls -la", work) == [
        Operand(
            kind="path",
            value=".venv/bin/ls",
            access="run",
            real=str(venv / "ls"),
            identity=f"{found.st_dev}:{found.st_ino}",
            digest=hashlib.sha256(SCRIPT.encode()).hexdigest(),
        )
    ]


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("ls", "cat a | ls"),
        ("ls", "cd /tmp; ls"),
        ("ls", "true && ls"),
        ("ls", "'l's"),
        ("ls", "env ls"),
        ("ls", "sudo -n ls"),
        ("ls", "sh -c 'cd x; ls'"),
        ("ls", "LC_ALL=C ls"),
        ("ls", "pwd\nls"),
        ("grep", "egrep x a"),
        ("git", "git status"),
        ("gpg", "git log --show-signature"),
        ("ssh-keygen", "git log"),
        ("git", "gh pr view 1"),
        ("python3", "python3 --version"),
    ],
)
def test_every_program_of_a_line_is_looked_up(work: Path, venv: Path, program: str, command: str) -> None:
    put(venv / program)
    assert [each.value for each in operands_of(command, work)] == [f".venv/bin/{program}"]


@pytest.mark.parametrize("command", ["cat rm", "echo rm", "ls x"])
def test_what_is_not_run_is_not_told(work: Path, venv: Path, command: str) -> None:
    put(venv / "rm")
    put(venv / "ls", mode=0o644)
    assert operands_of(command, work) == []


def test_a_link_is_told_under_its_name_and_bound_to_what_it_leads_to(work: Path, venv: Path) -> None:
    (venv / "python").symlink_to("/bin/sh")
    (found,) = operands_of("python --version", work)
    assert (found.value, found.inside, found.real) == (".venv/bin/python", True, os.path.realpath("/bin/sh"))
    before = found
    (venv / "python").unlink()
    (venv / "python").symlink_to("/bin/cat")
    assert operands_of("python --version", work) != [before]


def test_links_from_elsewhere_into_the_workspace_count(work: Path, tmp_path: Path) -> None:
    put(work / "tools" / "ls")
    put(work / "cat")
    (tmp_path / "linked").symlink_to(work / "tools")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cat").symlink_to(work / "cat")
    path = f"{tmp_path}/linked:{tmp_path}/bin:{work}/../{work.name}/tools:/usr/bin"
    assert find_programs(["ls", "cat", "wc"], path, str(work)) == [f"{tmp_path}/linked/ls", f"{tmp_path}/bin/cat"]


def test_a_script_that_is_found_elsewhere_may_start_one_of_the_workspace(work: Path, tmp_path: Path) -> None:
    put(tmp_path / "bin" / "npm", "#!/usr/bin/env -S node --x\n")
    put(work / "bin" / "node")
    path = f"{tmp_path}/bin:{work}/bin"
    assert find_programs(["npm"], path, str(work)) == [f"{work}/bin/node"]


@pytest.mark.parametrize("path", ["", ".", ":/usr/bin", "/usr/bin:", "bin::/usr/bin"])
def test_entries_that_mean_the_current_folder_are_not_searched_by_anybody(
    work: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    put(work / "ls")
    put(work / "bin" / "ls")
    monkeypatch.setenv("PATH", path)
    assert operands_of("ls", work) == []


def test_the_search_path_is_the_one_that_the_command_gets(work: Path) -> None:
    put(work / "bin" / "ls")
    tool = make_bash(environment={"PATH": f"{work}/bin:/usr/bin"})
    assert tool.inspect is not None
    _, found = tool.inspect({"command": "ls"}, ToolContext(workspace=str(work)))
    assert found.value == "bin/ls"


@pytest.mark.parametrize("line", ["{}/bin/runner", "/usr/bin/env -Srunner -x", "/usr/bin/env -S A=1 runner"])
def test_the_interpreter_of_a_program_elsewhere_counts(line: str, tmp_path: Path, work: Path) -> None:
    runner = put(work / "bin" / "runner")
    put(tmp_path / "tools" / "cat", f"#!{line.format(work)}\n")
    path = os.pathsep.join(map(str, (tmp_path / "tools", work / "bin", "/usr/bin")))
    assert find_programs(["cat"], path, str(work)) == [str(runner)]
