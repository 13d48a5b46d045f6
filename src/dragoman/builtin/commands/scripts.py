"""The files that a command line would run, told apart by what is in them: a script can change after it was approved."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping

from dragoman.builtin.commands.programs import find_programs, is_beneath
from dragoman.builtin.commands.repositories import UNKNOWN, find_settings
from dragoman.types import Operand

_LARGEST = 512 * 1024 * 1024


class TooLarge(OSError):
    """A script of a size that nobody has read."""


def find_operands(command: str, folder: str, environment: Mapping[str, str]) -> list[Operand]:
    """The command line itself, and every file that says what it would run.

    Those are scripts, programs that lie in the workspace, and the settings of repositories that name programs.
    """
    from dragoman.policy import shell

    top = os.path.realpath(folder)
    files = [describe(path, folder) for path in dict.fromkeys(shell.scripts(command))]
    visits = shell.visits(command)
    programs = find_programs((visit.words[0] for visit in visits), environment.get("PATH", ""), top)
    files += [_describe_as(path, top) for path in programs]
    settings = find_settings(visits, top, environment)
    files += [_UNKNOWN if path == UNKNOWN else describe(path, folder) for path in settings]
    return [Operand(kind="command", value=command, access="run", inside=True), *dict.fromkeys(files)]


_UNKNOWN = Operand(kind="path", value="a folder that is not known", access="run", inside=False)


def describe(path: str, folder: str) -> Operand:
    """A script as it is at this moment; one that is not there has no identity."""
    top = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(top, os.path.expanduser(path)))
    return _describe_as(real, top)


def _describe_as(path: str, top: str) -> Operand:
    """A file under the name by which it is found, which may be a link to another place."""
    real = os.path.realpath(path)
    is_inside = is_beneath(path, top)
    identity, digest = _fingerprint(real)
    return Operand(
        kind="path",
        value=os.path.relpath(path, top) if is_inside else path,
        access="run",
        real=real,
        inside=is_inside,
        identity=identity,
        digest=digest,
    )


def has_changed(command: str, folder: str, environment: Mapping[str, str], approved: Iterable[Operand]) -> bool:
    """Whether a file that says what this line runs is not what it was when the line was decided on."""
    approved = tuple(approved)
    if not approved:
        return False
    return _essences(find_operands(command, folder, environment)) != _essences(approved)


def _essences(operands: Iterable[Operand]) -> set[tuple[str, str, str]]:
    return {_essence(operand) for operand in operands if operand.kind == "path" and operand.access == "run"}


def _essence(operand: Operand) -> tuple[str, str, str]:
    return operand.real, operand.identity, operand.digest


def _fingerprint(path: str) -> tuple[str, str]:
    """Device and inode, and the digest of the content where it is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        # Not there, or not ours to read: then its content cannot be vouched for, and the digest stays empty.
        return _identity(path), ""
    try:
        found = os.fstat(descriptor)
        identity = f"{found.st_dev}:{found.st_ino}"
        if not stat.S_ISREG(found.st_mode):
            return identity, ""
        return identity, _digest(descriptor, path)
    finally:
        os.close(descriptor)


def _identity(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _digest(descriptor: int, path: str) -> str:
    digest, size = hashlib.sha256(), 0
    while piece := os.read(descriptor, 1 << 20):
        digest.update(piece)
        size += len(piece)
        if size > _LARGEST:
            raise TooLarge(f"{path} is too large to be looked at before it is run")
    return digest.hexdigest()
