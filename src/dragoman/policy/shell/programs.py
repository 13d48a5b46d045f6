"""Tables of programs: which only read, which run their arguments, and which options are risky."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from dragoman.policy.shell.parser import SimpleCommand, words_of

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
# Options with which a program runs, loads or overwrites something that its name does not suggest.

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
    """Return the word with which this command does more than its name suggests; empty if none is known.

    Words in `written` do not count: the author of the rule named them.
    """
    start = next((index for index, word in enumerate(command.words) if word not in _TRANSPARENT), 0)
    program = base_name(command.words[start]) if command.words else ""
    if program in _EVALUATING:
        # `test -v 'a[$(command)]'` and similar commands evaluate the text in the brackets.
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
# Scripts of `sed` that only print, delete or substitute.

# A bracket must close before the next delimiter: implementations of `sed` disagree about delimiters in brackets.
_PIECE = r"(?:[^{0}\\\n\[]|\\[^\n]|\[\^?\]?[^\]{0}\\\n]*\])*"
_ADDRESS = rf"(?:[0-9]+|\$|/{_PIECE.format('/')}/I?)"
_SUBSTITUTIONS = "|".join(
    f"s{mark}{piece}{mark}{piece}{mark}[gpiI0-9]*"
    for mark, piece in ((re.escape(mark), _PIECE.format(re.escape(mark))) for mark in "/|#,:@%_")
)
_TRANSLATION = f"y/{_PIECE.format('/')}/{_PIECE.format('/')}/"
_COMMAND = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:[ \t]*,[ \t]*[+~]?{_ADDRESS})?)?[ \t]*!?[ \t]*"
    rf"(?:[pPdDgGhHxnNlq=]|{_SUBSTITUTIONS}|{_TRANSLATION})?[ \t]*(?:;|\Z)"
)
_OPTIONS = re.compile(r"-[nErsuz]+\Z|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|sandbox)\Z")
_SCRIPT_NEXT = re.compile(r"-[nErsuz]*e\Z|--expression\Z")


def is_harmless_script(script: str) -> bool:
    """Whether the script contains only commands that neither write files nor run programs."""
    position = 0
    while position < len(script):
        found = _COMMAND.match(script, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return True


def read_sed(command: SimpleCommand) -> tuple[str, list[str]]:
    """Return why this `sed` may do more than print (empty if it does not), and the files it reads."""
    scripts: list[str] = []
    operands: list[str] = []
    is_script = is_last = False
    for index, word in enumerate(command.words[1:], 1):
        if command.is_marked(index) and (
            is_script or word[0] in "*?[-" or command.marks[index] not in ("glob", "tilde")
        ):
            return f"`{word}` could become an option with which `sed` writes", []
        if is_script:
            scripts.append(word)
            is_script = False
        elif is_last or word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word == "--":
            is_last = True
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif _SCRIPT_NEXT.match(word):
            is_script = True
        elif not _OPTIONS.match(word):
            return f"`sed` with `{word}` may write", []
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(is_harmless_script(script) for script in scripts):
        return "the script of `sed` may write or run something", []
    return "", operands


# --------------------------------------------------------------------------------------------------------------------
# The subcommands of `git` and `gh` that only read.

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
    """Return why this `gh` command may do more than read, and whether it may read outside its repository.

    It reads with the user's own token, so only what certainly concerns this repository counts as inside.
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
    """Whether these words of `gh` are only numbers, and options that name nothing outside the repository."""
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
    """Return why this `git` command may do more than read, the folder it changes to, and its operands."""
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


# --------------------------------------------------------------------------------------------------------------------
# The programs that only read, and the options with which they do more.


class Reader(Struct, frozen=True):
    """A program that only reads."""

    operands: str = "files"
    """The kind of its operands: `files`, `pattern` (then files), or `text` that names no file."""
    writes: frozenset[str] = frozenset()
    """The options with which it writes, runs something or changes the machine."""
    valued: frozenset[str] = frozenset()
    """The options whose value is the next word, if it is not a file."""
    most: int | None = None
    """The maximum number of operands: `uniq in out` writes to the second."""
    searches: bool = False
    """Whether it reads the current folder if no file is named."""
    only: frozenset[str] | None = None
    """The complete set of words it may have, where that is simpler."""

    @property
    def is_free(self) -> bool:
        """Whether no argument can make it write, so that bash may expand its arguments to anything."""
        return not self.writes and self.most is None and self.only is None


def _make(operands: str = "files", writes: str = "", valued: str = "", most: int | None = None,
          searches: bool = False, only: str | None = None) -> Reader:  # fmt: skip
    words = None if only is None else words_of(only)
    return Reader(operands, words_of(writes), words_of(valued), most, searches, words)


_FILES = _make()
_TEXT = _make("text")
_GREP_VALUES = "-e -A -B -C -m -d -D --regexp --include --exclude --exclude-dir --max-count --context"
READERS: dict[str, Reader] = {
    **dict.fromkeys(words_of("cat tac rev nl wc stat basename dirname realpath readlink cksum sum strings"), _FILES),
    **dict.fromkeys(words_of("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum base64 base32"), _FILES),
    **dict.fromkeys(words_of("comm cmp join paste expand unexpand fold fmt od hexdump test ["), _FILES),
    **dict.fromkeys(
        words_of("echo true false : whoami id groups uname pwd arch nproc uptime which type seq tr"), _TEXT
    ),
    **dict.fromkeys(words_of("grep egrep fgrep"), _make("pattern", valued=_GREP_VALUES)),
    "ls": _make(searches=True),
    "du": _make(valued="-d --max-depth", searches=True),
    "df": _FILES,
    "head": _make(valued="-n -c --lines --bytes"),
    "tail": _make(valued="-n -c --lines --bytes"),
    "cut": _make(valued="-d -f -c -b --delimiter --fields"),
    "column": _make(valued="-s -c -o"),
    "jq": _make("pattern", valued="--arg --argjson --indent"),
    "diff": _make(writes="-l --paginate", valued="-U -C -I"),
    "printf": _make("text", writes="-v"),
    "ps": _TEXT,
    "free": _TEXT,
    "sort": _make(writes="-o --output --compress-program", valued="-k -t -S --key --field-separator"),
    "shuf": _make(writes="-o --output", valued="-n"),
    "iconv": _make(writes="-o --output", valued="-f -t"),
    "uniq": _make(valued="-f -s -w", most=1),
    "xxd": _make(writes="-r -revert", valued="-l -s -c -g", most=1),
    "file": _make(writes="-C --compile -z -Z --uncompress --uncompress-noreport"),
    "tree": _make(writes="-o -R", valued="-L -I -P", searches=True),
    "find": _make(
        "files",
        writes="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
        valued="-name -iname -path -ipath -wholename -regex -iregex -type -maxdepth -mindepth -size -mtime -mmin -perm "
        "-user -group -printf -regextype -newermt -atime -ctime -links",
        searches=True,
    ),
    "fd": _make("pattern", writes="-x -X --exec --exec-batch", searches=True),
    "fdfind": _make("pattern", writes="-x -X --exec --exec-batch", searches=True),
    "rg": _make(
        "pattern",
        writes="--pre --hostname-bin -z --search-zip",
        valued="-e -g -t -T -A -B -C -m -j -r --glob --type --max-count --context --replace --sort",
        searches=True,
    ),
    "date": _make("text", writes="-s --set", valued="-d --date"),
    "hostname": _make("text", only="-f -s -i -I -d --fqdn --short --ip-address --all-ip-addresses --domain"),
}
# Without programs that files of a project can make run something else, even for this: yarn, pnpm, cargo, rustc, go,
# pytest.
_VERSIONS = words_of(
    "python python3 node npm bun deno ruby perl php java javac gcc clang make cmake git gh bash pip pip3 uv ruff mypy "
    "docker rg jq"
)
_NAME = re.compile(r"[A-Za-z0-9_.+-]+\Z")


def find_reader(command: SimpleCommand) -> Reader | None:
    """Return what is known about the program of the command; None if it may do anything."""
    program, *rest = command.words
    if program in _VERSIONS and rest in (["--version"], ["-V"]) and not command.is_marked(1):
        return _TEXT if rest == ["--version"] or program.startswith("python") else None
    if program == "command" and len(rest) == 2 and rest[0] in ("-v", "-V") and _NAME.match(rest[1]):
        return _TEXT
    return READERS.get(program)


def find_writing(reader: Reader, command: SimpleCommand) -> str:
    """Return why this command of a program that reads does more than read; empty if it does not."""
    program, *rest = command.words
    if found := reaches_further(command):
        return f"`{program}` with `{found}` runs or writes something"
    for word in rest:
        if is_option(word, reader.writes):
            return f"`{program}` with `{word}` runs or writes something"
        if reader.only is not None and word not in reader.only:
            return f"`{program}` may change the machine with `{word}`"
    if program in ("test", "[") and any(word in ("-v", "-R") for word in rest):
        return f"`{program} -v` evaluates what it is given"
    if program == "date" and any(word[:1] not in ("-", "+") for word in find_operands(reader, command)[0]):
        return "`date` sets the clock where it is given one"
    if reader.most is not None and len(find_operands(reader, command)[0]) > reader.most:
        return f"`{program}` writes to its last operand"
    return find_loose_word(reader, command)


def find_loose_word(reader: Reader, command: SimpleCommand) -> str:
    """Return a word that bash could expand to an option that writes."""
    if reader.is_free:
        return ""
    for index, word in enumerate(command.words):
        marks = command.marks[index] if command.is_marked(index) else ""
        is_fixed = marks in ("glob", "tilde") and word[0] not in "*?[-" and reader.most is None and reader.only is None
        if marks and not is_fixed:
            return f"`{word}` could become an option with which `{command.words[0]}` writes"
    return ""


def find_operands(reader: Reader, command: SimpleCommand) -> tuple[list[str], list[str]]:
    """Return the operands of a command, and the values of its options that look like paths."""
    operands: list[str] = []
    values: list[str] = []
    is_value = is_last = has_pattern = False
    for word in command.words[1:]:
        if is_value:
            values.append(word)
            is_value = False
        elif is_last or word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word == "--":
            is_last = True
        else:
            is_value = word in reader.valued
            has_pattern = has_pattern or is_option(word, _PATTERN_OPTIONS)
            values.append(word.partition("=")[2] if word.startswith("--") else word[2:])
    if reader.operands == "pattern" and not has_pattern:
        operands = operands[1:]
    return operands, values


_PATTERN_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--from-file"})
