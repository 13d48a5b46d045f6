"""Parameters of commands that take texts as they are.

Typer converts each value, even none at all, with pydantic, whose import takes as long as that of typer.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

_NOT_PLAIN = object()


def _take(parameter: Any, value: Any) -> Any:
    """The value of a parameter if it is a text, a choice or nothing; else `_NOT_PLAIN`."""
    kind = parameter.type_descriptor
    if value is None:
        several = () if parameter.multiple or parameter.nargs == -1 else None
        return _NOT_PLAIN if parameter.required else several
    if isinstance(value, str) and (kind.annotation is str or value in (kind.choices or ())):
        return value
    return list(value) if kind.annotation == list[str] and isinstance(value, list | tuple) else _NOT_PLAIN


def _process(parameter: Any, convert: Any, ctx: Any, value: Any) -> Any:
    taken = _take(parameter, value)
    if taken is _NOT_PLAIN:
        return convert(ctx, value)
    return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)


class _PlainOption(TyperOption):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _process(self, super().process_value, ctx, value)


class _PlainArgument(TyperArgument):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _process(self, super().process_value, ctx, value)


_PLAIN: dict[type, type] = {TyperOption: _PlainOption, TyperArgument: _PlainArgument}


def make_plain(parameter: Any) -> Any:
    """Let a parameter take texts as they are."""
    parameter.__class__ = _PLAIN.get(type(parameter), type(parameter))
    return parameter


class PlainGroup(TyperGroup):
    """A group of commands whose own options need no conversion either."""

    def get_params(self, ctx: Any) -> Any:
        return [make_plain(each) for each in super().get_params(ctx)]
