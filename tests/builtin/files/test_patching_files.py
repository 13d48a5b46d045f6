"""`apply_patch`: two notations of a patch, applied as a whole or not at all, and compared with git."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builtin.files.conftest import Call

from dragoman.builtin.files.patch import ApplyPatch, apply_patch
from dragoman.tools import Error, ToolContext

SIX = "one\ntwo\nthree\nfour\nfive\nsix\n"


def marked(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def diff(*lines: str) -> str:
    return "\n".join(["--- a/file", "+++ b/file", *lines, ""])


@pytest.mark.parametrize(
    ("before", "patch", "after", "note"),
    [
        (SIX, diff("@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"), SIX.replace("two", "2"), ""),
        (SIX, diff("@@ -2 +2,2 @@", " two", "+2"), SIX.replace("two\n", "two\n2\n"), ""),
        (SIX, diff("@@ -0,0 +1 @@", "+zero"), "zero\n" + SIX, ""),
        (SIX, diff("@@ -6,0 +7 @@", "+seven"), SIX + "seven\n", ""),
        (
            SIX,
            diff("@@ -1,3 +1,3 @@ def x():", " three", "-four", "+4", " five"),
            SIX.replace("four", "4"),
            "found 2 lines further down",
        ),
        (
            SIX,
            diff("@@ -1,9 +1,2 @@", " one", "-two", "+2", " three"),
            SIX.replace("two", "2"),
            "its line counts are wrong",
        ),
        (
            SIX,
            diff("@@ -1 +1 @@", " one", "-two", "+2", " three"),
            SIX.replace("two", "2"),
            "its line counts are wrong",
        ),
        (SIX, diff("@@ ... @@", " one", "-two", "+2"), SIX.replace("two", "2"), "it has no line numbers"),
        ("a  \nb\n", diff("@@ -1,2 +1,2 @@", " a", "-b", "+c"), "a  \nc\n", "white space at the ends of lines differs"),
        (
            SIX,
            diff("@@ -1,4 +1,4 @@", " ONE", " two", "-three", "+3", " four"),
            SIX.replace("three", "3"),
            "up to 1 line at its ends",
        ),
        ("a\nb", diff("@@ -1,2 +1,2 @@", " a", "-b", "+c"), "a\nc\n", "line ends differ"),
        (
            "a\nb",
            diff("@@ -1,2 +1,2 @@", " a", "-b", r"\ No newline at end of file", "+c", r"\ No newline at end of file"),
            "a\nc",
            "",
        ),
        ("a", diff("@@ -1 +1,2 @@", " a", "+b"), "a\nb\n", "line ends differ"),
        ("a\r\nb\r\n", diff("@@ -1,2 +1,2 @@", " a", "-b", "+c"), "a\r\nc\r\n", "written as CR LF"),
        ("a\r\nb\r\n", diff("@@ -1,2 +1,2 @@", " a\r", "-b\r", "+c\r"), "a\r\nc\r\n", ""),
        ("a\nb\n", diff("@@ -1,2 +1,2 @@", " a", "-b", "+c").replace("\n", "\r\n"), "a\nc\n", ""),
        ("a\n\nb\n", diff("@@ -1,3 +1,3 @@", " a", "", "-b", "+c"), "a\n\nc\n", ""),
        (SIX, marked("*** Update File: file", "@@", " one", "-two", "+2"), SIX.replace("two", "2"), ""),
        (
            SIX,
            marked("*** Update File: file", "-two", "+2", "", "*** Delete File: other"),
            SIX.replace("two", "2"),
            "deleted other",
        ),
        (SIX, marked("*** Update File: file", "@@ three", "+3.5"), SIX.replace("four", "3.5\nfour"), ""),
        ("x\na\ny\na\n", marked("*** Update File: file", "@@ y", "-a", "+b"), "x\na\ny\nb\n", ""),
        ("a\nb\na\n", marked("*** Update File: file", "-a", "+c", "*** End of File"), "a\nb\nc\n", ""),
        (SIX, marked("*** Update File: file", "+seven"), SIX + "seven\n", "names no place, and was put at the end"),
        (
            SIX,
            marked("*** Update File: file", "@@", "-one", "+1", "@@", "-six", "+6"),
            "1\ntwo\nthree\nfour\nfive\n6\n",
            "",
        ),
        (SIX, "*** Update File: file\n-two\n+2", SIX.replace("two", "2"), ""),
        (SIX, "Here you are:\n```diff\n" + diff("@@ -2 +2 @@", "-two", "+2") + "```\n", SIX.replace("two", "2"), ""),
    ],
)
def test_a_patch_is_applied(folder: Path, call: Call, before: str, patch: str, after: str, note: str) -> None:
    (folder / "file").write_bytes(before.encode())
    (folder / "other").write_text("")
    answer = call(ApplyPatch, patch=patch)
    assert not answer.startswith("Error"), answer
    assert (folder / "file").read_bytes() == after.encode()
    if note:
        assert note in answer
    else:
        assert "hunk" not in answer  # What fits exactly needs no words.


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("hello", "this is no patch"),
        (
            diff("@@ -1 +1 @@", "-nothing alike", "+x"),
            "file: hunk 1 (line 8 of the patch) does not fit. Nothing in the",
        ),
        (diff("@@ -1 +1 @@", "-twoo", "+x"), "The nearest lines are:"),
        (diff("@@ -1,2 +1 @@", "-two", "-THREE", "+x"), "does not fit"),
        (diff("@@ -1,2 +1 @@", " two", "-twice", "+x"), "does not fit"),
        (diff("@@ -9 +9 @@", "-same", "+x"), "fits at several places (lines 7, 8)"),
        (diff("@@ -5 +5 @@", "-five", "+5", "@@ -1 +1 @@", "-one", "+1"), "put hunks in the order of the file"),
        (diff("@@ -99,0 +100 @@", "+x"), "is to go behind line 99, but the file has 8 lines"),
        (diff("@@ -2 +2 @@", "-deux", "+two"), "The new text is there already, at line 2"),
        (diff(), "this file has no hunks"),
        ("@@ -1 +1 @@\n-a\n+b\n", "belongs to no file"),
        ("--- a/absent\n+++ b/absent\n@@ -1 +1 @@\n-a\n+b\n", "there is no such file"),
        ("--- /dev/null\n+++ b/file\n@@ -0,0 +1 @@\n+a\n", "file is there already"),
        ("--- a/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "has more in it than the patch"),
        ("--- a/file\n+++ b/../../out\n@@ -2 +2 @@\n-two\n+2\n", "leads out of the workspace"),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
            "mode 120000",
        ),
        ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\n", "binary content"),
        (marked("*** Update File: file", "=bad"), "lines of a hunk begin with"),
        (marked("*** Add File: new", "no plus"), "lines of a new file begin with +"),
        (marked("*** Rename File: file"), "unknown heading"),
        (
            marked("*** Update File: file", "@@ nowhere", "-two", "+2"),
            "begins behind a line that is not there: nowhere",
        ),
        (marked("*** Update File: file", "-same", "+x"), "fits at several places"),
        (marked("*** Update File:", "-same", "+x"), "the path is missing"),
        (marked("*** Delete File: file", "*** Update File: file", "-two", "+2"), "is gone by then"),
    ],
)
def test_what_does_not_fit_changes_nothing(folder: Path, call: Call, patch: str, words: str) -> None:
    """Not even a file before it that would have fitted."""
    (folder / "file").write_text(SIX + "same\nsame\n")
    (folder / "first").write_text("first\n")
    if patch.startswith("***"):
        patch = patch.replace("*** Begin Patch", "*** Begin Patch\n*** Update File: first\n-first\n+1")
    elif patch.startswith(("---", "diff")):
        patch = "--- a/first\n+++ b/first\n@@ -1 +1 @@\n-first\n+1\n" + patch
    answer = call(ApplyPatch, patch=patch)
    assert answer.startswith("Error: ")
    assert words in answer
    assert (folder / "file").read_text() == SIX + "same\nsame\n"
    assert (folder / "first").read_text() == "first\n"
    assert sorted(path.name for path in folder.iterdir()) == ["file", "first"]


def test_files_come_go_and_get_new_names(folder: Path, call: Call) -> None:
    (folder / "old.sh").write_text("a\nb\n")
    (folder / "old.sh").chmod(0o750)
    (folder / "gone.bin").write_bytes(b"\0\1")
    (folder / "moved.bin").write_bytes(b"\0\2")
    answer = call(
        ApplyPatch,
        patch=(
            "diff --git a/old.sh b/sub/new.sh\nsimilarity index 50%\nrename from old.sh\nrename to sub/new.sh\n"
            "--- a/old.sh\n+++ b/sub/new.sh\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
            "diff --git a/gone.bin b/gone.bin\ndeleted file mode 100644\nindex 1..0\n"
            "diff --git a/moved.bin b/there.bin\nsimilarity index 100%\nrename from moved.bin\nrename to there.bin\n"
            "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
            'diff --git "a/n\\303\\244me" "b/n\\303\\244me"\nnew file mode 100644\n--- /dev/null\n'
            '+++ "b/n\\303\\244me"\n@@ -0,0 +1 @@\n+x\n'
            "diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n"
        ),
    )
    assert answer.splitlines() == [
        "renamed old.sh to sub/new.sh (1 line added, 1 removed)",
        "deleted gone.bin",
        "renamed moved.bin to there.bin",
        "added run (1 line added, 0 removed)",
        "added näme (1 line added, 0 removed)",
        "added empty",
    ]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "sub/new.sh": b"a\nc\n",
        "there.bin": b"\0\2",
        "run": b"#!/bin/sh\n",
        "näme": b"x\n",
        "empty": b"",
    }
    assert (folder / "sub/new.sh").stat().st_mode & 0o777 == 0o750
    assert (folder / "run").stat().st_mode & 0o777 == 0o755


def test_moving_in_the_marked_form(folder: Path, call: Call) -> None:
    (folder / "a").write_text("x\ny\n")
    call(ApplyPatch, patch=marked("*** Update File: a", "*** Move to: b/c", "@@", " x", "-y", "+z"))
    assert not (folder / "a").exists()
    assert (folder / "b/c").read_text() == "x\nz\n"


def test_the_same_file_may_come_twice(folder: Path, call: Call) -> None:
    (folder / "file").write_text(SIX)
    call(
        ApplyPatch, patch=marked("*** Update File: file", "-one", "+1", "*** Update File: ./file", "-1", "-two", "+12")
    )
    assert (folder / "file").read_text() == SIX.replace("one\ntwo", "12")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ä\nb\n".encode("utf-16"), "ä\nß\n".encode("utf-16")),
        (b"\xef\xbb\xbf\xc3\xa4\nb\n", b"\xef\xbb\xbf\xc3\xa4\n\xc3\x9f\n"),
        (b"\xe4\nb\n", b"\xe4\n\xdf\n"),
        (b"\xc3\xa4\nb\n\xff\n", b"\xc3\xa4\n\xc3\x9f\n\xff\n"),
    ],
)
def test_encodings_stay(folder: Path, call: Call, before: bytes, after: bytes) -> None:
    (folder / "file").write_bytes(before)
    call(ApplyPatch, patch=diff("@@ -1,2 +1,2 @@", " ä", "-b", "+ß"))
    assert (folder / "file").read_bytes() == after


def test_a_patch_that_says_nothing_new_changes_nothing(folder: Path, call: Call) -> None:
    (folder / "file").write_text("a\n")
    before = (folder / "file").stat().st_ino
    assert "changes nothing" in call(ApplyPatch, patch=diff("@@ -1 +1 @@", "-a", "+a"))
    assert (folder / "file").stat().st_ino == before


# ---- git as the judge ----------------------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["a", "b", "c", "  d", "-- e", "++ f", "", "@@ g", "\\ h", "i\r"]), max_size=14)
ENDED = st.booleans()


def text_of(lines: list[str], ended: bool) -> bytes:
    return ("\n".join(lines) + ("\n" if ended and lines else "")).encode()


def git(folder: Path, *arguments: str, accept: tuple[int, ...] = (0,)) -> bytes:
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode in accept, done.stderr
    return done.stdout


def made_by_git(folder: Path, before: bytes, after: bytes, around: int) -> str:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a/file").write_bytes(before)
    (folder / "b/file").write_bytes(after)
    made = git(folder, "diff", "--no-index", "--no-prefix", f"-U{around}", "a/file", "b/file", accept=(0, 1))
    return made.decode()


@settings(max_examples=40)
@given(before=LINES, after=LINES, ended=ENDED, ended_after=ENDED, around=st.integers(0, 4))
def test_what_git_wrote_is_applied_exactly(
    before: list[str], after: list[str], ended: bool, ended_after: bool, around: int
) -> None:
    old, new = text_of(before, ended), text_of(after, ended_after)
    assume(old and new and old != new)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        patch = made_by_git(top, old, new, around)
        work = top / "work"
        work.mkdir()
        (work / "file").write_bytes(old)
        answer = apply_patch(patch, ToolContext(workspace=str(work)))
        assume("written as CR LF" not in answer)  # For models, who do not see how lines end; and it is told.
        assert (work / "file").read_bytes() == new
    assert "hunk" not in answer


@settings(max_examples=25)
@given(before=LINES, after=LINES, other=LINES, around=st.integers(1, 3))
def test_on_another_file_git_agrees_or_something_is_told(
    before: list[str], after: list[str], other: list[str], around: int
) -> None:
    """The file is not the one that the patch was made for. What is applied without a word, git applies the same way."""
    old, new, there = text_of(before, True), text_of(after, True), text_of(other + before, True)
    assume(old and new and old != new and there)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        patch = made_by_git(top, old, new, around)
        (top / "patch").write_bytes(patch.encode())
        work, judge = top / "work", top / "judge"
        for folder in (work, judge):
            folder.mkdir()
            (folder / "file").write_bytes(there)
        git(judge, "init", "-q")
        judged = subprocess.run(["git", "apply", "--unidiff-zero", str(top / "patch")], cwd=judge, capture_output=True)
        try:
            answer = apply_patch(patch, ToolContext(workspace=str(work)))
        except Error:
            assert (work / "file").read_bytes() == there
            return
        if "hunk" not in answer and "CR LF" not in answer:
            assert judged.returncode == 0
            assert (work / "file").read_bytes() == (judge / "file").read_bytes()


@pytest.mark.parametrize("head", ["@@\n", "@@ anchor\n"])
def test_many_hunks_in_a_large_file_are_bounded(
    folder: Path, call: Call, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.builtin.files.patch._MOST_SEARCHED", 1 << 21)
    content = "".join(f"line {number}\nanchor\n" for number in range(3_000))
    (folder / "file").write_text(content)
    hunks = "".join(f"{head}-line {number}\n+new {number}\n" for number in range(1, 2_000))
    answer = call(ApplyPatch, patch=f"*** Begin Patch\n*** Update File: file\n{hunks}*** End Patch\n")
    assert "too many hunks before it for so large a file" in str(answer)
    assert (folder / "file").read_text() == content
