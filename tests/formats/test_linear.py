"""Four times the text is about four times the work, in every format, whatever the pieces and however mean the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.formats import work
from tests.formats.strategies import NAMES, TOOLS, literals, samples, try_render

Maker = Callable[[int], str]
"""Makes a text of about so many characters."""

MOST_TIMES = 4.6
# Compiling a pattern on first use, or the end of a call, is no matter of size.
CONSTANT = 2_500

FILLINGS = {"words": "plain words go by, ", "angle brackets": "a < b > c </ ", "quotes": "it's ", "escapes": "\\\\n"}
_MARK = "QQQQ"


def _repeat(before: str, bit: str, after: str = "") -> Maker:
    return lambda size: before + bit * max(1, size // len(bit)) + after


def scenarios(way: str, most_tags: int = 3) -> dict[str, Maker]:
    """Mean texts, made from the pieces of one format."""
    name = "hermes" if way.startswith("auto") else way
    call = samples(name)[0]
    tags = [tag for tag in literals(name) if len(tag) > 1 and not tag[0].isspace()]
    made: dict[str, Maker] = {
        "many calls": _repeat("", call + "\n"),
        "blanks": _repeat("a", " \n"),
        "blanks after a call": _repeat(call, " \n"),
        "nested lists": _repeat("", "["),
        "nested objects": _repeat("", '{"a":'),
        "openers inside thinking": _repeat("<think>", (tags or ["{"])[0] + " "),
    }
    for tag in tags[:most_tags]:
        made[f"{tag!r} again and again"] = _repeat("", tag)
        made[f"{tag!r} with JSON again and again"] = _repeat("", tag + '{"name": "')
    long = try_render([("search", {"query": _MARK})], name)
    if long is not None:
        before, _, after = long.partition(_MARK)
        for filling, bit in FILLINGS.items():
            made[f"a long value of {filling}"] = _repeat(before, bit, after)
        made["a long value, cut"] = _repeat(before, FILLINGS["words"])
        for tag in tags[:most_tags]:
            made[f"{tag!r} inside a value"] = _repeat(before, tag + " ")
        for bit in (" ", "[", '{"a":', '"', "x"):
            made[f"{bit!r} inside a call"] = _repeat(before[: before.find("query")], bit)
            made[f"{bit!r} behind the values"] = _repeat(before + after[: len(after) // 2], bit)
    return made


@pytest.fixture(scope="module")
def counting() -> Iterator[Any]:
    with work.counted() as formats:
        yield formats


def check_growth(formats: Any, way: str, make: Maker, size: int, piece: int) -> str | None:
    """What grows faster than the text, if anything does."""

    def measure(length: int) -> work.Work:
        text = make(length)
        pieces = [text[start : start + piece] for start in range(0, len(text), piece)] if piece else [text]
        return work.work_of(lambda: formats.parser(way.removesuffix(", loose"), TOOLS, loose="loose" in way), pieces)

    measure(min(size, 100))
    small, large = measure(size), measure(4 * size)
    for kind, before, after in zip(work.Work._fields, small, large, strict=True):
        if after > MOST_TIMES * before + CONSTANT:
            return f"{kind}: {before} at {size} characters, {after} at {4 * size}"
    return None


WAYS = [*NAMES, "auto", "auto, loose"]


@pytest.mark.parametrize("way", WAYS)
def test_work_grows_with_the_text_and_no_faster(way: str, counting: Any) -> None:
    found = {
        (what, piece): faster
        for what, make in scenarios(way).items()
        for piece in (0, 7)
        if (faster := check_growth(counting, way, make, 1_000, piece))
    }
    assert found == {}


@pytest.mark.full
@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize("way", WAYS)
def test_work_grows_with_long_texts_and_no_faster(way: str, piece: int, counting: Any) -> None:
    found = {
        what: faster
        for what, make in scenarios(way, most_tags=20).items()
        if (faster := check_growth(counting, way, make, 25_000, piece))
    }
    assert found == {}
