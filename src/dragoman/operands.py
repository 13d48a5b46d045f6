"""What a call is about, outside the call itself: the file it would change, the command it would run, the address.

A tool that has an `inspect` function says this before the call is decided on, and again right before it runs. Rules
match operands, and an approval holds for exactly these.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

OperandKind = Literal["path", "command", "url"]
Access = Literal["read", "write", "run", "send"]


class Operand(Struct, frozen=True):
    """One thing that a call is about, as it is at this moment."""

    kind: OperandKind
    value: str
    """As rules see it: a path relative to the workspace (absolute if it lies outside), a command line, an address."""
    access: Access = "read"
    real: str = ""
    """Where it really is: the path with every link followed, the address with its host in normal form."""
    inside: bool = True
    """Whether it lies in the workspace; of an address, whether it is a public one as far as its spelling tells."""
    protected: bool = False
    """Whether changing it would change what is trusted later: hooks of git, our own settings, start-up files."""
    identity: str = ""
    """Device and inode; empty where there is nothing yet."""
    digest: str = ""
    """SHA-256 of the content, of files that would be edited, overwritten or run; empty where there is none."""
