"""The programs that only read, and the options that make them do more."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.shell.lines import SimpleCommand
from dragoman.shell.reaching import is_option, reaches_further
from dragoman.shell.tables import words_of


class Reader(Struct, frozen=True):
    """What is known of a program that reads."""

    operands: str = "files"
    """What its operands are: `files`, `pattern` (then files), or `text` that names no file."""
    writes: frozenset[str] = frozenset()
    """The options with which it writes, runs something or changes the machine."""
    valued: frozenset[str] = frozenset()
    """The options whose value is the next word and names no file."""
    most: int | None = None
    """How many operands it may have: `uniq in out` writes to the second."""
    searches: bool = False
    """Whether it reads the current folder where no file is named."""
    only: frozenset[str] | None = None
    """The only words it may have, where that is easier to say."""

    @property
    def is_free(self) -> bool:
        """Whether no argument at all can make it write, so that bash may expand its arguments to anything."""
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
# Not those that the files of a project make run something else, even for this: yarn, pnpm, cargo, rustc, go, pytest.
_VERSIONS = words_of(
    "python python3 node npm bun deno ruby perl php java javac gcc clang make cmake git gh bash pip pip3 uv ruff mypy "
    "docker rg jq"
)
_NAME = re.compile(r"[A-Za-z0-9_.+-]+\Z")


def find_reader(command: SimpleCommand) -> Reader | None:
    """What is known of the command's program; None for one that may do anything."""
    program, *rest = command.words
    if program in _VERSIONS and rest in (["--version"], ["-V"]) and not command.is_marked(1):
        return _TEXT if rest == ["--version"] or program.startswith("python") else None
    if program == "command" and len(rest) == 2 and rest[0] in ("-v", "-V") and _NAME.match(rest[1]):
        return _TEXT
    return READERS.get(program)


def find_writing(reader: Reader, command: SimpleCommand) -> str:
    """Why this command of a program that reads does more than that; empty where it does not."""
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
    """A word that bash could turn into an option that writes."""
    if reader.is_free:
        return ""
    for index, word in enumerate(command.words):
        marks = command.marks[index] if command.is_marked(index) else ""
        is_fixed = marks in ("glob", "tilde") and word[0] not in "*?[-" and reader.most is None and reader.only is None
        if marks and not is_fixed:
            return f"`{word}` could become an option with which `{command.words[0]}` writes"
    return ""


def find_operands(reader: Reader, command: SimpleCommand) -> tuple[list[str], list[str]]:
    """The operands of a command, and the values of its options that look like paths."""
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
