"""Root in a folder of another user: commands run as that user, and what they create belongs to that user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dragoman
from dragoman import builtin
from dragoman.errors import ConfigError
from dragoman.sandbox import Box, Sandbox, boxes, find_sandbox
from dragoman.sandbox.boxes import User, find_user
from dragoman.sandbox.landlock import LandlockSandbox
from dragoman.testing import ScriptedModel, call, calls

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user; run the tests as root")

OWNER, GROUP, NOBODY = 61234, 62345, 65534
STATUS = "grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapBnd|NoNewPrivs):' /proc/self/status"


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that every user can reach; the temporary folders of pytest are for root alone."""
    with tempfile.TemporaryDirectory(prefix="dragoman-users-") as folder:
        os.chmod(folder, 0o755)
        yield Path(os.path.realpath(folder))


@pytest.fixture
def workspace(top: Path) -> Path:
    return made(top / "workspace", OWNER, GROUP)


def made(path: Path, uid: int, gid: int, mode: int = 0o755) -> Path:
    path.mkdir()
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def owner_of(path: Path) -> tuple[int, int]:
    state = path.lstat()
    return state.st_uid, state.st_gid


def test_a_command_runs_as_the_owner_without_any_right_of_root(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    ran = run_in(sandbox, STATUS, Box(workspace=str(workspace)))
    found = {name.rstrip(":"): set(values) for name, *values in map(str.split, ran.output.splitlines())}
    assert found == {
        "Uid": {str(OWNER)},
        "Gid": {str(GROUP)},
        "Groups": set(),
        "CapPrm": {"0" * 16},
        "CapEff": {"0" * 16},
        "CapBnd": {"0" * 16},
        "NoNewPrivs": {"1"},
    }


def test_what_a_command_creates_belongs_to_the_owner(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    command = 'mkdir -p a/b && echo x > a/b/file && ln -s file a/b/link && cp a/b/file "$HOME/x" && cp "$HOME/x" c'
    command += ' && touch "$TMPDIR/t"'
    assert run_in(sandbox, command, Box(workspace=str(workspace))).code == 0
    created = [path for path in workspace.rglob("*")]
    assert len(created) == 5
    assert {owner_of(path) for path in created} == {(OWNER, GROUP)}


REFUSED = {
    "a private file of root": "cat ../private",
    "a file of another user": "echo x >> ../other/file",
    "secrets of the system": "cat /etc/shadow",
    "settings of the kernel, only opened": ": >> /proc/sys/kernel/core_pattern",
    "a file of root in the workspace": "echo x >> of_root",
    "giving a file away": "touch mine && chown 0 mine",
    "becoming root again": "setpriv --reuid 0 true",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_command_has_the_rights_of_the_owner_and_no_others(
    sandbox: Sandbox, top: Path, workspace: Path, what: str, run_in: Any
) -> None:
    (top / "private").write_text("canary", encoding="utf-8")
    (top / "private").chmod(0o600)
    (made(top / "other", NOBODY, NOBODY) / "file").write_text("kept", encoding="utf-8")
    (workspace / "of_root").write_text("kept", encoding="utf-8")
    # Even if the box shows the folder above.
    box = Box(workspace=str(workspace), writable=(str(top / "other"),), readable=(str(top),))
    ran = run_in(sandbox, REFUSED[what], box)
    assert ran.code != 0
    assert "canary" not in ran.output
    assert (top / "other/file").read_text(encoding="utf-8") == "kept"
    assert (workspace / "of_root").read_text(encoding="utf-8") == "kept"


# The owner and group of the workspace, and the user that commands get; None is root as before.
OWNERS = {
    "another user": (OWNER, GROUP, (OWNER, GROUP)),
    "nobody": (NOBODY, NOBODY, (NOBODY, NOBODY)),
    "a known user with the group of root": (NOBODY, 0, (NOBODY, NOBODY)),
    "a known user with a group of others": (NOBODY, GROUP, (NOBODY, NOBODY)),
    "an unknown user with the group of root": (OWNER, 0, (OWNER, OWNER)),
    "root": (0, 0, None),
    "root with the group of others": (0, GROUP, None),
}


@pytest.mark.parametrize("what", OWNERS)
def test_the_user_is_the_owner_and_the_group_is_never_that_of_root(
    sandbox: Sandbox, top: Path, what: str, run_in: Any
) -> None:
    uid, gid, expected = OWNERS[what]
    folder = made(top / "workspace", uid, gid)
    assert find_user(str(folder)) == (None if expected is None else User(*expected))
    ran = run_in(sandbox, "id -u; id -g; touch made", Box(workspace=str(folder)))
    assert ran.output.split() == [str(each) for each in expected or (0, 0)]
    assert owner_of(folder / "made") == (expected or (0, 0))


@pytest.mark.parametrize(
    ("maps", "is_found"),
    [
        (["0 0 4294967295"], True),
        (["0 100000 65536"], True),
        (["0 1000 1"], False),
        (["0 1000 1", "1 100000 65536"], True),
        (["0 100000 61000"], False),
    ],
    ids=str,
)
def test_an_owner_without_a_number_here_is_not_taken_on(
    workspace: Path, maps: list[str], is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"/proc/self/uid_map": "\n".join(maps) + "\n", "/proc/self/gid_map": "\n".join(maps) + "\n"}
    read = Path.read_text
    monkeypatch.setattr(boxes.Path, "read_text", lambda path, **options: texts.get(str(path)) or read(path, **options))
    assert (find_user(str(workspace)) is not None) == is_found
    os.chown(workspace, NOBODY, NOBODY)
    # In a user namespace, this number also stands for all owners that it does not know.
    assert (find_user(str(workspace)) is not None) == (maps == ["0 0 4294967295"])


def test_root_without_the_capability_stays_root(workspace: Path) -> None:
    code = f"from dragoman.sandbox.boxes import find_user; print(find_user({str(workspace)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    for capability, expected in (("setuid", "None"), ("setgid", "None"), ("chown", f"User(uid={OWNER}, gid={GROUP})")):
        command = ["setpriv", f"--bounding-set=-{capability}", sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_a_workspace_that_its_owner_cannot_reach_is_refused(sandbox: Sandbox, top: Path) -> None:
    closed = made(top / "closed", 0, 0, 0o700)
    inner = made(closed / "workspace", OWNER, GROUP)
    with pytest.raises(ConfigError, match=f"user {OWNER}, who owns the workspace and cannot reach {inner}"):
        sandbox.launch(["true"], Box(workspace=str(inner)))


def test_a_readable_folder_out_of_reach_is_left_out(sandbox: Sandbox, top: Path, workspace: Path, run_in: Any) -> None:
    closed = made(top / "closed", 0, 0, 0o700)
    (made(closed / "tools", 0, 0) / "tool").write_text("canary", encoding="utf-8")
    ran = run_in(sandbox, "cat ../closed/tools/tool; echo ran", Box(str(workspace), readable=(str(closed / "tools"),)))
    assert (ran.code, ran.output) == (0, "ran\n")


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "reaches"),
    [
        (0o700, OWNER, GROUP, True),
        (0o077, OWNER, GROUP, False),
        (0o070, 0, GROUP, True),
        (0o707, 0, GROUP, False),
        (0o701, 0, 0, True),
        (0o776, 0, 0, False),
    ],
)
def test_the_modes_say_who_can_reach_a_folder(top: Path, mode: int, uid: int, gid: int, reaches: bool) -> None:
    folder = made(top / "folder", uid, gid, mode)
    assert User(OWNER, GROUP).can_reach(str(folder)) == reaches
    # The kernel decides in the same way.
    enter = ["setpriv", f"--reuid={OWNER}", f"--regid={GROUP}", "--clear-groups", "sh", "-c", 'cd "$1"', "sh", folder]
    assert (subprocess.run(enter, capture_output=True).returncode == 0) == reaches


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/hooks/pre-push; true",
        "rm -rf .git/hooks; mkdir -p .git/hooks; echo y > .git/hooks/new; true",
        "rm -rf .git; true",
        "mv .git elsewhere; true",
        "rm -rf .git; ln -s /etc .git; true",
    ],
)
def test_protected_paths_keep_their_owner_when_they_are_restored(
    sandbox: Sandbox, workspace: Path, command: str, run_in: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hooks = workspace / ".git/hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-push").write_text("hook", encoding="utf-8")
    (hooks / "pre-push").chmod(0o750)
    for path in [workspace / ".git", *(workspace / ".git").rglob("*")]:
        os.chown(path, OWNER, GROUP)
    aside = tmp_path_factory.mktemp("aside")
    ran = run_in(sandbox, command, Box(workspace=str(workspace), aside=str(aside)))
    assert bool(ran.put_back) == (sandbox.tier == "landlock")
    assert (hooks / "pre-push").read_text(encoding="utf-8") == "hook"
    assert stat.S_IMODE((hooks / "pre-push").stat().st_mode) == 0o750
    assert {owner_of(path) for path in (hooks.parent, hooks, hooks / "pre-push")} == {(OWNER, GROUP)}
    assert sorted(path.name for path in hooks.iterdir()) == ["pre-push"]


def test_secrets_of_other_users_stay_hidden_from_root(top: Path, run_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace is the home folder of a user, or contains several."""
    homes = [made(top / name, OWNER, GROUP) for name in ("one", "two")]
    for home in homes:
        (home / ".ssh").mkdir()
        (home / ".ssh/id_rsa").write_text("canary", encoding="utf-8")
        (home / "notes").write_text("canary", encoding="utf-8")
        for path in home.rglob("*"):
            os.chown(path, OWNER, GROUP)
    users = [SimpleNamespace(pw_dir=str(path)) for path in (*homes, "/", "/nonexistent")]
    monkeypatch.setattr("pwd.getpwall", lambda: users)
    boxes._all_homes.cache_clear()
    try:
        for workspace, shown in ((homes[0], ["./notes"]), (top, ["./one/notes", "./two/notes"])):
            with pytest.raises(ConfigError, match=r"cannot hide .*\.ssh"):
                find_sandbox("landlock").launch(["true"], Box(workspace=str(workspace)))
            if shutil.which("bwrap"):
                ran = run_in(find_sandbox("bubblewrap"), "grep -rls canary . | sort", Box(workspace=str(workspace)))
                assert ran.output.split() == shown
    finally:
        boxes._all_homes.cache_clear()


def test_nothing_of_a_command_stays(
    sandbox: Sandbox, top: Path, workspace: Path, run_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests create boxes in the temporary folder of the machine at the same time.
    temporary = made(top / "temporary", 0, 0)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    command = '(setsid sleep 600 &); mkdir "$HOME/closed" && chmod 0 "$HOME/closed" "$HOME"; echo "$HOME"'
    ran = run_in(sandbox, command, Box(workspace=str(workspace)))
    assert ran.code == 0
    home = Path(ran.output.strip())
    # In bubblewrap, the home of a command is in memory.
    assert (temporary in home.parents) == isinstance(sandbox, LandlockSandbox)
    assert not home.exists()
    assert list(temporary.iterdir()) == []
    assert list(workspace.iterdir()) == []


LAUNCHER = """
import sys
from dragoman.sandbox import Box, find_sandbox
find_sandbox(sys.argv[1]).run(["/bin/sh", "-c", sys.argv[3]], Box(workspace=sys.argv[2]))
"""


def test_everything_ends_when_the_launcher_is_killed(sandbox: Sandbox, workspace: Path) -> None:
    """The kernel forgets the signal for the death of a parent when a process changes its user."""
    # The command holds a pipe of ours open, by its name, as long as it lives.
    os.mkfifo(workspace / "alive")
    os.chown(workspace / "alive", OWNER, GROUP)
    command = "exec 3> alive; (setsid sleep 600 &); echo ready >&3; sleep 600"
    environment = {**os.environ, "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, sandbox.tier, workspace, command], env=environment)
    try:
        with open(workspace / "alive", encoding="utf-8") as alive:
            assert alive.readline() == "ready\n"
            launcher.kill()
            launcher.wait(60)
            # The end of the file: no process has it open for writing any more.
            assert alive.read() == ""
    finally:
        launcher.kill()
        launcher.wait(60)


def test_a_sandbox_that_does_not_work_for_the_owner_is_not_chosen(
    top: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = top / "bwrap"
    program.write_text('#!/bin/sh\n[ "$(id -u)" = 0 ] && exit 0\necho "bwrap: not for you" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{top}:/usr/bin:/bin")
    assert find_sandbox("auto", str(top / "workspace")).tier == "landlock"
    assert find_sandbox("auto", str(made(top / "of_root", 0, 0))).tier == "bubblewrap"


@pytest.mark.parametrize("tier", ["landlock", pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap"))])
def test_an_agent_of_root_leaves_files_that_the_owner_can_change(workspace: Path, tier: Any) -> None:
    steps = [
        call("write", path="new/deep/file.txt", content="one\n"),
        call("bash", command="id -u && echo two >> new/deep/file.txt && echo x > from_bash"),
        call("edit", path="from_bash", old="x", new="y"),
        call("bash", command="cat new/deep/file.txt from_bash && rm -r new; (setsid sleep 600 &)"),
    ]
    model = ScriptedModel([*map(calls, steps), "done"])
    agent = dragoman.Agent(
        model.endpoint(),
        tools=[builtin.Bash, builtin.Write, builtin.Edit],
        mode="bypass",
        connection=dragoman.Connection(transport=model),
        safety=dragoman.Safety(workspace=str(workspace), sandbox=tier),
    )
    results = agent.run("Work.").results
    assert [result.is_error for result in results] == [False] * 4, results
    assert str(OWNER) in str(results[1].content)
    assert "one\ntwo\ny" in str(results[3].content)
    assert owner_of(workspace / "from_bash") == (OWNER, GROUP)
    assert not (workspace / "new").exists()
    shutil.rmtree(workspace)
