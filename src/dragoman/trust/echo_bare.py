"""Calls without arguments. Their name alone is everywhere; only what wraps it shows that it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from dragoman.trust.echo_words import ARGUMENT_WORDS, MARKUP_WORDS, NAME_WORDS


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_NAMED, _WORDS, _ARGUMENTS = _any_of(NAME_WORDS), _any_of(MARKUP_WORDS), _any_of(ARGUMENT_WORDS)


def find_bare(names: Iterable[str], text: str, *, is_compact: bool = False) -> Literal["none", "exact", "similar"]:
    """Whether a text holds a call of this name without arguments: surely, perhaps, or not."""
    name = rf"(?:{_any_of(names)})"
    if re.search(name, text) is None:
        return "none"
    if any(re.search(pattern, text) for pattern in _write_patterns(name, is_compact=is_compact)):
        return "exact"
    # [x()]: perhaps a link of a manual.
    return "similar" if re.search(rf"[{{}}]{name}@", text) else "none"


def _write_patterns(name: str, *, is_compact: bool) -> tuple[str, ...]:
    blank, edge, start = ("", "", "") if is_compact else (" ", r"(?![^ {}@])", r"(?<![^ {}@])")
    gap = rf"(?:[ {{}}]|(?>{_WORDS}|\d{{1,3}}){edge}){{0,20}}?"
    return (
        # {"name": "x", "arguments": {}}, also with an id in between
        rf"{start}(?:{_NAMED})(?:{blank}|\{{){name}{edge}{gap}(?:{_ARGUMENTS}|begin|message|sep|msg)@",
        # {"arguments": {}, "name": "x"}
        rf"(?:{_ARGUMENTS})@{gap}(?:{_NAMED}){blank}{name}{edge}",
        # <invoke name="x"></invoke>, <tool_call>x</tool_call>
        rf"{start}({_NAMED})(?:{blank}name)?(?:{blank}|\{{){name}(?: \d{{1,3}})?"
        rf"\{{(?:(?:{_WORDS}){blank}){{0,2}}\1{edge}",
        # <x></x>
        rf"\{{({name})\{{\1{edge}",
        # <|tool_call_start|>[x()]
        rf"{start}(?:{_NAMED})\{{{name}(?:{blank}call)?@",
        # <function=x>{}</function>
        rf"{start}(?:{_NAMED}){blank}{name}@(?:call|end|eom|function|invoke|tool)",
    )
