"""Patterns of paths: `*`, `?`, `[a-z]`, `{py,toml}` within a name, and `**` for any number of folders.

They are matched part by part, so no pattern takes longer than the product of its length and that of the path.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from dragoman.tools import Error

_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_FORMS = 64
_LONGEST = 1000


class PathPattern:
    """A pattern, ready to be compared with paths."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise Error(f"the pattern is longer than {_LONGEST} characters")
        self.forms = [_parts(form) for form in _without_braces(pattern)]
        self._compiled = [[None if part == "**" else _compiled(part) for part in form] for form in self.forms]

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(form, names) for form in self._compiled)

    @property
    def deepest(self) -> int | None:
        """How many parts a path may have that matches; None where there is no end."""
        if any("**" in form for form in self.forms):
            return None
        return max(len(form) for form in self.forms)

    @property
    def literals(self) -> frozenset[str]:
        """Names that stand in the pattern as they are."""
        return frozenset(part for form in self.forms for part in form if not _MAGIC.search(part))


def split_base(pattern: str) -> tuple[str, str]:
    """The folders at the beginning of a pattern that are plain names, and the rest, which is never empty."""
    parts = _parts(pattern)
    at = next((index for index, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    at = min(at, len(parts) - 1)
    return "/".join(parts[:at]) or ".", "/".join(parts[at:])


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Error('a pattern cannot contain ".."; give the folder as path')
    if not parts:
        raise Error('the pattern is empty; "**" finds everything')
    if parts[-1] == "**":
        parts.append("*")  # All that is below, and not only folders.
    return parts


def _without_braces(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`; the innermost ones first."""
    forms = [pattern]
    while any(_BRACES.search(form) for form in forms):
        opened: list[str] = []
        for form in forms:
            braces = _BRACES.search(form)
            if braces is None:
                opened.append(form)
            else:
                opened += [form[: braces.start()] + each + form[braces.end() :] for each in braces[1].split(",")]
        forms = opened
        if len(forms) > _MOST_FORMS:
            raise Error(f"the pattern stands for more than {_MOST_FORMS} patterns; use fewer braces")
    return forms


def _compiled(part: str) -> re.Pattern[str]:
    try:
        return re.compile(fnmatch.translate(part))
    except re.error as problem:
        raise Error(f"the pattern {part!r} cannot be used: {problem}") from None


def _match(form: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Compare from the left; at a dead end, the last `**` takes one folder more."""
    at_form = at_name = 0
    again: tuple[int, int] | None = None
    while at_name < len(names):
        part = form[at_form] if at_form < len(form) else ...
        if part is None:
            again = (at_form + 1, at_name)
            at_form += 1
        elif part is not ... and part.match(names[at_name]):
            at_form, at_name = at_form + 1, at_name + 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            at_form, at_name = again
        else:
            return False
    return at_form == len(form)
