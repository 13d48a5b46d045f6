"""Whether a command line only reads. What is not certain counts as writing: the answer fails towards asking."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.shell.lines import CommandLine, Redirection, SimpleCommand
from dragoman.shell.places import Places
from dragoman.shell.reaching import is_option
from dragoman.shell.readers import find_operands, find_reader, find_writing
from dragoman.shell.reading import FAULTS, read_command
from dragoman.shell.sed import read_sed
from dragoman.shell.versioning import judge_gh, judge_git

# What bash does to these words is known well enough, as long as they are arguments of programs that only read.
_BEARABLE = frozenset({"glob", "variable", "tilde", "brace", "newline", "comment"})
_HARMLESS_SETTING = re.compile(
    r"(?:LC_[A-Z]+|LANG|LANGUAGE|TZ|NO_COLOR|COLUMNS)=[A-Za-z0-9_@+-]*(?:\.[A-Za-z0-9_-]+)?\Z"
)


_RECURSIVE = frozenset({"-r", "-R", "--recursive", "--dereference-recursive"})


class ReadOnly(Struct, frozen=True):
    """Whether a line only reads, why not, and which files it reads."""

    verdict: bool
    why: str = ""
    paths: tuple[str, ...] = ()
    """The files and folders it names, as written."""
    leaves: bool = False
    """Whether it reads, or may read, something outside the folder it starts in.

    A `cd` to another place counts only when a later command reads files there. An absolute path always counts: where
    the workspace lies is not known here.
    """


def read_only(text: str) -> ReadOnly:
    """Whether a command line changes nothing, as far as that can be told from the line alone."""
    line = read_command(text)
    why = _find_unbearable(line)
    if why:
        return ReadOnly(False, why)
    places = Places()
    for command in line.commands:
        why = _judge(command, places)
        if why:
            return ReadOnly(False, why, tuple(places.paths), places.leaves)
    return ReadOnly(True, "", tuple(places.paths), places.leaves)


def _find_unbearable(line: CommandLine) -> str:
    return next((FAULTS[fault] for fault in line.faults if fault not in _BEARABLE), "")


def _judge(command: SimpleCommand, places: Places) -> str:
    """Why a command may do more than read; empty where it does not. Notes in `places` what it reads."""
    if not command.words:
        return "it sets a variable, or writes a file, and runs nothing"
    for assignment in command.assignments:
        if not _HARMLESS_SETTING.match(assignment):
            return f"it sets `{assignment.partition('=')[0]}`, which may change what a program does"
    for redirection in command.redirections:
        why = _judge_redirection(redirection, places)
        if why:
            return why
    program = command.words[0]
    if program == "cd":
        return _judge_cd(command, places)
    if program == "git":
        return _judge_git(command, places)
    if program == "gh":
        why, leaves = judge_gh(command.words)
        places.leaves = places.leaves or leaves
        return why or _find_mark(command)
    if program == "sed":
        why, operands = read_sed(command)
        places.note(operands)
        return why
    return _judge_reader(command, places)


def _judge_redirection(redirection: Redirection, places: Places) -> str:
    if redirection.joins or redirection.discards:
        return ""
    if redirection.operator != "<" or redirection.descriptor not in (None, 0):
        return f"it redirects to `{redirection.target}`"
    if redirection.target.startswith("/dev/") and redirection.target != "/dev/null":
        return f"it reads the device `{redirection.target}`"
    places.note([redirection.target])
    return ""


def _judge_cd(command: SimpleCommand, places: Places) -> str:
    operands = [word for word in command.words[1:] if word not in ("-P", "-L", "--")]
    is_certain = len(operands) == 1 and operands[0] not in ("", "-") and not any(command.marks)
    places.move(operands[0] if is_certain else "/")
    return ""


def _judge_git(command: SimpleCommand, places: Places) -> str:
    why, folder, operands = judge_git(command)
    if why or (why := _find_mark(command)):
        return why
    if places.is_outside or (folder and places.escapes(folder)):
        places.leaves = True
    places.note_suspects(operands)
    return ""


def _find_mark(command: SimpleCommand) -> str:
    for index, word in enumerate(command.words):
        if command.is_marked(index) and (command.marks[index] != "glob" or word[0] in "*?[-"):
            return f"`{word}` could become an option with which `{command.words[0]}` does more than read"
    return ""


def _judge_reader(command: SimpleCommand, places: Places) -> str:
    reader = find_reader(command)
    if reader is None:
        return f"`{command.words[0]}` is not known to only read"
    why = find_writing(reader, command)
    if why:
        return why
    operands, values = find_operands(reader, command)
    if reader.operands == "text":
        places.note(word for word, marks in zip(command.words, command.marks, strict=True) if "glob" in marks)
        return ""
    places.note(operands)
    places.note_suspects(values)
    if any(mark not in ("", "glob") for mark in command.marks):
        places.leaves = True
    if reader.searches or _is_recursive(command):
        places.search(operands)
    return ""


def _is_recursive(command: SimpleCommand) -> bool:
    return command.words[0].endswith("grep") and any(is_option(word, _RECURSIVE) for word in command.words[1:])
