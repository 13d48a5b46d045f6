"""docs/benchmarks.md: the page, written from the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.peers import plots
from benchmarks.peers.adapters.parser_jobs import BULK
from benchmarks.peers.gateways import PAUSE
from benchmarks.peers.odd_outputs import GOOD, MEANINGS
from benchmarks.peers.parsers import GROWTH_LIMIT
from benchmarks.peers.rows import OURS
from benchmarks.peers.summary import write_summary
from benchmarks.peers.tables import bullet, dated, not_measured, ratio, short, table, versions, wrap
from benchmarks.support.gateway_parts import CHUNKS

PAGE = "docs/benchmarks.md"
PICTURES = "images/benchmarks"
Group = dict[str, Any]
Files = dict[str, str]

INTRODUCTION = """# Benchmarks

This page compares dragoman with other programs that do a part of the same work. `make bench-peers` installs the others
into environments of their own, measures all of them in one run, and writes this page. Times are ratios within one run,
because absolute times depend on the machine: x 2 means twice as much. Each program is set up as its documentation
recommends; the sections name the settings. Where dragoman is slower, or does less, the first lines of a section say so.

We chose the tests, and we know where dragoman is good: read the tables of behaviour as a list of cases, and not as a
score of quality. Releases of the others may have changed since the date of the run.
"""


def write(results: dict[str, Group]) -> Files:
    """The page and its pictures, by their path below `docs/`."""
    files: Files = {}
    parts = [INTRODUCTION, write_summary(results)]
    for name, section in SECTIONS.items():
        if name in results:
            text, pictures = section(results[name])
            parts.append(text)
            files |= {f"{PICTURES}/{file}": picture for file, picture in pictures.items()}
    parts.append(END)
    return {"benchmarks.md": "\n".join(parts), **files}


END = """## Run it yourself

```sh
make bench-peers                       # all groups: about ten minutes, after the installation
make bench-peers ARGS='loops'          # one group
make bench-peers ARGS='--quick --no-page --json results.json'
```

The first run installs the peers into the cache of the user. They take about twelve gigabytes, most of it PyTorch for
the parsers of vLLM and SGLang. The last results are in `benchmarks/peers/results.json`. A new peer is a row in
`benchmarks/peers/rows.py` and an adapter in `benchmarks/peers/adapters/`, which runs in the environment of the peer.
"""


# ---- loops -----------------------------------------------------------------------------------------------------------


LOOP_COSTS = {
    "cpu_ms": "CPU time for a run",
    "wall_ms": "time for a run",
    "cold_s": "time for a cold start",
    "peak_mb": "memory",
    "megabytes": "disk space",
}


def write_loops(group: Group) -> tuple[str, Files]:
    rows: dict[str, Group] = group["peers"]
    timed = {name: row for name, row in rows.items() if "wall_ms" in row}
    bare = timed.get("openai", {})
    cells = [
        [
            name,
            versions(row),
            ratio(row["wall_ms"], bare.get("wall_ms")),
            ratio(row["cpu_ms"], bare.get("cpu_ms")),
            short(row["cold_s"]) if "cold_s" in row else "-",
            short(row["peak_mb"]) if "peak_mb" in row else "-",
            row["packages"],
            short(row["megabytes"]),
        ]
        for name, row in timed.items()
    ]
    heads = [
        "library",
        "version",
        "time of a run",
        "CPU of a run",
        "cold start, CPU s",
        "peak MB",
        "packages",
        "MB on disk",
    ]
    shown = {name: row["cpu_ms"] for name, row in timed.items()}
    text = f"""## Agent loops

{wrap(_where_loops_lose(timed, group["odd"]))}

{dated(group)}

A run is two requests to a server on the loopback and one tool call. Times are relative to a plain loop over the openai
client. A cold start is a fresh process that imports the library, makes an agent and does one run.

{table(heads, cells, left=2)}

{not_measured(rows)}![CPU time of a run]({PICTURES}/loops.svg)

{_settings(rows)}

### Odd outputs

The host sends one odd reply, and then an answer as soon as the model is sent anything new. Every cell is decided by a
program: from the arguments that reached the tool, from what the host was sent next, and from the exception. Where a
whole reply and a streamed one end differently, the cell has both, the whole one first.

{_meanings()}

{_odd_table(group["odd"])}

{_odd_counts(group["odd"])}

"openai" and "LiteLLM" have no loop of their own that checks calls: their cells show what a plain loop does. An
exception in it is often what the author of a script wants. Whether a call that is complete JSON in a reply with the
finish reason `length` may run is a matter of policy; dragoman does not run it.
"""
    picture = plots.bars("CPU time of a run with one tool call (ms)", shown, [OURS, "openai with dragoman"], " ms")
    return text, {"loops.svg": picture}


def _meanings() -> str:
    return "\n".join(bullet(f"**{word}**: {meaning}.") for word, meaning in MEANINGS.items())


def _where_loops_lose(rows: dict[str, Group], odd: list[Group]) -> str:
    """What is against us in this group, computed."""
    said = []
    ours = rows.get(OURS)
    if ours:
        for key, what in LOOP_COSTS.items():
            ahead = [name for name, row in rows.items() if name != OURS and row.get(key, 1e9) < ours.get(key, 0)]
            if ahead:
                need = "needs" if len(ahead) == 1 else "need"
                said.append(f"{' and '.join(ahead)} {need} less {what} than dragoman.")
    if {OURS, "openai", "openai with dragoman"} <= rows.keys():
        cost = ratio(rows["openai with dragoman"]["cpu_ms"], rows["openai"]["cpu_ms"])
        said.append(f"The HTTP client of dragoman inside a plain openai loop makes its runs slower: {cost} CPU.")
    worse = []
    for row in odd:
        mine = [cell["verdict"] for cell in row["verdicts"].get(OURS, {}).values()]
        others = {n: [c["verdict"] for c in v.values()] for n, v in row["verdicts"].items() if not n.startswith(OURS)}
        if mine and set(mine) != {"right"} and any(set(each) == {"right"} for each in others.values()):
            worse.append(row["title"])
    if worse:
        said.append(f"Others run the right call where dragoman does not: {'; '.join(worse)}.")
    retried = [row["title"] for row in odd if _asks_where_we_stop(row)]
    if retried:
        said.append(f"dragoman ends the run where others ask the model again: {'; '.join(retried)}.")
    return " ".join(said) or "In this group, no other program was ahead of dragoman in a column."


def _asks_where_we_stop(row: Group) -> bool:
    cells = {name: {cell["verdict"] for cell in cells.values()} for name, cells in row["verdicts"].items()}
    ours = cells.get(OURS, set())
    return "clear error" in ours and any(each == {"asked again"} for name, each in cells.items() if name != OURS)


def _odd_table(odd: list[Group]) -> str:
    names = list(odd[0]["verdicts"]) if odd else []
    rows = [[row["title"], *(_cell(row["verdicts"].get(name, {})) for name in names)] for row in odd]
    return table(["the model or host sends", *names], rows, left=len(names) + 1)


def _cell(cells: Group) -> str:
    words = [_mark(cell["verdict"]) for cell in cells.values()]
    return words[0] if len(set(words)) == 1 else " / ".join(words) or "-"


def _mark(verdict: str) -> str:
    return verdict if verdict in GOOD else f"**{verdict}**"


def _odd_counts(odd: list[Group]) -> str:
    names = list(odd[0]["verdicts"]) if odd else []
    counts = {
        name: Counter(cell["verdict"] for row in odd for cell in row["verdicts"][name].values()) for name in names
    }
    rows = [[name, *(counts[name][word] for word in MEANINGS)] for name in names]
    total = sum(counts[names[0]].values()) if names else 0
    return f"Of {total} cells (whole and streamed):\n\n" + table(["", *MEANINGS], rows)


# ---- parsers ---------------------------------------------------------------------------------------------------------

KINDS = {
    "well-formed": "well-formed calls",
    "damaged": "damaged calls",
    "no call": "no call to make",
    "recorded": "recorded vectors",
}


def write_parsers(group: Group) -> tuple[str, Files]:
    rows: dict[str, Group] = group["peers"]
    versioned = {name: row for name, row in rows.items() if "versions" in row}
    growth = group["growth"]
    series = {
        f"{each['side']}, {each['format']}": [
            (point["pieces"], point["us"]) for point in each["points"] if "us" in point
        ]
        for each in growth
        if each["format"] in ("hermes", "qwen3_coder")
    }
    text = f"""## Parsers of text

{wrap(_where_parsers_lose(group))}

{dated(group)}
{wrap("Versions: " + ", ".join(versions(row) for name, row in versioned.items() if name != OURS) + ".")}

{not_measured(rows)}{wrap(_about_rows(group["vectors"]))}

- **damaged**: broken JSON in arguments, or a missing or doubled wrapper, where every value is readable. vLLM and SGLang
  repair nothing by design: they pass on what the model wrote, and leave it to the client.
- **no call to make**: a call that is cut off inside a value, or a sentence that mentions the markers.
- **streamed**: one token at a time gives the same calls as the whole, in the well-formed rows; the same calls and the
  same text, in all rows; and that with {BULK} tokens at a time, as speculative decoding sends them.
- **unreadable**: calls whose arguments are no JSON, whole or streamed. **raised**: exceptions of the parser.
- Times are CPU time on the well-formed rows, relative to dragoman with the name of the format.

{_join_blocks(_calls_table(figures) for figures in group["calls"])}

### Growth

CPU time per token of one call with a long string. A parser that looks at everything again with each token gets slower
the longer the call is. A star marks a stream that was ended after {GROWTH_LIMIT:.0f} seconds. The servers also build
the objects that they send to the client; dragoman's events stand for those.

{_growth_table(growth)}

![CPU time per token]({PICTURES}/growth.svg)

### JSON of arguments

Objects with one fault each: how many are read as they were meant. In the rows "cut", the right answer is a refusal,
because the rest of the value is unknown; json-repair and BAML complete such text by design.

{_json_table(group["json"])}

{_settings(rows)}
"""
    return text, {"growth.svg": plots.lines("CPU time per token of one long call", series, "tokens in the call", "µs")}


def _about_rows(left_out: str) -> str:
    said = (
        "Each library reads the outputs in the formats that it has. Our own rows are those of "
        "`tests/data/parser.jsonl`. dragoman's tests contain them, so its own figures there say nothing; they show "
        "where the others stop."
    )
    if left_out:
        return f"{said} A second data set, recorded vectors, was not measured: {left_out}."
    return (
        f"{said} The recorded vectors come from the test suites of eight parsers, vLLM's and SGLang's among them. They "
        "are not a part of the repository. dragoman was developed with them, too: none of these figures is one on "
        "unseen data."
    )


def _where_parsers_lose(group: Group) -> str:
    said = []
    for figures in group["calls"]:
        sides = figures["sides"]
        other, ours = sides[figures["other"]], sides[OURS]
        recorded = ours["right"].get("recorded")
        if recorded:
            missed = recorded["rows"] - recorded["right"]
            said.append(
                f"On the recorded vectors in the formats of {figures['other']}, dragoman disagrees with "
                f"{missed} of {recorded['rows']}; some of them are calls that it refuses on purpose, such as cut ones."
            )
        for key, what in (("whole_us", "a whole response"), ("piece_us", "a token")):
            if other.get(key, 1e9) < ours.get(key, 0):
                said.append(f"{figures['other']} is faster than dragoman for {what}.")
    cuts = [fault for fault, row in group["json"]["faults"].items() if row["is_cut"]]
    completed = [fault for fault in cuts if not group["json"]["sides"].get(OURS, {}).get("right", {}).get(fault)]
    if completed:
        said.append(
            f"`args.load` alone completes JSON that is {' or '.join(completed)}: only the parser or the wire knows "
            "that the reply was cut."
        )
    return " ".join(said)


def _calls_table(figures: Group) -> str:
    sides: dict[str, Group] = figures["sides"]
    ours = sides[OURS]
    kinds = [kind for kind in KINDS if kind in ours["right"]]
    heads = ["", *(KINDS[kind] for kind in kinds)]
    heads += ["streamed: same calls", "same calls and text", f"{BULK} at a time", "unreadable", "raised"]
    heads += ["time, response", "time, token"]
    rows = []
    for name, side in sides.items():
        counts = [f"{side['right'][kind]['right']} / {side['right'][kind]['rows']}" for kind in kinds]
        whole = side["right"]["well-formed"]["rows"]
        same = [_percent(side["same"].get("streamed calls"), whole)]
        same += [_percent(side["same"].get(mode), side["rows"]) for mode in ("streamed", "bulk")]
        costs = [ratio(side.get(key), ours.get(key)) for key in ("whole_us", "piece_us")]
        rows.append([name, *counts, *same, side["unreadable"], side["raised"], *costs])
    left_out = figures["foreign"]
    said = f"{figures['other']}: {len(figures['formats'])} formats that dragoman has, too."
    if left_out:
        said += f" Left out, because there it reads less than half of the well-formed rows: {', '.join(left_out)}."
    return f"{wrap(said)}\n\n{table(heads, rows)}"


def _percent(count: int | None, total: int) -> str:
    return "-" if count is None else f"{100 * count / total:.1f} %"


def _growth_table(growth: list[Group]) -> str:
    sizes = [point["pieces"] for point in growth[0]["points"]] if growth else []
    heads = ["format", "parser", *(f"{size:,} tokens" for size in sizes), "growth"]
    rows = []
    for each in growth:
        points = each["points"]
        cells = [
            f"{short(point['us'])} µs{'' if point['done'] == point['pieces'] else ' *'}" if "us" in point else "-"
            for point in points
        ]
        rows.append([each["format"], each["side"], *cells, ratio(points[-1].get("us"), points[0].get("us"))])
    return table(heads, rows, left=2)


def _json_table(figures: Group) -> str:
    sides: dict[str, Group] = figures["sides"]
    rows: list[list[object]] = [
        [
            fault if fault != "none" else "no fault",
            counts["rows"],
            *(side["right"].get(fault, 0) for side in sides.values()),
        ]
        for fault, counts in figures["faults"].items()
    ]
    ours = sides.get(OURS, {}).get("us")
    rows.append(["CPU time of a text", "", *(ratio(side["us"], ours) for side in sides.values())])
    return table(["fault", "texts", *sides], rows)


def _settings(rows: dict[str, Group]) -> str:
    return "\n".join(bullet(f"{name}: {row['settings']}.") for name, row in rows.items())


def _join_blocks(texts: Iterable[str]) -> str:
    return "\n\n".join(texts)


# ---- gateways --------------------------------------------------------------------------------------------------------


def write_gateways(group: Group) -> tuple[str, Files]:
    rows: dict[str, Group] = group["peers"]
    costs: list[Group] = group["costs"]
    running = {name: row for name, row in rows.items() if "start_s" in row}
    starts = [
        [name, versions(row), short(row["start_s"]), short(row.get("memory_mb", 0.0))] for name, row in running.items()
    ]
    alone = {
        cost["side"]: cost["cpu_ms"]
        for cost in costs
        if cost["kind"] == "whole" and cost["connections"] == 1 and cost["cpu_ms"]
    }
    text = f"""## Gateways

{wrap(f"{_where_gateways_lose(costs)} {_left_behind(group['odd'])}")}

{dated(group)}

A client sends the same request over one connection, and over sixteen, to a host with fixed answers: directly, through a
plain proxy (Starlette, uvicorn, uvloop and dragoman's HTTP client) that only reads and writes JSON, and through each
gateway. A request has 2 kB and two tools. The answer is one call, or a stream of {CHUNKS} chunks: as fast as the host
can send, or, "paced", with {PAUSE} ms between two chunks, as a model writes. Latencies are medians. "To a plain proxy"
is the ratio of the added latency to the one that the plain proxy adds. "First text" is the time until the first chunk
with text has arrived. CPU is that of all processes in between.

{_costs_table(costs)}

{not_measured(rows)}![CPU time of a request]({PICTURES}/gateways.svg)

{table(["gateway", "version", "start, s", "peak MB"], starts, left=2)}

{_settings(rows)}

### Odd outputs through a gateway

The client is the plain loop over the openai client of the first section. The words mean the same as there. A gateway
cannot run tools or raise exceptions in the client. dragoman asks the model once more; if the second reply has the same
fault, the client receives it, and a plain loop may crash or stop as it does without a gateway.

{_odd_table(group["odd"])}

{_odd_counts(group["odd"])}
"""
    return text, {"gateways.svg": plots.bars("CPU time of a whole request (ms)", alone, [OURS], " ms")}


def _left_behind(odd: list[Group]) -> str:
    """The odd outputs that end badly even with us in between."""
    bad = [row["title"] for row in odd if any(c["verdict"] not in GOOD for c in row["verdicts"].get(OURS, {}).values())]
    return f"Odd outputs that still end badly in a plain client behind dragoman: {'; '.join(bad)}." if bad else ""


def _where_gateways_lose(costs: list[Group]) -> str:
    """In which columns another gateway is ahead of us."""
    said = []
    for cost in costs:
        if cost["side"] == OURS:
            same = [
                each for each in costs if (each["kind"], each["connections"]) == (cost["kind"], cost["connections"])
            ]
            ahead = [
                each for each in same if each["side"] not in (OURS, "direct", "plain proxy") and each["ms"] < cost["ms"]
            ]
            for each in ahead if cost["kind"] != "paced" else []:
                times = short(cost["ms"] / each["ms"])
                many = f"{each['connections']} connection{'s' if each['connections'] > 1 else ''}"
                said.append(f"{times} times as long as {each['side']} ({each['kind']} answers, {many})")
    if said:
        return f"dragoman takes {', '.join(said)}. It reads and checks every call."
    return "In this group, no other gateway was ahead of dragoman in a column."


def _costs_table(costs: list[Group]) -> str:
    heads = [
        "answer",
        "connections",
        "through",
        "time",
        "to direct",
        "to a plain proxy",
        "first text",
        "chunks/s",
        "CPU",
    ]
    rows = []
    for cost in costs:
        same = [each for each in costs if (each["kind"], each["connections"]) == (cost["kind"], cost["connections"])]
        direct, plain = (next(each for each in same if each["side"] == name) for name in ("direct", "plain proxy"))
        added = cost["ms"] - direct["ms"]
        streamed, paced = cost["kind"] == "streamed", cost["kind"] == "paced"
        rows.append(
            [
                cost["kind"],
                cost["connections"],
                cost["side"],
                "failed" if cost["failed"] else f"{short(cost['ms'])} ms",
                ratio(cost["ms"], direct["ms"]),
                ratio(max(added, 0.0), plain["ms"] - direct["ms"]) if cost["side"] != "direct" else "-",
                f"{short(cost['first_ms'])} ms" if streamed or paced else "-",
                short(cost["chunks_per_s"]) if streamed else "-",
                f"{short(cost['cpu_ms'])} ms" if cost["side"] != "direct" else "-",
            ]
        )
    return table(heads, rows, left=3)


# ---- scanners --------------------------------------------------------------------------------------------------------

ABOUT_SCANNERS = """Each text is the output of a tool, with or without secrets. dragoman redacts text; the others report
lines, and were made to look through repositories, not to redact streams. **Found** means that a line of each secret is
reported; **removed** means that no more than a third of a secret can be read after the reported values are taken out. A
false alarm is a report, or a change, in a text without secrets. dragoman's tests contain our own rows, so its own
figures there say nothing."""
SETS = {"own": "our own rows", "recorded": "the labelled snippets"}


def write_scanners(group: Group) -> tuple[str, Files]:
    rows: dict[str, Group] = group["peers"]
    measured = {name: row for name, row in rows.items() if "own" in row}
    sets = [kind for kind in SETS if all(kind in row for row in measured.values())]
    heads = ["scanner", "version"]
    for kind in sets:
        heads += [f"{SETS[kind]}: found", "removed", "false alarms"]
    ours = measured.get(OURS, {}).get("seconds_per_mb")
    cells = []
    for name, row in measured.items():
        counts: list[str] = []
        for kind in sets:
            figures = row[kind]
            counts += [f"{figures[key]} / {figures['secrets']}" for key in ("found", "removed")]
            counts.append(f"{figures['alarms']} / {figures['harmless']}")
        cells.append([name, versions(row), *counts, ratio(row.get("seconds_per_mb"), ours)])
    left_out = (
        f" A second data set was not measured: {group['snippets']}."
        if group["snippets"]
        else (" The labelled snippets are not a part of the repository; dragoman was developed with them, too.")
    )
    shown = {name: row["seconds_per_mb"] for name, row in measured.items() if "seconds_per_mb" in row}
    text = f"""## Secret scanners

{wrap(_where_scanners_lose(measured, sets))}

{dated(group)}

{wrap(ABOUT_SCANNERS + left_out)}

{table([*heads, "CPU time per MB"], cells, left=2)}

{not_measured(rows)}![CPU time per megabyte]({PICTURES}/scanners.svg)

{_settings(rows)}
"""
    return text, {"scanners.svg": plots.bars("CPU seconds per megabyte of a log", shown, [OURS], " s")}


def _where_scanners_lose(rows: dict[str, Group], sets: list[str]) -> str:
    said = []
    ours = rows.get(OURS)
    if ours is None:
        return "dragoman itself was not measured."
    for kind in sets:
        missed = ours[kind]["secrets"] - ours[kind]["removed"]
        alarms = ours[kind]["alarms"]
        if missed or alarms:
            said.append(
                f"In {SETS[kind]}, dragoman misses {missed} of {ours[kind]['secrets']} and "
                f"has {alarms} false alarms in {ours[kind]['harmless']} texts."
            )
        for name, row in rows.items():
            if name != OURS and row[kind]["found"] > ours[kind]["found"]:
                said.append(f"{name} finds more in {SETS[kind]}.")
            if name != OURS and row[kind]["alarms"] < ours[kind]["alarms"]:
                said.append(f"{name} has fewer false alarms in {SETS[kind]}.")
    faster = [n for n, row in rows.items() if row.get("seconds_per_mb", 1e9) < ours.get("seconds_per_mb", 0)]
    if faster:
        said.append(f"{' and '.join(faster)} need less time.")
    return " ".join(said) or "In this group, no other scanner was ahead of dragoman in a column."


SECTIONS: dict[str, Callable[[Group], tuple[str, Files]]] = {
    "loops": write_loops,
    "parsers": write_parsers,
    "gateways": write_gateways,
    "scanners": write_scanners,
}
