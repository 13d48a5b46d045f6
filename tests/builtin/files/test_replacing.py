"""Files change as a whole or not at all, and a failure leaves no other file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builtin.files.conftest import Call

from dragoman.builtin.files import atomic
from dragoman.builtin.files.atomic import Change, apply_changes
from dragoman.builtin.files.patch import ApplyPatch
from dragoman.builtin.files.tools import Write
from dragoman.builtin.files.workspace import Workspace
from dragoman.tools import Error

pytestmark = pytest.mark.usefixtures("resolving")


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def failing(number: int, allowed: int = 0) -> object:
    """A stand-in for os.write that fails after so many bytes."""
    real = os.write
    left = allowed

    def write(descriptor: int, content: bytes) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(number, os.strerror(number))
        written = real(descriptor, content[:left])
        left -= written
        return written

    return write


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EIO, "the disk reports an error"),
        (errno.EDQUOT, "the quota of the disk is used up"),
    ],
)
@pytest.mark.parametrize("allowed", [0, 3])
def test_a_failing_disk_leaves_the_old_file(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch, number: int, words: str, allowed: int
) -> None:
    (folder / "a.txt").write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing(number, allowed))
        answer = call(Write, path="a.txt", content="the new content")
        fresh = call(Write, path="new/folder/b.txt", content="the new content")
    assert answer == f"Error: a.txt: {words}"
    assert fresh == f"Error: new/folder/b.txt: {words}"
    assert (folder / "a.txt").read_text() == "old"
    assert names(folder) == ["a.txt"]


def test_a_file_that_may_not_grow_is_left_as_it_was(folder: Path) -> None:
    """A real limit of the system, in a process of its own."""
    (folder / "a.txt").write_text("old")
    code = """
import resource, sys
from dragoman.builtin.files.tools import write
from dragoman.tools import Error, ToolContext
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write("a.txt", "x" * 100_000, ToolContext(workspace=sys.argv[1]))
except Error as problem:
    print(problem.reason)
"""
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "a.txt: the file would be larger than is allowed\n"
    assert (folder / "a.txt").read_text() == "old"
    assert names(folder) == ["a.txt"]


PATCH = """\
*** Begin Patch
*** Update File: a.txt
-old a
+new a
*** Delete File: b.txt
*** Add File: made/c.txt
+new c
*** Update File: d.txt
-old d
+new d
*** End Patch
"""


@pytest.mark.parametrize("fault", [1, 2, 3, 4])
def test_where_one_of_several_files_fails_none_is_changed(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    for name in "abd":
        (folder / f"{name}.txt").write_text(f"old {name}\n")
    (folder / "b.txt").chmod(0o640)
    before = {path.name: (path.read_bytes(), path.stat().st_ino, path.stat().st_mode) for path in folder.iterdir()}
    real = atomic._Step.commit
    commits = 0

    def commit(self: atomic._Step, keep: bool) -> None:
        nonlocal commits
        commits += 1
        if commits == fault:
            raise Error("no")
        real(self, keep)

    with monkeypatch.context() as patched:
        patched.setattr(atomic._Step, "commit", commit)
        assert call(ApplyPatch, patch=PATCH) == "Error: no"
    after = {path.name: (path.read_bytes(), path.stat().st_ino, path.stat().st_mode) for path in folder.iterdir()}
    assert after == before
    assert "updated a.txt" in call(ApplyPatch, patch=PATCH)
    assert names(folder) == ["a.txt", "d.txt", "made", "made/c.txt"]
    assert (folder / "d.txt").read_text() == "new d\n"


def test_a_file_system_without_hard_links_is_served_as_well(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*positional: object, **named: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    for name in "abd":
        (folder / f"{name}.txt").write_text(f"old {name}\n")
    assert call(Write, path="x.txt", content="x").startswith("created")
    assert "added made/c.txt" in call(ApplyPatch, patch=PATCH)
    assert names(folder) == ["a.txt", "d.txt", "made", "made/c.txt", "x.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o660])
def test_permissions_stay(folder: Path, call: Call, mode: int) -> None:
    (folder / "a.sh").write_text("old")
    (folder / "a.sh").chmod(mode)
    call(Write, path="a.sh", content="new")
    assert (folder / "a.sh").stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_usual_permissions(folder: Path, call: Call) -> None:
    (folder / "usual").write_text("")
    call(Write, path="a", content="new")
    assert (folder / "a").stat().st_mode == (folder / "usual").stat().st_mode


def test_a_read_only_file_is_left_alone(folder: Path, call: Call) -> None:
    (folder / "a").write_text("old")
    (folder / "a").chmod(0o444)
    assert call(Write, path="a", content="new") == "Error: a is read-only (mode 0444), and is left alone"
    assert (folder / "a").read_text() == "old"


def test_a_link_is_written_through_to_where_it_leads(folder: Path, call: Call) -> None:
    (folder / "real").mkdir()
    (folder / "real/a").write_text("old")
    (folder / "link").symlink_to("real/a")
    (folder / "to_be").symlink_to("real/new/b")
    assert "over a link: the file is real/a" in call(Write, path="link", content="new")
    assert "created" in call(Write, path="to_be", content="new")
    assert (folder / "link").is_symlink()
    assert (folder / "real/a").read_text() == (folder / "real/new/b").read_text() == "new"


def test_the_other_names_of_a_file_keep_the_old_content(folder: Path, outside: Path, call: Call) -> None:
    """A hard link cannot be told from a file of one's own; so its content may be read, but never be changed."""
    os.link(outside / "secret.txt", folder / "mine")
    assert "2 names (hard links); the other ones keep the old content" in call(Write, path="mine", content="new")
    assert (outside / "secret.txt").read_text() == "the secret outside\n"
    assert (folder / "mine").read_text() == "new"


def test_what_changed_in_between_is_not_overwritten(folder: Path) -> None:
    (folder / "a").write_text("old")
    with Workspace(folder) as workspace:
        expected = workspace.find("a", digest=True)
        absent = workspace.find("b")
        (folder / "a").write_text("mine")  # The same file, with another content.
        (folder / "b").write_text("mine")
        for found in (expected, absent):
            with pytest.raises(Error, match="changed while the call was at work"):
                apply_changes(workspace, [Change(found, b"new")])
    assert (folder / "a").read_text() == (folder / "b").read_text() == "mine"
    assert names(folder) == ["a", "b"]


def test_a_file_is_made_replaced_and_removed(folder: Path) -> None:
    with Workspace(folder) as workspace:
        for content in (b"\x00\xff", b"more"):
            apply_changes(workspace, [Change(workspace.find("x/a"), content)])
            assert (folder / "x" / "a").read_bytes() == content
            assert workspace.names("x") == ["a"]
        apply_changes(workspace, [Change(workspace.find("x/a"), None)])
        with pytest.raises(Error, match="is a folder"):
            apply_changes(workspace, [Change(workspace.find("x"), None)])
        assert workspace.names("x") == []
    assert names(folder) == ["x"]


def test_no_descriptor_is_left_open(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in "abd":
        (folder / f"{name}.txt").write_text(f"old {name}\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing(errno.EIO))
        call(ApplyPatch, patch=PATCH)
    call(ApplyPatch, patch=PATCH)
    call(Write, path="a.txt/x", content="")
    call(Write, path="../x", content="")
    assert len(os.listdir("/proc/self/fd")) == before
