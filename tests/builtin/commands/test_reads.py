"""The files that a command line reads: through links, patterns and folders that may be current."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.builtin.commands import operands
from dragoman.builtin.commands.bash import Bash
from dragoman.policy import Decision, DecisionContext, Mode, Rules, decide, read_rule
from dragoman.tools import ToolContext
from dragoman.types import Operand, ToolCall


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("hush\n", encoding="utf-8")
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "x.txt").write_text("x\n", encoding="utf-8")
    folder = tmp_path / "work"
    for name in ("src/a.py", "docs/b.md", "x.txt", "linked/c.md", "keys/k"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a\n", encoding="utf-8")
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "deep").symlink_to(tmp_path / "elsewhere" / "deep")
    (folder / "secret.txt").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("..")
    (folder / "linked" / "s.md").symlink_to(tmp_path / "secret")
    (folder / "inner").symlink_to(folder / "src")
    (folder / "opened").symlink_to(folder / "keys")
    (folder / "environ").symlink_to("/proc/self/environ")
    (folder / "options").mkdir()
    (folder / "options" / "-fsecret").write_text("", encoding="utf-8")
    (folder / "arguments").mkdir()
    (folder / "arguments" / "@secret").write_text("", encoding="utf-8")
    return folder


def found_in(command: str, folder: Path) -> tuple[Operand, ...]:
    assert Bash.inspect is not None
    return tuple(Bash.inspect({"command": command}, ToolContext(workspace=str(folder))))


def judge(command: str, folder: Path, mode: Mode = "default", **written: str) -> Decision:
    found = found_in(command, folder)
    rules = tuple(read_rule(text, verdict) for verdict, text in written.items())  # type: ignore[arg-type]
    return decide(ToolCall("c", "bash", {}), DecisionContext(Bash, found), Rules(mode, rules))


STAYING = [
    "cat src/a.py", "cat x.txt docs/*.md", "cat inner/a.py", "cd src && cat ../x.txt", "ls",
    "grep -r a src", "grep -R a src inner", "cat *.md", "wc -l src/*.py", "diff -r src docs", "find . -name '*.py'",
    "cd inner && cat a.py", "stat docs", "head -1 < x.txt", "cat missing", "cd src && git log || true",
]  # fmt: skip
LEAVING = [
    "cat secret.txt", "head -1 < secret.txt", "cat out/x.txt", "ls out", "ls out/", "cat *.txt", "cat s*",
    "cat */x.txt",
    "cat o[u]t/x.txt", "ls *", "cat [^a]ut/x.txt", "cat o?t/x.txt", "cd out && cat x.txt", "cd out; cat x.txt",
    "cd out && ls", "cd out && echo *", "echo out/*", "cd up && ls", "cat up/secret", "cat deep/../x.txt",
    "cd deep && cat ../x.txt",
    "cd -P deep/.. && ls", "cd src; cat ../x.txt", "false && cd src; cat ../secret", "cd src | cat ../secret",
    "cd missing; cat ../secret", "cd src || cat ../secret", "grep -R a .", "grep -R a linked", "grep -R a",
    "diff -r linked src",
    "diff --recursive src linked", "cat environ", "cat linked/*.md", "sed -n 1p secret.txt", "jq . secret.txt",
    "wc -l secret.txt",
    "git -C out log", "git -C up log", "cd up && git status", "git blame --contents=secret.txt x", "date -r secret.txt",
    "grep -fsecret.txt x", "grep --file=secret.txt x", "sort --random-source=secret.txt x.txt",
    "awk '{print}' secret.txt",
    "file secret.txt", "tail -n1 secret.txt", "find out/ -name x", "find out -name x", "rg a out", "du -s up",
    "stat -L secret.txt",
    "jq -n --rawfile a secret.txt '$a'", "ls .*", "cat .*/secret", "cat src/.?/../secret",
    "echo .*/", "git show --format secret.txt", "diff x.txt secret.txt",
    "git diff x.txt secret.txt", "test -s secret.txt", "echo $X/etc/*", "echo o{u,x}t/*",
    "basename -a o*/*", "groups o*/*",
]  # fmt: skip


@pytest.mark.parametrize("command", STAYING)
def test_a_command_that_stays_in_the_workspace_runs(command: str, work: Path) -> None:
    assert judge(command, work).verdict == "allow", judge(command, work).reason


@pytest.mark.parametrize("command", LEAVING)
def test_a_command_that_may_read_elsewhere_is_asked_about(command: str, work: Path) -> None:
    decision = judge(command, work)
    assert (decision.verdict, decision.code) == ("ask", "outside")
    assert judge(command, work, "locked").verdict == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cd options && grep a *",
        "cd options && cat *",
        "cd options; ls -l ?f*",
        "cd arguments && strings *",
        "cd arguments && strings ?secret",
        "cd arguments && strings [@]secret",
    ],
)
def test_the_name_of_a_file_does_not_become_an_option(command: str, work: Path) -> None:
    decision = judge(command, work)
    assert (decision.verdict, decision.code) == ("ask", "default")
    assert "-fsecret" in decision.reason or "@secret" in decision.reason
    assert judge(command.replace(" *", " ./*").replace(" ?", " ./?").replace(" [", " ./["), work).verdict == "allow"


def test_a_star_in_a_rule_does_not_cover_a_link_that_leads_elsewhere(work: Path) -> None:
    assert judge("cat src/a.py", work, allow="bash(cat *)").verdict == "allow"
    assert judge("cat secret.txt", work, allow="bash(cat *)").verdict == "ask"
    assert judge("grep -fsecret.txt x", work, allow="bash(grep *)").verdict == "ask"
    assert judge("cat secret.txt", work, allow="bash(cat secret.txt)").verdict == "allow"
    for command in ("touch {}", "black {}", "pytest -x {}", "git add {}", "mkdir -p {}/new"):
        rule = f"bash({command.partition(' ')[0]} *)"
        assert judge(command.format("src"), work, allow=rule).verdict == "allow"
        assert judge(command.format("out"), work, allow=rule).verdict == "ask"
    for command in (
        "rm out/x.txt",
        "cp out/x.txt y",
        "cp y out/x",
        "mytool --to=out/x",
        "go test ./out/...",
        "grep -R a",
    ):
        rule = f"bash({command.partition('=')[0]}=*)" if "=" in command else f"bash({command.partition(' ')[0]} *)"
        assert judge(command, work, allow=rule).verdict == "ask", command
        inside = command.replace("out/", "src/").replace("-R", "-r")
        assert judge(inside, work, allow=rule).verdict == "allow", inside


def test_a_star_in_a_rule_does_not_cover_a_folder_behind_a_link(work: Path) -> None:
    rules = ("bash(cd *)", "bash(make test*)")
    for folder, verdict in (("out", "ask"), ("out/deep", "ask"), ("src", "allow"), ("inner", "allow")):
        context = DecisionContext(Bash, found_in(f"cd {folder} && make test", work))
        decision = decide(
            ToolCall("c", "bash", {}), context, Rules("default", tuple(read_rule(r, "allow") for r in rules))
        )
        assert decision.verdict == verdict, folder


def test_a_star_in_a_rule_does_not_cover_a_folder_in_place_of_a_remote(work: Path) -> None:
    """Git takes a name that is no remote for a folder, and runs the hooks there."""
    for command in (
        "git push {} main",
        "git push -u {} main",
        "git fetch {}",
        "git pull {} main",
        "cd src && git push ../{}",
    ):
        assert judge(command.format("keys"), work, allow="bash(git *)").verdict == "ask"
    assert judge("git push origin main", work, allow="bash(git *)").verdict == "allow"
    assert judge("git push keys main", work, allow="bash(git push keys main)").verdict == "allow"


def test_a_rule_about_files_also_applies_behind_links(work: Path) -> None:
    assert judge("cat opened/k", work).verdict == "allow"
    assert judge("cat opened/k", work, deny="read(keys/**)").verdict == "deny"
    assert judge("cat opene*/k", work, deny="read(keys/**)").verdict == "deny"
    assert judge("cat src/a.py", work, deny="read(keys/**)").verdict == "allow"


def test_what_is_too_much_to_look_at_counts_as_elsewhere(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge("cat src/*", work).verdict == judge("grep -R a src", work).verdict == "allow"
    for number in range(60):
        (work / "docs" / f"link{number}").symlink_to(f"../keys/{number}")
    assert judge("cat docs/link1*", work).verdict == "allow"
    assert judge("cat docs/*", work).verdict == "ask"
    monkeypatch.setattr(operands, "_MOST_PATHS", 0)
    monkeypatch.setattr(operands, "_MOST_ENTRIES", 0)
    assert judge("cat src/*", work).verdict == judge("grep -R a src", work).verdict == "ask"


def test_what_the_kernel_shows_as_files_is_in_no_workspace() -> None:
    assert not operands._is_inside("/proc/1/environ", "/")
    assert operands._is_inside("/srv/x", "/")
    assert operands._is_inside("/dev/shm/top/x", "/dev/shm/top")
