"""docs/benchmarks.md: the page, written from the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.peers import plots
from benchmarks.peers.odd_outputs import GOOD, MEANINGS
from benchmarks.peers.rows import OURS
from benchmarks.peers.tables import dated, not_measured, ratio, short, table, versions, wrap

PAGE = "docs/benchmarks.md"
PICTURES = "images/benchmarks"
Group = dict[str, Any]
Files = dict[str, str]

INTRODUCTION = """# Benchmarks

This page compares dragoman with other programs that do a part of the same work. `make bench-peers` installs the others
into environments of their own, measures all of them in one run, and writes this page. Times are ratios within one run,
because absolute times depend on the machine. Each program is set up as its documentation recommends; the tables name
the settings. Where dragoman is slower, or does less, the first lines of the section say so.

We chose the tests, and we know where dragoman is good: read the tables of behaviour as a list of cases, and not as a
score of quality. Releases of the others may have changed since the date of the run.
"""


def write(results: dict[str, Group]) -> Files:
    """The page and its pictures, by their path below `docs/`."""
    files: Files = {}
    parts = [INTRODUCTION]
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

The first run installs the peers into the cache of the user. They take about six gigabytes, most of it PyTorch for the
parsers of vLLM and SGLang. The last results are in `benchmarks/peers/results.json`. A new peer is a row in
`benchmarks/peers/rows.py` and an adapter in `benchmarks/peers/adapters/`, which runs in the environment of the peer.
"""


# ---- loops -----------------------------------------------------------------------------------------------------------


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
    settings = "\n".join(f"- {name}: {row['settings']}." for name, row in rows.items())
    shown = {name: row["cpu_ms"] for name, row in timed.items()}
    text = f"""## Agent loops

{wrap(_where_loops_lose(timed, group["odd"]))}

{dated(group)}

A run is two requests to a server on the loopback and one tool call. Times are relative to a plain loop over the openai
client. A cold start is a fresh process that imports the library, makes an agent and does one run.

{table(heads, cells, left=2)}

{not_measured(rows)}![CPU time of a run]({PICTURES}/loops.svg)

{settings}

### Odd outputs

The host sends one odd reply, and then an answer as soon as the model is sent anything new. Every cell is decided by a
program: from the arguments that reached the tool, from what the host was sent next, and from the exception. Two words
are a whole reply and a streamed one.

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
    return "\n".join(f"- **{word}**: {meaning}." for word, meaning in MEANINGS.items())


def _where_loops_lose(rows: dict[str, Group], odd: list[Group]) -> str:
    """What is against us in this group, computed."""
    said = []
    ours = rows.get(OURS)
    if ours:
        for key, what in (("cpu_ms", "CPU time"), ("wall_ms", "time"), ("cold_s", "cold start"), ("peak_mb", "memory")):
            ahead = [name for name, row in rows.items() if name != OURS and row.get(key, 1e9) < ours.get(key, 0)]
            if ahead:
                said.append(f"{' and '.join(ahead)} need less {what} than dragoman.")
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


SECTIONS: dict[str, Callable[[Group], tuple[str, Files]]] = {"loops": write_loops}
