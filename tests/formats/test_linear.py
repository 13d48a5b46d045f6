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

FILLINGS = {"words": "plain words go by, ", "angle brackets": "a < b > c </ ", "escapes": "\\\\n"}
_MARK = "QQQQ"


def _repeat(before: str, bit: str, after: str = "") -> Maker:
    return lambda size: before + bit * max(1, size // len(bit)) + after


def scenarios(way: str, *, thorough: bool = False) -> dict[str, Maker]:
    """Mean texts, made from the pieces of one format."""
    name = "hermes" if way.startswith("auto") else way
    call = samples(name)[0]
    tags = [tag for tag in literals(name) if len(tag) > 1 and not tag[0].isspace()][: 8 if thorough else 2]
    made: dict[str, Maker] = {
        "many calls": _repeat("", call + "\n"),
        "blanks": _repeat("a", " \n"),
        "blanks after a call": _repeat(call, " \n"),
        "nested lists": _repeat("", "["),
        "nested objects": _repeat("", '{"a":'),
        "openers inside thinking": _repeat("<think>", (tags or ["{"])[0] + " "),
    }
    for tag in tags:
        made[f"{tag!r} again and again"] = _repeat("", tag)
        made[f"{tag!r} with JSON again and again"] = _repeat("", tag + '{"name": "')
    long = try_render([("search", {"query": _MARK})], name)
    if long is not None:
        before, _, after = long.partition(_MARK)
        for filling, bit in FILLINGS.items():
            made[f"a long value of {filling}"] = _repeat(before, bit, after)
        made["a long value, cut"] = _repeat(before, FILLINGS["words"])
        for tag in tags if thorough else tags[:1]:
            made[f"{tag!r} inside a value"] = _repeat(before, tag + " ")
        for bit in (" ", "[", '{"a":', '"', "x") if thorough else (" ", "["):
            made[f"{bit!r} inside a call"] = _repeat(before[: before.find("query")], bit)
            made[f"{bit!r} behind the values"] = _repeat(before + after[: len(after) // 2], bit)
    return made


@pytest.fixture(scope="module")
def counting() -> Iterator[Any]:
    with work.counted() as formats:
        yield formats


def check_growth(formats: Any, way: str, make: Maker, size: int, piece: int) -> str | None:
    """What grows faster than the text, if anything does."""

    def measure(text: str) -> work.Work:
        pieces = [text[start : start + piece] for start in range(0, len(text), piece)] if piece else [text]
        return work.work_of(lambda: formats.parser(way.removesuffix(", loose"), TOOLS, loose="loose" in way), pieces)

    small, large = make(size), make(4 * size)
    measure(make(100))
    most_times = MOST_TIMES / 4 * len(large) / len(small)
    for kind, before, after in zip(work.Work._fields, measure(small), measure(large), strict=True):
        if after > most_times * before + CONSTANT:
            return f"{kind}: {before} at {len(small)} characters, {after} at {len(large)}"
    return None


class Hoarder:
    """A stage of the kind that must not be: it keeps all text and looks through it again with every piece."""

    def __init__(self) -> None:
        self.text: str = work.CountedText()

    def feed(self, piece: str, /) -> list[Any]:
        self.text = self.text + piece
        return [] if self.text.find("</") < 0 else [self.text]

    def close(self) -> list[Any]:
        return []


def test_the_meter_tells_quadratic_work() -> None:
    small, large = (work.work_of(Hoarder, ["abcd"] * count) for count in (100, 400))
    assert large.looked_at > 15 * small.looked_at
    assert large.copied > 15 * small.copied
    assert large.calls < MOST_TIMES * small.calls


WAYS = [*NAMES, "auto", "auto, loose"]


@pytest.mark.parametrize("way", WAYS)
def test_work_grows_with_the_text_and_no_faster(way: str, counting: Any) -> None:
    # Every text is tried whole in half of the formats and in pieces in the others.
    turn = WAYS.index(way)
    found = {}
    for number, (what, make) in enumerate(scenarios(way).items()):
        piece = 7 * ((turn + number) % 2)
        # A reader that looks ahead up to its limit, at most 600 characters, looks ahead less at the end of the text.
        # In a short text that is much of it, so growth that is found there has to be found in a longer one as well.
        if check_growth(counting, way, make, 1_000, piece) and (
            faster := check_growth(counting, way, make, 8_000, piece)
        ):
            found[what] = faster
    assert found == {}


@pytest.mark.full
@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize("way", WAYS)
def test_work_grows_with_long_texts_and_no_faster(way: str, piece: int, counting: Any) -> None:
    found = {
        what: faster
        for what, make in scenarios(way, thorough=True).items()
        if (faster := check_growth(counting, way, make, 6_000 if piece == 1 else 25_000, piece))
    }
    assert found == {}


@pytest.mark.parametrize("way", ["json_message", "ollama_tools"])
def test_blanks_that_never_end_behind_a_message_are_read_once(way: str, counting: Any) -> None:
    """A pattern that begins with white space read all of it again with every piece."""
    assert check_growth(counting, way, scenarios(way)["blanks after a call"], 8_000, 7) is None
