"""Command lines understood far enough to say what they run, and no further. Pure: nothing is executed here."""

from __future__ import annotations

from dragoman.shell.allowing import allows, allows_any
from dragoman.shell.lines import CommandLine, Redirection, SimpleCommand
from dragoman.shell.mentioning import mentions
from dragoman.shell.reading import read_command
from dragoman.shell.readonly import ReadOnly, read_only
from dragoman.shell.scripts import scripts
from dragoman.shell.suggesting import suggest
from dragoman.shell.visiting import Visit, visits

__all__ = [
    "CommandLine",
    "ReadOnly",
    "Redirection",
    "SimpleCommand",
    "Visit",
    "allows",
    "allows_any",
    "mentions",
    "read_command",
    "read_only",
    "scripts",
    "suggest",
    "visits",
]
