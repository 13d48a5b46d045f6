"""What reading costs: microseconds per response, per streamed piece inside a call, and per piece of prose, by format.

Every figure of a piece stands beside that of a stage that does nothing, measured in the same run. CPU time, best of
several rounds; tools are prepared once, as a server would do.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.progress import Progress

from dragoman import formats
from dragoman.events import Event, TextDelta
from dragoman.formats.registry import rows
from dragoman.toolset import Toolset

PIECE = 4
COUNTS = (200, 2_000, 20_000)
RESPONSE_LENGTH = 600
PLACEHOLDER = "PLACEHOLDER"
# What the project promises: see `report`.
MOST = {"whole": 150.0, "piece": 5.0, "growth": 1.3, "prose": 2.0, "prose_times_nothing": 4.0}

_WORDS = "The tide comes in over the flats at four, and the boats that lay on their sides lift one by one; "
PARAGRAPH = _WORDS * 3 + "that is all.\n\n"
_TEXT = {"type": "string"}
TOOLS = Toolset(
    [
        {
            "name": "write_file",
            "description": "Write a file.",
            "parameters": {"type": "object", "properties": {"path": _TEXT, "content": _TEXT}, "required": ["path"]},
        },
        {
            "name": "get_weather",
            "description": "Current weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": _TEXT, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
                "required": ["city"],
            },
        },
    ]
)


class Nothing:
    """The stage that does nothing: every piece is text."""

    def feed(self, piece: str, /) -> list[Event]:
        return [TextDelta(piece)]

    def close(self) -> list[Event]:
        return []


def words(length: int) -> str:
    return (_WORDS * (length // len(_WORDS) + 1))[:length]


def response(name: str) -> str:
    """Two calls, as long as a usual reply."""

    def write(filler: str) -> str:
        return formats.render(
            [
                ("write_file", {"path": "notes/tide.txt", "content": filler}),
                ("get_weather", {"city": "Saint-Malo", "days": 3, "metric": True}),
            ],
            name,
        )

    return write(words(max(20, RESPONSE_LENGTH - len(write("")))))


def long_call(name: str, pieces: int) -> list[str]:
    """One call with one long string argument, cut into pieces."""
    text = formats.render([("write_file", {"path": "notes/tide.txt", "content": PLACEHOLDER})], name)
    text = text.replace(PLACEHOLDER, words(max(20, pieces * PIECE - len(text) + len(PLACEHOLDER))))
    return cut(text)


def cut(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def best_of(rounds: int, *runs: Callable[[], None]) -> list[float]:
    """The CPU seconds of the best round of each. They take turns, so that a busy moment does not hit one alone."""
    least = [float("inf")] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            start = process_time()
            run()
            least[index] = min(least[index], process_time() - start)
    return least


def per_piece(make: Callable[[], Any], pieces: Sequence[str], rounds: int) -> tuple[float, float]:
    """Microseconds per piece: of this stage, and of the one that does nothing."""
    # Short streams are repeated until the clock can tell them apart.
    repeat = max(1, 2_000 // len(pieces))

    def stream(make_stage: Callable[[], Any]) -> Callable[[], None]:
        def once() -> None:
            for _ in range(repeat):
                stage = make_stage()
                feed = stage.feed
                for piece in pieces:
                    feed(piece)
                stage.close()

        return once

    cost, nothing = (seconds / len(pieces) / repeat * 1e6 for seconds in best_of(rounds, stream(make), stream(Nothing)))
    return cost, nothing


def per_response(name: str, text: str, rounds: int) -> float:
    repeat = 20

    def once() -> None:
        for _ in range(repeat):
            formats.parse(text, name, TOOLS)

    return best_of(rounds, once)[0] / repeat * 1e6


Figures = dict[str, float]


def measure(name: str, written_in: str, rounds: int) -> Figures:
    """All figures of one format; `auto` reads what another format writes."""

    def make() -> Any:
        return formats.parser(name, TOOLS)

    figures: Figures = {"whole": per_response(name, response(written_in), rounds)}
    prose = cut(PARAGRAPH * (COUNTS[1] * PIECE // len(PARAGRAPH)))
    figures["prose"], figures["prose_nothing"] = per_piece(make, prose, rounds)
    for count in COUNTS:
        # A long stream is its own repetition.
        few = max(1, rounds // 4) if count == COUNTS[-1] else rounds
        figures[f"piece_{count}"], figures[f"nothing_{count}"] = per_piece(make, long_call(written_in, count), few)
    return figures


def report(name: str, written_in: str, best: Figures) -> dict[str, Any]:
    """The row of the table: the best figures, what they are times the stage that does nothing, and what they break."""
    row: dict[str, Any] = {"format": name if name == written_in else f"{name} ({written_in})"}
    row["whole"], row["prose"] = best["whole"], best["prose"]
    row["prose_times_nothing"] = best["prose"] / best["prose_nothing"]
    for count in COUNTS:
        row[f"piece_{count}"] = best[f"piece_{count}"]
        row[f"piece_{count}_times_nothing"] = best[f"piece_{count}"] / best[f"nothing_{count}"]
    row["growth"] = best[f"piece_{COUNTS[-1]}"] / best[f"piece_{COUNTS[0]}"]
    kept = {
        "calls": len(formats.parse(response(written_in), name, TOOLS).calls) == 2,
        "whole": row["whole"] < MOST["whole"],
        "piece": max(row[f"piece_{count}"] for count in COUNTS) <= MOST["piece"],
        "growth": row["growth"] <= MOST["growth"],
        "prose": row["prose"] <= MOST["prose"],
        "prose_times_nothing": row["prose_times_nothing"] <= MOST["prose_times_nothing"],
    }
    row["misses"] = [promise for promise, is_kept in kept.items() if not is_kept]
    return row


COLUMNS = [("whole", 7, 1), ("prose", 7, 2), ("x", 5, 1), ("p200", 7, 2), ("x", 6, 1), ("p2k", 7, 2), ("x", 6, 1)]
COLUMNS += [("p20k", 7, 2), ("x", 6, 1), ("growth", 8, 2)]


def line(row: dict[str, Any]) -> str:
    figures = [value for value in row.values() if isinstance(value, float)]
    cells = [f"{figure:>{width}.{digits}f}" for figure, (_, width, digits) in zip(figures, COLUMNS, strict=True)]
    return f"{row['format']:<26}{''.join(cells)}  {' '.join(row['misses'])}".rstrip()


def ways(only: Sequence[str]) -> list[tuple[str, str]]:
    """What to measure: every format by its name, and `auto` on texts of several kinds."""
    named = [(row.name, row.name) for row in rows()]
    every = [*named, *(("auto", written_in) for written_in in ("hermes", "qwen3_coder", "kimi_k2", "json_message"))]
    return [(name, written_in) for name, written_in in every if not only or name in only]


def measure_all(chosen: Sequence[tuple[str, str]], passes: int, rounds: int) -> list[dict[str, Any]]:
    """Several passes over all formats: the best of each figure is taken over the whole time of the run."""
    best: dict[tuple[str, str], Figures] = {}
    progress = Progress()
    for turn in range(passes):
        for number, way in enumerate(chosen, start=1):
            progress.say(f"pass {turn + 1} of {passes}, {number} of {len(chosen)}: {way[0]}")
            figures = measure(*way, rounds)
            known = best.setdefault(way, figures)
            best[way] = {kind: min(known[kind], figure) for kind, figure in figures.items()}
            gc.collect()
    progress.finish(f"{passes} passes over {len(chosen)} rows")
    return [report(*way, best[way]) for way in chosen]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="measure this format; may be repeated"
    )
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    options.add_argument("--passes", type=int, default=10, help="how often all formats are gone through (default: 10)")
    options.add_argument("--rounds", type=int, default=4, help="how often each figure is taken in a pass (default: 4)")
    given = options.parse_args()
    chosen = ways(given.only)
    if not chosen:
        print(f"error: no format named {', '.join(given.only)}", file=sys.stderr)
        return 2
    gc.disable()
    measured = measure_all(chosen, given.passes, given.rounds)
    print("microseconds; x = times a stage that does nothing; growth = a piece at 20,000 against one at 200")
    print(f"{'format':<26}" + "".join(f"{title:>{width}}" for title, width, _ in COLUMNS))
    print("\n".join(map(line, measured)))
    print(f"{len(measured)} ways measured, {sum(bool(row['misses']) for row in measured)} of them break a promise")
    if given.json:
        given.json.write_text(json.dumps({"promises": MOST, "rows": measured}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
