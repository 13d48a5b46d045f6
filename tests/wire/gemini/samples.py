"""What the tests of this wire share: JSON of any shape, and bodies with one place changed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in inner for place in _places(entry, (*path, key)))]


def _replace(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replace(value[path[0]], path[1:], new)
    return copy


def mutations_of(samples: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """The samples, each with the value in one place changed to something else."""
    places = [(sample, path) for sample in samples for path in _places(sample)]
    return st.tuples(st.sampled_from(places), ANYTHING).map(lambda drawn: _replace(drawn[0][0], drawn[0][1], drawn[1]))
