"""Somebody else swaps folders and files for links to the outside, as fast as they can, while the tools are at work.

Another process does the swapping, 30,000 times in each test. A read gives what is inside or an error, and nothing is
ever written outside. The control shows that the attack works: a check of the path, followed by an open, lets it out.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dragoman.builtin.files.patch import apply_patch
from dragoman.builtin.files.search import grep
from dragoman.builtin.files.tools import edit, glob, read, write
from dragoman.tools import Error, ToolContext

SWAPS = 30_000
"""Swaps in each test, at the least."""
TRIES = 200
"""Rounds of attempts in each test, at the least, on a machine that is fast at swapping."""
SWAPPER = r"""
import ctypes, os, select, sys

inside, outside, swaps = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(inside)
libc = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2

def swap_folder():
    if libc.renameat2(-100, b"folder", -100, b"other", EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")

def swap_file(number):
    # One name, now a file and now a link to the outside; also where a tool has put something else there.
    if number % 2:
        os.symlink(outside + "/secret.txt", "next")
    else:
        with open("next", "w") as file:
            file.write("inside\n")
    os.rename("next", "file.txt")

number = 0
while number < swaps or not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(1000):
        number += 1
        swap_folder()
        if number % 16 == 0:
            swap_file(number // 16)
    if number == swaps:
        print("enough", flush=True)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """The workspace; in memory where that is possible, for there a swap takes a tenth of the time."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK | os.X_OK) else tmp_path
    with TemporaryDirectory(dir=place) as top:
        folder, outside = Path(top, "work"), Path(top, "outside")
        (folder / "folder").mkdir(parents=True)
        (folder / "folder/secret.txt").write_text("inside\n")
        (folder / "file.txt").write_text("inside\n")
        outside.mkdir()
        (outside / "secret.txt").write_text("the secret outside\n")
        (folder / "other").symlink_to(outside)
        yield folder


@contextmanager
def swapping(workspace: Path) -> Iterator[Callable[[], bool]]:
    """Swap while the body runs. Yield a function that says whether more swaps are needed."""
    command = [sys.executable, "-c", SWAPPER, str(workspace), str(workspace.parent / "outside"), str(SWAPS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        output = process.stdout
        try:
            yield lambda: not select.select([output], [], [], 0)[0]
        finally:
            process.stdin.close()
            status = process.wait()
        assert status == 0


def picture(workspace: Path) -> dict[str, bytes]:
    """Return the content of everything outside."""
    return {path.name: path.read_bytes() for path in (workspace.parent / "outside").iterdir()}


def restore(workspace: Path) -> None:
    """Put the file and the folder back under the names that the swaps exchanged."""
    if (workspace / "folder").is_symlink():
        (workspace / "folder").unlink()
        (workspace / "other").rename(workspace / "folder")
    (workspace / "file.txt").unlink()
    (workspace / "file.txt").write_text("inside\n")


@pytest.mark.usefixtures("resolving")
def test_reading_and_writing_never_get_out(workspace: Path) -> None:
    context = ToolContext(workspace=str(workspace))
    before = picture(workspace)
    read_paths = ("folder/secret.txt", "file.txt", "other/secret.txt", "folder/../file.txt")
    patch = "--- a/folder/secret.txt\n+++ b/folder/secret.txt\n@@ -1 +1,2 @@\n inside\n+patched\n"
    attempts: list[Callable[[int], str]] = [
        *(lambda number, path=path: str(read(path, context)) for path in read_paths),  # type: ignore[misc]
        lambda number: write("folder/secret.txt", f"inside\n{number}\n", context),
        lambda number: write(f"folder/new/{number % 100}.txt", "inside\n", context),
        lambda number: write("file.txt", f"inside {number}\n", context),
        lambda number: apply_patch(patch, context),
        lambda number: edit("folder/secret.txt", "inside", "inside, edited", context),
        lambda number: "" if number % 100 else grep("secret|inside", context) + glob("**", context),
    ]
    number = 0
    with swapping(workspace) as goes_on:
        while goes_on() or number < TRIES:
            number += 1
            for attempt in attempts:
                try:
                    answer = attempt(number)
                except Error as problem:
                    answer = problem.reason
                assert "secret outside" not in answer
    assert picture(workspace) == before
    # The same attempts work once nobody swaps, so what was refused above was refused because of the swaps.
    restore(workspace)
    for path in read_paths[:2]:
        assert "inside" in str(read(path, context))
    for attempt in attempts[4:7]:
        attempt(number)
    left = [path for path in workspace.rglob(".dragoman-*") if not path.is_symlink()]
    assert left == []


def test_a_check_of_the_path_alone_does_get_out(workspace: Path) -> None:
    """The control: if nothing could come in between, the test above would show nothing."""
    escapes = 0
    with swapping(workspace) as goes_on:
        while goes_on() or not escapes:  # the time limit of tests ends it
            path = workspace / "folder/secret.txt"
            try:
                if os.path.realpath(path).startswith(f"{workspace}/"):
                    escapes += "secret outside" in path.read_text()
            except OSError:
                continue
    assert escapes > 0
