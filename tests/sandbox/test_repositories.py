"""The files that settings of git name are protected: hooks, programs, further settings, and lists of rebases."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman import builtin
from dragoman.policy import DecisionContext, Rules, decide
from dragoman.sandbox import Box, Sandbox
from dragoman.sandbox.repositories import Setting, find_named_paths, find_repositories, parse_settings
from dragoman.tools import ToolContext
from dragoman.types import ToolCall

# ---- settings ------------------------------------------------------------------------------------------------------

SPELLINGS = {
    "plain": "[core]\n\thooksPath = team/hooks\n",
    "in one line": "[core] hooksPath=team/hooks",
    "other case": "[CORE]\nHOOKSPATH = team/hooks\n",
    "quoted": '[core]\n\thooksPath = "team/hooks"\n',
    "quoted in part": '[core]\n\thooksPath = te"am/ho"oks\n',
    "with a comment": "[core]\n\thooksPath = team/hooks # ours\n",
    "over two lines": "[core]\n\thooksPath = team/\\\nhooks\n",
    "with Windows line ends": "[core]\r\n\thooksPath = team/hooks\r\n",
    "after a mark of the byte order": "\ufeff[core]\n\thooksPath = team/hooks\n",
    "after another section": '[remote "origin"]\n\turl = x\n[core]\n\tbare = false\n\thooksPath = team/hooks\n',
    "twice": "[core]\n\thooksPath = elsewhere\n[core]\n\thooksPath = team/hooks\n",
    "with blanks around": "[core]\n\thooksPath =   team/hooks  \t\n",
    "with a slash at the end": "[core]\n\thooksPath = team/hooks/\n",
    "with a dot before": "[core]\n\thooksPath = ./team/hooks\n",
    "with steps back": "[core]\n\thooksPath = src/../team/hooks\n",
    "absolute": "[core]\n\thooksPath = {workspace}/team/hooks\n",
    "from the home folder": "[core]\n\thooksPath = ~/workspace/team/hooks\n",
    "included": "[include]\n\tpath = ../shared.inc\n",
    "included on a condition": '[includeIf "onbranch:main"]\n\tpath = ../shared.inc\n',
}
SHARED = "[core]\n\thooksPath = team/hooks\n"


def judge(workspace: Path, path: str) -> str:
    """The decision about a change of a file, in the mode that allows everything else."""
    arguments: dict[str, Any] = {"path": path, "content": "x"}
    assert builtin.Write.inspect is not None
    operands = tuple(builtin.Write.inspect(arguments, ToolContext(workspace=str(workspace))))
    return decide(ToolCall("c", "write", arguments), DecisionContext(builtin.Write, operands), Rules("bypass")).code


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    make_repository(folder)
    (folder / "src").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


def make_repository(top: Path, folder: Path | None = None) -> None:
    inner = folder or top / ".git"
    for name in ("objects", "refs", "hooks"):
        (inner / name).mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (inner / "config").write_text("[core]\n\tbare = false\n", encoding="utf-8")


@pytest.mark.parametrize("name", SPELLINGS)
def test_folders_for_hooks(workspace: Path, name: str) -> None:
    text = SPELLINGS[name].replace("{workspace}", str(workspace))
    (workspace / ".git/config").write_bytes(text.encode())
    (workspace / "shared.inc").write_text(SHARED, encoding="utf-8")

    for _ in range(2):
        assert judge(workspace, "team/hooks/pre-commit") == "protected"
        assert judge(workspace, "team/hooks/lib/x.sh") == "protected"
        assert judge(workspace, "team/other.sh") != "protected"
        assert (judge(workspace, "shared.inc") == "protected") is ("included" in name)
        (workspace / "team/hooks").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("place", ["../.gitconfig", "../.config/git/config", ".git/config.worktree"])
def test_every_level_of_settings_counts(workspace: Path, place: str) -> None:
    path = workspace / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SHARED, encoding="utf-8")

    assert judge(workspace, "team/hooks/pre-push") == "protected"


def test_what_the_settings_of_the_user_include(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text('[includeIf "gitdir:x"]\n\tpath = workspace/shared.inc\n', encoding="utf-8")

    assert judge(workspace, "shared.inc") == "protected"
    (workspace / "shared.inc").write_text(SHARED, encoding="utf-8")
    assert judge(workspace, "team/hooks/pre-push") == "protected"


def test_the_environment_counts(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "team/hooks")

    assert judge(workspace, "team/hooks/pre-push") == "protected"


def test_nested_repositories_submodules_and_worktrees_count(workspace: Path, tmp_path: Path) -> None:
    make_repository(workspace / "vendor/lib")
    make_repository(workspace / "part", workspace / ".git/modules/part")
    (workspace / "part").mkdir()
    (workspace / "part/.git").write_text("gitdir: ../.git/modules/part\n", encoding="utf-8")
    make_repository(tmp_path / "main")
    (tmp_path / "main/.git/worktrees/tree").mkdir(parents=True)
    (tmp_path / "main/.git/worktrees/tree/commondir").write_text("../..\n", encoding="utf-8")
    (workspace / "tree").mkdir()
    (workspace / "tree/.git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/tree\n", encoding="utf-8")
    for config in ("vendor/lib/.git/config", ".git/modules/part/config", "../main/.git/config"):
        (workspace / config).write_text(SHARED, encoding="utf-8")

    for top in ("vendor/lib", "part", "tree"):
        assert judge(workspace, f"{top}/team/hooks/pre-commit") == "protected"
    assert judge(workspace, "team/hooks/pre-commit") != "protected"


def test_a_workspace_in_a_repository(workspace: Path) -> None:
    (workspace / "src/app").mkdir()
    (workspace / ".git/config").write_text("[core]\n\thooksPath = src/app/hooks\n", encoding="utf-8")

    assert judge(workspace / "src/app", "hooks/pre-commit") == "protected"
    assert judge(workspace / "src/app", "main.py") != "protected"


def test_a_deep_repository(workspace: Path) -> None:
    deep = workspace / "a/b/c/d/e/f/g"
    make_repository(deep)
    (deep / ".git/config").write_text(SHARED, encoding="utf-8")

    assert judge(workspace, "a/b/c/d/e/f/g/team/hooks/pre-commit") == "protected"
    assert judge(workspace, "a/b/c/d/e/f/g/main.py") != "protected"


def test_a_very_long_path_is_no_error(workspace: Path) -> None:
    assert judge(workspace, "a/" * 1500 + "b") != "protected"


def test_case(workspace: Path) -> None:
    """Some file systems do not distinguish it."""
    (workspace / ".git/config").write_text("[core]\n\thooksPath = Team/Hooks\n", encoding="utf-8")

    assert judge(workspace, "team/hooks/pre-commit") == "protected"


def test_hooks_beside_other_files(workspace: Path) -> None:
    """Where the whole workspace is the folder for hooks, only the hooks themselves are protected."""
    (workspace / ".git/config").write_text("[core]\n\thooksPath = .\n", encoding="utf-8")

    assert judge(workspace, "pre-commit") == "protected"
    assert judge(workspace, "main.py") != "protected"


PROGRAMS = {
    "alias": '[alias]\n\tdeploy = "!sh tools/run.sh --now"\n',
    "filter": '[filter "x"]\n\tclean = tools/run.sh %f\n',
    "merge driver": '[merge "x"]\n\tdriver = ./tools/run.sh %A %B\n',
    "monitor": "[core]\n\tfsmonitor = tools/run.sh\n",
    "editor": "[sequence]\n\teditor = 'tools/run.sh'\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_settings_name(workspace: Path, name: str) -> None:
    (workspace / "tools").mkdir()
    for each in ("run.sh", "other.sh"):
        (workspace / "tools" / each).write_text("", encoding="utf-8")
    (workspace / ".git/config").write_text(PROGRAMS[name], encoding="utf-8")

    assert judge(workspace, "tools/run.sh") == "protected"
    assert judge(workspace, "tools/other.sh") != "protected"


def test_what_lies_behind_a_link_with_a_protected_name(workspace: Path) -> None:
    (workspace / "editor").mkdir()
    (workspace / ".vscode").symlink_to("editor")
    (workspace / ".envrc").symlink_to("src/env")
    (workspace / "src/env").write_text("", encoding="utf-8")

    assert judge(workspace, "editor/tasks.json") == "protected"
    assert judge(workspace, "src/env") == "protected"
    assert judge(workspace, "src/other") != "protected"


def test_a_link_to_a_protected_path(workspace: Path) -> None:
    (workspace / "innocent").symlink_to(".git")

    assert judge(workspace, "innocent/config") == "protected"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("[a]\nb", [Setting("a.b", "true")]),
        ('[a "x.y"]\nB = 1', [Setting("a.b", "1")]),
        ("[a.sub]\nb = 1", [Setting("a.b", "1")]),
        ('[a]\nb = "x # y" ; z', [Setting("a.b", "x # y")]),
        ("[a]\nb = x\\ty\\\\", [Setting("a.b", "x\ty\\")]),
        ("[a]\n= 1\n!\nb = 2", [Setting("a.b", "2")]),
        ("[a]\nb = x\\\n  y\nc = 1", [Setting("a.b", "x  y"), Setting("a.c", "1")]),
        ('[a]\nb = "unfinished\nc = 1', [Setting("a.b", "unfinished"), Setting("a.c", "1")]),
        ("[a", []),
    ],
)
def test_reading_settings(text: str, expected: list[Setting]) -> None:
    assert list(parse_settings(text)) == expected


@pytest.mark.needs("git", package="git")
@pytest.mark.parametrize("name", [name for name in SPELLINGS if "included" not in name])
def test_git_reads_the_same(workspace: Path, name: str) -> None:
    text = SPELLINGS[name].replace("{workspace}", str(workspace))
    (workspace / ".git/config").write_bytes(text.encode())
    command = ["git", "config", "--file", ".git/config", "--get", "core.hooksPath"]
    told = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True).stdout

    values = [setting.value for setting in parse_settings(text) if setting.name == "core.hookspath"]
    assert values[-1] == told.removesuffix("\n")


SETUPS = {
    "nothing": "",
    "the repository": "git config core.hooksPath team/hooks",
    "an absolute path": 'git config core.hooksPath "$PWD/team/hooks"',
    "the user": "git config --global core.hooksPath .my-hooks",
    "an included file": "git config include.path ../inc; git config --file inc core.hooksPath team",
    "a condition": "git config includeIf.onbranch:main.path ../inc; git config --file inc core.hooksPath team",
    "a worktree": "git worktree add -q tree; git config core.hooksPath team; cd tree",
    "the settings of a worktree": "git worktree add -q tree; git config extensions.worktreeConfig true; cd tree; "
    "git config --worktree core.hooksPath team",
    "a submodule": "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; "
    "git -c protocol.file.allow=always submodule --quiet add ../lib part; cd part; git config core.hooksPath team",
    "a nested repository": "git init -q nested; cd nested; git config core.hooksPath ../team",
}


@pytest.mark.needs("git", package="git")
@pytest.mark.parametrize("name", SETUPS)
def test_git_takes_no_hooks_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Git itself says where it looks for hooks; that place has to be protected."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = a\n\temail = b\n", encoding="utf-8")
    start = "git init -q -b main . && git commit -q --allow-empty -m x"
    script = f"{start}\n{SETUPS[name]}\ngit rev-parse --git-path hooks; pwd"
    ran = subprocess.run(["sh", "-ec", script], cwd=workspace, capture_output=True, text=True, check=True)
    told, folder = ran.stdout.splitlines()[-2:]
    hooks = os.path.realpath(os.path.join(folder, told))

    assert hooks.startswith(f"{workspace}/")
    assert judge(workspace, os.path.relpath(f"{hooks}/pre-commit", workspace)) == "protected"


def test_a_path_with_odd_characters_is_no_error(workspace: Path) -> None:
    (workspace / ".git/config").write_bytes(b"[core]\n\thooksPath = a\0b\xff\n\tfsmonitor = \0\n")

    assert isinstance(find_named_paths(str(workspace), find_repositories(str(workspace))), tuple)


# ---- boxes ---------------------------------------------------------------------------------------------------------


MAKING = {
    "directly": "mkdir -p team/hooks; echo new > team/hooks/pre-commit",
    "after the folder above was moved": "mv team other; mkdir -p team/hooks; echo new > team/hooks/pre-commit",
    "through a link": "mkdir -p x/hooks; echo new > x/hooks/pre-commit; mv team other; ln -s x team",
    "by a rename": "mkdir -p x; echo new > x/pre-commit; mkdir -p team; mv -T x team/hooks",
}


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("how", MAKING)
def test_no_command_in_a_box_makes_a_hook(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, how: str, exists: bool
) -> None:
    (workspace / ".git/config").write_text(SHARED, encoding="utf-8")
    if exists:
        (workspace / "team/hooks").mkdir(parents=True)
    (tmp_path / "aside").mkdir()
    run_in(sandbox, f"{MAKING[how]}; true", Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    assert not (workspace / "team/hooks/pre-commit").exists()
    assert (workspace / "team/hooks").is_dir() is exists


def test_no_command_in_a_box_diverts_git(sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any) -> None:
    """`commondir` names another folder for the settings and the hooks."""
    script = "cp -r .git evil; echo ../evil > .git/commondir; echo > .git/config.worktree; true"
    (tmp_path / "aside").mkdir()
    run_in(sandbox, script, Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    assert not (workspace / ".git/commondir").exists()
    assert not (workspace / ".git/config.worktree").exists()


@pytest.mark.parametrize("how", ["", ".git/worktrees/w", ".git/worktrees"])
def test_no_command_in_a_box_diverts_another_worktree(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, how: str
) -> None:
    """A worktree elsewhere takes its settings from the folder that a file in this repository names.

    `how` is the folder that the command moves away before.
    """
    folder = workspace / ".git/worktrees/w"
    folder.mkdir(parents=True)
    for name, text in {"commondir": "../..", "gitdir": str(tmp_path / "w/.git")}.items():
        (folder / name).write_text(text, encoding="utf-8")
    script = "echo ../../../evil > commondir; echo x > gitdir; echo x > config.worktree"
    script = f"{'mv ' + how + ' moved;' if how else ''} mkdir -p .git/worktrees/w; cd .git/worktrees/w; {script}; true"
    (tmp_path / "aside").mkdir()
    run_in(sandbox, script, Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    assert (folder / "commondir").read_text(encoding="utf-8") == "../.."
    assert sorted(os.listdir(folder)) == ["commondir", "gitdir"]


@pytest.mark.parametrize("moved", ["", ".git/modules/part", ".git/modules", ".git"])
def test_no_command_in_a_box_changes_a_submodule(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, moved: str
) -> None:
    make_repository(workspace / "part", workspace / ".git/modules/part")
    script = f"{f'mv {moved} moved;' if moved else ''} mkdir -p .git/modules/part/hooks; cd .git/modules/part"
    script += "; echo new > config; echo new > hooks/pre-commit; echo new > commondir; true"
    (tmp_path / "aside").mkdir()
    run_in(sandbox, script, Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    folder = workspace / ".git/modules/part"
    assert (folder / "config").read_text(encoding="utf-8") == "[core]\n\tbare = false\n"
    assert not (folder / "hooks/pre-commit").exists() and not (folder / "commondir").exists()


TODO = ".git/rebase-merge/git-rebase-todo"
LISTS = {
    "exec": "pick 1 x\nexec touch run\n",
    "x": "x touch run\n",
    "with blanks": "pick 1\n \t exec\ttouch run\n",
    "in a worktree": "exec touch run\n",
    "behind a link": "pick 1\n",
    "in a folder behind a link": "pick 1\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_no_command_in_a_box_adds_commands_to_a_rebase(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, name: str
) -> None:
    path = ".git/worktrees/w/rebase-merge/git-rebase-todo" if name == "in a worktree" else TODO
    (workspace / "list").write_text(LISTS[name], encoding="utf-8")
    script = f"mkdir -p {os.path.dirname(path)}; cp list {path}"
    if name == "behind a link":
        script = f"mkdir -p .git/rebase-merge; ln -s ../../list {TODO}"
    if name == "in a folder behind a link":
        script = "mkdir x; cp list x/git-rebase-todo; ln -s ../x .git/rebase-merge"
    (tmp_path / "aside").mkdir()
    ran = run_in(sandbox, script, Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    assert not os.path.lexists(workspace / path)
    assert "git-rebase-todo" in ran.put_back[0]


def test_a_rebase_goes_on_over_several_commands(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    todo = workspace / TODO
    todo.parent.mkdir()
    todo.write_text("exec make test\npick 1 x\npick 2 y\n", encoding="utf-8")
    script = f"(echo 'exec make test'; echo 'pick 2 y') > new; mv new {TODO}; echo 1 > .git/rebase-merge/msgnum"
    ran = run_in(sandbox, script, Box(workspace=str(workspace)))

    assert (ran.code, ran.put_back) == (0, ()), ran.errors
    assert todo.read_text(encoding="utf-8") == "exec make test\npick 2 y\n"


@pytest.mark.needs("git", package="git")
def test_git_works_in_a_box(sandbox: Sandbox, tmp_path: Path, run_in: Any) -> None:
    """What an agent needs: commits, branches, a merge, a rebase with a conflict, a tag, a stash."""
    script = """set -e
    git config --global user.name a; git config --global user.email b; git config --global core.editor true
    echo 1 > f; git add f; git commit -qm one; git checkout -qb other; echo 2 > f; git commit -qam two
    git checkout -q main; echo 3 > f; git commit -qam three; git stash list; git tag v1
    git checkout -q other; git rebase main >/dev/null 2>&1 || echo conflict
    echo 4 > f; git add f; git rebase --continue >/dev/null 2>&1; git log --format=%s; git status --short
    """
    top = tmp_path / "workspace"
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True, env={"PATH": os.environ["PATH"]})
    ran = run_in(sandbox, script, Box(workspace=str(top)))

    assert (ran.output, ran.put_back) == ("conflict\ntwo\nthree\none\n", ()), ran.errors
