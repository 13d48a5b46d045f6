"""Four times the text is about four times the work, in every format, whatever the pieces and however mean the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.formats import work
from tests.formats.strategies import NAMES, TOOLS, literals, samples, try_render

Maker = Callable[[int], str]
"""Makes a text of about so many characters."""

FILLINGS = {
    "words": "plain words go by, ",
    "angle brackets": "a < b > c </ ",
    "quotes": "it's ",
    "escapes": "\\\\n",
    "opening brackets": "[",
    "half markers": "<|<tool_",
}
_MARK = "QQQQ"


def _fill(before: str, bit: str, after: str = "") -> Maker:
    return lambda size: before + bit * max(1, size // len(bit)) + after


def scenarios(way: str) -> dict[str, Maker]:
    """Mean texts, made from the pieces of one format."""
    name = "hermes" if way == "auto" else way
    call = samples(name)[0]
    made: dict[str, Maker] = {
        "many calls": _fill("", call + "\n"),
        "blanks": _fill("a", " \n"),
        "blanks after a call": _fill(call, " \n"),
        "nested lists": _fill("", "["),
        "nested objects": _fill("", '{"a":'),
    }
    long = try_render([("search", {"query": _MARK})], name)
    if long is not None:
        before, _, after = long.partition(_MARK)
        for filling, bit in FILLINGS.items():
            made[f"a long value of {filling}"] = _fill(before, bit, after)
            made[f"a long value of {filling}, cut"] = _fill(before, bit)
        half = before[: before.find("query")]
        for bit in (" ", "[", '{"a":', '"', "x"):
            made[f"{bit!r} inside a call"] = _fill(half, bit)
            made[f"{bit!r} behind the values"] = _fill(before + after[: len(after) // 2], bit)
    tags = [tag for tag in literals(name) if len(tag) > 1 and not tag.isspace()]
    for tag in tags[:8]:
        made[f"{tag!r} again and again"] = _fill("", tag)
        made[f"{tag!r} with JSON again and again"] = _fill("", tag + '{"name": "')
        if long is not None:
            made[f"{tag!r} inside a value"] = _fill(before, tag + " ")
    made["openers inside thinking"] = _fill("<think>", (tags or ["{"])[0] + " ")
    return made
