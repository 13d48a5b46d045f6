"""Commands whose arguments are mere data, and commands that run whatever they are fed."""

from __future__ import annotations

from dragoman.shell.lines import CommandLine, SimpleCommand
from dragoman.shell.reaching import reaches_further
from dragoman.shell.readers import READERS
from dragoman.shell.scripts import scripts
from dragoman.shell.sed import read_sed
from dragoman.shell.tables import words_of
from dragoman.shell.wrappers import SHELLS, WRAPPERS, base_name, is_interpreter

_PLAIN = words_of("cd mkdir rmdir rm touch chmod chown chgrp kill sleep curl wget") | frozenset(READERS)
_PLAIN_GIT = words_of(
    "add branch checkout cherry-pick commit diff fetch log merge mv pull push reset restore revert rm show stash "
    "switch tag blame grep rev-parse ls-files remote status"
)
_PLAIN_GH = words_of("pr issue repo release run workflow gist label search")
_VALUED_OF_XARGS = words_of("-I -n -P -L -s -a -d -E -J -R --max-args --max-procs --arg-file --delimiter")
# Programs that run programs that run programs: a line that goes deeper than this is not followed to its end.
_MOST_WRAPPERS = 16
_FED = SHELLS | {"xargs", "parallel", "source", "."}
_READING_DATA = words_of("awk gawk mawk nawk sqlite3")


def is_plain(command: SimpleCommand) -> bool:
    """Whether nothing among the arguments of this command is ever run, nor kept in a file that may be run."""
    if not command.words or command.assignments:
        return False
    if any(redirection.operator != "<" and not (redirection.joins or redirection.discards)
           for redirection in command.redirections):  # fmt: skip
        return False
    program = command.words[0]
    if reaches_further(command):
        return False
    if program == "git":
        return command.words[1:2] != () and command.words[1] in _PLAIN_GIT and not command.is_marked(1)
    if program == "gh":
        return command.words[1:2] != () and command.words[1] in _PLAIN_GH
    if program == "sed":
        return read_sed(command)[0] == ""
    return program in _PLAIN


def runs_its_input(command: SimpleCommand, is_fed: bool) -> bool:
    """Whether the command runs what it reads, or what only shows when it runs, so that nothing can be told."""
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
    """Whether a shell with these arguments runs its input, having been given neither a script nor code."""
    if any(word in ("-s", "-i", "/dev/stdin", "-") for word in rest):
        return True
    return not any(not word.startswith("-") for word in rest) and "--version" not in rest


def _takes_its_program_from_input(name: str, rest: tuple[str, ...]) -> bool:
    replaced = "{}"
    index = 0
    while index < len(rest) and rest[index].startswith("-"):
        if rest[index].startswith("-I"):
            replaced = rest[index][2:] or "".join(rest[index + 1 : index + 2])
        index += 2 if rest[index] in _VALUED_OF_XARGS else 1
    words = rest[index:]
    if not words:
        return name == "parallel"
    if replaced and any(replaced in word for word in words[:1]):
        return True
    if base_name(words[0]) in SHELLS:
        return len(words) == 1 or any(replaced and replaced in word for word in words)
    return base_name(words[0]) in WRAPPERS and not any(not word.startswith("-") for word in words[1:])


def _runs_what_it_finds(command: SimpleCommand) -> bool:
    """`find -exec {}` runs the files it finds."""
    pairs = zip(command.words, command.words[1:], strict=False)
    return any(word.startswith(("-exec", "-ok", "-x", "-X")) and "{}" in following for word, following in pairs)


def runs_what_it_writes(line: CommandLine) -> bool:
    """Whether the line writes a file and runs one of that name: what it runs is only known when it does."""
    written = {base_name(target) for command in line.commands for target in _find_written(command)}
    return bool(written) and not written.isdisjoint(base_name(path) for path in scripts(line.text))


def _find_written(command: SimpleCommand) -> list[str]:
    targets = [r.target for r in command.redirections if r.operator not in ("<", "<<", "<<-", "<<<") and not r.discards]
    return [*targets, *command.words[1:]] if command.words[:1] == ("tee",) else targets
