"""Which paths are protected: by name, at any depth, in any spelling that a file system may take for the same."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.rows import DATA
from tests.tables import each_row

from dragoman.config.files import PROJECT_FILE
from dragoman.sandbox import Box, Sandbox
from dragoman.sandbox.protected_names import PROTECTED_FILES, PROTECTED_FOLDERS, PROTECTED_PATTERNS, is_protected

# --------------------------------------------------------------------------------------------------------------------
# The table in tests/data: paths as the documentation of a program names them, and the page that does.

DOCUMENTED: dict[str, dict[str, str]] = tomllib.loads((DATA / "protected_paths.toml").read_text(encoding="utf-8"))
ROWS = [(path, page) for pages in DOCUMENTED.values() for page, paths in pages.items() for path in paths.split()]


@each_row(("path", "page"), ROWS)
def test_what_a_program_runs_or_trusts_on_its_own_is_protected(path: str, page: str) -> None:
    assert page
    assert is_protected(path)
    assert is_protected(path.upper())
    assert is_protected(f"some/where/{path}")
    assert is_protected(f"{path}.")
    assert is_protected(path.replace("/", "\\"))


def test_every_entry_has_a_page() -> None:
    paths = [path.casefold() for path, _ in ROWS]
    files = {each.casefold() for each in PROTECTED_FILES}
    folders = {each.casefold() for each in PROTECTED_FOLDERS}

    assert files <= set(paths)
    assert not [folder for folder in folders if not any(path.startswith(f"{folder}/") for path in paths)]
    assert len(files) == len(PROTECTED_FILES) and len(folders) == len(PROTECTED_FOLDERS)
    assert not files & set(PROTECTED_PATTERNS)


def test_our_own_file_is_among_them() -> None:
    assert PROJECT_FILE in PROTECTED_FILES


# ---- boxes ---------------------------------------------------------------------------------------------------------

AT_THE_TOP = sorted({*PROTECTED_FILES, *(f"{folder}/x" for folder in PROTECTED_FOLDERS)})


def test_no_command_in_a_box_creates_one(sandbox: Sandbox, tmp_path: Path, run_in: Any) -> None:
    workspace = tmp_path / "workspace"
    (workspace / ".git/objects").mkdir(parents=True)
    script = "\n".join(f"mkdir -p '{Path(path).parent}'; echo new > '{path}'" for path in AT_THE_TOP)
    run_in(sandbox, f"exec 2>/dev/null\n{script}\ntrue", Box(workspace=str(workspace), aside=str(tmp_path)))

    assert [path for path in AT_THE_TOP if (workspace / path).exists()] == []


CHANGING = {
    "the file": "echo new > '{path}'; rm -f '{path}'",
    "the folder above": "mv '{top}' moved; mkdir -p '{folder}'; echo new > '{path}'; rm -rf moved",
    "a link": "mv '{top}' moved; ln -s moved '{top}'; echo new > '{path}'; rm -f '{top}'; mv moved '{top}'",
}


@pytest.mark.parametrize("what", CHANGING)
def test_no_command_in_a_box_changes_one(sandbox: Sandbox, tmp_path: Path, run_in: Any, what: str) -> None:
    workspace = tmp_path / "workspace"
    more = ("release.jenkinsfile", "shop.code-workspace")
    paths = [path for path in (*AT_THE_TOP, *more) if not path.startswith(".git/")]
    for path in paths:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("old", encoding="utf-8")
    commands = (CHANGING[what].format(path=each, folder=Path(each).parent, top=Path(each).parts[0]) for each in paths)
    script = "\n".join(("exec 2>/dev/null", *commands, "true"))
    (tmp_path / "aside").mkdir()
    run_in(sandbox, script, Box(workspace=str(workspace), aside=str(tmp_path / "aside")))

    assert [path for path in paths if (workspace / path).read_text(encoding="utf-8") != "old"] == []


def test_a_folder_above_one_may_be_created(sandbox: Sandbox, tmp_path: Path, run_in: Any) -> None:
    ordinary = (
        ".github/CODEOWNERS",
        ".config/nextest.toml",
        ".gitlab/issue_templates/bug.md",
        ".yarn/cache/x",
        "mise/a.py",
    )
    script = "\n".join(f"mkdir -p '{Path(path).parent}' && echo new > '{path}'" for path in ordinary)
    ran = run_in(sandbox, script, Box(workspace=str(tmp_path)))

    assert ran.put_back == ()
    assert [path for path in ordinary if not (tmp_path / path).exists()] == []


# ---- spellings -----------------------------------------------------------------------------------------------------


@each_row(
    "path",
    [
        ".git",
        "sub/.git",
        ".Git/Hooks/pre-commit",
        "./.git//hooks/x",
        "a/../.git/config",
        ".git/modules/sub/hooks/post-checkout",
        ".git/worktrees/x/config",
        ".git/worktrees/x/commondir",
        ".git/commondir",
        ".git/index",
        "copy.git/config",
        "copy.git/HEAD",
        "copy.git/hooks/post-index-change",
        ".g\u200cit/config",
        "．git/config",
        "git~1/config",
        "VSCODE~1/tasks.json",
        "dragom~1.tom",
        ".git\\hooks\\x",
        ".git./config",
        ".bashrc ",
        "DRAGOMAN.TOML",
        "dragoman.toml::$DATA",
        "ｄragoman.toml",
        ".vscode/tasks.json",
        ".github/workflows/ci.yml",
    ],
)
def test_other_spellings(path: str) -> None:
    assert is_protected(path)


@each_row(
    "path",
    [
        "",
        ".",
        "src/main.py",
        ".gitignore",
        ".github/CODEOWNERS",
        "git/config",
        "legit/config",
        "hooks/pre-commit",
        ".git/objects/ab/cdef",
        ".git/objects/pack/pack-1.pack",
        ".gitattributes",
        ".gitlab/issue_templates/bug.md",
        ".docker/Dockerfile",
        ".config/nextest.toml",
        "Makefile",
        "Dockerfile",
        "package.json",
        "pyproject.toml",
        "tests/conftest.py",
        "AGENTS.md",
        "misery.toml",
        "model.pth",
        "checkpoints/best.pth",
        "config~1",
        "config",
        "my.bashrc",
        "dragoman.toml.md",
        "vscode/x",
        "docs/dragoman.toml/../x.md",
    ],
)
def test_ordinary_paths(path: str) -> None:
    assert not is_protected(path)
