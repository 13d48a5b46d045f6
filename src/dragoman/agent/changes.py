"""The change that a call of `write` or `edit` would make to a file, as a diff for the person who approves it."""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.agent.approvals import ApprovalRequest
from dragoman.errors import DragomanError
from dragoman.secrets import HumanSink
from dragoman.types import Operand

LONGEST = 256 * 1024
"""Bytes of a file that is compared."""
_MOST_LINES = 2000
"""Lines that differ in each of the two texts; a comparison of more takes too long."""
_ARGUMENTS = {"write": {"path", "content"}, "edit": {"path", "old", "new", "replace_all"}}


class Change(Struct, frozen=True):
    """What would be changed in a file: the lines of a diff, or a note why there is none."""

    path: str
    lines: tuple[str, ...] = ()
    note: str = ""

    @property
    def arguments(self) -> frozenset[str]:
        """The arguments that the diff shows already."""
        return frozenset({"content", "old", "new"}) if self.lines else frozenset()


def find_change(request: ApprovalRequest, sink: HumanSink) -> Change | None:
    """The change of a call of `write` or `edit`; None for every other call. Secrets in it are hidden.

    The file is read now. If it is no longer what the request is about, there is no diff: the approval would be refused.
    """
    given, operand = request.call.arguments, _find_operand(request)
    if operand is None:
        return None
    path = operand.value
    content = _read(operand)
    if content is None:
        why = "the file changed since the request was made, is on another machine, or cannot be shown as text"
        return Change(path, note=why)
    after = _apply(request.tool, given, content)
    if after is None:
        return Change(path, note="the text to replace is not in the file, so nothing would change")
    before = content.decode("utf-8", "replace").replace("\r\n", "\n")
    old, new = sink.text(before), sink.text(after.replace("\r\n", "\n"))
    if old == new:
        same = before == after.replace("\r\n", "\n")
        return Change(path, note="nothing would change" if same else "only hidden values would change")
    return _compare(path, old, new)


def _find_operand(request: ApprovalRequest) -> Operand | None:
    """The file that a call of `write` or `edit` would change."""
    known = _ARGUMENTS.get(request.tool)
    if known is None or not set(request.call.arguments) <= known:
        return None
    written = [each for each in request.operands if each.kind == "path" and each.access == "write" and each.real]
    return written[0] if len(written) == 1 else None


def _read(operand: Operand) -> bytes | None:
    """The content of the file, if it is what the request was made for."""
    if not operand.identity:
        return None if os.path.lexists(operand.real) else b""
    try:
        # A named pipe would block; only a file of a known digest is read at all.
        if not stat.S_ISREG(os.stat(operand.real).st_mode) or os.path.getsize(operand.real) > LONGEST:
            return None
        content = Path(operand.real).read_bytes()
    except OSError:
        return None
    is_same = hashlib.sha256(content).hexdigest() == operand.digest.removeprefix("sha256:")
    return content if is_same and b"\0" not in content else None


def _apply(tool: str, given: dict[str, Any], content: bytes) -> str | None:
    """The text of the file after the call; None if the text to replace is not in it."""
    if tool == "write":
        return str(given.get("content", ""))
    from dragoman.builtin.files.tools import substitute

    try:
        done = substitute(content, str(given.get("old", "")), str(given.get("new", "")))
    except (DragomanError, UnicodeEncodeError):
        return None
    if done is None or (len(done.places) > 1 and not given.get("replace_all")) or done.size > LONGEST:
        return None
    return done.content().decode("utf-8", "replace")


def _compare(path: str, old: str, new: str) -> Change:
    before, after = _lines(old), _lines(new)
    same = next(
        (number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    if max(len(before), len(after)) - same > _MOST_LINES:
        return Change(path, note=f"{_count(before)} become {_count(after)}: too many for a diff")
    # The first two lines are the names of the files.
    lines = [*difflib.unified_diff(before, after, lineterm="", n=3)][2:]
    return Change(path, tuple(lines) or ("@ only the line break at the end differs",))


def _count(lines: list[str]) -> str:
    return f"{len(lines)} line{'' if len(lines) == 1 else 's'}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines
