"""Options by which a program runs, loads or overwrites something that its name does not say."""

from __future__ import annotations

from dragoman.shell.lines import SimpleCommand
from dragoman.shell.tables import words_of
from dragoman.shell.wrappers import base_name

_TRANSFER = "--upload-pack --receive-pack --exec"
_REACHING: dict[str, frozenset[str]] = {
    name: words_of(options)
    for name, options in {
        "find": "-exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls",
        "fd": "-x -X --exec --exec-batch",
        "fdfind": "-x -X --exec --exec-batch",
        "rg": "--pre --hostname-bin",
        "sort": "-o --output --compress-program",
        "split": "--filter",
        "tar": "-I -F --to-command --checkpoint-action --use-compress-program --info-script --new-volume-script "
        "--rsh-command --rmt-command",
        "rsync": "-e --rsh --rsync-path",
        "ssh": "-o -F",
        "scp": "-o -S -F",
        "sftp": "-o -S -F -b",
        "go": "-exec -toolexec -vettool",
        "man": "-P -H --pager --html --browser",
        "npm": "--script-shell --node-options",
        "wget": "-e --execute --use-askpass --config",
        "zip": "-TT --unzip-command",
        "make": "-f --file --makefile --eval",
        "git fetch": f"{_TRANSFER} -u",
        "git pull": _TRANSFER,
        "git push": _TRANSFER,
        "git ls-remote": _TRANSFER,
        "git archive": f"{_TRANSFER} -o --output",
        "git clone": f"{_TRANSFER} -u -c --config --template",
        "git init": "--template",
        "git grep": "-O --open-files-in-pager",
        "git rebase": "-x --exec",
        "git difftool": "-x --extcmd",
        "git diff": "--ext-diff --output",
        "git log": "--ext-diff --output",
        "git show": "--ext-diff --output",
        "git format-patch": "--ext-diff",
    }.items()
}
_BEFORE_SUBCOMMAND = words_of("-c --config-env --exec-path --git-dir --work-tree -C")
_TRANSPARENT = words_of("command builtin env nohup")
_EVALUATING = words_of("test [ printf read unset declare typeset local export readonly let wait mapfile")


def reaches_further(command: SimpleCommand, written: tuple[str, ...] = ()) -> str:
    """The word by which this command would do more than its name says; empty if none is known.

    Words in `written` do not count: whoever wrote the rule named them.
    """
    start = next((index for index, word in enumerate(command.words) if word not in _TRANSPARENT), 0)
    program = base_name(command.words[start]) if command.words else ""
    if program in _EVALUATING:
        # `test -v 'a[$(command)]'` and its like evaluate what stands in the brackets.
        return next((word for word in command.words[start + 1 :] if "[" in word and ("$" in word or "`" in word)), "")
    rest = command.words[start + 1 :]
    if program == "git":
        first = next((index for index, word in enumerate(rest) if not word.startswith("-")), len(rest))
        odd = next((word for word in rest[:first] if word not in written and is_option(word, _BEFORE_SUBCOMMAND)), "")
        if odd:
            return odd
        program, rest = " ".join(("git", *rest[first : first + 1])), rest[first + 1 :]
    options = _REACHING.get(program)
    if not options:
        return ""
    return next((word for word in rest if word not in written and is_option(word, options)), "")


def is_option(word: str, options: frozenset[str]) -> bool:
    """Whether the word is, holds or may be short for one of these options."""
    if len(word) < 2 or word[0] != "-" or word == "--":
        return False
    name = word.partition("=")[0]
    if name in options:
        return True
    if word.startswith("--"):
        # Long options may be shortened, so that `--upload-p` is `--upload-pack`.
        return any(option.startswith(name) for option in options)
    letters = {option[1] for option in options if len(option) == 2}
    return any(letter in letters for letter in word[1:])
