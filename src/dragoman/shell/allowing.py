"""Whether a rule that allows covers a command line, all of it."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.shell.lines import CommandLine, SimpleCommand
from dragoman.shell.matching import STAR, CommandPattern, Pattern, read_rule
from dragoman.shell.reaching import reaches_further
from dragoman.shell.reading import read_command
from dragoman.shell.tables import words_of

# What these do lasts for the rest of the line, and so they change what the other commands of the line mean.
_LASTING = words_of(
    "cd pushd popd alias unalias hash set shopt enable source . eval exec trap declare typeset local export readonly "
    "unset read mapfile readarray builtin command let getopts umask ulimit"
)


def allows(pattern: str, text: str) -> bool:
    """Whether an allow rule with this pattern covers the whole line: each of its commands, and nothing else in it."""
    return allows_any((pattern,), text)


def allows_any(patterns: Iterable[str], text: str) -> bool:
    """Whether these patterns together cover the whole line: each command is covered by one of them."""
    line = read_command(text)
    if not line.understood or not all(_is_plain(command) for command in line.commands):
        return False
    rules = [rule for rule in map(read_rule, patterns) if rule.is_understood]
    if any(_covers_sequence(rule, line) for rule in rules):
        return True
    singles = [rule.commands[0] for rule in rules if len(rule.commands) == 1]
    if len(singles) > 1 and not _is_independent(line):
        return any(all(_covers(single, command) for command in line.commands) for single in singles)
    return all(any(_covers(single, command) for single in singles) for command in line.commands)


def _is_plain(command: SimpleCommand) -> bool:
    if not command.words or command.assignments:
        return False
    return all(redirection.joins or redirection.discards for redirection in command.redirections)


def _is_independent(line: CommandLine) -> bool:
    """Whether no command of the line changes what another one does; a step into a folder below counts as none."""
    if len(line.commands) == 1:
        return True
    return not any(command.words[0] in _LASTING and not _is_step_down(command.words) for command in line.commands)


def _is_step_down(words: tuple[str, ...]) -> bool:
    if words[0] != "cd" or len(words) != 2 or words[1].startswith(("/", "-", "~")) or not words[1]:
        return False
    return ".." not in words[1].split("/")


def _covers_sequence(rule: Pattern, line: CommandLine) -> bool:
    """Whether the rule was written for just this sequence of commands."""
    if len(rule.commands) < 2 or len(rule.commands) != len(line.commands) or rule.operators != line.operators:
        return False
    return all(_covers(single, command) for single, command in zip(rule.commands, line.commands, strict=True))


def _covers(single: CommandPattern, command: SimpleCommand) -> bool:
    if not single.covers(command.words):
        return False
    if not single.words and single.is_open:
        return True
    is_exact = not single.is_open and not any(STAR in word for word in single.words)
    return is_exact or not reaches_further(command, single.words)
