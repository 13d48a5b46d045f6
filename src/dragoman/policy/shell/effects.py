"""What a command line reads, runs and changes. In doubt, it writes."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy.shell.parser import FAULTS, CommandLine, Redirection, SimpleCommand, read_command, words_of
from dragoman.policy.shell.programs import (
    FILE_CHANGERS,
    MANY_COMMANDS,
    SHELLS,
    WRAPPERS,
    Known,
    base_name,
    find_known,
    is_interpreter,
    reaches_further,
)
from dragoman.policy.shell.readers import READERS
from dragoman.policy.shell.rows import NAMED_KINDS

# --------------------------------------------------------------------------------------------------------------------
# The folders in which the commands of a line may run, and the files that they read there.

_MOST_CURRENT = 64
_UNKNOWN = "/"
"""Stands for a folder that is not known: it is outside."""


class Reading(Struct, frozen=True):
    """A file or a folder that a command reads, or names in order to change it."""

    path: str
    """As written; empty for the current folder itself."""
    kind: str
    """`read`, `source` or `file`: this one. `search`: also everything below. `tree`: also what links below lead to."""
    folders: tuple[str, ...] = ("",)
    """Every folder that may be current then, relative to the start folder or absolute."""
    is_pattern: bool = False
    """Whether bash expands it to the names of files."""
    is_searched: bool = False
    """Whether the command shows the content of all files below it, if it is a folder."""

    @property
    def leaves(self) -> bool:
        """Whether it may be outside the start folder, as far as the spelling shows."""
        return any(_escapes(posixpath.join(folder, self.path)) for folder in self.folders)


def _escapes(path: str) -> bool:
    if path.startswith(("/", "~")):
        return True
    depth = 0
    for step in path.split("/"):
        if step == "..":
            depth -= 1
        elif step not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def _enter(folders: Iterable[str], target: str) -> tuple[str, ...]:
    """Return the folders after a successful `cd` from any of these."""
    moved = dict.fromkeys(posixpath.join(folder, target) for folder in folders)
    return tuple(moved) if len(moved) <= _MOST_CURRENT else (_UNKNOWN,)


def _join(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    joined = tuple(dict.fromkeys((*one, *two)))
    return joined if len(joined) <= _MOST_CURRENT else (_UNKNOWN,)


def _find_target(command: SimpleCommand) -> str:
    """Return the operand of a `cd`; if it is not certain, an unknown folder."""
    operands = [word for word in command.words[1:] if word not in ("-P", "-L", "--")]
    is_certain = len(operands) == 1 and operands[0] not in ("", "-") and not any(command.marks)
    return operands[0] if is_certain else _UNKNOWN


def _follow_folders(line: CommandLine) -> Iterator[tuple[SimpleCommand, tuple[str, ...]]]:
    """Return each command with every folder in which it may run.

    A `cd` may fail, and then what follows `||` or `;` runs in the folder before. A `cd` in a pipeline has no effect on
    other commands.
    """
    succeeded: tuple[str, ...] = ("",)
    failed: tuple[str, ...] = ("",)
    for operator, pipeline in _split_pipelines(line):
        folders = {"&&": succeeded, "||": failed}.get(operator) or _join(succeeded, failed)
        yield from ((command, folders) for command in pipeline)
        after = folders
        if len(pipeline) == 1 and pipeline[0].words[:1] == ("cd",):
            after = _enter(folders, _find_target(pipeline[0]))
        if operator == "&&":
            succeeded, failed = after, _join(failed, folders)
        elif operator == "||":
            succeeded, failed = _join(succeeded, after), folders
        else:
            succeeded, failed = after, folders


def _split_pipelines(line: CommandLine) -> Iterator[tuple[str, list[SimpleCommand]]]:
    """Return the pipelines of a line, each with the operator before it."""
    before, pipeline = ";", list(line.commands[:1])
    for operator, command in zip(line.operators, line.commands[1:], strict=True):
        if operator == "|":
            pipeline.append(command)
        else:
            yield before, pipeline
            before, pipeline = operator, [command]
    if pipeline:
        yield before, pipeline


# --------------------------------------------------------------------------------------------------------------------
# The programs that a line starts, and in which folders. In doubt the result contains more, not fewer.

_DEPTH = 4
_MOST_FOLDERS = 64
_MOST_WORDS = 64


class ProgramStart(Struct, frozen=True):
    """One program with its arguments, and every folder in which it may start."""

    words: tuple[str, ...]
    folders: tuple[str, ...] = ("",)
    """Relative to the start folder, or absolute, as written. A failed `cd` does not change the folder."""
    is_certain: bool = True
    """False if the line changes folders in ways that are not followed."""
    assignments: tuple[str, ...] = ()


def visits(text: str) -> tuple[ProgramStart, ...]:
    """Return the programs of a line, including those after `env`, `sudo`, `sh -c` and similar programs."""
    return tuple(_visit_line(text, ("",), True, 0))


def _visit_line(text: str, folders: tuple[str, ...], is_certain: bool, depth: int) -> Iterator[ProgramStart]:
    for command in read_command(text).commands:
        if not command.words:
            continue
        yield from _visit_words(command.words, ProgramStart((), folders, is_certain, command.assignments), depth)
        if base_name(command.words[0]) in ("cd", "pushd", "popd"):
            moved = _move(folders, command)
            is_certain = is_certain and moved is not None
            folders = moved or folders


def _visit_words(words: tuple[str, ...], start: ProgramStart, depth: int) -> Iterator[ProgramStart]:
    yield ProgramStart(words, start.folders, start.is_certain, start.assignments)
    name = base_name(words[0])
    if depth >= _DEPTH or name not in WRAPPERS | SHELLS:
        return
    # It is uncertain where the wrapped command starts, so it may start at any word.
    for index, word in enumerate(words[1:_MOST_WORDS], 1):
        if any(blank in word for blank in " \t\n;&|"):
            yield from _visit_line(word, start.folders, start.is_certain, depth + 1)
        elif word and not word.startswith("-") and name not in SHELLS:
            yield ProgramStart(words[index:], start.folders, start.is_certain, start.assignments)


def _move(folders: tuple[str, ...], command: SimpleCommand) -> tuple[str, ...] | None:
    """Return the folders after a `cd`, which may have failed; None if the target is unknown."""
    operands = [word for word in command.words[1:] if word not in ("-P", "-L", "--")]
    if command.words[0] != "cd" or len(operands) != 1 or operands[0] in ("", "-") or any(command.marks):
        return None
    moved = dict.fromkeys((*folders, *(posixpath.join(folder, operands[0]) for folder in folders)))
    return tuple(moved) if len(moved) <= _MOST_FOLDERS else None


# --------------------------------------------------------------------------------------------------------------------
# The files that a line names, and those that it names in order to change them, for rules about files.

_INPUTS = frozenset({"<", "<<", "<<-", "<<<", "<&"})
_INTO_THE_LAST = frozenset({"cp", "ln", "install", "rsync"})
_TARGETS = ("-t", "--target-directory")
_MOST_CHANGED = 20_000
_ARCHIVERS = frozenset({"tar", "cpio"})
"""They mostly read the files that they name."""


def find_changed(text: str) -> tuple[str, ...] | None:
    """Return the files that a line would change, as far as it names them: targets of output, and files for `rm`, ...

    None if there are more than are looked at.
    """
    text = _without_here_documents(text)
    named: dict[tuple[str, ...], dict[str, None]] = {}
    for start in visits(text):
        named.setdefault(start.folders, {}).update(dict.fromkeys(_changed_by(start.words)))
    for command, folders in _follow_all(read_command(text)):
        targets = (each.target for each in command.redirections if each.operator not in _INPUTS and not each.joins)
        named.setdefault(folders, {}).update(dict.fromkeys(targets))
    if sum(len(folders) * len(names) for folders, names in named.items()) > _MOST_CHANGED:
        return None
    found = (
        posixpath.join(each, name) for folders, names in named.items() for name in names if name for each in folders
    )
    return tuple(dict.fromkeys(found))


def _changed_by(words: tuple[str, ...]) -> tuple[str, ...]:
    program = base_name(words[0])
    if program == "sed":
        known = find_known((program, *words[1:]))
        return words[1:] if known is not None and known.arguments.named else ()
    if program not in FILE_CHANGERS - _ARCHIVERS:
        return ()
    if program in _INTO_THE_LAST and not any(word.startswith(_TARGETS) for word in words):
        return words[-1:]
    return tuple(_value_of(word) for word in words[1:])


def _value_of(word: str) -> str:
    """Return the part of a word that may name a file: the value of an option, or of `of=`."""
    return word.partition("=")[2] if word[:1] == "-" or word.startswith("of=") else word


def _follow_all(line: CommandLine) -> Iterator[tuple[SimpleCommand, tuple[str, ...]]]:
    """Return each command with every folder in which it may run, also of a line that is not understood."""
    folders: tuple[str, ...] = ("",)
    for command in line.commands:
        yield command, folders
        if command.words[:1] == ("cd",):
            folders = _move(folders, command) or folders


def _find_named(text: str) -> Iterator[Reading]:
    """Return the files that a line names which is not understood. Words with blanks are prose or code."""
    for command, folders in _follow_all(read_command(_without_here_documents(text))):
        inputs = (each.target for each in command.redirections if each.operator == "<")
        for name in (*map(_value_of, command.words[1:]), *inputs):
            if name and not any(map(str.isspace, name)):
                yield Reading(name, "file", folders)


_HERE_DOCUMENT = re.compile(r"""(?<!<)<<(?!<)-?[ \t]*(?:\\?([\w.\-]+)|"([^"\n]+)"|'([^'\n]+)')""")


def _without_here_documents(text: str) -> str:
    """Return a line without its here-documents, whose content is not read as commands.

    One without an end is kept: it may be only a text in quotes, and commands may follow.
    """
    lines = text.split("\n")
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault(line.strip("\t"), []).append(index)
    kept: list[str] = []
    position = 0

    def skip(found: re.Match[str]) -> str:
        nonlocal position
        ends = places.get(found[found.lastindex or 0], [])
        index = bisect_left(ends, position)
        if index == len(ends):
            return found[0]
        position = ends[index] + 1
        return ""

    while position < len(lines):
        line = lines[position]
        position += 1
        kept.append(_HERE_DOCUMENT.sub(skip, line))
    return "\n".join(kept)


# --------------------------------------------------------------------------------------------------------------------
# The files whose content a command line would run.

_FILES_OF = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("package.json",)),
    "rake": ("Rakefile",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "pytest": ("conftest.py", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"),
    "ninja": ("build.ninja",),
    "cargo": ("Cargo.toml", "build.rs"),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "mvn": ("pom.xml",),
    "docker-compose": ("docker-compose.yml", "compose.yaml"),
    "pre-commit": (".pre-commit-config.yaml",),
}
_FILE_OPTIONS = {"make": ("-f", "--file", "--makefile"), "gmake": ("-f", "--file", "--makefile"), "just": ("-f",),
                 "ninja": ("-f",), "awk": ("-f",), "gawk": ("-f",), "sed": ("-f",), "mawk": ("-f",)}  # fmt: skip
_CODE_OPTIONS = {
    "python": ("-c", "-m"),
    "pypy": ("-c", "-m"),
    "perl": ("-e", "-E"),
    "node": ("-e", "--eval", "-p", "--print"),
    "php": ("-r",),
}
_PRELOADING = frozenset({"-r", "--require", "--import", "--loader", "--rcfile", "--init-file"})
_VALUED = frozenset({"-W", "-X", "-O", "+O", "-o", "+o", "-I"})
_LOOKS_LIKE_SCRIPT = re.compile(r".+\.(?:sh|bash|zsh|py|pyw|js|mjs|cjs|ts|rb|pl|php|lua|mk)\Z")


def scripts(text: str) -> tuple[str, ...]:
    """Return the paths, as written, of the files that the line would run. In doubt it returns more, not fewer.

    For a line that is not understood, it returns what could be read of it. Files that other files load are unknown
    here.
    """
    return tuple(dict.fromkeys(_scripts_of_line(text, 0)))


def _scripts_of_line(text: str, depth: int) -> Iterator[str]:
    for command in read_command(text).commands:
        if command.words:
            yield from _scripts_of(command.words, depth)
        if command.words and is_interpreter(command.words[0]):
            yield from (each.target for each in command.redirections if each.operator == "<" and each.target)


def _scripts_of(words: tuple[str, ...], depth: int) -> Iterator[str]:
    program, name = words[0], base_name(words[0])
    if "/" in program:
        yield program
    known = find_known(words)
    if known is not None and not known.row.acts and not known.arguments.unknown:
        return
    if name in ("source", "."):
        yield from words[1:2]
    elif name in SHELLS or is_interpreter(name):
        yield from _scripts_of_interpreter(name, words, depth)
    elif name in _FILES_OF:
        yield from _find_file_options(name, words) or _FILES_OF[name]
    elif name in WRAPPERS and depth < _DEPTH:
        yield from _scripts_of_wrapper(words, depth)
    else:
        yield from _find_file_options(name, words)


def _find_file_options(name: str, words: tuple[str, ...]) -> list[str]:
    options = _FILE_OPTIONS.get(name, ())
    files = [words[index + 1] for index, word in enumerate(words[:-1]) if word in options]
    for option in options:
        start = option + ("=" if option.startswith("--") else "")
        files.extend(word[len(start) :] for word in words[1:] if word.startswith(start) and len(word) > len(start))
    return files


def _scripts_of_interpreter(name: str, words: tuple[str, ...], depth: int) -> Iterator[str]:
    """Return the script of an interpreter: its first operand, unless an option contains the code."""
    yield from _find_file_options(name, words)
    is_value = is_preloaded = False
    for index, word in enumerate(words[1:], 1):
        if is_value or is_preloaded:
            yield from (word,) if is_preloaded else ()
            is_value = is_preloaded = False
        elif _gives_code(name, word):
            yield from _scripts_of_code(name, word, words[index + 1 : index + 2], depth)
            return
        elif word.startswith(("-", "+")):
            is_preloaded = word in _PRELOADING
            is_value = word in _VALUED
        elif word not in ("run", "test"):
            # The word after an unknown option may be its value, and the script may come later.
            yield word
            if not _LOOKS_LIKE_SCRIPT.match(word):
                yield from [other for other in words[index + 1 :] if _LOOKS_LIKE_SCRIPT.match(other)][:1]
            return


def _gives_code(name: str, option: str) -> bool:
    if name in SHELLS:
        return re.match(r"-[A-Za-z]*c[A-Za-z]*\Z", option) is not None
    language = name.rstrip("0123456789.")
    return option in _CODE_OPTIONS.get(language, ("-c", "-e"))


def _scripts_of_code(name: str, option: str, following: tuple[str, ...], depth: int) -> Iterator[str]:
    if name in SHELLS and following and depth < _DEPTH:
        yield from _scripts_of_line(following[0], depth + 1)
    elif option == "-m" and following:
        module = following[0].replace(".", "/")
        yield from (f"{module}.py", f"{module}/__main__.py")


def _scripts_of_wrapper(words: tuple[str, ...], depth: int) -> Iterator[str]:
    """It is uncertain where the wrapped command starts, so every word that could start it is checked."""
    for index, word in enumerate(words[1:], 1):
        name = base_name(word)
        if name in SHELLS or is_interpreter(name) or name in _FILES_OF:
            yield from _scripts_of(words[index:], depth + 1)
            return
        if word.startswith(("./", "/", "../")) or _LOOKS_LIKE_SCRIPT.match(word):
            yield word
        elif " " in word and depth < _DEPTH:
            yield from _scripts_of_line(word, depth + 1)


# --------------------------------------------------------------------------------------------------------------------
# Commands whose arguments are only data, and commands that run their input.

_PLAIN = words_of("cd mkdir rmdir rm touch chmod chown chgrp kill sleep curl wget") | frozenset(READERS) - {
    "awk",
    "gawk",
    "mawk",
}
_PLAIN_GIT = words_of(
    "add branch checkout cherry-pick commit diff fetch log merge mv pull push reset restore revert rm show stash "
    "switch tag blame grep rev-parse ls-files remote status"
)
_PLAIN_GH = words_of("pr issue repo release run workflow gist label search")
_VALUED_OF_XARGS = words_of("-I -n -P -L -s -a -d -E -J -R --max-args --max-procs --arg-file --delimiter")
# The maximum depth of programs that run programs. A deeper line is not followed to its end.
_MOST_WRAPPERS = 16
_FED = SHELLS | {"xargs", "parallel", "source", "."}
_READING_DATA = words_of("awk gawk mawk nawk sqlite3")


def is_plain(command: SimpleCommand) -> bool:
    """Whether no argument of this command is ever run, or stored in a file that may be run."""
    if not command.words or command.assignments:
        return False
    if any(redirection.operator != "<" and not (redirection.joins or redirection.discards)
           for redirection in command.redirections):  # fmt: skip
        return False
    program = command.words[0]
    known = find_known(command.words)
    if reaches_further(command) or (known is not None and known.arguments.unknown):
        return False
    if program == "git":
        return command.words[1:2] != () and command.words[1] in _PLAIN_GIT and not command.is_marked(1)
    if program == "gh":
        return command.words[1:2] != () and command.words[1] in _PLAIN_GH
    return program in _PLAIN


def runs_its_input(command: SimpleCommand, is_fed: bool) -> bool:
    """Whether the command runs its input, or something that is only known at run time, so that nothing is certain."""
    if not command.words:
        return False
    if command.is_marked(0):
        return True
    program = base_name(command.words[0])
    is_wrapper = program in WRAPPERS or program in SHELLS
    if is_wrapper and any(command.marks):
        return True
    is_fed = is_fed or any(redirection.operator == "<" for redirection in command.redirections)
    if is_fed and is_interpreter(program) and program not in _READING_DATA:
        return not any(not word.startswith("-") for word in command.words[1:])
    if not is_wrapper:
        return False
    places = [index for index, word in enumerate(command.words) if base_name(word) in _FED]
    if len(places) > _MOST_WRAPPERS:
        return True
    return any(_is_fed_program(command.words[index:]) for index in places) or _runs_what_it_finds(command)


def _is_fed_program(words: tuple[str, ...]) -> bool:
    name, rest = base_name(words[0]), words[1:]
    if name in ("xargs", "parallel"):
        return _takes_its_program_from_input(name, rest)
    if name in SHELLS:
        return _reads_input(rest)
    return rest[:1] == ("/dev/stdin",)


def _reads_input(rest: tuple[str, ...]) -> bool:
    """Whether a shell with these arguments runs its input, because it has neither a script nor code."""
    if any(word in ("-s", "-i", "/dev/stdin", "-") for word in rest):
        return True
    return not any(not word.startswith("-") for word in rest) and "--version" not in rest


def _takes_its_program_from_input(name: str, rest: tuple[str, ...]) -> bool:
    replaced, index = _read_options_of_xargs(rest)
    words = rest[index:]
    if not words:
        return name == "parallel"
    if replaced and any(replaced in word for word in words[:1]):
        return True
    if base_name(words[0]) in SHELLS:
        return len(words) == 1 or any(replaced and replaced in word for word in words)
    return base_name(words[0]) in WRAPPERS and not any(not word.startswith("-") for word in words[1:])


def _read_options_of_xargs(rest: tuple[str, ...]) -> tuple[str, int]:
    """Return the text that the input replaces, and how many of the words are options."""
    replaced = "{}"
    index = 0
    while index < len(rest) and rest[index].startswith("-"):
        if rest[index].startswith("-I"):
            replaced = rest[index][2:] or "".join(rest[index + 1 : index + 2])
        index += 2 if rest[index] in _VALUED_OF_XARGS else 1
    return replaced, index


def add_input(command: SimpleCommand) -> SimpleCommand:
    """Return the command with the words that `xargs` adds to it or replaces, marked as unknown like expansions."""
    place = next((index for index, word in enumerate(command.words) if base_name(word) in ("xargs", "parallel")), None)
    if place is None:
        return command
    replaced, _ = _read_options_of_xargs(command.words[place + 1 :])
    marks = [
        "input" if replaced and index > place and replaced in word else "".join(command.marks[index : index + 1])
        for index, word in enumerate(command.words)
    ]
    return replace(command, words=(*command.words, ""), marks=(*marks, "input"))


def _runs_what_it_finds(command: SimpleCommand) -> bool:
    """`find -exec {}` runs the files it finds."""
    pairs = zip(command.words, command.words[1:], strict=False)
    return any(word.startswith(("-exec", "-ok", "-x", "-X")) and "{}" in following for word, following in pairs)


def runs_what_it_writes(line: CommandLine) -> bool:
    """Whether the line writes a file and runs one of that name, so that the code is only known at run time."""
    written = {base_name(target) for command in line.commands for target in _find_written(command)}
    return bool(written) and not written.isdisjoint(base_name(path) for path in scripts(line.text))


def _find_written(command: SimpleCommand) -> list[str]:
    targets = [r.target for r in command.redirections if r.operator not in ("<", "<<", "<<-", "<<<") and not r.discards]
    return [*targets, *command.words[1:]] if command.words[:1] == ("tee",) else targets


# --------------------------------------------------------------------------------------------------------------------
# Whether a command line only reads. In doubt it counts as writing, so that an approval is needed.

# The effect of these expansions is known well enough, as long as they are arguments of programs that only read.
_BEARABLE = frozenset({"glob", "variable", "tilde", "brace", "newline", "comment"})
_HARMLESS_SETTING = re.compile(
    r"(?:LC_[A-Z]+|LANG|LANGUAGE|TZ|NO_COLOR|COLUMNS)=[A-Za-z0-9_@+-]*(?:\.[A-Za-z0-9_-]+)?\Z"
)


class ReadOnly(Struct, frozen=True):
    """Whether a line only reads, why not, and which files it reads."""

    verdict: bool
    why: str = ""
    reads: tuple[Reading, ...] = ()
    leaves: bool = False
    """Whether it reads, or may read, something outside its start folder.

    A `cd` to another folder counts only if a later command reads files there. An absolute path always counts: the
    workspace is unknown here.
    """

    @property
    def paths(self) -> tuple[str, ...]:
        """The files and folders it names, as written."""
        return tuple(reading.path for reading in self.reads if reading.path)


def read_only(text: str) -> ReadOnly:
    """Whether a command line changes nothing, as far as the line alone shows."""
    line = read_command(text)
    why = next((FAULTS[fault] for fault in line.faults if fault not in _BEARABLE), "")
    if why:
        return ReadOnly(False, why, tuple(_find_named(text)))
    found = _Findings()
    for command, folders in _follow_folders(line):
        judged = _judge(command, folders, found)
        why = why or judged
    leaves = found.leaves or any(reading.leaves for reading in found.reads)
    return ReadOnly(not why, why, tuple(found.reads), leaves)


class _Findings:
    def __init__(self) -> None:
        self.reads: list[Reading] = []
        self.leaves = False


def _judge(command: SimpleCommand, folders: tuple[str, ...], found: _Findings) -> str:
    """Return why a command may do more than read; empty if it does not. Adds the files it reads to `found`."""
    if not command.words:
        return "it sets a variable, or writes a file, and runs nothing"
    odd = next((each for each in command.assignments if not _HARMLESS_SETTING.match(each)), "")
    reasons = [odd and f"it sets `{odd.partition('=')[0]}`, which may change what a program does"]
    # All of them are judged, because each adds the files that it reads.
    reasons += [_judge_redirection(each, folders, found) for each in command.redirections]
    reasons.append(_judge_words(command, folders, found))
    return next(filter(None, reasons), "")


def _judge_words(command: SimpleCommand, folders: tuple[str, ...], found: _Findings) -> str:
    if command.words[0] == "cd":
        # Whatever its words are, it only changes the folder for what follows. Its messages show what a pattern matches.
        found.leaves = found.leaves or any("glob" in marks for marks in command.marks)
        return ""
    known = find_known(command.words, command.marks)
    if known is not None:
        _note(known, command, folders, found)
    else:
        # A rule about files, and a star in a rule, should know where links lead any program.
        words = (word.partition("=")[2] if word[:1] == "-" else word for word in command.words[1:])
        found.reads += [Reading(word, "file", folders) for word in words if word]
    if known is None or known.row.acts:
        named = " ".join(command.words[: 2 if command.words[0] in MANY_COMMANDS else 1])
        return f"`{named}` is not known to only read"
    arguments = known.arguments
    if arguments.unknown:
        return f"`{command.words[0]}` is not known to only read: {next(iter(arguments.unknown.values()))}"
    if arguments.named:
        return f"`{command.words[0]}` with `{command.words[min(arguments.named)]}` does more than read"
    return ""


def _note(known: Known, command: SimpleCommand, folders: tuple[str, ...], found: _Findings) -> None:
    arguments = known.arguments
    for folder in known.folders:
        folders = _enter(folders, folder)
    found.leaves = found.leaves or known.row.leaves or bool(arguments.leaving)
    for part in arguments.parts:
        if part.kind in NAMED_KINDS and part.text not in ("-", "/dev/null"):
            is_pattern = "glob" in command.marks[part.index]
            is_searched = arguments.searches and part.kind != "source"
            found.reads.append(Reading(part.text, part.kind, folders, is_pattern, is_searched))
    # A rule about files should also find those that are named in a way that is not known.
    for index in arguments.unknown:
        word = command.words[index]
        found.reads.append(Reading(word if word[:1] != "-" else word.partition("=")[2] or word[2:], "read", folders))
    if arguments.here:
        found.reads.append(Reading("", arguments.here, folders, is_searched=arguments.searches))


def _judge_redirection(redirection: Redirection, folders: tuple[str, ...], found: _Findings) -> str:
    if redirection.joins or redirection.discards:
        return ""
    if redirection.operator == "<" and not redirection.target.startswith("/dev/"):
        found.reads.append(Reading(redirection.target, "read", folders))
    if redirection.operator != "<" or redirection.descriptor not in (None, 0):
        return f"it redirects to `{redirection.target}`"
    is_device = redirection.target.startswith("/dev/") and redirection.target != "/dev/null"
    return f"it reads the device `{redirection.target}`" if is_device else ""
