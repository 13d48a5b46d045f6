"""Programs: which run their arguments, which rows the tables have for them, and which words a star may cover."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.policy.shell.builders import BUILDERS, RUNNERS
from dragoman.policy.shell.parser import SimpleCommand, words_of
from dragoman.policy.shell.readers import find_reader
from dragoman.policy.shell.repositories import GIT, REPOSITORIES
from dragoman.policy.shell.rows import FILE_KINDS, Arguments, Row, read_arguments

# --------------------------------------------------------------------------------------------------------------------
# Programs with subcommands: a rule for them needs the subcommand as well.

MANY_COMMANDS = words_of(
    "git gh glab hg svn jj npm pnpm yarn bun deno pip pip3 uv poetry pipx conda cargo rustup go docker podman kubectl "
    "helm terraform aws gcloud az systemctl journalctl apt apt-get dnf brew make just mix rails rake bundle gem dotnet "
    "mvn gradle flutter dart composer php node python python3 ruby perl nix bazel ansible vagrant dragoman"
)
# Programs whose first word says little: the second names the action.
_TWO_DEEP = frozenset({"gh", "glab", "aws", "gcloud", "az", "docker", "kubectl"})
# Programs whose next word names the script to run.
_NAMING = frozenset({"run", "exec", "tool", "compose", "stash", "remote", "worktree", "submodule", "bisect", "config"})
# The next word is a file or code and not a subcommand: only the whole line can be a rule.
RUNNING_FILES = words_of("php node python python3 ruby perl deno bun make")


def find_depth(words: tuple[str, ...]) -> int:
    """Return how many words at the start of a command name its action; 0 if only the whole line does."""
    program = words[0]
    if program not in MANY_COMMANDS or program in RUNNING_FILES or len(words) < 2:
        return 0
    depth = 3 if program in _TWO_DEEP or words[1] in _NAMING else 2
    if len(words) < depth or not all(is_subcommand(word) for word in words[1:depth]):
        return 0
    return depth


def is_subcommand(word: str) -> bool:
    """Whether a word looks like a subcommand and not like an option, a path or a value."""
    return word.replace("-", "").replace("_", "").replace(":", "").isalnum() and word.isascii() and word[0].isalpha()


# --------------------------------------------------------------------------------------------------------------------
# Programs that run their arguments or their input: `sudo`, `env`, `xargs`, `sh -c`, `eval`, ...

SHELLS = words_of("sh bash dash zsh ksh mksh ash fish csh tcsh rbash")
INTERPRETERS = words_of(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit tclsh Rscript julia osascript "
    "pwsh powershell groovy scala elixir erl guile racket awk gawk mawk nawk ed ex vi vim nvim emacs gdb sqlite3 psql "
    "mysql m4 bc dc"
)
WRAPPERS = words_of(
    "sudo doas su runuser env nohup nice ionice time timeout stdbuf setsid setpriv unshare nsenter chroot chrt taskset "
    "flock script expect command builtin exec eval xargs parallel watch entr find fd fdfind ssh sshpass docker podman "
    "kubectl bwrap firejail strace ltrace gdb valgrind perf busybox toybox unbuffer systemd-run at batch crontab trap "
    "alias coproc source . rlwrap faketime proot fakeroot dbus-run-session xvfb-run caffeinate npx pnpx bunx uvx pipx "
    "make cmake ninja tmux screen start-stop-daemon run-parts logsave sg newgrp pkexec gosu su-exec tini"
)

FILE_CHANGERS = words_of(
    "rm rmdir unlink shred mv cp ln dd tee truncate install chmod chown chgrp touch mkdir mkfifo mknod tar rsync cpio"
)
"""Programs that change the files which their arguments name."""
_TEXT_RUNNERS = words_of(
    "eval trap alias ssh sshpass watch parallel su runuser script at batch crontab tmux screen expect sg systemd-run "
    "flock entr unbuffer npx pnpx bunx docker podman kubectl"
)


def is_interpreter(program: str) -> bool:
    """Whether the program runs code that it is given, in any language."""
    name = base_name(program)
    return name in SHELLS or name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS


def runs_text(words: Iterable[str]) -> bool:
    """Whether one of these words is a program that passes its arguments to a shell as text."""
    return any(base_name(word) in SHELLS or base_name(word) in _TEXT_RUNNERS for word in words)


def base_name(program: str) -> str:
    """Return the name of a program without its folder: `rm` for `/bin/rm`."""
    return program.rsplit("/", 1)[-1]


# --------------------------------------------------------------------------------------------------------------------
# Options with which a program runs or loads something that its name does not suggest. A deny rule looks for programs in
# the values of such options. Nothing is allowed because an option is not here: for that, the tables of rows count.

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


def reaches_further(command: SimpleCommand) -> str:
    """Return the word with which this command does more than its name suggests; empty if none is known."""
    start = next((index for index, word in enumerate(command.words) if word not in _TRANSPARENT), 0)
    program = base_name(command.words[start]) if command.words else ""
    if program in _EVALUATING:
        # `test -v 'a[$(command)]'` and similar commands evaluate the text in the brackets.
        return next((word for word in command.words[start + 1 :] if "[" in word and ("$" in word or "`" in word)), "")
    rest = command.words[start + 1 :]
    if program == "git":
        first = next((index for index, word in enumerate(rest) if not word.startswith("-")), len(rest))
        odd = next((word for word in rest[:first] if is_option(word, _BEFORE_SUBCOMMAND)), "")
        if odd:
            return odd
        program, rest = " ".join(("git", *rest[first : first + 1])), rest[first + 1 :]
    options = _REACHING.get(program)
    if not options:
        return ""
    return next((word for word in rest if is_option(word, options)), "")


def is_option(word: str, options: frozenset[str]) -> bool:
    """Whether the word is, contains or abbreviates one of these options."""
    if len(word) < 2 or word[0] != "-" or word == "--":
        return False
    name = word.partition("=")[0]
    if name in options:
        return True
    if word.startswith("--"):
        # Long options may be abbreviated: `--upload-p` is `--upload-pack`.
        return any(option.startswith(name) for option in options)
    letters = {option[1] for option in options if len(option) == 2}
    return any(letter in letters for letter in word[1:])


# --------------------------------------------------------------------------------------------------------------------
# The row of a command in the tables, and what its words mean by it.

_TABLE: dict[str, Row] = {**BUILDERS, **REPOSITORIES}
_WITH_SUBCOMMANDS = frozenset(name.partition(" ")[0] for name in _TABLE if " " in name)


class Known(Struct, frozen=True):
    """A command that has a row."""

    row: Row
    arguments: Arguments
    start: int
    """The index of the first word after the names of the action."""
    folders: tuple[str, ...] = ()
    """Where it goes first, one after another."""


def find_known(words: tuple[str, ...], marks: tuple[str, ...] = ()) -> Known | None:
    """Return what is known of a command; None if its program, or its subcommand, is not in the tables."""
    marks = marks or ("",) * len(words)
    prefix = _find_runner(words)
    if prefix:
        inner = BUILDERS.get(words[len(prefix)])
        start = len(prefix) + 1
        return None if inner is None else Known(inner, read_arguments(inner, words, marks, start), start)
    start, folders = _skip_options(words)
    found = _find_row(words, start)
    if found is None or any(marks[: found[1]]):
        return None
    row, start = found
    return Known(row, read_arguments(row, words, marks, start), start, folders)


def _find_runner(words: tuple[str, ...]) -> tuple[str, ...]:
    return next((each for each in RUNNERS if words[: len(each)] == each and len(words) > len(each)), ())


def _skip_options(words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return the index of the subcommand of `git`, and the folders of `-C`. For other programs it is the next word."""
    index, folders = 1, []
    while words[0] == "git" and index < len(words) - 1 and words[index] in GIT.options:
        if GIT.options[words[index]].kinds:
            index += 1
            folders.append(words[index])
        index += 1
    return index, tuple(folders)


def _find_row(words: tuple[str, ...], start: int) -> tuple[Row, int] | None:
    """Return the row of a command, and the index of the first word after the names of the action."""
    program = words[0]
    reader = find_reader(words)
    if reader is not None:
        return reader, 1
    if program not in _WITH_SUBCOMMANDS:
        return (_TABLE[program], 1) if program in _TABLE else None
    for depth in (2, 1):
        row = _TABLE.get(" ".join((program, *words[start : start + depth])))
        if row is not None and len(words) >= start + depth:
            return row, start + depth
    return None


# --------------------------------------------------------------------------------------------------------------------
# The words that a star in a rule may cover.

_PLAIN_WORD = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_./,+-]*)?\Z")
_NEVER_COVERED = (WRAPPERS - {"make", "find", "fd", "fdfind"}) | words_of(
    "let export declare typeset local readonly unset read mapfile readarray enable bind complete getopts hash set "
    "shopt tar ar jar 7z"
)
"""Their words are programs, code, names that bash evaluates, or options without a hyphen."""


def may_vary(words: tuple[str, ...], places: Mapping[int, str], outside: frozenset[str] = frozenset()) -> bool:
    """Whether the words at these places are harmless, so that a star may stand for them.

    The values of `places` are the starts of these words that are in the rule. For a program of the tables, the words
    have to be known there, and files have to be below the current folder. Of another program only operands that are
    plain names are covered. Paths in `outside` are not covered.
    """
    if not places:
        return True
    # A value after `=` counts as well, and the current folder (an empty path), which no word names.
    if any({words[index], words[index].partition("=")[2]} & outside for index in places):
        return False
    known = find_known(words)
    if known is None:
        return _may_vary_unknown(words, places)
    if any(words[index] != written for index, written in places.items() if index <= len(_find_runner(words)) > 0):
        # A rule has to name the program that another one runs.
        return False
    arguments = known.arguments
    odd = {*arguments.unknown, *arguments.named, *arguments.leaving}
    is_before = any(0 < index < known.start and (known.folders or words[index].startswith("-")) for index in places)
    if known.row.leaves or is_before or not odd.isdisjoint(places):
        return False
    files = [part.text for part in arguments.parts if part.index in places and part.kind in FILE_KINDS]
    return all(stays_below(path) and path not in outside for path in files)


def _may_vary_unknown(words: tuple[str, ...], places: Mapping[int, str]) -> bool:
    program = base_name(words[0])
    if program in _NEVER_COVERED or words[0] in _WITH_SUBCOMMANDS or words[0] in MANY_COMMANDS - RUNNING_FILES:
        return False
    if is_interpreter(program) and "".join(words[1:2]).startswith("-"):
        # What follows is code, a module, or the value of an option.
        return False
    pieces = [words[index].removeprefix(written) for index, written in places.items() if index > 0]
    return all(_PLAIN_WORD.match(piece) and stays_below(piece) for piece in pieces)


def has_harmless_variants(words: tuple[str, ...], depth: int) -> bool:
    """Whether a command differs little from others of the same action, so that one rule may be offered for all."""
    known = find_known(words)
    if known is None:
        return False
    name = " ".join(words[: min(depth, 2)])
    return not known.row.acts or name in BUILDERS or name in _MILD


_MILD = frozenset({"git add", "git commit"})


def stays_below(path: str) -> bool:
    """Whether a path does not lead out of the current folder, as far as its spelling shows."""
    return not path.startswith(("/", "~")) and ".." not in path.split("/")
