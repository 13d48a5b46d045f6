"""Whether a command line runs, or might run, what a rule forbids or asks about.

The bias is the opposite of that of rules that allow: what cannot be told counts as running it.
"""

from __future__ import annotations

from dragoman.shell.lines import CommandLine, SimpleCommand
from dragoman.shell.matching import CommandPattern, read_rule
from dragoman.shell.needles import Needle
from dragoman.shell.plainness import is_plain, runs_its_input, runs_what_it_writes
from dragoman.shell.reaching import reaches_further
from dragoman.shell.reading import read_command
from dragoman.shell.scanning import might_mention, might_name
from dragoman.shell.wrappers import base_name, runs_text

# With nothing else unusual in it, a line is still split into the commands that bash runs.
_STILL_SPLIT = frozenset({"glob", "variable", "tilde", "brace", "newline", "comment", "background"})

# A line that names a program more often than this is not looked at more closely.
_MOST_PLACES = 32


def mentions(pattern: str, text: str) -> bool:
    """Whether any part of the line matches a deny or ask rule with this pattern, or might match it."""
    if not text.strip():
        return False
    rule = read_rule(pattern)
    singles = rule.commands
    if not rule.is_understood or not singles:
        singles = (*singles, CommandPattern(tuple(pattern.split()), is_open=True))
    line = read_command(text)
    return any(_mentions(Needle(single), line) for single in singles)


def _mentions(needle: Needle, line: CommandLine) -> bool:
    if needle.is_anything:
        return True
    if "command_word" in line.faults or runs_what_it_writes(line):
        return True
    if not _STILL_SPLIT.issuperset(line.faults):
        return might_mention(needle, line.text)
    is_rest_plain = True
    for index in range(len(line.commands) - 1, -1, -1):
        command = line.commands[index]
        is_piped = index < len(line.operators) and line.operators[index] == "|"
        is_fed = index > 0 and line.operators[index - 1] == "|"
        is_alone_plain = is_plain(command)
        is_rest_plain = is_rest_plain and is_alone_plain
        # What goes through a pipe to a program that may run it is no mere data.
        is_data = is_alone_plain and (is_rest_plain or not is_piped)
        if runs_its_input(command, is_fed) or _is_mentioned_by(needle, command, is_data):
            return True
    return False


def _is_mentioned_by(needle: Needle, command: SimpleCommand, is_data: bool) -> bool:
    """Whether a command is the forbidden one, or, where its words may be run, holds it."""
    if any(might_mention(needle, assignment) for assignment in command.assignments):
        return True
    if needle.matches(command.words, command.marks):
        return True
    if is_data or not command.words:
        return False
    start = 2 if needle.has_fixed_subcommands(base_name(command.words[0])) else 1
    places = [index for index in range(start, len(command.words)) if needle.names(command.words[index])]
    if len(places) > _MOST_PLACES:
        return True
    if any(needle.matches(command.words[index:], command.marks[index:]) for index in places):
        return True
    looks_like = might_mention if runs_text(command.words) or reaches_further(command) else might_name
    return any(_is_composite(word) and looks_like(needle, word) for word in command.words[1:])


def _is_composite(word: str) -> bool:
    """Whether a word holds more than a name or a path, so that it may be code, or a value that is run."""
    return not word.replace("/", "").replace(".", "").replace("-", "").replace("_", "").isalnum()
