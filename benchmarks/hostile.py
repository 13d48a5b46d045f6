"""How time grows with texts that are made to be slow: every reader of foreign text, with two sizes and their ratio.

`tests/test_bounded_work.py` counts the work of the same readers with the same texts. A counter does not see what the
standard library does inside one call, so this measures CPU time. It prints what grows more than 2.3 times when the text
doubles, or takes longer than a second for a megabyte in the larger size.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import hostile

import dragoman
from dragoman import args, formats
from dragoman.args import PartialObject
from dragoman.builtin.files import patch_formats, text, tools
from dragoman.builtin.web.readable import to_readable
from dragoman.formats.registry import rows
from dragoman.secrets import Scrubber, scrub
from dragoman.tools import Error
from dragoman.wire.framing import LineDecoder, SseDecoder

SIZE = 16_384
MOST_TIMES = 2.3
MOST_SECONDS_PER_MB = 8.0
LEAST_SECONDS = 0.02
LIMIT = 20
TOOLS = [{"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}]
SCHEMA = {
    "type": "object",
    "properties": {"x": {"anyOf": [{"type": "array"}, {"type": "object"}, {"type": "integer"}]}},
}


class TooSlow(Exception):
    pass


def stream(make: Callable[[], Any], size: int) -> Callable[[str], None]:
    def run(text: str) -> None:
        stage = make()
        for at in range(0, len(text), size):
            stage.feed(text[at : at + size])
        stage.close()

    return run


def stream_bytes(make: Callable[[], Any], size: int) -> Callable[[str], None]:
    run = stream(make, size)
    return lambda text: run(text.encode("utf-8", "replace"))  # type: ignore[arg-type]


def partial(head: str, text: str) -> None:
    stage = PartialObject()
    stage.feed(head)
    for at in range(0, len(text), 64):
        stage.feed(text[at : at + 64])


def tolerate(reader: Callable[[str], Any], *errors: type[Exception]) -> Callable[[str], None]:
    def run(text: str) -> None:
        with contextlib.suppress(*errors):
            reader(text)

    return run


def parse_as(name: str, loose: bool) -> Callable[[str], Any]:
    return lambda text: formats.parse(text, name, TOOLS, loose=loose)


def parser_of(name: str, loose: bool) -> Callable[[], Any]:
    return lambda: formats.parser(name, TOOLS, loose=loose)


def readers() -> dict[str, Callable[[str], Any]]:
    found: dict[str, Callable[[str], Any]] = {
        "scrub": scrub,
        "scrub, streamed": stream(Scrubber, 16),
        "scrub, seed": lambda text: scrub(text, style="seed"),
        "scrub, known": stream(lambda: Scrubber(["correct horse battery", "api_key:api_key:api"]), 256),
        "extract": lambda text: dragoman.extract(text, {"native_tool_calls": False}, tools=TOOLS),
        "extract, compat": lambda text: dragoman.extract(
            text, {"native_tool_calls": False}, tools=TOOLS, trust="compat"
        ),
        "args.load": lambda text: args.load(text, SCHEMA),
        "args.load, object": lambda text: args.load('{"x": ' + text, SCHEMA),
        "args.load, string": lambda text: args.load('{"x": "' + text, SCHEMA),
        "args.coerce": lambda text: args.coerce({"x": text}, SCHEMA),
        "args.partial": lambda text: partial('{"x": "', text),
        "readable": to_readable,
        "sse": stream_bytes(SseDecoder, 64),
        "ndjson": stream_bytes(LineDecoder, 64),
        "patch, unified": tolerate(lambda text: patch_formats.read_unified(text.split("\n")), Error),
        "patch, marked": tolerate(lambda text: patch_formats.read_marked(text.split("\n")), Error),
        "miss words": lambda page: text.miss_words(page, page[: len(page) // 3] + "!" + page[-100:], "new"),
        "substitute": lambda page: tools.substitute(page.encode("utf-8", "replace"), page[:8], page[:8] + "!"),
    }
    for name in ["auto", *(row.name for row in rows())]:
        for loose in (False, True) if name in ("auto", "hermes", "pythonic", "qwen3_coder") else (False,):
            called = f"{name}{', loose' * loose}"
            found[called] = parse_as(name, loose)
            found[f"{called}, streamed"] = stream(parser_of(name, loose), 16)
    return found


def seconds(reader: Callable[[str], Any], text: str) -> float:
    signal.alarm(LIMIT)
    start = process_time()
    try:
        reader(text)
    except TooSlow:
        return float("inf")
    finally:
        signal.alarm(0)
    return process_time() - start


def measure(reader: Callable[[str], Any], make: hostile.Maker, size: int) -> tuple[float, float]:
    """CPU seconds for two sizes, the second twice the first; the better of two if they look bad."""
    small, large = make(size), make(2 * size)
    before, after = seconds(reader, small), 0.0
    after = seconds(reader, large) if before < LIMIT else before
    if before < after < 1 and after > MOST_TIMES * before and after > LEAST_SECONDS:
        before, after = max(before, seconds(reader, small)), min(after, seconds(reader, large))
    return before, after


def texts(step: int, pairs: int, offset: int) -> Iterator[tuple[str, hostile.Maker]]:
    yield from hostile.alone(hostile.FRAGMENTS[::step])
    if pairs:
        yield from hostile.pairs(step=pairs, offset=offset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=SIZE, help="characters of the smaller text")
    parser.add_argument("--only", default="", help="readers whose name contains this")
    parser.add_argument("--step", type=int, default=10, help="every so manieth fragment; 1 for a thorough survey")
    parser.add_argument("--pairs", type=int, default=0, help="also every so manieth pair of fragments; 0 for none")
    parser.add_argument("--offset", type=int, default=0, help="which of the pairs")
    given = parser.parse_args()

    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    gc.disable()
    worst: dict[str, tuple[float, str]] = {}
    for name, reader in readers().items():
        if given.only not in name:
            continue
        reader("warm up")
        for what, make in texts(given.step, given.pairs, given.offset):
            before, after = measure(reader, make, given.size)
            gc.collect(0)
            rate = after / (2 * given.size) * 1e6
            worst[name] = max(worst.get(name, (0.0, "")), (rate, what))
            grows = after > LEAST_SECONDS and after > MOST_TIMES * before
            if grows or rate > MOST_SECONDS_PER_MB:
                times = after / before if before else 0.0
                print(
                    f"{name:32} {what:44} {before:8.3f} s {after:8.3f} s  x{times:4.1f}  {rate:7.1f} s/MB", flush=True
                )
    print("\nthe slowest text of each reader, in seconds for a megabyte")
    for name, (rate, what) in worst.items():
        print(f"{name:32} {rate:8.2f}  {what}")


if __name__ == "__main__":
    main()
