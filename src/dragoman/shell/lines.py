"""A command line as it was read: its commands, their words, and what could not be understood."""

from __future__ import annotations

from msgspec import Struct


class Redirection(Struct, frozen=True):
    """Where a command's input comes from, or where its output goes."""

    operator: str
    """`<`, `>`, `>>`, `&>`, `&>>`, `>&`, `<&`, or a form that is not understood."""
    target: str
    descriptor: int | None = None
    """The number in front of the operator; None where there is none."""

    @property
    def joins(self) -> bool:
        """Whether it only joins output and error output, as `2>&1` does."""
        return self.operator == ">&" and self.target in ("1", "2") and self.descriptor in (None, 1, 2)

    @property
    def discards(self) -> bool:
        """Whether it only throws output away."""
        return self.operator in (">", ">>", "&>", "&>>") and self.target == "/dev/null"


class SimpleCommand(Struct, frozen=True):
    """One program and its arguments, with quotes removed as bash removes them."""

    words: tuple[str, ...]
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[str, ...] = ()
    """`NAME=value` in front of the program."""
    marks: tuple[str, ...] = ()
    """For each word what bash would still do to it: `glob`, `variable`, `tilde`, `brace`, `substitution`."""

    def is_marked(self, index: int) -> bool:
        """Whether bash could turn this word into something else than what is written."""
        return index < len(self.marks) and self.marks[index] != ""


class CommandLine(Struct, frozen=True):
    """A whole line; where `understood` is False, bash may run other things than `commands` says."""

    text: str
    commands: tuple[SimpleCommand, ...]
    understood: bool
    why: str = ""
    """The first thing that was not understood, in words."""
    operators: tuple[str, ...] = ()
    """What stands between the commands: `&&`, `||`, `;`, `|`."""
    faults: tuple[str, ...] = ()
    """The names of everything that was not understood."""
