"""Analysis of command lines: which programs a line certainly runs. Pure: nothing is executed here."""

from __future__ import annotations

from dragoman.policy.shell.effects import ProgramStart, Reading, ReadOnly, find_changed, read_only, scripts, visits
from dragoman.policy.shell.match import allows, allows_any, mentions, suggest
from dragoman.policy.shell.parser import CommandLine, Redirection, SimpleCommand, read_command

__all__ = [
    "CommandLine",
    "ProgramStart",
    "ReadOnly",
    "Reading",
    "Redirection",
    "SimpleCommand",
    "allows",
    "allows_any",
    "find_changed",
    "mentions",
    "read_command",
    "read_only",
    "scripts",
    "suggest",
    "visits",
]
