"""What every adapter shares: one JSON object a line comes in, one goes out. Only the standard library is imported.

An adapter runs in the environment of its peer, as `python -m benchmarks.peers.adapters.NAME`. Its first line has the
versions of the packages, and their number and size. An answer with `error` says why a job was not done.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

Job = dict[str, Any]
TASK = "What is the weather in Paris?"
INSTALLERS = {"pip", "setuptools", "wheel"}

RAN: list[list[Any]] = []
"""The calls that reached a tool, as [name, arguments]."""


def weather(city: str, days: int = 1) -> str:
    """The weather in a city."""
    RAN.append(["weather", {"city": city, "days": days}])
    return f"sunny in {city}"


def cities() -> str:
    """The cities that have a weather station."""
    RAN.append(["cities", {}])
    return "Paris and Oslo"


TOOLS: dict[str, Callable[..., str]] = {"weather": weather, "cities": cities}
DEFINITIONS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "cities",
            "description": "The cities that have a weather station.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    },
]


def run_call(name: str, arguments: str) -> str:
    """Run a call as the loops in the documentation of the SDKs do."""
    return TOOLS[name](**json.loads(arguments))


# ---- the conversation with the benchmark -----------------------------------------------------------------------------


def serve(packages: Sequence[str], jobs: Mapping[str, Callable[[Job], Job]]) -> None:
    """Answer jobs until the input ends. A job names its function in `do`."""
    # Whatever a library prints must not come between our answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _write(answers, {**installed(), "versions": {name: metadata.version(name) for name in packages}})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = jobs[job["do"]](job)
        except Exception as error:
            answer = {"error": describe(error)}
        _write(answers, answer)


def _write(answers: Any, answer: Job) -> None:
    print(json.dumps(answer, default=repr), file=answers, flush=True)


def installed() -> Job:
    """How many packages the environment has, and their megabytes, without those that install packages."""
    found = {each.metadata["Name"]: each for each in metadata.distributions()}
    others = [each for name, each in found.items() if name not in INSTALLERS]
    sizes = (size_of(Path(str(each.locate_file(file)))) for each in others for file in each.files or ())
    return {"packages": len(others), "megabytes": sum(sizes) / 1e6}


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() and path.suffix != ".pyc" else 0


def describe(error: BaseException) -> Job:
    """The type of an error and of the classes that it is derived from, with their modules, and its first line."""
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    words = str(error).strip().splitlines() or [""]
    return {"kinds": kinds, "message": words[0][:300]}


# ---- loops -----------------------------------------------------------------------------------------------------------

Loop = Callable[[], str]
MakeLoop = Callable[[str, bool], Loop]
"""Makes the loop of a peer for a base URL, streamed or whole. The loop asks the task and returns the answer."""


def serve_loops(packages: Sequence[str], make: MakeLoop) -> None:
    """Serve the jobs of a loop. With `--once URL` the process does one run and prints its peak of memory."""
    if len(sys.argv) > 2 and sys.argv[1] == "--once":
        answer = make(sys.argv[2], False)()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"answer": answer, "ran": len(RAN), "cpu": process_time(), "megabytes": peak}))
        return
    kept: dict[str, Loop] = {}

    def odd(job: Job) -> Job:
        RAN.clear()
        answer, error = "", None
        try:
            answer = make(job["url"], job["stream"])()
        except Exception as raised:
            error = describe(raised)
        return {"ran": list(RAN), "answer": answer, "raised": error}

    def time(job: Job) -> Job:
        url = job["url"]
        if url not in kept:
            kept[url] = make(url, False)
            kept[url]()
            gc.collect()
        RAN.clear()
        wall, cpu = perf_counter(), process_time()
        for _ in range(job["count"]):
            kept[url]()
        spent = {"wall": perf_counter() - wall, "cpu": process_time() - cpu}
        return {**spent, "ran": len(RAN)}

    serve(packages, {"odd": odd, "time": time})
