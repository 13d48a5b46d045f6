"""The results of the agent programs: a summary for the screen, and the table of the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.clients.more_programs import PROGRAMS
from tests.clients.programs import Program
from tests.clients.runs import Outcome, Way

RECORDED = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs/guides/programs.md"
BEGIN, END = "<!-- table of scripts/test-clients -->", "<!-- end of the table -->"
WIRES = {"openai_chat": "Chat", "openai_responses": "Responses", "anthropic": "Anthropic", "gemini": "Gemini"}


class Result(Struct, frozen=True):
    """The result of one task. `fault` says why it failed; a task without the gateway has no verdict."""

    program: str
    wire: str
    spelling: str
    way: Way
    fault: str
    seen: str
    seconds: float


class Recorded(Struct, frozen=True):
    """What one run of all tasks of a program showed."""

    package: str
    date: str
    passed: dict[str, int]
    """The tasks that were done through a gateway, by wire."""
    tried: dict[str, int]
    launched: bool | None
    """Whether `dragoman launch` worked, for the programs that it knows."""
    alone: str
    """What the user sees without the gateway."""


def describe(outcome: Outcome) -> str:
    """Return what the user sees."""
    if outcome.made:
        return "the task is done"
    shown = "the text of the call" if outcome.shows_markup else f"no answer after {outcome.requests} requests"
    ended = "it does not end" if outcome.code is None else f"exit code {outcome.code}"
    return f"{shown}, {ended}, nothing done"


def summarize(results: Iterable[Result]) -> str:
    """Return one line for each program and wire, the faults, and the totals."""
    results = list(results)
    rows = [("program", "wire", "way", "passed", "seconds")]
    for key in dict.fromkeys((r.program, r.wire, r.way) for r in results):
        found = [r for r in results if (r.program, r.wire, r.way) == key]
        passed = found[0].seen if key[2] == "alone" else f"{sum(not r.fault for r in found)} of {len(found)}"
        rows.append((*key, passed, f"{sum(r.seconds for r in found) / len(found):.1f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    faults = [f"{r.program} {r.wire} {r.spelling} {r.way}: {r.fault}" for r in results if r.fault]
    judged = [r for r in results if r.way != "alone"]
    return "\n".join([*lines, "", *faults, f"{len(judged) - len(faults)} of {len(judged)} tasks were done"])


def record(results: Iterable[Result], date: str) -> None:
    """Keep the results of the programs for the documentation. Programs that were not tried keep their old ones."""
    kept = read_recorded()
    results = list(results)
    for program in PROGRAMS:
        found = [r for r in results if r.program == program.name]
        through = [r for r in found if r.way == "gateway"]
        launched = [not r.fault for r in found if r.way == "launch"]
        if not found:
            continue
        kept[program.name] = Recorded(
            program.packages[0],
            date,
            {wire: sum(r.wire == wire and not r.fault for r in through) for wire in program.wires},
            {wire: sum(r.wire == wire for r in through) for wire in program.wires},
            all(launched) if launched else None,
            next((r.seen for r in found if r.way == "alone"), ""),
        )
    RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")


def read_recorded() -> dict[str, Recorded]:
    if not RECORDED.exists():
        return {}
    return msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Recorded])


def write_table() -> str:
    """Return the table of the documentation, and when its programs were tested."""
    kept = read_recorded()
    lines = ["| program | package | wires | without the gateway | through the gateway |", "|---|---|---|---|---|"]
    lines += [_write_row(program, kept[program.name]) for program in PROGRAMS if program.name in kept]
    dates = sorted({row.date for row in kept.values()})
    return "\n".join([*lines, "", f"Tested {' to '.join(dates[:1] + dates[1:][-1:])}."])


def _write_row(program: Program, kept: Recorded) -> str:
    wires = ", ".join(WIRES[wire] for wire in program.wires)
    done = f"{sum(kept.passed.values())} of {sum(kept.tried.values())} tasks done"
    launched = "" if kept.launched is None else "; `dragoman launch` works" if kept.launched else "; not by `launch`"
    return f"| {program.title} | `{kept.package}` | {wires} | {kept.alone} | {done}{launched} |"


def insert_table(page: str) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{write_table()}\n\n{END}{after}"
