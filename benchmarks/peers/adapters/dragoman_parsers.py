"""dragoman's parsers, and its repair of arguments. The name of a parser is a format, or `auto`."""

from __future__ import annotations

from time import process_time

from benchmarks.peers.adapters.parser_jobs import Reader, Reading, Tools, jobs
from benchmarks.peers.adapters.protocol import Job, serve
from benchmarks.peers.adapters.text_jobs import text_jobs

from dragoman import args, formats
from dragoman.events import CallEnded, TextDelta

CHECK_EVERY = 50


def whole(text: str, tools: Tools, name: str) -> Reading:
    parsed = formats.parse(text, name, tools)
    return parsed.text, [(call.name, call.arguments) for call in parsed.calls]


def streamed(pieces: list[str], tools: Tools, name: str) -> Reading:
    parser = formats.parser(name, tools)
    events = [event for piece in pieces for event in parser.feed(piece)] + list(parser.close())
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return text, [(event.call.name, event.call.arguments) for event in events if isinstance(event, CallEnded)]


def feed(pieces: list[str], tools: Tools, name: str, limit: float) -> int:
    parser = formats.parser(name, tools)
    started = process_time()
    for place, piece in enumerate(pieces):
        parser.feed(piece)
        if place % CHECK_EVERY == 0 and process_time() - started > limit:
            return place + 1
    parser.close()
    return len(pieces)


def load(job: Job) -> Job:
    return {"names": formats.names()}


def repair(text: str) -> object:
    loaded = args.load(text)
    if loaded.value is None:
        raise ValueError("it cannot be read")
    return loaded.value


if __name__ == "__main__":
    serve([], {"load": load, **jobs(Reader(whole, streamed, feed)), **text_jobs(repair)})
