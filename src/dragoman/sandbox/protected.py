"""Paths whose content is trusted later: hooks of git, our own settings, what a shell or an editor runs at its start.

Nothing that a model asks for may change them unnoticed, and nothing may create them either: a file that is not there
yet is as good a way in as one that is. This is data and one pure function; the file tools and the sandbox both use it.
"""

from __future__ import annotations

import unicodedata

PROTECTED_FOLDERS: tuple[str, ...] = (
    ".git/hooks",
    ".git/info",
    ".husky",
    ".dragoman",
    ".config/dragoman",
    ".local/state/dragoman",
    ".github/workflows",
    ".vscode",
    ".idea",
    ".zed",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".ssh",
    ".gnupg",
    ".config/git",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
)
"""Folders, with everything below them, wherever in a workspace they lie."""

PROTECTED_FILES: tuple[str, ...] = (
    ".git/config",
    ".git/config.worktree",
    ".gitmodules",
    ".gitconfig",
    "dragoman.toml",
    ".dragoman.toml",
    ".mcp.json",
    ".envrc",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".xprofile",
    ".xsessionrc",
    ".pam_environment",
    ".vimrc",
    ".exrc",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".gitlab-ci.yml",
)
"""Files, wherever in a workspace they lie."""

_FOLDERS = tuple(tuple(each.split("/")) for each in PROTECTED_FOLDERS)
_FILES = tuple(tuple(each.split("/")) for each in PROTECTED_FILES)
# A repository inside another one, and one of a submodule, have hooks and settings as well.
# What says where those are counts as well: `commondir` and `gitdir` name folders, the index names submodules.
_GIT_FILES = ("config", "config.worktree", "commondir", "gitdir", "index")
_GIT_FOLDERS = ("hooks", "info")


def is_protected(relative: str) -> bool:
    """Whether changing this path, or anything in its place, would change what is trusted later.

    The path is only text here: whoever follows links asks for the path that was given and for the one behind it.
    Spelling does not help: case, look-alike forms of letters, invisible characters, and the short names, trailing
    dots and streams of Windows are evened out, since some file system takes each of them for the same name.
    """
    parts = _parts(relative)
    for start in range(len(parts)):
        rest = parts[start:]
        # `.git` alone may be a file: it says where the repository is, with hooks of its own.
        if rest == (".git",) or rest in _FILES:
            return True
        if any(rest[: len(folder)] == folder for folder in _FOLDERS):
            return True
        # A repository without files of its own is called `NAME.git`, by custom.
        if rest[0].endswith(".git") and _is_inside_git(rest[1:]):
            return True
    return False


def _is_inside_git(parts: tuple[str, ...]) -> bool:
    """Settings and hooks at any depth of a `.git` folder: `.git/modules/NAME/hooks`, `.git/worktrees/NAME/config`."""
    return parts[-1:] != () and (parts[-1] in _GIT_FILES or any(part in _GIT_FOLDERS for part in parts))


def _parts(relative: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in _plain(relative).split("/"):
        name = part if part in (".", "..") else part.partition(":")[0].rstrip(". ")
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(".git" if name == "git~1" else name)
    return tuple(found)


def _plain(text: str) -> str:
    text = text.replace("\\", "/")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cf", "Mn"))
    return text.partition("\0")[0].casefold()
