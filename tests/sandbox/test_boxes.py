"""What a command in a box sees, may change and may use."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.sandbox import Box, BoxLimits, Sandbox, boxes, find_sandbox, toolchains
from dragoman.sandbox.landlock import LandlockSandbox

MEBIBYTE = 1024 * 1024


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_the_environment_is_what_the_box_says(
    sandbox: Sandbox, workspace: Path, run_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    ran = run_in(sandbox, "env", Box(workspace=str(workspace), environment={"GIVEN": "a b\n=c"}))

    names = {line.partition("=")[0] for line in ran.output.splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "TMPDIR", "LANG", "GIVEN", ""}
    assert "GIVEN=a b\n=c\n" in ran.output
    assert "sk-canary" not in ran.output


def test_a_list_of_processes_does_not_show_the_environment(sandbox: Sandbox, workspace: Path) -> None:
    with sandbox.launch(["true"], Box(workspace=str(workspace), environment={"TOKEN": "canary-secret"})) as launch:
        assert launch.environment == {}
        assert not [word for word in launch.argv if "canary-secret" in word or "TOKEN" in word]


def test_descriptors_are_closed_in_us_and_unknown_in_the_box(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    before = set(os.listdir("/proc/self/fd"))
    ran = run_in(sandbox, "ls /proc/self/fd", Box(workspace=str(workspace)))

    assert ran.output.split() == ["0", "1", "2", "3"]  # The fourth is that of `ls` itself.
    assert set(os.listdir("/proc/self/fd")) == before


def test_arguments_arrive_as_they_are(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    words = ["", "a b", "$HOME", "--", "'", '"', "ü\n\t", "--bind"]
    ran = run_in(sandbox, ["/usr/bin/printf", "%s\\0", *words], Box(workspace=str(workspace)))

    assert ran.output.split("\0")[:-1] == words


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("nosuchthing", 127)])
def test_how_a_command_ended_is_told(sandbox: Sandbox, workspace: Path, run_in: Any, command: str, code: int) -> None:
    assert run_in(sandbox, command, Box(workspace=str(workspace))).code == code


def test_it_starts_in_the_workspace_or_where_it_is_told(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    (workspace / "sub").mkdir()

    assert run_in(sandbox, "pwd", Box(workspace=str(workspace))).output.strip() == str(workspace)
    assert run_in(sandbox, "pwd", Box(workspace=str(workspace), cwd="sub")).output.strip() == str(workspace / "sub")


def test_folders_are_readable_or_writable_as_named(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any
) -> None:
    for name in ("shown", "given", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, encoding="utf-8")
    box = Box(workspace=str(workspace), readable=(str(tmp_path / "shown"),), writable=(str(tmp_path / "given"),))
    script = "for name in shown given other; do cat ../$name/file; echo new > ../$name/file; done; echo new > made"
    ran = run_in(sandbox, script, box)

    assert ran.output == "showngiven"
    assert [(tmp_path / name / "file").read_text(encoding="utf-8") for name in ("shown", "given", "other")] == [
        "shown",
        "new\n",
        "other",
    ]
    assert (workspace / "made").read_text(encoding="utf-8") == "new\n"


def test_home_and_temporary_folder_are_its_own(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    script = 'echo x > "$HOME/a" && echo y > "$TMPDIR/b" && echo "$HOME" "$TMPDIR"; chmod 0 "$HOME"'
    ran = run_in(sandbox, script, Box(workspace=str(workspace)))

    assert ran.code == 0, ran.errors
    for place in ran.output.split():
        assert not os.path.exists(os.path.join(place, "a")) and not os.path.exists(os.path.join(place, "b"))


def test_temporary_folders_of_killed_processes_are_removed_later(
    landlock: Sandbox, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "dragoman-box-left/home").mkdir(parents=True)
    boxes._sweep_once.cache_clear()
    with landlock.launch(["true"], Box(str(workspace))):
        in_use = [path.name for path in tmp_path.glob("dragoman-box-*")]
        boxes._sweep_once.cache_clear()
        boxes._sweep_once()

        assert "dragoman-box-left" not in in_use and len(in_use) == 1
        assert [path.name for path in tmp_path.glob("dragoman-box-*")] == in_use
    assert list(tmp_path.glob("dragoman-box-*")) == []


def test_a_home_can_be_given(sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ran = run_in(sandbox, 'echo x > "$HOME/kept"; echo "$HOME"', Box(workspace=str(workspace), home=str(home)))

    assert ran.output.strip() == str(home)
    assert (home / "kept").exists()


@pytest.mark.parametrize("allowed", [False, True])
def test_the_network_is_off_unless_allowed(sandbox: Sandbox, workspace: Path, run_in: Any, allowed: bool) -> None:
    code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).close()"
    python = os.path.realpath(sys.executable)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        box = Box(workspace=str(workspace), network=allowed, readable=(os.path.realpath(sys.base_prefix),))
        ran = run_in(sandbox, [python, "-I", "-S", "-c", code, str(server.getsockname()[1])], box)
        if allowed:
            server.accept()[0].close()
        else:
            with pytest.raises(BlockingIOError):
                server.accept()

    assert (ran.code == 0) is allowed, ran.errors


LIMITS = {
    "cpu": (BoxLimits(cpu_seconds=1), "while :; do :; done", 128 + 24),
    "file": (BoxLimits(file_bytes=MEBIBYTE), "head -c 3000000 /dev/zero > large", None),
    "open_files": (BoxLimits(open_files=16), "exec 9</dev/null; ulimit -n", 0),
    "core": (BoxLimits(), "ulimit -c", 0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_hold(sandbox: Sandbox, workspace: Path, run_in: Any, name: str) -> None:
    limits, command, code = LIMITS[name]
    ran = run_in(sandbox, command, Box(workspace=str(workspace), limits=limits))

    if name == "file":
        assert ran.code != 0
        assert (workspace / "large").stat().st_size <= MEBIBYTE
    else:
        assert ran.code == code
    if name in ("open_files", "core"):
        assert ran.output.strip() == {"open_files": "16", "core": "0"}[name]


def test_a_limit_that_cannot_be_set_keeps_the_command_from_running(workspace: Path, run_in: Any) -> None:
    ran = run_in(find_sandbox("none"), "touch ran", Box(workspace=str(workspace), limits=BoxLimits(open_files=2**62)))

    assert ran.code == 125
    assert not (workspace / "ran").exists()


def test_secrets_stay_hidden_where_the_workspace_is_the_home_folder(
    workspace: Path, run_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace))
    for name in (
        ".ssh/id_rsa",
        ".aws/credentials",
        ".config/dragoman/config.toml",
        ".netrc",
        ".local/state/x",
        "notes",
    ):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("canary", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"cannot hide .*\.aws"):
        LandlockSandbox().launch(["true"], Box(workspace=str(workspace)))
    if find_sandbox().tier != "bubblewrap":
        pytest.skip("bwrap is not installed (package bubblewrap): run scripts/system-parts")
    ran = run_in(find_sandbox("bubblewrap"), "grep -rls canary .", Box(workspace=str(workspace)))
    assert ran.output == "./notes\n"


def test_secrets_stay_hidden_where_the_home_folder_is_readable(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (".ssh/id_rsa", ".netrc", ".tool/program"):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text("canary", encoding="utf-8")
    box = Box(workspace=str(workspace), readable=(str(tmp_path / "home"),))
    ran = run_in(sandbox, "cd ../home; cat .ssh/id_rsa; cat .netrc; cat .tool/program", box)

    assert ran.output == "canary"


def test_what_is_hidden_is_hidden_below_a_readable_folder(
    sandbox: Sandbox, workspace: Path, tmp_path: Path, run_in: Any
) -> None:
    for name in ("shown/a", "shown/deep/b", "shown/deep/secret/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    hidden = str(tmp_path / "shown/deep/secret")
    box = Box(workspace=str(workspace), readable=(str(tmp_path / "shown"),), hidden=(hidden,))
    ran = run_in(sandbox, "cat ../shown/a ../shown/deep/b ../shown/deep/secret/c", box)

    assert ran.output == "shown/ashown/deep/b"


MISTAKES: dict[str, Callable[[Path], Box]] = {
    "the whole file system": lambda folder: Box(workspace="/"),
    "is not a folder": lambda folder: Box(workspace=str(folder / "absent")),
    "is not in the workspace": lambda folder: Box(workspace=str(folder), protected=("../x",)),
    "cannot contain a variable": lambda folder: Box(workspace=str(folder), environment={"A=B": ""}),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_box_that_makes_no_sense_is_refused(sandbox: Sandbox, workspace: Path, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sandbox.launch(["true"], MISTAKES[words](workspace))


def test_programs_of_version_managers_can_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".pyenv/shims", ".local/bin", ".local/share/keyrings", ".config/tool/bin", ".ssh"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = os.pathsep.join(
        [
            "/usr/bin",
            *(str(tmp_path / name) for name in (".pyenv/shims", ".local/bin", ".config/tool/bin")),
            str(tmp_path),
        ]
    )

    assert toolchains(path) == (str(tmp_path / ".pyenv"), str(tmp_path / ".local/bin"))


def test_a_command_that_takes_too_long_is_ended(sandbox: Sandbox, workspace: Path) -> None:
    ran = sandbox.run(["/bin/sh", "-c", "(setsid sleep 600 &); sleep 600"], Box(str(workspace)), timeout=0.5)

    assert ran.timed_out


# ---- nothing lives on ----------------------------------------------------------------------------------------------

LAUNCHER = """
import subprocess, sys
from dragoman.sandbox import Box, find_sandbox
launch = find_sandbox(sys.argv[1]).launch(["/bin/sh", "-c", sys.argv[3]], Box(workspace=sys.argv[2]))
process = subprocess.Popen(
    launch.argv, env=launch.environment, pass_fds=launch.pass_fds, cwd=launch.cwd, start_new_session=True
)
launch.started()
process.wait()
launch.finish()
"""
# A child in a session of its own that holds the output open.
DAEMON = "(setsid sleep 600 &) ; "


def test_a_daemon_ends_with_the_command_that_started_it(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    ran = run_in(sandbox, DAEMON + "echo done", Box(workspace=str(workspace)))

    # Its output is at an end only when nobody holds it any more.
    assert (ran.code, ran.output) == (0, "done\n")


def test_everything_ends_when_the_launcher_is_killed(sandbox: Sandbox, workspace: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, sandbox.tier, str(workspace), DAEMON + "sleep 600 & echo ready; wait"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert launcher.stdout is not None
    assert launcher.stdout.readline() == b"ready\n"
    launcher.kill()

    output, _ = launcher.communicate(timeout=60)
    assert output == b""


def test_every_box_has_limits_unless_it_is_told_otherwise(sandbox: Sandbox, workspace: Path, run_in: Any) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    assert 0 < (BoxLimits().memory_bytes or 0) <= memory
    assert (BoxLimits().file_bytes, BoxLimits().processes) == (4 * 1024**3, 4096)
    shown = run_in(sandbox, "ulimit -d; ulimit -f", Box(workspace=str(workspace))).output.split()
    assert all(each.isdigit() for each in shown)
    assert int(shown[0]) * 1024 <= memory
    free = BoxLimits(memory_bytes=None, file_bytes=None, processes=None)
    assert "unlimited" in run_in(sandbox, "ulimit -f", Box(workspace=str(workspace), limits=free)).output


def test_a_limit_that_is_lower_already_stays(workspace: Path) -> None:
    """The limits by default are more than this shell may set: it keeps its own, and the command runs."""
    code = "from dragoman.sandbox import *; import sys; b = Box(workspace=sys.argv[1])"
    code += "; print(find_sandbox('none').run(['/bin/sh', '-c', 'ulimit -f'], b).output.decode())"
    shell = f'ulimit -f 1000 && exec {sys.executable} -c "$1" "$2"'
    ran = subprocess.run(["/bin/sh", "-c", shell, "sh", code, workspace], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1000"]


@pytest.mark.needs("bwrap", package="bubblewrap")
@pytest.mark.parametrize("place", ["socket", "a/b/c/socket", "node_modules/x/socket", ".git/socket"])
def test_a_socket_of_the_workspace_is_reachable_only_where_it_is_allowed(
    bubblewrap: Sandbox, workspace: Path, place: str, run_in: Any
) -> None:
    path = workspace / place
    path.parent.mkdir(parents=True, exist_ok=True)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        command = f"{os.path.realpath('/usr/bin/python3')} -c {shlex.quote(connect)}"
        assert run_in(bubblewrap, command, Box(workspace=str(workspace))).code != 0
        assert run_in(bubblewrap, command, Box(workspace=str(workspace), writable=(str(path),))).code == 0


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/sys/kernel", "/sys", "/sys/fs/cgroup"])
def test_no_box_may_change_the_settings_of_the_kernel(sandbox: Sandbox, workspace: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="settings of the kernel"):
        sandbox.launch(["true"], Box(workspace=str(workspace), writable=(path,)))
