"""What translating costs: every wire, both halves, and LiteLLM's translation of the same conversations beside it.

A conversation of 2 and one of 50 messages, with 20 tools; a reply with two calls; streams of 200 and 2,000 chunks.
Figures are microseconds of CPU time, the best of several rounds. The yardstick of each wire is plain JSON work
(msgspec reads and writes the same bytes) in the same run. LiteLLM runs in an environment of its own, which the first
run makes in the user's cache; where that cannot be, its part is left out.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import comparison
from benchmarks.support.environments import Environments, Unavailable, Worker, cache_folder
from benchmarks.support.measuring import CHUNKS, MESSAGES, Figures, measure
from benchmarks.support.progress import Progress

from dragoman import wire
from dragoman.wire.codec import Codec

FEW, MANY = MESSAGES
SHORT, LONG = CHUNKS
# What the project promises.
MOST = {"request_growth": MANY / FEW, "reply_growth": 1.3, "chunk_growth": 1.3}
LEAST_TIMES_FASTER = 10.0
# Without the other two LiteLLM can neither read Bedrock's frames nor make a call with tools.
PACKAGES = ("litellm", "botocore", "mcp")
WORKER = Path(__file__).resolve().parent / "support" / "litellm_worker.py"

Row = dict[str, Any]


def wire_row(name: str, best: Figures) -> Row:
    """The figures of a wire as they are printed, and the promises that they break."""
    row: Row = {"wire": name}
    for half in ("encode", "decode"):
        for length in MESSAGES:
            row[f"{half}_{length}"] = best[f"{half}_{length}"]
            row[f"{half}_{length}_times_plain"] = best[f"{half}_{length}"] / best[f"plain_request_{length}"]
        row[f"{half}_growth"] = best[f"{half}_{MANY}"] / best[f"{half}_{FEW}"]
    for half in ("encode_reply", "decode_reply"):
        row[half] = best[f"{half}_{FEW}"]
        row[f"{half}_times_plain"] = best[f"{half}_{FEW}"] / best[f"plain_reply_{FEW}"]
        row[f"{half}_growth"] = best[f"{half}_{MANY}"] / best[f"{half}_{FEW}"]
    for half in ("read", "written"):
        for count in CHUNKS:
            row[f"{half}_{count}"] = best[f"{half}_{count}"]
        row[f"{half}_times_plain"] = best[f"{half}_{LONG}"] / best[f"plain_chunk_{LONG}"]
        row[f"{half}_growth"] = best[f"{half}_{LONG}"] / best[f"{half}_{SHORT}"]
    limits = {
        "encode_growth": MOST["request_growth"],
        "decode_growth": MOST["request_growth"],
        "encode_reply_growth": MOST["reply_growth"],
        "decode_reply_growth": MOST["reply_growth"],
        "read_growth": MOST["chunk_growth"],
        "written_growth": MOST["chunk_growth"],
    }
    row["misses"] = [kind for kind, most in limits.items() if row[kind] > most]
    return row


def comparison_rows(name: str, best: Figures, notes: Sequence[str]) -> list[Row]:
    """One row per kind of work: ours, LiteLLM's classes alone, and what its user pays. Rows of a gateway are told."""
    works = [
        *((f"request, {length} messages", f"request_{length}", "classes") for length in MESSAGES),
        *((f"request + reply, {length} messages", f"both_{length}", "") for length in MESSAGES),
        ("reply", "reply", "classes"),
        ("chunk", "chunk", "iterator"),
    ]
    rows: list[Row] = []
    for judged in (True, False):
        for work, kind, classes in works:
            row: Row = {"wire": name, "work": work if judged else f"gateway: {work}"}
            row["ours"] = best[f"{kind}_ours" if judged else f"gateway_{kind}_ours"]
            for whose, key in (("classes", f"{kind}_{classes}"), ("user", f"{kind}_user")):
                row[whose] = best.get(key)
                row[f"times_{whose}"] = best[key] / row["ours"] if key in best else None
            if row["classes"] is None and row["user"] is None:
                continue
            row["judged"] = judged and row["user"] is not None
            row["misses"] = [
                whose
                for whose in ("classes", "user")
                if (row[f"times_{whose}"] or LEAST_TIMES_FASTER) < LEAST_TIMES_FASTER
            ]
            rows.append(row)
    if rows:
        rows[-1]["notes"] = list(notes)
    return rows


def keep_best(known: Figures, figures: Figures) -> Figures:
    return {kind: min(cost, known.get(kind, cost)) for kind, cost in (known | figures).items()}


def measure_all(
    codecs: Sequence[Codec], worker: Worker | None, passes: int, rounds: int
) -> tuple[list[Row], list[Row]]:
    """Several passes over all wires: the best of each figure is taken over the whole time of the run."""
    own: dict[str, Figures] = {}
    beside: dict[str, Figures] = {}
    notes: dict[str, list[str]] = {}
    progress = Progress()
    for turn in range(passes):
        for codec in codecs:
            progress.say(f"pass {turn + 1} of {passes}, {codec.name}")
            own[codec.name] = keep_best(own.get(codec.name, {}), measure(codec, rounds))
            if worker and codec.name in comparison.WIRES:
                figures, found = comparison.compare(codec, worker, rounds, wrapped=turn == 0)
                beside[codec.name] = keep_best(beside.get(codec.name, {}), figures)
                notes.setdefault(codec.name, found)
    progress.finish(f"{passes} passes over {len(codecs)} wires")
    compared = [row for name, best in beside.items() for row in comparison_rows(name, best, notes[name])]
    return [wire_row(name, best) for name, best in own.items()], compared


# ---- tables --------------------------------------------------------------------------------------------------------

TABLES = {
    f"requests with 20 tools: growth = {MANY} messages against {FEW}": [
        *(f"encode_{end}" for end in (FEW, f"{FEW}_times_plain", MANY, f"{MANY}_times_plain", "growth")),
        *(f"decode_{end}" for end in (FEW, f"{FEW}_times_plain", MANY, f"{MANY}_times_plain", "growth")),
    ],
    f"replies: growth = in a conversation of {MANY} messages against one of {FEW}": [
        *(f"encode_reply{end}" for end in ("", "_times_plain", "_growth")),
        *(f"decode_reply{end}" for end in ("", "_times_plain", "_growth")),
    ],
    f"streams, per chunk read and per event written: growth = of {LONG} against one of {SHORT}": [
        *(f"read_{end}" for end in (SHORT, LONG, "times_plain", "growth")),
        *(f"written_{end}" for end in (SHORT, LONG, "times_plain", "growth")),
    ],
}


def heading(column: str) -> str:
    if column.endswith("times_plain"):
        return "x"
    return "growth" if column.endswith("growth") else column.replace("_", " ")


def print_wires(rows: Sequence[Row]) -> None:
    print("microseconds; x = times msgspec reading and writing the same JSON")
    for title, columns in TABLES.items():
        widths = [max(8, len(heading(column)) + 2) for column in columns]
        print(f"\n{title}\n{'wire':<18}" + "".join(f"{heading(c):>{w}}" for c, w in zip(columns, widths, strict=True)))
        for row in rows:
            cells = "".join(f"{row[column]:>{width}.2f}" for column, width in zip(columns, widths, strict=True))
            misses = " ".join(miss for miss in row["misses"] if miss in columns)
            print(f"{row['wire']:<18}{cells}  {misses}".rstrip())
    print(f"\n{len(rows)} wires measured, {sum(bool(row['misses']) for row in rows)} of them break a promise")


EXPLANATION = """
ours      request: `prepare` and the bytes of the body; reply: `decode_reply`; chunk: bytes to events
user      what LiteLLM's user pays for the same. Request: the parameter handling of `completion()`, its translation, and
          the bytes of the body; request + reply: `completion()` itself with a client that answers at once; chunk: the
          stream that `completion(stream=True)` gives
classes   those of its classes that translate, without what stands around them; a chunk is a line that was cut already
gateway   ours from OpenAI chat to the wire and back to OpenAI chat, which is twice the work: for information
*         judged: both sides start from the conversation as their users hold it and end where their users go on, so the
          promise is about these rows and the column `user`. The other figures say where the time goes.
"""


def print_comparison(rows: Sequence[Row], versions: dict[str, Any]) -> None:
    print(f"\nLiteLLM {versions['litellm']} beside us, microseconds\n{EXPLANATION}")
    print(f"{'wire':<18}{'work':<40}{'ours':>9}{'user':>10}{'times':>8}{'classes':>10}{'times':>8}")
    for row in rows:
        theirs = "".join(
            f"{row[whose]:>10.1f}{row[f'times_{whose}']:>8.1f}" if row[whose] else f"{'-':>10}{'-':>8}"
            for whose in ("user", "classes")
        )
        mark = "* " if row["judged"] else "  "
        missed = f"  less than {LEAST_TIMES_FASTER:.0f} times" if row["judged"] and "user" in row["misses"] else ""
        print(f"{row['wire']:<18}{mark}{row['work']:<38}{row['ours']:>9.1f}{theirs}{missed}")
        for note in row.get("notes", ()):
            print(f"{'':<18}LiteLLM, {note}")
    print_verdict([row for row in rows if row["judged"]])


def print_verdict(judged: Sequence[Row]) -> None:
    """How many of the judged comparisons hold, for each kind of work."""
    print()
    for kind in dict.fromkeys(row["work"].partition(",")[0] for row in judged):
        times = [row["times_user"] for row in judged if row["work"].partition(",")[0] == kind]
        held = sum(each >= LEAST_TIMES_FASTER for each in times)
        print(
            f"{kind}: {held} of {len(times)} at least {LEAST_TIMES_FASTER:.0f} times faster than LiteLLM "
            f"(from {min(times):.1f} to {max(times):.1f} times)"
        )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", default=[], metavar="WIRE", help="measure it; may be repeated")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    options.add_argument("--passes", type=int, default=3, help="how often all wires are gone through (default: 3)")
    options.add_argument("--rounds", type=int, default=8, help="how often each figure is taken in a pass (default: 8)")
    options.add_argument("--without-litellm", action="store_true", help="leave the comparison out")
    given = options.parse_args()
    chosen = [wire.get(name) for name in wire.names() if not given.only or name in given.only]
    if not chosen:
        print(f"error: no wire named {', '.join(given.only)}", file=sys.stderr)
        return 2
    gc.disable()
    worker, why = None, "it was not asked for"
    if not given.without_litellm:
        try:
            worker = Worker([Environments(cache_folder()).python("litellm", *PACKAGES) / "python", WORKER])
        except Unavailable as reason:
            why = str(reason)
    try:
        rows, compared = measure_all(chosen, worker, given.passes, given.rounds)
    finally:
        if worker:
            worker.close()
    print_wires(rows)
    if worker:
        print_comparison(compared, worker.versions)
    else:
        print(f"\nno comparison with LiteLLM: {why}")
    if given.json:
        figures = {"promises": {**MOST, "times_litellm": LEAST_TIMES_FASTER}, "wires": rows, "litellm": compared}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
