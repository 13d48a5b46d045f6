"""Threats 14 and 15: commands that an allow rule does not mean, and what commands find in their environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.security.attacks import AgentRun, run_agent

from dragoman import builtin
from dragoman.sandbox import find_sandbox, proof
from dragoman.testing import call, calls

# ---- 14 --------------------------------------------------------------------------------------------------------------

RULES = ["bash(git status*)", "bash(echo *)", "bash(npm test)", "bash(make lint)", "bash(cat README*)"]
BYPASSES = (
    "git status; touch PWNED",
    "git status && touch PWNED",
    "git status & touch PWNED",
    "git status | tee PWNED",
    "git status || touch PWNED",
    "git status\ntouch PWNED",
    "git status\rtouch PWNED",
    "git status $(touch PWNED)",
    "git status `touch PWNED`",
    'git status "$(touch PWNED)"',
    "git status > PWNED",
    "git status >> PWNED",
    "git status 2> PWNED",
    "git status &> PWNED",
    "git status <(touch PWNED)",
    "git status >(tee PWNED)",
    "git status <<< $(touch PWNED)",
    "git status --porcelain;touch PWNED",
    "git statusx; touch PWNED",
    "echo hi > PWNED",
    "echo $(touch PWNED)",
    "echo ${x:=$(touch PWNED)}",
    "echo ${x@P}; touch PWNED",
    "echo hi; { touch PWNED; }",
    "echo hi\\\n; touch PWNED",
    "echo 'hi' $'\\n' ; touch PWNED",
    "X=1 touch PWNED",
    "PATH=. echo hi; touch PWNED",
    "GIT_PAGER='touch PWNED' git status; touch PWNED",
    "eval echo hi; touch PWNED",
    "npm test; touch PWNED",
    "npm test -- --x; touch PWNED",
    "npm testtouch PWNED; touch PWNED",
    "make lint SHELL='touch PWNED'",
    "make  lint -f evil.mk; touch PWNED",
    "cat README; touch PWNED",
    "cat README* > PWNED",
    "echo() { touch PWNED; }; echo hi",
    "alias echo='touch PWNED'; echo hi",
    "command touch PWNED",
    "bash -c 'touch PWNED'",
    "env touch PWNED",
    "xargs touch <<< PWNED",
    "find . -exec touch PWNED \\;",
    "git -c core.fsmonitor='touch PWNED' status",
    "git status\u00a0; touch PWNED",
    "echo hi \u2028 touch PWNED\ntouch PWNED",
    "echo {a,b}$(touch PWNED)",
    "echo hi # \ntouch PWNED",
    "if true; then touch PWNED; fi",
    "for x in a; do touch PWNED; done",
    "coproc touch PWNED",
    "time touch PWNED",
    "! touch PWNED",
    "trap 'touch PWNED' EXIT",
    "exec touch PWNED",
    ". ./evil.sh",
    "echo hi;;touch PWNED",
    "echo " + "&& echo ok " * 60 + "&& touch PWNED",
)


def test_threat_14_an_allowed_command_brings_no_other_one_along(tmp_path: Path) -> None:
    (tmp_path / "evil.sh").write_text("touch PWNED\n", encoding="utf-8")
    assert len(BYPASSES) <= 64
    attempts = calls(*(call("bash", command=command) for command in BYPASSES))
    outcome = run_agent([attempts, "done"], builtin.Bash, workspace=str(tmp_path), allow=RULES)
    assert len(outcome.told) == len(BYPASSES)
    allowed = [command for command, verdict in zip(BYPASSES, outcome.verdicts, strict=True) if verdict == "allow"]
    assert allowed == []
    assert not (tmp_path / "PWNED").exists() and outcome.ran == []


STARS = {
    "bash(make test*)": ["make test 'X:=$(shell touch PWNED)'", "make test -f evil.mk", "make test SHELL=./evil.sh"],
    "bash(npm run *)": ["npm run x --prefix evil", "npm run --script-shell=./evil.sh x"],
    "bash(pytest *)": ["pytest -p evil", "pytest --basetemp=src", "pytest -c evil.ini"],
    "bash(git *)": ["git push ./evil main", "git log --output=PWNED", "git grep -nO'touch PWNED' x", "git -C .. log"],
    "bash(find *)": ["find . -delete", "find . -exec touch PWNED {} +", "find . -fprint PWNED"],
    "bash(sed *)": ["sed '1e touch PWNED' evil.sh", "sed 'w PWNED' evil.sh", "sed -i s/a/b/ evil.sh"],
    "bash(sort *)": ["sort -o PWNED evil.sh", "sort --compress-prog=./evil.sh evil.sh"],
    "bash(uniq *)": ["uniq evil.sh PWNED"],
    "bash(xxd *)": ["xxd evil.sh PWNED"],
    "bash(tar *)": ["tar cf PWNED evil.sh", "tar cfI PWNED ./evil.sh ."],
    "bash(printf *)": ["printf -v 'c[$(touch PWNED)]' x"],
    "bash(cat *)": ["cat /etc/passwd", "cat ../secret", "cat link"],
    "bash(mytool *)": ["mytool --output=PWNED", "mytool A=b", "mytool @evil.sh"],
}


@pytest.mark.parametrize("rule", STARS)
def test_threat_14_a_star_covers_harmless_words_only(rule: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "evil.sh").write_text("touch PWNED\n", encoding="utf-8")
    (tmp_path / "secret").write_text("hush\n", encoding="utf-8")
    (work / "link").symlink_to(tmp_path / "secret")
    attempts = calls(*(call("bash", command=command) for command in STARS[rule]))
    outcome = run_agent([attempts, "done"], builtin.Bash, workspace=str(work), allow=[rule])
    assert set(outcome.verdicts) == {"ask"}
    assert not (work / "PWNED").exists() and outcome.ran == []


READING_ELSEWHERE = (
    "cat link", "cat l*", "cd nowhere; cat ../secret", "false && cd sub; cat ../secret", "cd sub | cat ../secret",
    "cd sub || cat ../secret", "date --file=link", "date -r link", "git blame --contents=../secret x", "ps e", "ps eww",
    "jq -n 'import \"../secret\" as $x; $x'", "jq -n --rawfile x ../secret '$x'", "grep -f../secret x", "ps auxe",
    "cat /proc/self/environ", "sort --files0-from=link", "wc --files0-from=../secret", "diff --from-file=../secret x",
    "awk 'BEGIN{while((getline x < \"../secret\")) print x}'", "cd up && cat secret", "sed -n p up/secret",
    "git diff x ../secret", "grep -R hush .", "diff sub up", "git config --list", "strings @link", "tree -l",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "plan", "locked", "edits"])
def test_threat_14_nothing_outside_the_workspace_is_read_without_a_question(mode: Any, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("hush\n", encoding="utf-8")
    (work / "link").symlink_to(tmp_path / "secret")
    (work / "up").symlink_to("..")
    attempts = calls(*(call("bash", command=command) for command in READING_ELSEWHERE))
    outcome = run_agent([attempts, "done"], builtin.Bash, workspace=str(work), mode=mode)
    allowed = [line for line, verdict in zip(READING_ELSEWHERE, outcome.verdicts, strict=True) if verdict == "allow"]
    assert allowed == [] and outcome.ran == []


SEARCHES = [
    "grep -rn KEY",
    "grep -r KEY .",
    "rg KEY",
    "rg --hidden KEY .",
    "diff -r config .",
    "cat .e*v",
    "cat con*/*",
]
READINGS = ["ls", "find . -name '*.py'", "cat *.py", "grep -n KEY main.py", "rg KEY main.py", "grep -rn KEY src"]


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_threat_14_no_search_shows_a_file_that_may_not_be_read(mode: Any, tmp_path: Path) -> None:
    for name in (".env", "config/prod.env", "main.py", "src/other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("KEY = 1\n", encoding="utf-8")
    commands = [*SEARCHES, *READINGS]
    outcome = run_agent([calls(*(call("bash", command=each) for each in commands)), "done"], builtin.Bash,
                 workspace=str(tmp_path), mode=mode, deny=["read(.env)", "read(config/**)"])  # fmt: skip
    allowed = [line for line, verdict in zip(commands, outcome.verdicts, strict=True) if verdict == "allow"]
    assert allowed == READINGS


def test_threat_14_what_the_rules_do_mean_still_runs(tmp_path: Path) -> None:
    commands = ["git status --short", "echo hello world", "echo 'a; b' && echo c"]
    outcome = run_agent([calls(*(call("bash", command=each) for each in commands)), "done"], builtin.Bash,
                 workspace=str(tmp_path), allow=RULES)  # fmt: skip
    assert outcome.ran == ["bash"] * 3


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_threat_14_no_length_and_no_disguise_turns_a_denial_into_less(mode: Any, tmp_path: Path) -> None:
    commands = [
        "touch PWNED",
        "true && " * 100 + "touch PWNED",
        "/usr/bin/touch PWNED",
        "to''uch PWNED",
        'to"uc"h PWNED',
        "\\touch PWNED",
        "X=1 touch PWNED",
        "env touch PWNED",
        "sh -c 'touch PWNED'",
        "$(echo touch) PWNED",
        "t=touch; $t PWNED",
        "echo PWNED | xargs touch",
        "eval 'tou''ch PWNED'",
    ]
    outcome = run_agent([calls(*(call("bash", command=each) for each in commands)), "done"], builtin.Bash,
                 workspace=str(tmp_path), mode=mode, deny=["bash(touch *)"])  # fmt: skip
    assert not (tmp_path / "PWNED").exists()
    assert set(outcome.verdicts) == {"deny"}, list(zip(commands, outcome.verdicts, strict=True))


def repository(folder: Path, setting: str) -> Path:
    """A repository with its own settings, such as one from an archive."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    with (folder / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(setting)
    return folder


@pytest.mark.needs("git", package="git")
def test_threat_14_reading_a_repository_runs_nothing_that_it_names(tmp_path: Path) -> None:
    marker = tmp_path / "PWNED"
    work = repository(tmp_path / "work", f'[core]\n\tfsmonitor = "touch {marker}; false"\n')
    run_agent([call("bash", command="git status"), "done"], builtin.Bash, workspace=str(work))
    assert not marker.exists()


@pytest.mark.needs("git", package="git")
def test_threat_14_files_that_may_be_written_do_not_become_commands_by_way_of_git(tmp_path: Path) -> None:
    marker = tmp_path / "PWNED"
    work = tmp_path / "work"
    work.mkdir()
    config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
    config += f'\tfsmonitor = "touch {marker}; false"\n'
    files = {"HEAD": "ref: refs/heads/main\n", "config": config, "refs/x": "x", "objects/x": "x"}
    written = [call("write", path=f"evil/{name}", content=content) for name, content in files.items()]
    script = [calls(*written), call("bash", command="cd evil && git status"), "done"]
    run_agent(script, builtin.Write, builtin.Bash, workspace=str(work), mode="edits")
    assert not marker.exists()


def test_threat_14_files_that_may_be_written_do_not_become_commands_by_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "PWNED"
    work = tmp_path / "work"
    (work / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{work}/.venv/bin{os.pathsep}{os.environ['PATH']}")
    lines = ["#!/bin/sh", f"touch {marker}"]
    patch = "diff --git a/.venv/bin/ls b/.venv/bin/ls\nnew file mode 100755\n--- /dev/null\n+++ b/.venv/bin/ls\n"
    patch += f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
    run_agent([call("apply_patch", patch=patch), call("bash", command="ls"), "done"],
         builtin.ApplyPatch, builtin.Bash, workspace=str(work), mode="edits")  # fmt: skip
    assert not marker.exists()


WRITTEN_FIRST = {
    "git hooks": {".git/hooks/post-index-change": "#!/bin/sh\ntouch PWNED\n"},
    "settings of git": {".git/config": "[diff]\n\texternal = touch PWNED #\n"},
    "settings of git from elsewhere": {
        ".git/commondir": "../evil\n",
        "evil/config": "[diff]\nexternal=touch PWNED #\n",
    },
    "a repository by another name": {"evil.git/config": "[diff]\n\texternal = touch PWNED #\n"},
    "a file that leads to another repository": {"src/.git": "gitdir: ../evil\n"},
}


@pytest.mark.needs("git", package="git")
@pytest.mark.parametrize("way", WRITTEN_FIRST)
def test_threat_14_what_git_trusts_is_not_written_without_a_question(way: str, tmp_path: Path) -> None:
    work = repository(tmp_path / "work", "")
    before = (work / ".git" / "config").read_text(encoding="utf-8")
    written = [call("write", path=path, content=content) for path, content in WRITTEN_FIRST[way].items()]
    outcome = run_agent([calls(*written), "done"], builtin.Write, workspace=str(work), mode="edits")
    assert "ask" in outcome.verdicts
    assert (work / ".git" / "config").read_text(encoding="utf-8") == before


LURES = {
    "an external diff": ('[diff]\n\texternal = "touch {marker} #"\n', "git diff"),
    "a header in a value": ('[diff]\nx = \\\n[user]\nexternal = "touch {marker} #"\n', "git diff"),
    "a filter": ('[filter "x"]\n\tclean = "touch {marker}; cat"\n', "git status"),
    "a conversion": ('[diff "x"]\n\ttextconv = "touch {marker}; cat"\n', "git diff"),
    "from a folder below": ('[diff]\n\texternal = "touch {marker} #"\n', "cd below && git diff"),
    "in front of something else": ('[diff]\n\texternal = "touch {marker} #"\n', "git diff | head -n 5; ls"),
}


@pytest.mark.needs("git", package="git")
@pytest.mark.parametrize("mode", ["default", "plan", "edits"])
@pytest.mark.parametrize("lure", LURES)
def test_threat_14_no_setting_of_a_repository_makes_reading_more_than_that(
    lure: str, mode: Any, tmp_path: Path
) -> None:
    marker = tmp_path / "PWNED"
    settings, command = LURES[lure]
    work = repository(tmp_path / "work", "")
    (work / "below").mkdir()
    (work / "file").write_text("old\n", encoding="utf-8")
    subprocess.run(["git", "-C", str(work), "add", "."], check=True)
    (work / "file").write_text("new\n", encoding="utf-8")
    (work / ".gitattributes").write_text("* filter=x diff=x\n", encoding="utf-8")
    with (work / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(settings.replace("{marker}", str(marker)))
    outcome = run_agent([call("bash", command=command), "done"], builtin.Bash, workspace=str(work), mode=mode)
    assert outcome.verdicts == ["deny" if mode == "plan" else "ask"]
    assert not marker.exists()
    subprocess.run(["bash", "-c", command], cwd=work, capture_output=True)
    assert marker.exists(), "the attack would have worked"


def test_threat_14_reading_elsewhere_with_the_keys_of_the_user_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "bin" / "gh").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "bin" / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    commands = ["gh repo view somebody/private", "gh search code secret", "gh pr view 1 -R evil.example/a/b"]
    attempts = calls(*(call("bash", command=each) for each in commands))
    outcome = run_agent([attempts, "done"], builtin.Bash, workspace=str(tmp_path / "work"))
    assert set(outcome.verdicts) == {"ask"}


# ---- 15 --------------------------------------------------------------------------------------------------------------

OURS = {
    "OPENAI_API_KEY": "sk-environment-0001",
    "ANTHROPIC_API_KEY": "sk-ant-environment-0002",
    "AWS_SECRET_ACCESS_KEY": "environment-0003",
    "GITHUB_TOKEN": "environment-0004",
    "DRAGOMAN_MODE": "bypass",
    "DATABASE_URL": "postgres://u:environment-0005@h/d",
    "LD_PRELOAD": "",
    "PYTHONPATH": "environment-0006",
    "SSH_AUTH_SOCK": "environment-0007",
}


def look_at(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AgentRun:
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    startup = tmp_path / "startup.sh"
    startup.write_text("echo STARTED\n", encoding="utf-8")
    monkeypatch.setenv("BASH_ENV", str(startup))
    monkeypatch.setenv("ENV", str(startup))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo STARTED; }")
    return run_agent([call("bash", command=command), "done"], builtin.Bash,
                workspace=str(tmp_path), mode="bypass", scrub=False, **settings)  # fmt: skip


def test_threat_15_a_command_finds_no_key_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = look_at("env; ls >/dev/null", tmp_path, monkeypatch).told[0]
    assert "environment-00" not in shown and "STARTED" not in shown
    names = {line.partition("=")[0] for line in shown.splitlines() if "=" in line and not line.startswith("[")}
    harmless = {"PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TZ", "TERM", "PWD", "OLDPWD", "SHLVL", "_"}
    assert {name for name in names if not name.startswith(("LC_", "GIT_CONFIG_"))} <= harmless | {"GIT_OPTIONAL_LOCKS"}
    assert "PATH" in names and "TERM=dumb" in shown


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_threat_15_a_command_in_a_sandbox_finds_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = look_at("env; tr '\\0' '\\n' < /proc/$PPID/environ", tmp_path, monkeypatch, sandbox="bubblewrap").told[0]
    assert "PATH=" in shown
    assert "environment-00" not in shown and "STARTED" not in shown


@pytest.mark.parametrize(
    "tier", [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap", package="bubblewrap")), "landlock"]
)
def test_threat_26_a_box_holds_for_root(tier: Any) -> None:
    report = proof(find_sandbox(tier))
    tried = "open_kernel_settings use_capabilities share_memory connect_in_workspace take_memory write_large_file"
    stopped = {each.name: each.stopped for each in report.attempts if each.required}
    assert {name: stopped.get(name) for name in tried.split()} == dict.fromkeys(tried.split(), True)
    assert report.holds
