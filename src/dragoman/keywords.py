"""Check keyword arguments: the error for an unknown keyword suggests the nearest known one.

Python suggests a name only since 3.13, and dragoman supports 3.11. For a keyword that moved, the error names the
replacement.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from dragoman.errors import ConfigError, nearest

F = TypeVar("F", bound=Callable[..., Any])


def as_list(name: str, given: Any) -> list[Any]:
    """Return the values of an argument that is a list. A single text would be read as a list of its characters."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        shown = repr(given) if isinstance(given, str) else "..."
        raise ConfigError(f"{name} is a list, not {type(given).__name__}", hint=f"give a list: {name}=[{shown}]")
    return list(given)


class UnknownKeyword(ConfigError, TypeError):
    """A function was called with a keyword argument that it does not have."""

    def __init__(self, function: str, name: str, known: Mapping[str, Any] | tuple[str, ...], hint: str = "") -> None:
        guess = nearest(name, known)
        message = f"{function}() has no parameter {name!r}"
        super().__init__(
            f"{message}; did you mean {guess!r}?" if guess else message,
            hint=hint or f"it takes {', '.join(known)}",
        )
        self.name = name
        self.nearest = guess


def known_keywords(moved: Mapping[str, str] | None = None, extra: Iterable[str] = ()) -> Callable[[F], F]:
    """Make a function raise `UnknownKeyword` for unknown keywords.

    `moved` maps the name of a former parameter to the expression that replaces it. `extra` are the keywords that the
    function accepts as `**options`.
    """

    def decorate(function: F) -> F:
        parameters = inspect.signature(function).parameters
        named = (name for name, each in parameters.items() if name != "self" and each.kind != each.VAR_KEYWORD)
        known = (*named, *extra)
        accepted = frozenset(known)
        shown = function.__qualname__.removesuffix(".__init__")

        def check(given: Mapping[str, Any]) -> None:
            for name in given:
                if name not in accepted:
                    place = (moved or {}).get(name)
                    raise UnknownKeyword(shown, name, known, hint=f"write {place}" if place else "")

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def checked_async(*args: Any, **keywords: Any) -> Any:
                check(keywords)
                return await function(*args, **keywords)

            return checked_async  # type: ignore[return-value]

        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            check(keywords)
            return function(*args, **keywords)

        return checked  # type: ignore[return-value]

    return decorate
