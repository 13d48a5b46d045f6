"""The summary at the top of the page: a few figures of each group, dragoman beside each of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.peers.odd_outputs import GOOD
from benchmarks.peers.rows import OURS
from benchmarks.peers.tables import ratio, short, table

Group = dict[str, Any]
Line = tuple[str, str, str]
"""What is compared, dragoman's figure, and the figures of the others."""
STREAMED = "streamed calls"


def write_summary(results: dict[str, Group]) -> str:
    """A table with a few figures of each group that was measured."""
    lines = [line for name, summarise in SUMMARIES.items() if name in results for line in summarise(results[name])]
    if not lines:
        return ""
    return f"## Summary\n\n{table(['', 'dragoman', 'others'], lines, left=3)}\n"


def _list(found: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {figure}" for name, figure in found) or "not measured"


def _count_good(odd: list[Group], name: str) -> tuple[int, int]:
    cells = [cell["verdict"] for row in odd for cell in row["verdicts"].get(name, {}).values()]
    return sum(cell in GOOD for cell in cells), len(cells)


def _odd_line(title: str, odd: list[Group], others: list[str]) -> Iterator[Line]:
    good, total = _count_good(odd, OURS)
    if total:
        said = _list((name, str(_count_good(odd, name)[0])) for name in others)
        yield f"{title} (of {total})", str(good), said


def _loops(group: Group) -> Iterator[Line]:
    rows = {name: row for name, row in group["peers"].items() if "cpu_ms" in row}
    ours, bare = rows.get(OURS), rows.get("openai")
    if ours and bare:
        others = [name for name in rows if name not in (OURS, "openai")]
        said = _list((name, ratio(rows[name]["cpu_ms"], bare["cpu_ms"])) for name in others)
        yield "agent loops: CPU of a run, to a plain openai loop", ratio(ours["cpu_ms"], bare["cpu_ms"]), said
    odd = group["odd"]
    names = [name for name in odd[0]["verdicts"] if name != OURS] if odd else []
    yield from _odd_line("agent loops: odd outputs run right, asked again or refused clearly", odd, names)


def _parsers(group: Group) -> Iterator[Line]:
    for figures in group["calls"]:
        other, ours = figures["sides"][figures["other"]], figures["sides"][OURS]
        name = figures["other"]
        for kind, what in (("recorded", "recorded vectors"), ("damaged", "damaged calls")):
            if kind in ours["right"]:
                rows = ours["right"][kind]["rows"]
                right = (str(side["right"][kind]["right"]) for side in (ours, other))
                yield f"parsers: {what} right (of {rows})", next(right), f"{name} {next(right)}"
        if STREAMED in other["same"]:
            rows = ours["right"]["well-formed"]["rows"]
            same = [str(side["same"][STREAMED]) for side in (ours, other)]
            yield f"parsers: well-formed calls, streamed as whole (of {rows})", same[0], f"{name} {same[1]}"
    growth: dict[str, list[float]] = {}
    for each in group["growth"]:
        growth.setdefault(each["side"], []).append(each["points"][-1]["us"] / each["points"][0]["us"])
    if OURS in growth:
        said = _list((name, f"up to x {short(max(each))}") for name, each in growth.items() if name != OURS)
        yield "parsers: cost of a token in a long call, to a short one", f"up to x {short(max(growth[OURS]))}", said


def _gateways(group: Group) -> Iterator[Line]:
    for kind in ("whole", "streamed"):
        costs = {each["side"]: each for each in group["costs"] if each["kind"] == kind and each["connections"] == 1}
        if OURS in costs:
            direct = costs["direct"]["ms"]
            others = [name for name in costs if name not in (OURS, "direct")]
            said = _list((name, ratio(costs[name]["ms"], direct)) for name in others)
            yield f"gateways: latency to a direct call, {kind}", ratio(costs[OURS]["ms"], direct), said
    first = {each["side"]: f"{short(each['first_ms'])} ms" for each in group["costs"] if each["kind"] == "paced"}
    if OURS in first:
        yield "gateways: first text of a stream with pauses", first.pop(OURS), _list(first.items())
    odd = group["odd"]
    names = [name for name in odd[0]["verdicts"] if name != OURS] if odd else []
    yield from _odd_line("gateways: odd outputs that end well in a plain client", odd, names)


def _scanners(group: Group) -> Iterator[Line]:
    rows = {name: row for name, row in group["peers"].items() if "own" in row}
    for kind, what in (("own", "our own rows"), ("recorded", "the labelled snippets")):
        measured = {name: row[kind] for name, row in rows.items() if kind in row}
        if OURS in measured:
            total, harmless = measured[OURS]["secrets"], measured[OURS]["harmless"]
            said = {name: f"{each['removed']} and {each['alarms']}" for name, each in measured.items()}
            title = f"scanners: secrets removed (of {total}) and false alarms (in {harmless}), {what}"
            yield title, said.pop(OURS), _list(said.items())


SUMMARIES: dict[str, Callable[[Group], Iterator[Line]]] = {
    "loops": _loops,
    "parsers": _parsers,
    "gateways": _gateways,
    "scanners": _scanners,
}


# ---- the README ------------------------------------------------------------------------------------------------------

README_BEGIN, README_END = "<!-- comparison: make bench-peers writes it -->", "<!-- end of the comparison -->"


def update_readme(text: str, results: dict[str, Group]) -> str:
    """Return the README with the tables of the results between its marks."""
    before, begin, rest = text.partition(README_BEGIN)
    _, end, after = rest.partition(README_END)
    if not begin or not end:
        raise ValueError(f"the README has no {README_BEGIN} and {README_END}")
    tables = [write(results[name]) for name, write in _README.items() if name in results]
    return "\n".join([before + begin, *filter(None, tables), end + after])


def _readme_loops(group: Group) -> str:
    odd, peers = group["odd"], {name: row for name, row in group["peers"].items() if "cpu_ms" in row}
    if not odd or "openai" not in peers:
        return ""
    bare = peers["openai"]["cpu_ms"]
    rows = []
    for name in (each for each in odd[0]["verdicts"] if each in peers):
        counts = Counter(cell["verdict"] for row in odd for cell in row["verdicts"][name].values())
        good = [counts[word] for word in GOOD]
        rows.append([name, *good, counts.total() - sum(good), ratio(peers[name]["cpu_ms"], bare)])
    rows.sort(key=lambda row: row[-2])
    return table(["loop", *GOOD, "lost, wrong or crashed", "CPU of a run"], rows) + "\n"


def _readme_parsers(group: Group) -> str:
    rows = []
    for figures in group["calls"]:
        sides, other = figures["sides"], figures["other"]
        for side in (OURS, other) if "recorded" in sides[OURS]["right"] else ():
            found = sides[side]
            right = found["right"]["recorded"]
            same = f"{100 * found['same']['streamed'] / found['rows']:.0f} %"
            cost = ratio(found["whole_us"], sides[OURS]["whole_us"])
            rows.append(
                [side, f"{len(figures['formats'])} of {other}", f"{right['right']} of {right['rows']}", same, cost]
            )
    if not rows:
        return ""
    return table(["parser", "formats", "recorded vectors right", "streamed as whole", "time of a reply"], rows) + "\n"


_README: dict[str, Callable[[Group], str]] = {"loops": _readme_loops, "parsers": _readme_parsers}
