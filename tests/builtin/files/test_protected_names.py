"""Which paths are protected: by name, at any depth, in any spelling that a file system may take for the same."""

from __future__ import annotations

import pytest

from dragoman.config.files import PROJECT_FILE
from dragoman.sandbox.protection import PROTECTED_FILES, PROTECTED_FOLDERS, is_protected


@pytest.mark.parametrize(
    "path", [*PROTECTED_FILES, *(f"{folder}/x" for folder in PROTECTED_FOLDERS), *PROTECTED_FOLDERS]
)
def test_the_lists(path: str) -> None:
    assert is_protected(path)
    assert is_protected(path.upper())
    assert is_protected(f"some/where/{path}")


def test_our_own_file_is_among_them() -> None:
    assert PROJECT_FILE in PROTECTED_FILES


@pytest.mark.parametrize(
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
        "copy.git/hooks/post-index-change",
        ".g\u200cit/config",
        "．git/config",
        "git~1/config",
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


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "src/main.py",
        ".gitignore",
        ".github/CODEOWNERS",
        "git/config",
        "copy.git/HEAD",
        "legit/config",
        ".git/indexes",
        "hooks/pre-commit",
        ".git/HEAD",
        ".git/objects/ab/cdef",
        "config",
        "my.bashrc",
        "dragoman.toml.md",
        "vscode/x",
        "docs/dragoman.toml/../x.md",
    ],
)
def test_ordinary_paths(path: str) -> None:
    assert not is_protected(path)
