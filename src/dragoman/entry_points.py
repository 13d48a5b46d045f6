"""Entry points: what installed packages add to the tables of providers, tools, formats and wires.

A package names its addition in `pyproject.toml`:

    [project.entry-points."dragoman.formats"]
    acme = "acme.dragoman:FORMAT"

To search all installed packages is slow. So dragoman does it only for an unknown name, and once for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol


class EntryPoint(Protocol):
    """What `importlib.metadata` returns for an installed package."""

    @property
    def name(self) -> str: ...

    def load(self) -> Any: ...


def find_entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, of all installed packages."""
    from importlib import metadata

    return list(metadata.entry_points(group=group))


def load_entry_points(
    group: str, take: Callable[[Any], object], points: Iterable[EntryPoint] | None = None
) -> tuple[str, ...]:
    """Pass each value of a group to `take`, also the values of a list or of a function. Return the problems.

    An error in an installed package affects only its own values.
    """
    problems: list[str] = []
    for point in find_entry_points(group) if points is None else points:
        try:
            loaded = point.load()
            given = loaded() if callable(loaded) and not isinstance(loaded, type) else loaded
            for value in given if isinstance(given, list | tuple) else [given]:
                take(value)
        except Exception as error:
            problems.append(f"entry point {point.name!r} of {group}: {type(error).__name__}: {error}")
    return tuple(problems)
