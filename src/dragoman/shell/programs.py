"""Programs that have subcommands, so that a rule for them needs the subcommand as well."""

from __future__ import annotations

from dragoman.shell.tables import words_of

MANY_COMMANDS = words_of(
    "git gh glab hg svn jj npm pnpm yarn bun deno pip pip3 uv poetry pipx conda cargo rustup go docker podman kubectl "
    "helm terraform aws gcloud az systemctl journalctl apt apt-get dnf brew make just mix rails rake bundle gem dotnet "
    "mvn gradle flutter dart composer php node python python3 ruby perl nix bazel ansible vagrant dragoman"
)
# Whose first word says little: the second names what is done.
_TWO_DEEP = frozenset({"gh", "glab", "aws", "gcloud", "az", "docker", "kubectl"})
# Whose word after this one names the script that is run.
_NAMING = frozenset({"run", "exec", "tool", "compose", "stash", "remote", "worktree", "submodule", "bisect", "config"})
# The next word is a file or a piece of code and no subcommand: only the whole line can be remembered.
RUNNING_FILES = words_of("php node python python3 ruby perl deno bun make")


def find_depth(words: tuple[str, ...]) -> int:
    """How many words at the start of a command name what it does; 0 where only the whole line does."""
    program = words[0]
    if program not in MANY_COMMANDS or program in RUNNING_FILES or len(words) < 2:
        return 0
    depth = 3 if program in _TWO_DEEP or words[1] in _NAMING else 2
    if len(words) < depth or not all(is_subcommand(word) for word in words[1:depth]):
        return 0
    return depth


def is_subcommand(word: str) -> bool:
    """Whether a word looks like the name of a subcommand and not like an option, a path or a value."""
    return word.replace("-", "").replace("_", "").replace(":", "").isalnum() and word.isascii() and word[0].isalpha()
