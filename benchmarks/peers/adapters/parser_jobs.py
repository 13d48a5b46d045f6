"""The jobs of adapters that read calls out of text. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import process_time
from typing import Any, NamedTuple

from benchmarks.peers.adapters.protocol import Job, describe

Reading = tuple[str, list[Any]]
"""The text, and the calls as [name, arguments]."""
Tools = list[dict[str, Any]]
BULK = 5
"""How many tokens come at once with speculative decoding, or with a stream interval."""


class Reader(NamedTuple):
    """How a library reads: whole, in pieces, and the same without looking at the result, which is what is timed."""

    whole: Callable[[str, Tools, str], Reading]
    streamed: Callable[[list[str], Tools, str], Reading] | None
    feed: Callable[[list[str], Tools, str, float], int] | None
    """Feeds the pieces until a limit in seconds, and returns how many it took."""


def jobs(reader: Reader) -> dict[str, Callable[[Job], Job]]:
    """The jobs `read`, `time` and `grow`."""

    def read(job: Job) -> Job:
        return {"readings": [_read_all(reader, *row) for row in job["rows"]]}

    def time(job: Job) -> Job:
        """CPU seconds of all rows, whole, and streamed with the number of pieces."""
        rows = job["rows"]
        texts = [(text, tools, name) for text, tools, name, _ in rows]
        # The first time prepares what a server has already: the request, and the numbers of the tokens.
        _spend(reader.whole, texts)
        whole = _spend(reader.whole, texts)
        if reader.feed is None:
            return {"whole": whole}
        streams = [(pieces, tools, name, 1e9) for _, tools, name, pieces in rows]
        _spend(reader.feed, streams)
        streamed = _spend(reader.feed, streams)
        return {"whole": whole, "streamed": streamed, "pieces": sum(len(pieces) for *_, pieces in rows)}

    def grow(job: Job) -> Job:
        assert reader.feed is not None
        started = process_time()
        done = reader.feed(job["pieces"], job["tools"], job["parser"], job["limit"])
        return {"seconds": process_time() - started, "done": done}

    return {"read": read, "time": time, "grow": grow}


def _spend(run: Callable[..., object], rows: list[tuple[Any, ...]]) -> float:
    started = process_time()
    for row in rows:
        with suppress(Exception):
            run(*row)
    return process_time() - started


def _read_all(reader: Reader, text: str, tools: Tools, name: str, pieces: list[str]) -> Job:
    found = {"whole": _try(lambda: reader.whole(text, tools, name))}
    if reader.streamed is not None:
        streamed = reader.streamed
        bulk = ["".join(pieces[place : place + BULK]) for place in range(0, len(pieces), BULK)]
        found["streamed"] = _try(lambda: streamed(pieces, tools, name))
        found["bulk"] = _try(lambda: streamed(bulk, tools, name))
    return found


def _try(run: Callable[[], Reading]) -> Job:
    try:
        text, calls = run()
    except Exception as error:
        return {"error": describe(error)["kinds"][0], "message": str(error)[:200]}
    return {"text": text, "calls": [list(call) for call in calls]}
