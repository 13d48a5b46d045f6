"""`glob`: patterns of paths, in order, limited, with a note about what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builtin.files.conftest import Call

from dragoman.builtin.files import tools
from dragoman.builtin.files import tree as tree_module
from dragoman.builtin.files.tools import Glob
from dragoman.builtin.files.tree import PathPattern
from dragoman.builtin.files.workspace import quoted
from dragoman.tools import Error


@pytest.fixture(autouse=True)
def tree(folder: Path, outside: Path) -> None:
    for name in (
        "README.md",
        "src/a.py",
        "src/b.ts",
        "src/deep/c.py",
        "src/deep/deeper/d.py",
        "src/a.d/e.py",
        ".hidden/f.py",
        "node_modules/x/g.py",
        "src/node_modules/h.py",
        ".git/config",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    (folder / "out").symlink_to(outside)
    (folder / "in").symlink_to("src")
    (folder / "link.py").symlink_to("src/a.py")


def paths(answer: str) -> list[str]:
    return [line for line in answer.splitlines() if not line.startswith("[")]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "*"}, [".git/", ".hidden/", "README.md", "in", "link.py", "node_modules/", "out", "src/"]),
        (
            {"pattern": "**/*.py"},
            [".hidden/f.py", "link.py", "src/a.d/e.py", "src/a.py", "src/deep/c.py", "src/deep/deeper/d.py"],
        ),
        ({"pattern": "src/*.{py,ts}"}, ["src/a.py", "src/b.ts"]),
        ({"pattern": "*.py", "path": "src"}, ["src/a.py"]),
        ({"pattern": "*.py", "path": "in"}, ["src/a.py"]),
        ({"pattern": "src/**"}, ["src/a.d/e.py", "src/a.py", "src/b.ts", "src/deep/c.py", "src/deep/deeper/d.py"]),
        ({"pattern": "src/**/deeper/*"}, ["src/deep/deeper/d.py"]),
        ({"pattern": "**/[c-d].py"}, ["src/deep/c.py", "src/deep/deeper/d.py"]),
        ({"pattern": "src/?.py"}, ["src/a.py"]),
        ({"pattern": "README.md"}, ["README.md"]),
        ({"pattern": "{folder}/src/a.py"}, ["src/a.py"]),
        ({"pattern": "node_modules/**"}, ["node_modules/x/g.py"]),
        ({"pattern": "**/node_modules/**/*.py"}, ["node_modules/x/g.py", "src/node_modules/h.py"]),
        ({"pattern": "*", "path": ".git"}, [".git/config"]),
        ({"pattern": "out/*"}, None),
        ({"pattern": "*.rs"}, []),
    ],
)
def test_patterns(folder: Path, call: Call, arguments: dict[str, str], found: list[str] | None) -> None:
    answer = call(Glob, **{key: value.replace("{folder}", str(folder)) for key, value in arguments.items()})
    if found is None:
        assert "leads out of the workspace" in answer
    else:
        assert paths(answer) == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "../*"}, 'cannot contain ".."'),
        ({"pattern": ""}, "the pattern is empty"),
        ({"pattern": "/etc/*"}, "leads out of the workspace"),
        ({"pattern": "*", "path": "nothing"}, "there is no such folder"),
        ({"pattern": "*", "path": "README.md"}, "is no folder"),
        ({"pattern": "{a,b}" * 7}, "more than 64 patterns"),
        ({"pattern": "x" * 1001}, "longer than 1000"),
    ],
)
def test_mistakes_are_told(call: Call, arguments: dict[str, str], words: str) -> None:
    answer = call(Glob, **arguments)
    assert answer.startswith("Error: ")
    assert words in answer


def test_what_is_left_out_is_told(call: Call) -> None:
    assert call(Glob, pattern="**/*.py").endswith("[left out: .git, node_modules (2 times)]")
    assert "name such a folder to look into it" in call(Glob, pattern="**/*.rs")
    assert "**/ at the beginning looks at any depth" in call(Glob, pattern="*.rs")


def test_the_answer_is_bounded(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MOST_PATHS", 3)
    lines = call(Glob, pattern="src/**").splitlines()
    assert lines[:3] == ["src/a.d/e.py", "src/a.py", "src/b.ts"]
    assert lines[3] == "[3 of 5 matches; use a narrower pattern or a path to see the others]"
    monkeypatch.setattr(tree_module, "MOST_ENTRIES", 4)
    assert "[stopped after 4 names; ask for a folder further down]" in call(Glob, pattern="**")


def test_a_name_with_a_line_end_stays_on_its_line(folder: Path, call: Call) -> None:
    (folder / "src/two\nlines.md").write_text("")
    assert paths(call(Glob, pattern="src/*.md")) == ['"src/two\\nlines.md"']


def test_a_deep_tree_does_not_use_up_descriptors(folder: Path, call: Call) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert paths(call(Glob, pattern="**/bottom")) == [quoted("d/" * 300 + "bottom")]


def test_no_pattern_takes_for_ever() -> None:
    """Backtracking over these would not end within a lifetime."""
    assert not PathPattern("*a" * 40 + "b").matches("a" * 200)
    assert not PathPattern("**/a/" * 40 + "b").matches("a/" * 200 + "c")


def test_patterns_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(Error, match="more than 64"):
        PathPattern("{1,2,3,4,5,6,7,8,9}{1,2,3,4,5,6,7,8,9}")
