"""Every reader of untrusted text: twice the text is at most twice the work. The tests count the work."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import hostile
from tests.formats import work

from dragoman.secrets.spans import AHEAD

MOST_TIMES = 2.3
# What is done once, whatever the size: a pattern is compiled, a buffer is filled up to its limit.
CONSTANT = 40_000
# More than any reader looks at for a character, in all its rules together.
MOST_PER_CHARACTER = 700

TOOLS = [{"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}]
SCHEMA = {
    "type": "object",
    "properties": {"x": {"anyOf": [{"type": "array"}, {"type": "object"}, {"type": "integer"}]}},
}
NOT_NATIVE = {"native_tool_calls": False}
KNOWN = "correct horse battery"
Reader = Callable[[str], Any]


@pytest.fixture(scope="module")
def module() -> Iterator[Callable[[str], Any]]:
    with work.counted("dragoman"):
        yield importlib.import_module


def whole(text: str) -> list[str]:
    return [work.CountedText(text)]


def pieces(text: str, size: int = 40) -> list[str]:
    return [work.CountedText(text[at : at + size]) for at in range(0, len(text), size)]


def feed(stage: Any, parts: list[Any]) -> None:
    for part in parts:
        stage.feed(part)
    stage.close()


def raw(parts: list[str]) -> list[Any]:
    return [work.CountedBytes(part.encode("utf-8", "replace")) for part in parts]


def partial(stage: Any, parts: list[str]) -> None:
    for part in ['{"x": "', *parts]:
        stage.feed(part)


# The module that reads, and how it gets the text.
READERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "scrub": ("secrets", lambda secrets, text: feed(secrets.Scrubber(), whole(text))),
    "scrub, in pieces": ("secrets", lambda secrets, text: feed(secrets.Scrubber(), pieces(text, 256))),
    "scrub, known secrets": ("secrets", lambda secrets, text: feed(secrets.Scrubber([KNOWN]), pieces(text, 256))),
    "extract": ("extraction", lambda found, text: found.extract(whole(text)[0], NOT_NATIVE, tools=TOOLS)),
    "parse": ("formats", lambda formats, text: formats.parse(whole(text)[0], "auto", TOOLS)),
    "parse, loose, in pieces": (
        "formats",
        lambda formats, text: feed(formats.parser("auto", TOOLS, loose=True), pieces(text)),
    ),
    "control tokens": ("extraction.control_tokens", lambda tokens, text: tokens.break_tokens(whole(text)[0])),
    "invented results": (
        "extraction.text_results",
        lambda results, text: results.strip_invented_results(whole(text)[0], beside_calls=True),
    ),
    "arguments": ("args", lambda args, text: args.load(whole(text)[0], SCHEMA)),
    "arguments, in a string": ("args", lambda args, text: args.load(work.CountedText('{"x": "' + text), SCHEMA)),
    "arguments, in pieces": ("args", lambda args, text: partial(args.PartialObject(), pieces(text))),
    "page": ("builtin.web.readable", lambda readable, text: readable.to_readable(whole(text)[0])),
    "server-sent events": ("wire.framing", lambda framing, text: feed(framing.SseDecoder(), raw(pieces(text)))),
    "lines of JSON": ("wire.framing", lambda framing, text: feed(framing.LineDecoder(), raw(pieces(text)))),
}
every_reader = pytest.mark.parametrize("name", READERS)


def check(read: Reader, make: hostile.Maker, size: int, constant: int = CONSTANT) -> str | None:
    """What grows faster than the text, or is too much for it."""
    small, large = make(size), make(2 * size)
    read(make(200))
    before, after = work.work_of_call(lambda: read(small)), work.work_of_call(lambda: read(large))
    times = MOST_TIMES / 2 * len(large) / len(small)
    for kind, one, two in zip(work.Work._fields, before, after, strict=True):
        if two > times * one + constant:
            return f"{kind}: {one} at {len(small)} characters, {two} at {len(large)}"
    if sum(after) > MOST_PER_CHARACTER * len(large) + 10 * CONSTANT:
        return f"{after} at {len(large)} characters"
    return None


def survey(name: str, texts: Iterator[tuple[str, hostile.Maker]], module: Any, size: int) -> dict[str, str]:
    where, take = READERS[name]
    loaded = module(f"dragoman.{where}")
    slack = CONSTANT if "scrub" not in name else AHEAD * MOST_PER_CHARACTER // 5
    checked = ((what, check(lambda text: take(loaded, text), make, size, slack)) for what, make in texts)
    return {what: wrong for what, wrong in checked if wrong}


def size_of(name: str) -> int:
    return 12_000 if "scrub" in name else 4_000


@every_reader
def test_work_doubles_with_the_text(name: str, module: Any) -> None:
    # Each reader gets another part of the fragments.
    step = 17 if "scrub" in name else 5
    chosen = hostile.FRAGMENTS[list(READERS).index(name) % step :: step]
    if name == "scrub":
        chosen += ("api_key:", "?sig=a&", "cookie=x=a;", "bearer+")
    assert survey(name, hostile.alone(chosen), module, size_of(name)) == {}


@pytest.mark.full
@every_reader
def test_work_doubles_with_every_fragment(name: str, module: Any) -> None:
    assert survey(name, hostile.alone(), module, 2 * size_of(name)) == {}


@pytest.mark.full
@every_reader
def test_work_doubles_with_pairs_of_fragments(name: str, module: Any) -> None:
    pairs = hostile.pairs(step=997, offset=list(READERS).index(name))
    assert survey(name, pairs, module, size_of(name)) == {}


def test_the_law_can_fail() -> None:
    def read(text: str) -> None:
        counted = work.CountedText(text)
        for at in range(0, len(text), 50):
            counted.find("never", at)

    assert check(read, hostile.repeat("a"), 4_000) is not None
