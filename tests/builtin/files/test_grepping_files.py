"""`grep`: the same result with ripgrep and without, limited, and in limited time for every pattern."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.files.conftest import Call

from dragoman.builtin.files import search
from dragoman.builtin.files.search import Grep, Query, Search, find_ripgrep, stop_after
from dragoman.builtin.files.workspace import Workspace

FILES: dict[str, bytes] = {
    "src/a.py": b"import os\n\n\ndef first():\n    return os\n\n\ndef second():\n    return first()\n",
    "src/deep/b.py": b"def third(): pass\n" * 3,
    "src/crlf.txt": b"one\r\ntwo def\r\nthree def\r\n",
    "src/utf16.txt": "def fünf\nsechs\n".encode("utf-16"),
    "src/bom.txt": b"\xef\xbb\xbfdef bom\n",
    "src/latin.txt": b"caf\xe9 def\nplain def\n",
    "src/unended.txt": b"last def",
    "src/long.js": b"x" * 3000 + b" def " + b"y" * 3000 + b"\n",
    "src/unicode \xc3\xa4.md": "ÄÖÜ def Straße\n".encode(),
    "src/two\nlines.md": b"def\n",
    "src/-e.md": b"def\n",
    "src/empty": b"",
    "binary": b"\0\1def\n",
    "node_modules/x.py": b"def hidden\n",
    ".github/ci.yml": b"def: ci\n",
    "tabs.txt": b"\tdef\tx\n  def\n",
}
needs_ripgrep = pytest.mark.needs("rg", package="ripgrep")


@pytest.fixture(autouse=True)
def tree(folder: Path, outside: Path) -> None:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (outside / "secret.txt").write_text("def secret\n")
    (folder / "out").symlink_to(outside)
    (folder / "out.txt").symlink_to(outside / "secret.txt")


@pytest.fixture(params=[pytest.param("ripgrep", marks=needs_ripgrep), "own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "own":
        monkeypatch.setattr(search, "find_ripgrep", lambda workspace: None)
    return str(request.param)


CALLS: list[dict[str, Any]] = [
    {"pattern": "def"},
    {"pattern": "^def"},
    {"pattern": "def$"},
    {"pattern": r"\bdef\b", "context": 1},
    {"pattern": r"return|import", "context": 2},
    {"pattern": "DEF", "ignore_case": True},
    {"pattern": "DEF"},
    {"pattern": "straSSe|STRAßE", "ignore_case": True},
    {"pattern": "ü"},
    {"pattern": "def", "output": "files"},
    {"pattern": "def", "output": "count"},
    {"pattern": "def", "glob": "*.py"},
    {"pattern": "def", "glob": "src/**/*.py"},
    {"pattern": "def", "glob": "!*.py", "output": "files"},
    {"pattern": "def", "glob": "*.{md,txt}", "output": "files"},
    {"pattern": "def", "path": "src/deep"},
    {"pattern": "def", "path": "src/a.py"},
    {"pattern": "def", "path": "binary"},
    {"pattern": "def", "path": "node_modules"},
    {"pattern": "def", "limit": 3},
    {"pattern": "def", "limit": 2, "output": "files"},
    {"pattern": "-e"},
    {"pattern": r"^$"},
    {"pattern": r"^\s+def"},
    {"pattern": r"d[a-e]f\s*\w+"},
    {"pattern": r"(?<=return )\w+"},
    {"pattern": r"(d)ef.*\1ef"},
    {"pattern": r"first\(\)"},
    {"pattern": "zebra"},
    {"pattern": r"a\nb"},
    {"pattern": "x{3}.*def"},
    {"pattern": "def", "path": "out"},
    {"pattern": "def", "path": "out.txt"},
    {"pattern": "def", "path": "nothing"},
    {"pattern": "first("},
    {"pattern": "[[:alpha:]]"},
    {"pattern": "[^[]def"},
    {"pattern": "[a-z&&[^d]]ef"},
    {"pattern": r"[\[\]d]ef"},
    {"pattern": "[]d]ef"},
    {"pattern": "[^]x]ef"},
    {"pattern": "a\nb"},
    {"pattern": "*"},
]


@needs_ripgrep
@pytest.mark.parametrize("arguments", CALLS, ids=lambda arguments: " ".join(map(str, arguments.values())))
def test_with_and_without_ripgrep_the_answer_is_the_same(
    call: Call, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    assert find_ripgrep("/nowhere") is not None
    by_ripgrep = call(Grep, **arguments)
    monkeypatch.setattr(search, "find_ripgrep", lambda workspace: None)
    assert call(Grep, **arguments) == by_ripgrep


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"pattern": "first", "path": "src/a.py"}, "src/a.py:4:def first():\nsrc/a.py:9:    return first()"),
        (
            {"pattern": "first", "path": "src/a.py", "context": 1},
            "src/a.py-3-\nsrc/a.py:4:def first():\nsrc/a.py-5-    return os\n--\n"
            "src/a.py-8-def second():\nsrc/a.py:9:    return first()",
        ),
        ({"pattern": "third", "output": "count"}, "src/deep/b.py:3\n[not searched, for they are no text: 1 file]"),
        ({"pattern": "caf", "path": "src"}, "src/latin.txt:1:café def"),
        ({"pattern": "fünf", "path": "src"}, "src/utf16.txt:1:def fünf"),
        ({"pattern": "def$", "path": "src/crlf.txt"}, "src/crlf.txt:2:two def\nsrc/crlf.txt:3:three def"),
        ({"pattern": "def", "path": "src/two\nlines.md"}, '"src/two\\nlines.md":1:def'),
        ({"pattern": "zebra", "path": "src/a.py"}, "[no match in 1 file]"),
        ({"pattern": "first(", "path": "src"}, "Error: bad pattern: missing ), unterminated subpattern at position 5"),
        ({"pattern": "x", "path": "../outside"}, "Error: ../outside leads out of the workspace"),
        ({"pattern": "x", "path": "out.txt"}, "Error: out.txt leads out of the workspace"),
    ],
)
def test_answers(call: Call, arguments: dict[str, Any], answer: str) -> None:
    found = call(Grep, **arguments)
    if "--" in answer or "[" in answer:
        assert found.startswith(answer)
    else:
        assert found.split("\n[")[0].startswith(answer)


@pytest.mark.usefixtures("engine")
def test_of_a_long_line_the_part_with_the_match_is_shown(call: Call) -> None:
    answer = call(Grep, pattern="def", path="src/long.js")
    assert answer == "src/long.js:1:[...]" + "x" * 99 + " def " + "y" * 296 + "[...]"


@pytest.mark.usefixtures("engine")
def test_links_are_not_followed_and_large_folders_left_out(call: Call) -> None:
    files = call(Grep, pattern="def", output="files").splitlines()
    assert not {"out.txt", "out/secret.txt", "node_modules/x.py"} & set(files)
    assert ".github/ci.yml" in files
    assert files[-1] == "[left out: node_modules]"


@pytest.mark.usefixtures("engine")
def test_a_pattern_that_never_ends_is_stopped(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would never end the search, and could not be interrupted."""
    (folder / "evil.txt").write_text("a" * 60 + "!\n")
    monkeypatch.setattr(search, "TIME_LIMIT", 0.5)
    answer = call(Grep, pattern=r"^(a|a)*$(?!x)", path="evil.txt")
    assert answer == "[stopped after 0 seconds; not everything was searched]"


@pytest.mark.usefixtures("engine")
def test_a_call_that_was_given_up_stops(folder: Path) -> None:
    with Workspace(folder) as workspace:
        search = Search(workspace, Query("def"), stop_after(60, lambda: True))
        assert list(search.hits(iter(["src/a.py"]))) == []
    assert search.is_cut


def test_where_no_python_can_be_started_the_search_is_done_here(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_ripgrep", lambda workspace: None)
    elsewhere = call(Grep, pattern="def", context=1)
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr("dragoman.own_code.find_program", lambda name, *folders: None)
    monkeypatch.setattr(search, "_run", None)
    assert call(Grep, pattern="def", context=1) == elsewhere


def test_a_program_in_the_workspace_is_not_taken_for_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = folder / "bin/rg"
    trap.parent.mkdir()
    trap.write_text("#!/bin/sh\necho caught\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    honest = folder.parent / "bin"
    honest.mkdir()
    (honest / "rg").symlink_to(trap)
    monkeypatch.setenv("PATH", os.pathsep.join([str(trap.parent), ".", "", "bin", str(honest)]))
    monkeypatch.chdir(folder / "bin")
    assert find_ripgrep(str(folder)) is None


@needs_ripgrep
def test_settings_of_ripgrep_do_not_count(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = call(Grep, pattern="def")
    settings = folder / "ripgreprc"
    settings.write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    (folder / ".ignore").write_text("*.py\n")
    assert call(Grep, pattern="def") == plan


@pytest.mark.usefixtures("engine")
def test_a_file_that_cannot_be_searched_does_not_stop_the_others(folder: Path, call: Call) -> None:
    os.mkfifo(folder / "src/pipe")
    assert "src/a.py:4:def first():" in call(Grep, pattern="first")


def test_many_files_are_searched_a_few_at_a_time(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_AT_ONCE", 2)
    before = len(os.listdir("/proc/self/fd"))
    assert call(Grep, pattern="third", output="count").startswith("src/deep/b.py:3")
    assert "the first 2 matches; there are more" in call(Grep, pattern="def", limit=2)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_line_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch, folder: Path, call: Call) -> None:
    monkeypatch.setattr(search, "_LONGEST_MESSAGE", 100_000)
    (folder / "endless").write_bytes(b"y" * 200_000 + b"needle\nneedle\n")
    answer = call(Grep, pattern="needle", path="endless")
    assert answer.splitlines()[1] == "endless:2:needle"
    assert answer.splitlines()[0] == "endless:0:[a line of more than 100,000 bytes]"
