"""JSON with something else in a place or two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
Path = tuple[Any, ...]


def mutations(value: Any) -> st.SearchStrategy[Any]:
    """The same value with up to four of its places taken by something else."""
    places = st.lists(st.tuples(st.sampled_from(list(_paths(value))), junk), min_size=1, max_size=4)
    return places.map(lambda changes: _change(value, changes))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from _paths(entry, (*path, key))


def _change(value: Any, changes: list[tuple[Path, Any]]) -> Any:
    for path, new in changes:
        value = _replace(value, path, new)
    return value


def _replace(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: _replace(value[path[0]], path[1:], new)}
    if isinstance(value, list) and isinstance(path[0], int) and path[0] < len(value):
        return [_replace(entry, path[1:], new) if place == path[0] else entry for place, entry in enumerate(value)]
    # An earlier change took this place away.
    return value
