"""The sandbox holds against an attacker who really tries; without a sandbox the same attacker gets through."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

import dragoman
from dragoman.cli.doctor import sandbox_lines
from dragoman.sandbox import Attempt, Box, BoxLimits, Launch, ProbeReport, Sandbox, find_sandbox, probe, proof
from dragoman.sandbox.boxes import bound_processes
from dragoman.sandbox.detection import NOT_REQUIRED
from dragoman.sandbox.landlock import LandlockSandbox

NOBODY = 65534
# What docs/concepts/sandbox.md says of each kind.
NOT_STOPPED = {"bubblewrap": set(), "landlock": {"change_mode_outside"}}
GETS_THROUGH_WITHOUT = {
    "write_outside",
    "follow_link_out",
    "link_file_in",
    "change_mode_outside",
    "read_home",
    "read_environment_of_process",
    "read_file_of_process",
    "connect_tcp",
    "send_udp",
    "connect_unix",
    "connect_abstract",
    "connect_in_workspace",
    "share_memory",
    "change_hook",
    "create_hook",
    "change_config",
    "create_startup_file",
    "create_watched_file",
    "move_protected",
    "kill_process",
    "outlive",
}


def expected_to_escape(tier: str, user: int) -> set[str]:
    # Nothing counts the processes of root where no control group can be made, as in most containers.
    unbounded = user == 0 and not can_bound()
    return NOT_STOPPED[tier] | ({"start_many_processes"} if unbounded else set())


def can_bound() -> bool:
    bound = bound_processes(BoxLimits(processes=1))
    if bound is not None:
        bound.remove()
    return bound is not None


def test_everything_is_stopped_that_the_docs_claim(sandbox: Sandbox) -> None:
    report = probe(sandbox)

    assert set(report.escaped) == expected_to_escape(report.tier, os.getuid()), report
    assert report.holds


# Run the command once, and print the files of the packages that it has loaded.
NEEDED = """
import contextlib, io, os, sys
from dragoman.__main__ import main
sys.argv = ["dragoman", "doctor", "--sandbox"]
os.environ["DRAGOMAN_SANDBOX"] = "none"
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
standard = {*sys.stdlib_module_names, "__main__", "_distutils_hack"}
for name in sorted({name.partition(".")[0] for name in sys.modules} - standard):
    if file := getattr(sys.modules[name], "__file__", None):
        print(file)
"""


@pytest.fixture(scope="module")
def open_copy() -> Iterator[Path]:
    """The package and what its commands need, where every user can read it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    listed = subprocess.run([sys.executable, "-c", NEEDED], env=environment, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-copy-") as folder:
        top = Path(folder)
        for origin in map(Path, listed.stdout.splitlines()):
            if origin.name == "__init__.py":
                unused = shutil.ignore_patterns("__pycache__", "samples")
                shutil.copytree(origin.parent, top / origin.parent.name, ignore=unused)
            else:
                shutil.copy(origin, top)
        for path in [top, *top.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644 | stat.S_IMODE(path.stat().st_mode))
        yield top


def python_for_nobody(top: Path) -> str:
    """An interpreter that nobody may run and that can load the package: ours may lie in the home folder of root."""
    ours = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, os.path.realpath(sys.executable), ours):
        try:
            ran = run_as_nobody([python, "-I", "-c", f"import sys; sys.path.insert(0, {str(top)!r}); import msgspec"])
        except OSError:
            continue
        if ran.returncode == 0:
            return python
    pytest.skip(f"user nobody may run no Python here: install {ours}, or put this one where all may read it")


def run_as_nobody(argv: Sequence[str], **more: str) -> subprocess.CompletedProcess[bytes]:
    return run_as(NOBODY, argv, **more)


def run_as(user: int, argv: Sequence[str], **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program as another user if we are root, otherwise as we are."""
    root = os.getuid() == 0
    return subprocess.run(
        argv,
        user=user if root else None,
        group=user if root else None,
        extra_groups=[] if root else None,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "API_KEY": "canary"} | more,
        cwd="/",
        capture_output=True,
        check=False,
        timeout=120,
    )


PROBE = """
import sys
sys.path.insert(0, {top!r})
import msgspec
from dragoman.sandbox import find_sandbox, probe
print(msgspec.json.encode(probe(find_sandbox({tier!r}))).decode())
"""


@pytest.mark.parametrize(
    "tier", [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap", package="bubblewrap")), "landlock"]
)
def test_it_holds_for_a_user_without_rights(tier: str, open_copy: Path) -> None:
    code = PROBE.format(top=str(open_copy), tier=tier)
    ran = run_as_nobody([python_for_nobody(open_copy), "-I", "-c", code])
    assert ran.returncode == 0, ran.stderr.decode()

    report = msgspec.json.decode(ran.stdout, type=ProbeReport)
    assert report.user != 0
    assert set(report.escaped) == expected_to_escape(tier, report.user), report
    assert report.holds


DOCTOR = "import sys; sys.path.insert(0, {top!r}); from dragoman.__main__ import main; sys.exit(main())"


@pytest.mark.parametrize("user", [0, NOBODY], ids=["root", "nobody"])
@pytest.mark.parametrize(
    "tier", [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap", package="bubblewrap")), "landlock"]
)
def test_the_doctor_says_the_same_as_root_and_as_nobody(tier: str, user: int, open_copy: Path) -> None:
    if user == 0 and os.getuid() != 0:
        pytest.skip("only root can run the command as root; run the tests as root")
    python = python_for_nobody(open_copy)
    words = [python, "-I", "-c", DOCTOR.format(top=str(open_copy)), "doctor", "--sandbox"]
    ran = run_as(user, words, DRAGOMAN_SANDBOX=tier)
    lines = ran.stdout.decode().splitlines()
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert lines[0].startswith(f"sandbox: {'bubblewrap' if tier == 'bubblewrap' else 'Landlock'}")
    assert "it is effective: the mode `sandboxed` can be used" in lines
    open_ways = {line.partition(": ")[2].partition(" (")[0] for line in lines if "not stopped" in line.lower()}
    assert open_ways == {name.replace("_", " ") for name in expected_to_escape(tier, user)}


def test_without_a_sandbox_the_attempts_succeed() -> None:
    report = probe(find_sandbox("none"))

    assert set(report.escaped) >= GETS_THROUGH_WITHOUT
    assert not report.holds


HOLES = {
    "open_kernel_settings": ("bubblewrap", "bubblewrap._fix_kernel_settings", list),
    "connect_in_workspace": ("bubblewrap", "bubblewrap.sockets_below", lambda box: []),
    "share_memory": ("landlock", "landlock._SHARED", {}),
    "take_memory": ("bubblewrap", "bubblewrap.limit", lambda argv, limits: argv),
    "write_large_file": ("landlock", "landlock._limits", lambda limits: []),
}


@pytest.mark.skipif(os.getuid() != 0, reason="file modes are in the way of others than root")
@pytest.mark.needs("bwrap", package="bubblewrap")
@pytest.mark.parametrize("name", HOLES)
def test_a_sandbox_with_a_hole_does_not_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, part, without = HOLES[name]
    sandbox = find_sandbox(tier)  # type: ignore[arg-type]
    assert name not in probe(sandbox).escaped
    monkeypatch.setattr(f"dragoman.sandbox.{part}", without)
    report = probe(sandbox)
    assert name in report.escaped
    assert not report.holds


@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_kernels_stop_all_but_signals(version: int) -> None:
    report = probe(LandlockSandbox(version=version))

    assert set(report.escaped) == expected_to_escape("landlock", os.getuid()) | {"kill_process"}, report
    assert not report.holds


def test_no_attempt_counts_as_stopped_that_was_not_made() -> None:
    class Broken(Sandbox):
        tier = "landlock"

        def launch(self, argv: Sequence[str], box: Box) -> Launch:
            return Launch(("/bin/sh", "-c", "echo no such thing >&2; exit 3"), {}, cwd="/")

    report = probe(Broken())

    assert not report.holds
    assert {each.stopped for each in report.attempts} == {False}
    assert report.attempts[0].how == "was not tried: no such thing"


def test_a_sandbox_is_proven_once(landlock: Sandbox) -> None:
    assert proof(landlock).holds
    assert proof(landlock) is proof(landlock)


def test_an_empty_report_does_not_hold() -> None:
    assert not ProbeReport(tier="bubblewrap", user=0, attempts=()).holds


def test_waste_alone_does_not_keep_a_sandbox_from_being_used() -> None:
    wasteful = tuple(Attempt(name, False, "nothing stopped it") for name in sorted(NOT_REQUIRED))
    stopped = Attempt("read_home", True, "Permission denied")

    assert ProbeReport(tier="landlock", user=0, attempts=(*wasteful, stopped)).holds
    assert not ProbeReport(tier="landlock", user=0, attempts=(Attempt("read_home", False, ""),)).holds


def test_the_report_reads_well() -> None:
    attempts = (
        Attempt("read_home", True, "Permission denied"),
        Attempt("change_mode_outside", False, "its effect can be seen outside"),
    )
    report = ProbeReport(tier="landlock", user=1000, attempts=attempts)

    assert sandbox_lines(report, ["bubblewrap: bwrap is not installed"], details=True) == [
        "sandbox: Landlock with seccomp and limits",
        "tried to break out in 2 ways: 1 were stopped",
        "  stopped: read home (Permission denied)",
        "  not stopped: change mode outside (its effect can be seen outside)",
        "it is effective: the mode `sandboxed` can be used",
        "not used: bubblewrap: bwrap is not installed",
        "hint: the best sandbox needs bubblewrap; on Debian or Ubuntu: apt-get install bubblewrap",
    ]
    failed = ProbeReport(tier="none", user=1000, attempts=(Attempt("read_home", False, "nothing stopped it"),))
    assert sandbox_lines(failed)[2:4] == [
        "  NOT STOPPED: read home (nothing stopped it)",
        "it is not effective: the mode `sandboxed` asks before every command",
    ]
