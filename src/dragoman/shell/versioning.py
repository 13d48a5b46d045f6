"""The parts of `git` and `gh` that only read."""

from __future__ import annotations

import re

from dragoman.shell.lines import SimpleCommand
from dragoman.shell.reaching import is_option
from dragoman.shell.tables import words_of

_ALWAYS_READING = words_of(
    "status diff log show blame annotate shortlog describe rev-parse rev-list ls-files ls-tree cat-file name-rev "
    "merge-base count-objects grep for-each-ref show-ref check-ignore check-attr whatchanged cherry diff-tree "
    "diff-index diff-files range-diff show-branch var version"
)
_NEVER = words_of(
    "--output --ext-diff --textconv --filters --open-files-in-pager --exec --upload-pack --edit --submodule"
)
_LISTING = words_of("-l --list --contains --no-contains --merged --no-merged --points-at")
_LISTING_TOO = words_of(
    "-a -r -v -vv -n -i --all --remotes --show-current --sort --format --verbose --no-color --color --column --abbrev "
    "--no-abbrev --ignore-case"
)
_GETTING = words_of("--get --get-all --get-regexp --get-urlmatch --list -l")
_GETTING_TOO = words_of(
    "--global --local --system --worktree --show-origin --show-scope --name-only -z --null --type --bool --int --path "
    "--includes --no-includes"
)
_SUBCOMMANDS = {
    "remote": frozenset({"", "-v", "--verbose", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "reflog": frozenset({"", "show"}),
    "worktree": frozenset({"list"}),
}
_GLOBAL = frozenset({"--no-pager", "--no-optional-locks", "--literal-pathspecs", "-P"})
_GH = {
    "pr": frozenset({"view", "list", "diff", "checks", "status"}),
    "issue": frozenset({"view", "list", "status"}),
    "repo": frozenset({"view", "list"}),
    "release": frozenset({"view", "list"}),
    "run": frozenset({"view", "list"}),
    "workflow": frozenset({"view", "list"}),
    "gist": frozenset({"view", "list"}),
    "label": frozenset({"list"}),
    "cache": frozenset({"list"}),
    "search": frozenset({"code", "commits", "issues", "prs", "repos"}),
}


_GH_STAYING = frozenset({"pr", "issue", "release", "run", "workflow", "label", "cache"})
_GH_ALONE = frozenset({("repo", "view")})
_GH_SWITCHES = words_of("--comments -c --name-only --patch --log --log-failed --verbose -v --required --draft -d --yes")
_GH_VALUED = words_of(
    "--state -s --limit -L --json --label -l --assignee -a --author -A --base -B --branch -b --status"
)
_GH_VALUE = re.compile(r"[A-Za-z0-9_@,.+-]+\Z")
_NUMBER = re.compile(r"#?[0-9]+\Z")


def judge_gh(words: tuple[str, ...]) -> tuple[str, bool]:
    """Why this command of `gh` may do more than read, and whether it may read outside the repository it is in.

    It reads with the user's own token, so that only what surely is about this repository stays in it.
    """
    group, action = (*words[1:3], "", "")[:2]
    if action not in _GH.get(group, ()):
        return f"`{' '.join(words[:3])}` is not known to only read", True
    if any(is_option(word, frozenset({"-w", "--web"})) for word in words[3:]):
        return "`gh --web` opens a browser", True
    if group not in _GH_STAYING and (group, action) not in _GH_ALONE:
        return "", True
    return "", not _stays(words[3:])


def _stays(rest: tuple[str, ...]) -> bool:
    """Whether these words of `gh` are numbers, and options that name nothing elsewhere."""
    is_value = False
    for word in rest:
        option, equals, value = word.partition("=")
        if is_value:
            if not _GH_VALUE.match(word) or word.startswith("-"):
                return False
            is_value = False
        elif option in _GH_VALUED:
            if equals and not _GH_VALUE.match(value):
                return False
            is_value = not equals
        elif word not in _GH_SWITCHES and not _NUMBER.match(word):
            return False
    return not is_value


def judge_git(command: SimpleCommand) -> tuple[str, str, list[str]]:
    """Why this command of `git` may do more than read, the folder it changes to, and the operands it has."""
    words = list(command.words[1:])
    folder = ""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-C" and words and not folder:
            folder = words.pop(0)
        elif option not in _GLOBAL:
            return f"`git {option}` may change what git runs", "", []
    if not words:
        return "`git` alone is not known to only read", "", []
    subcommand, *rest = words
    return _judge_subcommand(subcommand, rest), folder, [word for word in rest if not word.startswith("-")]


def _judge_subcommand(subcommand: str, rest: list[str]) -> str:
    for word in rest:
        if is_option(word, _NEVER) or (subcommand == "grep" and word.startswith("-O")):
            return f"`git {subcommand}` with `{word}` runs or writes something"
    options = [word.partition("=")[0] for word in rest if word.startswith("-")]
    if subcommand in _ALWAYS_READING:
        return ""
    if subcommand in ("branch", "tag"):
        is_listing = any(option in _LISTING for option in options) or len(options) == len(rest)
        is_known = all(option in _LISTING or option in _LISTING_TOO for option in options)
        return "" if is_listing and is_known else f"this form of `git {subcommand}` does more than list"
    if subcommand == "config":
        is_known = all(option in _GETTING or option in _GETTING_TOO for option in options)
        is_getting = any(option in _GETTING for option in options)
        return "" if is_known and is_getting else "this form of `git config` may change settings"
    if subcommand in _SUBCOMMANDS and (rest[0] if rest else "") in _SUBCOMMANDS[subcommand]:
        return "" if subcommand != "remote" or len(rest) <= 2 else "this form of `git remote` does more than list"
    return f"`git {subcommand}` is not known to only read"
