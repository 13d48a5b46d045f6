"""What a call of a file tool is about, for rules and approvals; and whether that is still so when it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dragoman.builtin.files.wording import quoted
from dragoman.builtin.files.workspace import Found, OutsideError, Workspace
from dragoman.sandbox.protected import is_protected
from dragoman.sandbox.system import is_below
from dragoman.tools import Error, ToolContext
from dragoman.types import Access, Operand


def operands_at(workspace: Workspace, given: str, access: Access) -> list[Operand]:
    """The operands of one path; of a file that would be changed, with its content as a digest.

    A path that goes over a link has two: the one that was given and the one behind it. Rules see both, so that a link
    never turns a path that is forbidden into one that is allowed.
    """
    try:
        found = workspace.find(given, digest=access == "write")
    except OutsideError:
        return [_outside(workspace, given, access)]
    except Error:
        # No file can be there: a loop of links, a name that is too long. The call will say so.
        return [_unusable(workspace, given, access)]
    return operands_of(workspace, found, access)


def operands_of(workspace: Workspace, found: Found, access: Access) -> list[Operand]:
    """The same for what has been looked up already."""
    real = workspace.absolute(found.real)
    # Whoever works in his home folder did not mean his keys by it.
    is_inside = not any(is_below(real, secret) for secret in workspace.secrets)
    values = [found.real] if found.path == found.real else [found.real, found.path]
    return [
        Operand(
            "path",
            value,
            access,
            real=real,
            inside=is_inside,
            protected=found.protected,
            identity=found.identity,
            digest=found.digest if access == "write" else "",
        )
        for value in values
    ]


def _outside(workspace: Workspace, given: str, access: Access) -> Operand:
    path = os.path.normpath(os.path.join(workspace.path, given))
    real = os.path.realpath(path)
    return Operand("path", path, access, real, inside=False, protected=is_protected(path) or is_protected(real))


def _unusable(workspace: Workspace, given: str, access: Access) -> Operand:
    return Operand("path", given, access, real=f"{workspace.path}/{given}", protected=is_protected(given))


def ensure_approved(context: ToolContext, operands: Iterable[Operand]) -> None:
    """Refuse to go on where something is not what it was when the call was decided on.

    Of what is only read, the place has to be the same; of what is changed, also the file and its content.
    """
    if not context.operands:
        return
    approved = {(each.value, each.access): each for each in context.operands if each.kind == "path"}
    for now in operands:
        then = approved.get((now.value, now.access))
        if then is None:
            raise Error(f"{quoted(now.value)} is not part of what was approved; nothing was done")
        same = then.real == now.real and then.inside == now.inside
        if now.access == "write":
            same = same and then.identity == now.identity and then.digest == now.digest
        if not same:
            raise Error(
                f"{quoted(now.value)} changed since this call was approved; nothing was done. Look at it and call again"
            )
