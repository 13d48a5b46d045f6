"""Calls written as Python: the name before a parenthesis, and the arguments behind it."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.args.tolerant import Tolerant
from dragoman.formats.loose.found import Offered, properties_of
from dragoman.formats.loose.json_calls import by_position
from dragoman.toolset import fold
from dragoman.types import JsonObject, Tool

# Read from the parenthesis backwards: NAME(  'NAME'(  NAME (  **NAME**(
_CALLEE_REVERSED = re.compile(r"( ?)([\"'`*]{0,3})([\w.\-\\]{1,200})(.?)", re.DOTALL)
_LEADING = re.compile(r"(?:\d+\.)?[\-.\\]*")
DEFINED_BODY = re.compile(r"[ \t]*\{")
"""What makes a definition of `name(...)` in languages with braces: the body that follows."""
_DEFINING_REVERSED = re.compile(r"[ \t]+(?:fed|ssalc|cnuf|nf|bus)(?!\w)")


class Callee(Struct, gc=False):
    """A name right before a parenthesis."""

    start: int
    tool: Tool
    spaced: bool
    """A blank stands between the name and the parenthesis."""
    defines: bool
    """`def name(` and its like: the text defines the function instead of calling it."""


def callee_before(text: str, paren: int, floor: int, offered: Offered) -> Callee | None:
    """The offered name that a parenthesis follows, if one does."""
    head = text[max(floor, paren - 220) : paren][::-1]
    match = _CALLEE_REVERSED.match(head)
    if match is None:
        return None
    written = match[3][::-1]
    start = paren - match.end(3)
    leading = _LEADING.match(written)
    if leading is not None and leading.end():
        if written[leading.end() - 1 : leading.end()] == "." and leading.end() == 1 and match[4]:
            # The method of something else: result.name(
            return None
        written = written[leading.end() :]
        start += leading.end()
    tool = offered.find(written) if written and (written[0].isalpha() or written[0] == "_") else None
    if tool is None:
        return None
    defines = _DEFINING_REVERSED.match(head, match.end(3)) is not None
    if match[2] and match[2][-1] == match[4]:
        start -= 1
    return Callee(start, tool, bool(match[1]), defines)


class Read(Struct, gc=False):
    """The arguments between the parentheses."""

    arguments: JsonObject
    end: int
    repairs: list[str]
    positional: int


def read_arguments(text: str, position: int, tool: Tool) -> Read | None:
    """The arguments that begin right behind a parenthesis; None when positions cannot be given names."""
    reader = Tolerant(text, python=True)
    positional, keywords, end = reader.arguments(position)
    repairs = list(reader.rules)
    if "object_as_arguments" in repairs and not _names_parameters(keywords, tool):
        # name({...}) where the object is the value of the first parameter.
        repairs.remove("object_as_arguments")
        positional, keywords = [keywords], {}
    arguments: JsonObject | None = keywords
    if positional:
        arguments = by_position(positional, keywords, tool)
        repairs.append("positional_arguments")
    if arguments is None:
        return None
    return Read(arguments, end, repairs, len(positional))


def _names_parameters(keywords: JsonObject, tool: Tool) -> bool:
    """Whether the keys of an object are parameters of the tool, or may be for all we know."""
    properties = properties_of(tool)
    if not properties or not keywords:
        return True
    known = set(map(fold, properties))
    return any(fold(name) in known for name in keywords)
