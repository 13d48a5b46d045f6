"""The probe of a sandbox does no harm: it opens settings of the kernel, and writes only to folders of its own.

strace records every system call of the probe that changes a file, in the box and outside. This includes a sandbox with
a hole, in which the attacker of the probe gets through.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman

pytestmark = [pytest.mark.needs("strace"), pytest.mark.needs("bwrap", package="bubblewrap")]

PROBE = """
import sys
from dragoman.sandbox import bubblewrap, detection
tier, hole = sys.argv[1:]
sandbox = detection.find_sandbox(tier)
if hole:
    bubblewrap._fix_kernel_settings = list
report = detection.probe(sandbox)
print(*report.escaped)
"""
OPENED = "open openat openat2 creat"
WRITTEN = "write writev pwrite64 pwritev pwritev2 sendfile copy_file_range splice ftruncate fallocate fchmod fchown"
CHANGED = "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat"
CHANGED += " chmod fchmodat fchmodat2 chown lchown fchownat truncate utimensat setxattr"
_call = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*?)>(?:\(deleted\))?)?(?: .*)?$")
_first_descriptor = re.compile(r"^\d+<(.*?)>(?:,|$|\(deleted\))").match
_place = re.compile(r"AT_FDCWD<(.*?)>, \"(.*?)\"|\d+<(.*?)>, \"(.*?)\"|\"(.*?)\"").finditer

# The folders of the probe and of the boxes, what a process has for itself, and the file system that bwrap builds.
ALLOWED = re.compile(
    r"/tmp/dragoman-(probe|box|sandbox)-[^/]*(/.*)?"
    r"|/memfd:.*|anon_inode:.*|pipe:.*|socket:.*|UNIX.*|TCP.*|UDP.*|NETLINK.*"
    r"|/dev/(null|tty|ptmx|pts/\d+)|/proc/\d+/(uid_map|gid_map|setgroups|fd(/.*)?)"
    r"|/(newroot|oldroot)(/.*)?|/tmp/(newroot|oldroot|base|home)?"
    r"|/sys/fs/cgroup(/.*)?/dragoman-\d+-\d+(/.*)?"
)
# bwrap forbids further user namespaces in the one that it has created; the setting of the host is another one.
OF_THE_NAMESPACE = "/proc/sys/user/max_user_namespaces"


def calls_of(log: Path) -> Iterator[tuple[str, str, str]]:
    """The successful calls: the name, the arguments, and the path of the descriptor that was returned."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        found = _call.match(line)
        if found and found[3] not in ("-1", "?"):
            yield found[1], found[2], found[4] or ""


def changes_of(log: Path) -> Iterator[tuple[str, str]]:
    """Each successful change, with the full path of what it changed. A relative path begins in the workspace."""
    for name, arguments, returned in calls_of(log):
        if name in OPENED.split() and (name == "creat" or "O_CREAT" in arguments or "O_TRUNC" in arguments):
            yield name, returned
        elif name in WRITTEN.split() and (descriptor := _first_descriptor(arguments)):
            yield name, descriptor[1]
        elif name in CHANGED.split():
            # The first text of `symlink` is what the new link says.
            for found in [*_place(arguments)][name.startswith("symlink") :]:
                folder, path = found[1] or found[3] or "", found[2] or found[4] or found[5] or ""
                if folder or path.startswith("/"):
                    yield name, os.path.normpath(os.path.join(folder, path))


@pytest.mark.parametrize(
    ("tier", "hole"),
    [
        ("bubblewrap", ""),
        ("landlock", ""),
        pytest.param("bubblewrap", "hole", marks=pytest.mark.skipif(os.getuid() != 0, reason="only root gets through")),
    ],
)
def test_the_probe_changes_nothing_but_its_own_folders(tier: str, hole: str, tmp_path: Path) -> None:
    log, output = tmp_path / "calls", tmp_path / "output"
    traced = ",".join(f"?{name}" for name in f"{OPENED} {WRITTEN} {CHANGED}".split())
    command = ["strace", "-f", "-y", "-qq", "-e", f"trace={traced}", "-e", "signal=none", "-o", str(log)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(dragoman.__file__).parents[1]), "TMPDIR": "/tmp"}
    with output.open("w", encoding="utf-8") as file:
        words = [*command, sys.executable, "-B", "-c", PROBE, tier, hole]
        subprocess.run(words, env=environment, cwd="/", stdout=file, stderr=subprocess.STDOUT, check=True, timeout=100)
    escaped = output.read_text(encoding="utf-8").split()
    assert ("open_kernel_settings" in escaped) == bool(hole), escaped

    changes = set(changes_of(log))
    assert any(path.startswith("/tmp/dragoman-probe-") for _, path in changes)
    others = {(name, path) for name, path in changes if not ALLOWED.fullmatch(path) and path != str(output)}
    # Python tries whether it can write to the folder for temporary files.
    others = {(name, path) for name, path in others if not re.fullmatch(r"/tmp/[a-z0-9_]{8}", path)}
    assert others <= ({("write", OF_THE_NAMESPACE)} if tier == "bubblewrap" else set())


def test_the_log_is_read_as_strace_writes_it(tmp_path: Path) -> None:
    lines = [
        '12 openat(AT_FDCWD</>, "/etc/x", O_WRONLY|O_CREAT, 0666) = 3</etc/x>',
        '12 write(3</etc/x>, "a\\"<>", 4) = 4',
        '12 write(4</etc/y>, "refused", 7) = -1 EPERM (Operation not permitted)',
        '12 unlinkat(5</tmp>, "z", 0) = 0',
        '12 renameat2(AT_FDCWD</home>, "a", AT_FDCWD</home>, "/b", RENAME_NOREPLACE) = 0',
        '12 mkdir("relative", 0777) = 0',
        '12 chmod("/etc/w", 0600) = 0',
        '12 symlink("/proc/kcore", "/tmp/link") = 0',
    ]
    log = tmp_path / "log"
    log.write_text("\n".join(lines), encoding="utf-8")
    assert list(changes_of(log)) == [
        ("openat", "/etc/x"),
        ("write", "/etc/x"),
        ("unlinkat", "/tmp/z"),
        ("renameat2", "/home/a"),
        ("renameat2", "/b"),
        ("chmod", "/etc/w"),
        ("symlink", "/tmp/link"),
    ]
