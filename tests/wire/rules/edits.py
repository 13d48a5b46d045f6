"""Small changes to a valid body, each of which breaks one rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Edit = Callable[[Any], None]
# A change, and the beginning of the one sentence that the judge then says.
Row = tuple[Edit, str]


def _reach(body: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        body = body[step]
    return body


def put(value: Any, *path: str | int) -> Edit:
    """Set what stands at a path."""

    def edit(body: Any) -> None:
        _reach(body, path[:-1])[path[-1]] = value

    return edit


def drop(*path: str | int) -> Edit:
    """Take away what stands at a path."""

    def edit(body: Any) -> None:
        del _reach(body, path[:-1])[path[-1]]

    return edit


def insert(value: Any, *path: str | int) -> Edit:
    """Put an entry into an array, before the one that stands at the path."""

    def edit(body: Any) -> None:
        _reach(body, path[:-1]).insert(path[-1], value)

    return edit


def keep(count: int, *path: str | int) -> Edit:
    """Cut an array, so that its first entries are left."""

    def edit(body: Any) -> None:
        del _reach(body, path)[count:]

    return edit


def all_of(*edits: Edit) -> Edit:
    """Several changes together."""

    def edit(body: Any) -> None:
        for one in edits:
            one(body)

    return edit
