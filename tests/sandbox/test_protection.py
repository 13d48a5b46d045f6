"""Protected paths stay as they are, absent ones stay absent, and a workspace keeps nothing of how that is done."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.sandbox import PROTECTED, Box, Sandbox
from dragoman.sandbox.protection import PathSnapshot, Placeholders, plan_protection


def picture(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in a folder: names, kinds, modes, content."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content: bytes | str = ""
        if stat.S_ISLNK(state.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(state.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (state.st_mode, content)
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    for name in (
        ".git/hooks/pre-push",
        ".git/config",
        ".git/HEAD",
        ".vscode/settings.json",
        "dragoman.toml",
        "src/a.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"old {name}", encoding="utf-8")
    (folder / ".profile").symlink_to("src/profile")
    (folder / "src/profile").write_text("old profile", encoding="utf-8")
    return folder


ATTACKS = {
    "change a hook": "echo new > .git/hooks/pre-push",
    "make a hook": "echo new > .git/hooks/pre-commit",
    "make a hook that is a link": "ln -s ../../src/a.py .git/hooks/pre-commit",
    "rename a hook": "mv .git/hooks/pre-push .git/hooks/pre-commit",
    "remove a hook": "rm -f .git/hooks/pre-push",
    "remove the hooks": "rm -rf .git/hooks",
    "make a hook executable": "chmod 755 .git/hooks/pre-push",
    "move the hooks away": "mv .git/hooks .git/x && mkdir .git/hooks && echo > .git/hooks/pre-commit; rm -rf .git/x",
    "change the settings of git": "echo new >> .git/config",
    "replace the settings of git": "echo new > x && mv -f x .git/config; rm -f x",
    "change our settings": "echo new > dragoman.toml",
    "link to our settings": "ln dragoman.toml x && echo new > x; rm -f x",
    "make a start-up file": "echo new > .bashrc",
    "make a start-up folder": "mkdir .bashrc",
    "replace what holds the name": "rm -f .bashrc; echo new > x; mv -f x .bashrc; rm -f x",
    "make our folder": "mkdir -p .dragoman/a && echo new > .dragoman/a/b",
    "make a watched file": "echo new > .npmrc",
    "make a watched folder": "mkdir -p .github/workflows && echo new > .github/workflows/ci.yml",
    "change a watched file": "echo new > .vscode/settings.json",
    "turn a link to another file": "ln -sf a.py .profile",
    "put a file over a link": "rm -f .profile && echo new > .profile",
    "change the file behind a link": "echo new > src/profile",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_protected_stays_as_it_is(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, name: str
) -> None:
    before = picture(workspace)
    aside = tmp_path / "aside"
    aside.mkdir()
    run_in(sandbox, ATTACKS[name] + "; true", Box(workspace=str(workspace), aside=str(aside)))

    after = picture(workspace)
    # An empty folder above a protected path is no harm.
    assert {path: state for path, state in after.items() if path != ".github"} == before


def test_everything_else_in_the_workspace_can_be_changed(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    script = "echo 1 > new && mkdir made && mv new made/moved && rm src/a.py && echo 2 > .git/index && echo 3 > .bash"
    ran = run_in(sandbox, script, Box(workspace=str(workspace)))

    assert (ran.code, ran.put_back) == (0, ()), ran.errors
    assert (workspace / "made/moved").read_text(encoding="utf-8") == "1\n"
    assert (workspace / ".git/index").exists() and not (workspace / "src/a.py").exists()


def test_a_folder_above_cannot_be_swapped_for_a_link(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any
) -> None:
    """What is put back must not be written through a link that the command left in the way."""
    outside = tmp_path / "outside"
    (outside / "hooks").mkdir(parents=True)
    aside = tmp_path / "aside"
    aside.mkdir()
    run_in(sandbox, "mv .git moved; ln -s ../outside .git", Box(workspace=str(workspace), aside=str(aside)))

    assert picture(outside) == {"hooks": ((outside / "hooks").stat().st_mode, "")}
    assert not (workspace / ".git").is_symlink()
    assert (workspace / ".git/hooks/pre-push").read_text(encoding="utf-8") == "old .git/hooks/pre-push"


def test_what_was_made_is_kept_elsewhere_and_named(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    ran = run_in(sandbox, "echo mine > .npmrc", Box(workspace=str(workspace), aside=str(aside)))

    assert ran.put_back == (f".npmrc (the other version is in {aside})",)
    assert [path.read_text(encoding="utf-8") for path in aside.iterdir()] == ["mine\n"]


def test_nested_repositories_and_submodules_are_protected(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    for name in ("HEAD", "config", "hooks/update", "objects/x"):
        for repository in (".git/modules/part", "vendor/lib/.git"):
            (workspace / repository / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / repository / name).write_text("old", encoding="utf-8")
    (workspace / "part").mkdir()
    (workspace / "part/.git").write_text("gitdir: ../.git/modules/part", encoding="utf-8")
    before = picture(workspace)
    script = (
        "for each in .git/modules/part/config .git/modules/part/hooks/update vendor/lib/.git/config"
        " vendor/lib/.git/hooks/post part/.git; do echo new > $each; done; true"
    )
    run_in(sandbox, script, Box(workspace=str(workspace), aside=str(workspace.parent)))

    assert picture(workspace) == before


# ---- nothing is left behind ----------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_nothing_is_left_behind(sandbox: Sandbox, empty: Path, run_in: Any) -> None:
    ran = run_in(sandbox, "true", Box(workspace=str(empty)))

    assert ran.code == 0
    assert os.listdir(empty) == []


def test_the_last_of_several_commands_clears_up(sandbox: Sandbox, empty: Path, start_in: Any) -> None:
    box = Box(workspace=str(empty))
    first, second = (start_in(sandbox, ["/bin/sh", "-c", "read line"], box) for _ in range(2))
    first[1].communicate(timeout=60)
    first[0].finish()
    held = set(os.listdir(empty))
    second[1].communicate(timeout=60)
    second[0].finish()

    assert held == (plan_names() if sandbox.tier == "bubblewrap" else set())
    assert os.listdir(empty) == []


def plan_names() -> set[str]:
    return {path.split("/")[0] for path in PROTECTED}


KILLED = """
import os, sys
from dragoman.sandbox import Box, find_sandbox
find_sandbox("bubblewrap").launch(["true"], Box(workspace=sys.argv[1]))
os.kill(os.getpid(), 9)
"""


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_what_a_killed_process_left_is_removed_by_the_next(bubblewrap: Sandbox, empty: Path, run_in: Any) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(empty)], check=False)
    assert set(os.listdir(empty)) == plan_names()

    assert run_in(bubblewrap, "true", Box(workspace=str(empty))).code == 0
    assert os.listdir(empty) == []


@pytest.mark.needs("bwrap", package="bubblewrap")
@pytest.mark.needs("git", package="git")
def test_git_works_and_does_not_see_the_nodes(bubblewrap: Sandbox, empty: Path, run_in: Any) -> None:
    subprocess.run(["git", "init", "-q", str(empty)], check=True)
    script = (
        "git config --global user.name a; git config --global user.email b;"
        "git status --short; echo 1 > file; git add -A && git commit -qm first && git show --stat --format=%s;"
        "git config alias.st status || echo refused"
    )
    ran = run_in(bubblewrap, script, Box(workspace=str(empty)))

    assert ran.output == "first\n\n file | 1 +\n 1 file changed, 1 insertion(+)\nrefused\n", ran.errors
    assert sorted(os.listdir(empty)) == [".git", "file"]


def test_where_nobody_can_create_anything_no_nodes_are_needed() -> None:
    placeholders = Placeholders("/sys/kernel", ["/sys/kernel/.bashrc"], [])

    assert placeholders.held == []
    assert placeholders.remove() == ()


def test_a_command_cannot_remove_its_workspace(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    ran = run_in(sandbox, 'rm -rf "$PWD"; rmdir "$PWD"', Box(workspace=str(workspace), aside=str(workspace.parent)))

    assert ran.code != 0
    assert (workspace / ".git/hooks/pre-push").read_text(encoding="utf-8") == "old .git/hooks/pre-push"
    assert not (workspace / "src/a.py").exists()


# ---- finding and putting back --------------------------------------------------------------------------------------


def test_the_first_thing_on_the_way_that_is_no_folder_is_what_is_protected(workspace: Path) -> None:
    (workspace / "tree").mkdir()
    (workspace / "tree/.git").write_text("gitdir: elsewhere", encoding="utf-8")
    top = str(workspace)
    found = plan_protection(top, ("tree/.git/hooks", "absent/deep/file", ".git/hooks", ".profile"))

    assert found.fixed == [f"{top}/.git/hooks", f"{top}/src/profile", f"{top}/tree/.git"]
    assert found.absent == [f"{top}/absent"]
    assert found.guarded == [f"{top}/.profile"]
    assert found.anchors == [f"{top}/.git", f"{top}/src", f"{top}/tree"]


def test_what_is_too_large_to_remember_is_told_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.sandbox.protection._MOST_BYTES", 10)
    (tmp_path / "large").write_text("x" * 100, encoding="utf-8")
    guard = PathSnapshot(str(tmp_path), [str(tmp_path / "large")])
    assert guard.put_back() == ()

    (tmp_path / "large").write_text("y" * 100, encoding="utf-8")
    assert guard.put_back() == ("large (could not be restored)",)
    assert (tmp_path / "large").read_text(encoding="utf-8") == "y" * 100


def test_folders_that_nobody_can_follow_to_the_end_hinder_no_restoration(tmp_path: Path) -> None:
    """A command can nest more folders than a walk can enter, and what it changed besides has to go."""
    for name in ("hooks", "before"):
        (tmp_path / name).mkdir()
    make_deep(tmp_path / "before")
    paths = [str(tmp_path / name) for name in ("hooks", "before", "new", ".npmrc")]
    guard = PathSnapshot(str(tmp_path), paths, str(tmp_path))
    (tmp_path / "new").mkdir()
    make_deep(tmp_path / "new")
    make_deep(tmp_path / "hooks")
    (tmp_path / "hooks" / "post-checkout").write_text("evil")
    (tmp_path / ".npmrc").write_text("evil")

    assert [each.partition(" ")[0] for each in guard.put_back()] == ["hooks", "new", ".npmrc"]
    assert os.listdir(tmp_path / "hooks") == []
    assert not (tmp_path / ".npmrc").exists() and not (tmp_path / "new").exists()
    for folder in tmp_path.iterdir():
        remove_deep(folder)


def remove_deep(folder: Path) -> None:
    """Remove the folders one by one: what cleans up after the tests cannot enter them either."""
    while (folder / "d").is_dir():
        if (folder / "d" / "d").is_dir():
            (folder / "d" / "d").rename(folder / "next")
        (folder / "d").rmdir()
        if (folder / "next").is_dir():
            (folder / "next").rename(folder / "d")


def make_deep(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(800):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_nested_repository_is_restored_where_it_was(tmp_path: Path) -> None:
    """A folder above it can be moved, also where the repository itself cannot be changed."""
    repository = tmp_path / "sub" / ".git"
    for name in ("hooks", "objects", "refs"):
        (repository / name).mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "config").write_text("[core]\n")
    guard = PathSnapshot(
        str(tmp_path), plan_protection(str(tmp_path), (".git/hooks",)).guarded, str(tmp_path / "aside")
    )
    (tmp_path / "aside").mkdir()
    (tmp_path / "sub").rename(tmp_path / "moved")
    (repository / "hooks").mkdir(parents=True)
    (repository / "hooks" / "post-checkout").write_text("evil")

    assert {each.partition(" ")[0] for each in guard.put_back()} == {"sub/.git/hooks", "sub/.git/config"}
    assert os.listdir(repository / "hooks") == []
    assert (repository / "config").read_text() == "[core]\n"
