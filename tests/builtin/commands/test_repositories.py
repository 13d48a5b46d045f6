"""The programs that git would run, in repositories of an attacker: they are found before git runs."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builtin.commands.process_probe import ask, output_of, run

from dragoman.builtin.commands.bash import Bash, clean_environment
from dragoman.builtin.commands.operands import parse_settings
from dragoman.tools import ToolContext
from dragoman.types import Operand

pytestmark = pytest.mark.needs("git", package="git")

MARK = "touch PWNED #"
EVIL = f'[diff]\n\texternal = "{MARK}"\n'
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *words: str) -> None:
    environment = {**clean_environment(os.environ), "GIT_CONFIG_COUNT": "0"}
    subprocess.run(["git", *AUTHOR, *words], cwd=folder, check=True, env=environment, capture_output=True)


def make(folder: Path, settings: str = "") -> Path:
    """A repository with one commit and one change, and settings that came with it."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("old\n", encoding="utf-8")
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "file").write_text("new\n", encoding="utf-8")
    with (folder / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(settings)
    return folder


def files_of(command: str, workspace: Path) -> list[str]:
    """The files that say what a line runs."""
    return [each.value for each in operands_of(command, workspace) if each.access == "run"]


def outside_of(command: str, workspace: Path) -> list[str]:
    """What a line reads outside the workspace."""
    return [each.value for each in operands_of(command, workspace) if each.access == "read" and not each.inside]


def operands_of(command: str, workspace: Path) -> list[Operand]:
    assert Bash.inspect is not None
    operands = list(Bash.inspect({"command": command}, ToolContext(workspace=str(workspace))))
    assert operands[0] == Operand(kind="command", value=command, access="run")
    assert all(each.kind == "path" and each.access in ("run", "read") for each in operands[1:])
    return operands[1:]


# ---- attacks ---------------------------------------------------------------------------------------------------------


def as_is(work: Path) -> None:
    make(work, EVIL)


def in_a_nested_one(work: Path) -> None:
    make(work)
    make(work / "evil", EVIL)


def by_a_file(work: Path) -> None:
    make(work / "hidden", EVIL)
    (work / ".git").write_text("gitdir: hidden/.git\n", encoding="utf-8")
    (work / "file").write_text("new\n", encoding="utf-8")


def by_a_link(work: Path) -> None:
    by_a_file(work)
    (work / ".git").unlink()
    (work / ".git").symlink_to("hidden/.git")


def by_a_file_with_more_in_it(work: Path) -> None:
    by_a_file(work)
    (work / ".git").write_bytes(b"gitdir: hidden/.git\0harmless\n")


def by_a_file_with_a_blank(work: Path) -> None:
    by_a_file(work)
    make(work / "hidden-too")
    (work / "hidden" / ".git").rename(work / "x ")
    (work / "hidden-too" / ".git").rename(work / "x")
    (work / ".git").write_bytes(b"gitdir: x \r\n\n")


def over_a_link(work: Path) -> None:
    """Bash and git do not mean the same by `..` behind a link."""
    make(work)
    make(work / "deep" / "evil", EVIL)
    (work / "deep" / "evil" / "below").mkdir()
    (work / "link").symlink_to("deep/evil/below")


def by_commondir(work: Path) -> None:
    make(work)
    make(work / "other", EVIL)
    (work / ".git" / "commondir").write_text("../other/.git\n", encoding="utf-8")


def in_a_worktree(work: Path) -> None:
    make(work / "main")
    git(work / "main", "worktree", "add", "-q", "../tree")
    (work / "tree" / "file").write_text("changed\n", encoding="utf-8")
    with (work / "main" / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(EVIL)


def in_settings_of_a_worktree(work: Path) -> None:
    in_a_worktree(work)
    config = work / "main" / ".git" / "config"
    config.write_text(config.read_text(encoding="utf-8").replace(EVIL, "[extensions]\nworktreeConfig = true\n"))
    (work / "main" / ".git" / "worktrees" / "tree" / "config.worktree").write_text(EVIL, encoding="utf-8")


def in_a_submodule(work: Path) -> None:
    make(work)
    make(work / "part", f'[filter "x"]\n\tclean = "{MARK}"\n')
    (work / "part" / ".gitattributes").write_text("* filter=x\n", encoding="utf-8")
    git(work, "add", "part")
    (work / "part" / "file").write_text("any\n", encoding="utf-8")


def in_a_submodule_of_a_large_one(work: Path) -> None:
    for number in range(300):
        (work / "many" / f"folder-{number:04}").mkdir(parents=True, exist_ok=True)
        (work / "many" / f"folder-{number:04}" / "x").write_text("", encoding="utf-8")
    in_a_submodule(work)
    git(work, "add", "many")
    git(work, "update-index", "--index-version", "4")


def in_a_split_index(work: Path) -> None:
    in_a_submodule(work)
    git(work, "update-index", "--split-index")


def by_an_include(work: Path) -> None:
    make(work, "[include]\n\tpath = ../more\n")
    (work / "more").write_text(EVIL, encoding="utf-8")


def by_a_condition(work: Path) -> None:
    make(work, '[includeIf "onbranch:**"]\n\tpath = ../more\n')
    (work / "more").write_text(EVIL, encoding="utf-8")


def by_a_hook(work: Path) -> None:
    make(work, "[core]\n\thooksPath = tools\n")
    (work / "tools").mkdir()
    (work / "tools" / "post-index-change").write_text("#!/bin/sh\ntouch PWNED\n", encoding="utf-8")
    (work / "tools" / "post-index-change").chmod(0o755)


def by_its_own_hook(work: Path) -> None:
    make(work)
    hook = work / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch PWNED\n", encoding="utf-8")
    hook.chmod(0o755)


def without_a_name(work: Path) -> None:
    """A folder that holds what a repository holds, and is not called `.git`."""
    make(work / "evil", EVIL)
    (work / "evil" / ".git").rename(work / "bare")
    settings = (work / "bare" / "config").read_text(encoding="utf-8")
    (work / "bare" / "config").write_text(settings + "[core]\n\tworktree = ../evil\n", encoding="utf-8")


def written(settings: str, encoding: str = "utf-8") -> Callable[[Path], None]:
    def change(work: Path) -> None:
        make(work)
        config = work / ".git" / "config"
        config.write_bytes((config.read_text(encoding="utf-8") + settings).encode(encoding))

    return change


# What is made, the line, a file that is named, and whether git runs something here (others need more than this).
ATTACKS: dict[str, tuple[Callable[[Path], None], str, str, bool]] = {
    "external diff": (as_is, "git diff", ".git/config", True),
    "in a folder below": (as_is, "mkdir -p a/b; cd a/b && git diff", ".git/config", True),
    "cd": (in_a_nested_one, "cd evil; git diff", "evil/.git/config", True),
    "cd, then something else": (in_a_nested_one, "cd evil && cd . && git --no-pager diff", "evil/.git/config", True),
    "-C": (in_a_nested_one, "git -C evil diff", "evil/.git/config", True),
    "-C twice": (in_a_nested_one, "git -C . -C evil diff", "evil/.git/config", True),
    "--git-dir": (in_a_nested_one, "git --git-dir=evil/.git diff", "evil/.git/config", True),
    "--git-dir, apart": (in_a_nested_one, "git --git-dir evil/.git diff", "evil/.git/config", True),
    "GIT_DIR": (in_a_nested_one, "GIT_DIR=evil/.git git diff", "evil/.git/config", True),
    "env": (as_is, "env git diff", ".git/config", True),
    "nohup": (as_is, "nohup git diff", ".git/config", True),
    "sh -c": (in_a_nested_one, "sh -c 'cd evil; git diff'", "evil/.git/config", True),
    "a path": (as_is, "/usr/bin/git diff", ".git/config", True),
    ".git is a file": (by_a_file, "git diff", "hidden/.git/config", True),
    ".git is a link": (by_a_link, "git diff", "hidden/.git/config", True),
    "a NUL in that file": (by_a_file_with_more_in_it, "git diff", "hidden/.git/config", True),
    "a blank in that file": (by_a_file_with_a_blank, "git diff", "x /config", True),
    "over a link": (over_a_link, "git -C link/.. diff", "deep/evil/.git/config", True),
    "over a link, by its real name": (over_a_link, "cd -P link/.. && git diff", "deep/evil/.git/config", True),
    "commondir": (by_commondir, "git diff", "other/.git/config", True),
    "worktree": (in_a_worktree, "cd tree && git diff", "main/.git/config", True),
    "settings of a worktree": (
        in_settings_of_a_worktree, "cd tree && git diff", "main/.git/worktrees/tree/config.worktree", True,
    ),
    "submodule": (in_a_submodule, "git status", "part/.git/config", True),
    "submodule, other index": (in_a_submodule_of_a_large_one, "git status", "part/.git/config", True),
    "submodule, split index": (in_a_split_index, "git status", "part/.git/config", True),
    "include": (by_an_include, "git diff", "more", True),
    "includeIf": (by_a_condition, "git diff", "more", True),
    "hook": (by_a_hook, "git describe --dirty --always", "tools/post-index-change", True),
    "its own hook": (by_its_own_hook, "git describe --dirty --always", ".git/hooks/post-index-change", True),
    "a folder of any name": (without_a_name, "cd bare && git diff", "bare/config", False),
    "CRLF": (written(f"[diff]\r\nexternal = {MARK}\r\n"), "git diff", ".git/config", True),
    "no blanks": (written(f'[diff]external="{MARK}"'), "git diff", ".git/config", True),
    "capitals": (written(f'[DIFF]\nEXTERNAL="{MARK}"\n'), "git diff", ".git/config", True),
    "two headers": (written(f'[user][diff] external = "{MARK}"\n'), "git diff", ".git/config", True),
    "a header that is none": (
        written(f'[diff]\nalgorithm = \\\nmyers\nexternal = "{MARK}"\n'), "git diff", ".git/config", True,
    ),
    "a header in a value": (written(f'[diff]\nx = \\\n[user]\nexternal = "{MARK}"\n'), "git diff", ".git/config", True),
    "a header in a comment": (written(f'[diff]\n;[user]\nexternal = "{MARK}"\n'), "git diff", ".git/config", True),
    "a comment behind a header": (written(f'[diff] # [user]\nexternal="{MARK}"\n'), "git diff", ".git/config", True),
    "textconv": (
        written(f'[diff "a]b\\"c"]\n\ttextconv = "{MARK}"\n[core]\n\tattributesFile = .git/a\n'),
        "git diff", ".git/config", False,
    ),
    "fsmonitor": (written('[core]\n\tfsmonitor = "touch PWNED; false"\n'), "git status", ".git/config", False),
    "fsmonitor, the old way to write it": (written("[core.x]\nfsmonitor = y\n"), "git status", ".git/config", False),
    "much": (written("# x\n" * 300_000 + EVIL), "git diff", ".git/config", True),
    "a NUL": (written("[user]\nname = a\0\n"), "git diff", ".git/config", False),
    "broken": (written("[diff\nexternal = x\n"), "git diff", ".git/config", False),
    "a partial clone": (written('[remote "x"]\npromisor = true\n'), "git log", ".git/config", False),
    "files elsewhere": (written("[core]\nworktree = /etc\n"), "git status", ".git/config", False),
    "signatures": (written("[log]\nshowSignature = true\n[gpg]\nprogram = x\n"), "git log", ".git/config", False),
    "signatures in the log": (written("[log]\nshowSignature\n"), "git log", ".git/config", False),
    **{
        f"signatures in a format, {value}": (written(f"[format]\npretty = {value}\n"), "git log", ".git/config", False)
        for value in ("%G?", "format:%+G?", "%-GG", "% GK", "%(describe)")
    },
    "an unknown key": (written("[core]\nsomethingNew = x\n"), "git log", ".git/config", False),
    "gh as well": (as_is, "gh pr view 1", ".git/config", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_says_what_git_runs_is_named(tmp_path: Path, name: str) -> None:
    build, command, file, runs = ATTACKS[name]
    work = tmp_path / "work"
    work.mkdir()
    build(work)
    assert file in files_of(command, work)
    subprocess.run(["bash", "-c", command], cwd=work, env=clean_environment(os.environ), capture_output=True)
    # A check of the attack itself: what is named here is a danger, and not only said to be one.
    assert not runs or any(work.rglob("PWNED"))


def test_a_mark_in_front_of_the_settings_hides_nothing(tmp_path: Path) -> None:
    work = make(tmp_path / "work", EVIL)
    config = work / ".git" / "config"
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert files_of("git diff", work) == [".git/config"]


def test_a_repository_above_the_workspace_counts(tmp_path: Path) -> None:
    make(tmp_path, EVIL)
    (tmp_path / "work").mkdir()
    assert files_of("git diff", tmp_path / "work") == [str(tmp_path / ".git" / "config")]


def test_an_inner_one_that_git_does_not_take_hides_no_outer_one(tmp_path: Path) -> None:
    make(tmp_path, EVIL)
    inner = tmp_path / "work" / ".git"
    for name in ("objects", "refs"):
        (inner / name).mkdir(parents=True)
    (inner / "HEAD").write_text("nonsense\n", encoding="utf-8")
    (inner / "config").write_text("[core]\nbare = false\n", encoding="utf-8")
    assert files_of("git diff", tmp_path / "work") == [str(tmp_path / ".git" / "config")]


def test_hooks_that_the_user_keeps_in_every_repository_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(
        "[core]\n\thooksPath = tools\n\tpager = less\n[alias]\n\tst = status\n", encoding="utf-8"
    )
    work = make(tmp_path / "work")
    assert files_of("git status", work) == []
    (work / "tools").mkdir()
    (work / "tools" / "post-index-change").write_text("#!/bin/sh\n", encoding="utf-8")
    assert files_of("git status", work) == ["tools/post-index-change"]


def test_settings_that_nobody_writes_are_not_waited_for(tmp_path: Path) -> None:
    work = make(tmp_path / "work")
    (work / ".git" / "config").unlink()
    os.mkfifo(work / ".git" / "config")
    assert files_of("git diff", work) == [".git/config"]


def test_submodules_that_hold_each_other_come_to_an_end(tmp_path: Path) -> None:
    work = make(tmp_path / "work")
    make(work / "part", EVIL)
    git(work, "add", "part")
    git(work / "part", "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},loop")
    (work / "part" / "loop").symlink_to("..")
    assert files_of("git status", work) == ["part/.git/config"]


def test_more_folders_than_anybody_looks_at_are_not_passed_over(tmp_path: Path) -> None:
    line = "; ".join(f"git -C d{number} status" for number in range(500))
    assert files_of(line, tmp_path) == ["a folder that is not known"]
    assert files_of("cd $X; git status", tmp_path) == ["a folder that is not known"]


# ---- files and repositories elsewhere --------------------------------------------------------------------------------


def linked(place: str, target: str) -> Callable[[Path], None]:
    def build(work: Path) -> None:
        make(work)
        path = work / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.rename(f"{path}.old")
        path.symlink_to(work.parent / target)

    return build


def pointing(place: str, content: str) -> Callable[[Path], None]:
    def build(work: Path) -> None:
        make(work)
        if place == ".git":
            (work / ".git").rename(work / "old")
        (work / place).write_text(content.format(work.parent), encoding="utf-8")

    return build


def with_objects_over_two(work: Path) -> None:
    make(work)
    make(work / "inner")
    (work / ".git/objects/info/alternates").write_text("# x\n../../inner/.git/objects\n", encoding="utf-8")
    (work / "inner/.git/objects/info/alternates").write_text(f"{work.parent}/other/.git/objects\n", encoding="utf-8")


def with_a_list_behind_a_link(work: Path) -> None:
    make(work, "[blame]\n\tignoreRevsFile = list\n")
    (work / "list").symlink_to(work.parent / "secret")


ELSEWHERE: dict[str, Callable[[Path], None]] = {
    "a list of commits": with_a_list_behind_a_link,
    "packed refs": linked(".git/packed-refs", "secret"),
    "the steps of a rebase": linked(".git/rebase-merge/done", "secret"),
    "the index": linked(".git/index", "other/.git/index"),
    "refs": linked(".git/refs", "other/.git/refs"),
    "packs": linked(".git/objects/pack/a.pack", "other/x"),
    "the log of a ref": linked(".git/logs/HEAD", "other/.git/logs/HEAD"),
    "a link": linked(".git", "other/.git"),
    "a file": pointing(".git", "gitdir: {}/other/.git\n"),
    "commondir": pointing(".git/commondir", "{}/other/.git\n"),
    "objects": pointing(".git/objects/info/alternates", "{}/other/.git/objects\n"),
    "objects, in quotes": pointing(".git/objects/info/alternates", '"{}/other/.git/objects"\n'),
    "objects of objects": with_objects_over_two,
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_git_reads_outside_the_workspace_is_named(tmp_path: Path, name: str) -> None:
    make(tmp_path / "other")
    (tmp_path / "secret").write_text("hush\n", encoding="utf-8")
    ELSEWHERE[name](tmp_path / "work")
    for command in ("git log --all -p", "git blame file", "cd . && git status"):
        assert outside_of(command, tmp_path / "work"), command


def test_a_repository_elsewhere_that_knows_these_files_is_theirs(tmp_path: Path) -> None:
    main = make(tmp_path / "main")
    git(main, "worktree", "add", "-q", "../tree")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../main", "part")
    (main / "sub").mkdir()
    (tmp_path / "link").symlink_to(main)
    for work in ("tree", "main/part", "main/sub", "link"):
        for command in ("git status", "git log -p", "git blame file"):
            assert outside_of(command, tmp_path / work) == [], (work, command)
    (tmp_path / "main" / ".git" / "hooks").rename(tmp_path / "hooks")
    (tmp_path / "main" / ".git" / "hooks").symlink_to(tmp_path / "hooks")
    assert outside_of("git status", main) == []


# ---- honest work -----------------------------------------------------------------------------------------------------

HONEST = {
    "nothing special": "",
    "a remote and a branch": '[remote "origin"]\n\turl = git@example.org:a/b.git\n\tfetch = +refs/heads/*:refs/x/*\n'
    '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
    "hooks for commits": "[core]\n\thooksPath = .husky/_\n",
    "a monitor of git's own": "[core]\n\tfsmonitor = true\n",
    "a name": '[user]\n\tname = "Ada \\"L\\""\n\temail = ada@example.org ; mine\n[commit]\n\tgpgsign = false\n',
    "line ends of Windows": "[pull]\r\n\trebase = true\r\n\r\n# done\r\n",
    "a submodule": '[submodule "x"]\n\tactive = true\n\turl = ../x\n\tupdate = checkout\n',
    "of other programs": '[lfs]\n\trepositoryformatversion = 0\n[gitflow "branch"]\n\tmaster = main\n',
}


@pytest.mark.parametrize("name", HONEST)
def test_ordinary_settings_are_no_danger(tmp_path: Path, name: str) -> None:
    work = make(tmp_path / "work", HONEST[name])
    (work / ".husky" / "_").mkdir(parents=True)
    (work / ".husky" / "_" / "pre-commit").write_text("#!/bin/sh\n", encoding="utf-8")
    for command in ("git status", "git diff", "git log -p", "git -C . show", "cd .git && git log", "gh pr view 1"):
        assert files_of(command, work) == [], command


def test_an_ordinary_submodule_and_an_ordinary_worktree_are_none_either(tmp_path: Path) -> None:
    make(tmp_path / "part")
    work = make(tmp_path / "work")
    git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../part", "part")
    git(work, "worktree", "add", "-q", "tree", "-b", "other")
    for command in ("git status", "cd part && git status", "cd tree && git log", "git -C part diff"):
        assert files_of(command, work) == [], command


def test_honest_work_goes_on(tmp_path: Path) -> None:
    work = make(tmp_path / "work", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
    hook = work / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the hook ran\n", encoding="utf-8")
    hook.chmod(0o755)
    told = output_of(run("git status --short && git diff && git add file && git commit -m second && git log", work))
    assert " M file" in told and "+new" in told and "the hook ran" in told and "second" in told and "first" in told
    for command in ("git branch other", "git checkout -q other", "git stash list", "git worktree add -q ../tree"):
        assert run(command, work).result.data["exit_code"] == 0, command
    assert "On branch other" in output_of(run("git status", work))
    git(tmp_path, "clone", "-q", "--bare", "work", "bare")
    assert "second" in output_of(run("git --git-dir=bare log", tmp_path))


def test_settings_that_changed_after_the_decision_stop_the_command(tmp_path: Path) -> None:
    work = make(tmp_path / "work")
    assert Bash.inspect is not None
    for settings in ("", "[diff]\nexternal = other\n"):
        decided = tuple(Bash.inspect({"command": "git diff"}, ToolContext(workspace=str(work))))
        context = ToolContext(workspace=str(work), operands=decided)
        assert not asyncio.run(ask("git diff", context)).result.is_error
        with (work / ".git" / "config").open("a", encoding="utf-8") as file:
            file.write(EVIL + settings)
        result = asyncio.run(ask("git diff", context)).result
        assert result.is_error and "changed since it was approved" in str(result.content)


# ---- the same reading as git's ---------------------------------------------------------------------------------------

LINES = (
    "\nexternal = evil", "\nname = a", "\nname = \\", "\nname = \\\\", '\nname = "a', '"', "\n[user]", "\n[diff]",
    "\n[user][diff] external", "\n# c \\", "\n;x", "\nname", "\nname = a # b \\", "\r\nexternal = evil", "\\\r\n",
    '\n [user "x\\\\"]', '\n[diff "x"]\ntextconv = y', "\r", "\x0b", " ", "=", "\\", "\n\n", "\x85", "\ufeff",
)  # fmt: skip


def test_no_way_of_writing_settings_hides_a_program_from_us_that_git_sees(tmp_path: Path) -> None:
    lots = random.Random(14)
    seen = 0
    for _ in range(400):
        text = lots.choice(("[diff]", "[user]")) + "".join(lots.choice(LINES) for _ in range(lots.randint(1, 7)))
        listed = subprocess.run(
            ["git", "config", "--name-only", "--list", "--file", "-"], input=text.encode(), capture_output=True
        )
        names = set(listed.stdout.split()) if listed.returncode == 0 else set()
        if names & {b"diff.external", b"diff.x.textconv"}:
            seen += 1
            assert parse_settings(text.encode()).names_programs, text
    assert seen > 50
