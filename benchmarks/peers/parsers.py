"""Group `parsers`: calls in text, read by dragoman, vLLM, SGLang and BAML; broken JSON, read also by json-repair."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.peers.parser_data import NO_VECTORS, Row, read_own_rows, read_shared_rows
from benchmarks.peers.rows import OURS, PARSERS
from benchmarks.peers.team import Team
from benchmarks.support.damaged_json import make_rows
from benchmarks.support.environments import Environments
from benchmarks.support.progress import Progress

VLLM, SGLANG, BAML, JSON_REPAIR = "vLLM", "SGLang", "BAML", "json-repair"
NAMES: dict[str, dict[str, str]] = {
    VLLM: {"phi4": "phi4_mini_json", "granite_20b_fc": "granite-20b-fc", "harmony": ""},
    SGLANG: {
        "deepseek_v3": "deepseekv3",
        "deepseek_v31": "deepseekv31",
        "deepseek_v32": "deepseekv32",
        "deepseek_v4": "deepseekv4",
        "llama3_json": "llama3",
        "minimax_m2": "minimax-m2",
        "minimax_m3": "minimax-m3",
        "hunyuan_a13b": "hunyuan",
        "internlm": "interns1",
        "muse_glimmer": "muse",
        "harmony": "",
    },
}
"""The servers' names of formats, where they differ from ours; empty: it needs more than text."""
BAML_FORMATS = ("hermes", "json_message", "fenced", "tool_call_tags", "llama3_json", "internlm", "granite", "mistral")
"""BAML has no formats. These have a call as one JSON object with `name` and `arguments`."""
GROWTH_FORMATS = ("hermes", "qwen3_coder", "deepseek_v3", "llama3_json")
GROWTH = (200, 2_000, 20_000)
GROWTH_LIMIT = 6.0
WORDS = "The tide comes in over the flats at four, and the boats that lay on their sides lift one by one. "
TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    },
}
Figures = dict[str, Any]


def measure(environments: Environments, progress: Progress, *, quick: bool) -> Figures:
    """All figures of the group."""
    own, shared = read_own_rows(), read_shared_rows()
    growth = {name: write_long_calls(name) for name in GROWTH_FORMATS}
    texts = [*(row.text for row in (*own, *shared)), *growth.values()]
    with Team(environments, PARSERS, progress) as team:
        subjects = load(team, texts, progress)
        rows = Rows(own, shared, split_texts(team, texts))
        calls = [compare(team, subjects, other, rows, progress, quick=quick) for other in subjects if other != OURS]
        return {
            "peers": team.rows,
            "vectors": "" if shared else NO_VECTORS,
            "calls": [figures for figures in calls if figures],
            "growth": measure_growth(team, subjects, growth, rows.pieces, progress, rounds=1 if quick else 3),
            "json": compare_json(team, progress),
        }


class Rows(NamedTuple):
    """What is read, and the tokens of each text."""

    own: list[Row]
    shared: list[Row]
    pieces: dict[str, list[str]]


def load(team: Team, texts: list[str], progress: Progress) -> dict[str, list[str]]:
    """The names of the parsers of each library that reads calls."""
    names: dict[str, list[str]] = {}
    for name in (OURS, VLLM, SGLANG, BAML):
        progress.say(f"loading the parsers of {name}")
        answer = team.ask(name, 300.0, do="load", texts=texts)
        if answer is not None:
            names[name] = answer["names"]
    return names


def split_texts(team: Team, texts: list[str]) -> dict[str, list[str]]:
    """The tokens of the texts. Without a tokenizer, four characters are a token."""
    for name in (VLLM, SGLANG):
        answer = team.ask(name, 300.0, do="split", texts=texts)
        if answer is not None:
            return dict(zip(texts, answer["pieces"], strict=True))
    return {text: [text[place : place + 4] for place in range(0, len(text), 4)] or [""] for text in texts}


def parser_of(server: str, format: str, known: Sequence[str]) -> str:
    """The server's name of a format; empty if it has none."""
    if server == BAML:
        return format if format in BAML_FORMATS else ""
    name = NAMES.get(server, {}).get(format, format)
    return name if name in known else ""


# ---- calls -----------------------------------------------------------------------------------------------------------


def compare(
    team: Team, names: dict[str, list[str]], other: str, rows: Rows, progress: Progress, *, quick: bool
) -> Figures:
    """Another library and dragoman on the rows in the formats that the other has. Empty if one of them fails."""
    # The schemas of the recorded rows are not all classes of BAML.
    offered = rows.own if other == BAML else [*rows.own, *rows.shared]
    known, ours = names[other], names.get(OURS, [])
    fitting = [row for row in offered if parser_of(other, row.format, known) and row.format in ours]
    foreign = find_foreign(team, [row for row in fitting if row.kind == "well-formed"], other, known)
    usable = [row for row in fitting if row.format not in foreign]
    sides = {
        other: [parser_of(other, row.format, known) for row in usable],
        OURS: [row.format for row in usable],
        f"{OURS}, auto": ["auto"] * len(usable),
    }
    jobs = {side: write_jobs(usable, parsers, rows.pieces) for side, parsers in sides.items()}
    found: dict[str, Figures] = {}
    for side, job in jobs.items():
        progress.say(f"calls in text: {side}, beside {other}")
        answer = team.ask(side.partition(",")[0], 600.0, do="read", rows=job)
        if answer is None:
            return {}
        found[side] = score(usable, answer["readings"])
    timed = [place for place, row in enumerate(usable) if row.kind == "well-formed"]
    costs: dict[str, list[Figures]] = {side: [] for side in sides}
    for _ in range(1 if quick else 3):
        for side, job in jobs.items():
            progress.say(f"time of calls in text: {side}, beside {other}")
            spent = team.ask(side.partition(",")[0], 600.0, do="time", rows=[job[place] for place in timed])
            costs[side] += [spent] if spent is not None else []
    for side, figures in found.items():
        figures |= average(costs[side], len(timed))
    return {"other": other, "formats": sorted({row.format for row in usable}), "foreign": foreign, "sides": found}


def write_jobs(rows: list[Row], parsers: list[str], pieces: dict[str, list[str]]) -> list[list[Any]]:
    return [[row.text, row.tools, name, pieces[row.text]] for row, name in zip(rows, parsers, strict=True)]


def find_foreign(team: Team, rows: list[Row], other: str, known: Sequence[str]) -> list[str]:
    """The formats of which the other reads less than half of our well-formed rows.

    There the name means another form, or the parser needs a package or a tokenizer that is not here. To count them
    would be unfair to the other.
    """
    jobs = [[row.text, row.tools, parser_of(other, row.format, known), [""]] for row in rows]
    answer = team.ask(other, 600.0, do="read", rows=jobs) or {"readings": []}
    balance: Counter[str] = Counter()
    for row, reading in zip(rows, answer["readings"], strict=False):
        balance[row.format] += 1 if row.is_right(reading["whole"].get("calls", [])) else -1
    return sorted(format for format, points in balance.items() if points < 0)


def average(costs: list[Figures], count: int) -> Figures:
    """Microseconds per response, and per piece of a stream."""
    if not costs:
        return {}
    found = {"whole_us": median(cost["whole"] for cost in costs) / count * 1e6}
    if all(cost.get("pieces") for cost in costs):
        found["piece_us"] = median(cost["streamed"] / cost["pieces"] for cost in costs) * 1e6
    return found


def score(rows: list[Row], readings: list[Figures]) -> Figures:
    """How many rows of each kind are right, how many streams equal the whole, and how often it raised."""
    right: dict[str, Counter[str]] = defaultdict(Counter)
    same, raised, unreadable = Counter[str](), 0, 0
    for row, reading in zip(rows, readings, strict=True):
        whole = reading["whole"]
        right[row.kind]["rows"] += 1
        right[row.kind]["right"] += "calls" in whole and row.is_right(whole["calls"])
        faults = [each.get("error", "") for each in reading.values()]
        raised += any(fault and not fault.endswith("NotJson") for fault in faults)
        unreadable += any(fault.endswith("NotJson") for fault in faults)
        for mode in ("streamed", "bulk"):
            if mode in reading:
                same[mode] += is_same(whole, reading[mode])
                same[f"{mode} calls"] += row.kind == "well-formed" and is_same(whole, reading[mode], text=False)
    return {
        "right": {kind: dict(counts) for kind, counts in right.items()},
        "same": dict(same),
        "raised": raised,
        "unreadable": unreadable,
        "rows": len(rows),
    }


def is_same(whole: Figures, streamed: Figures, *, text: bool = True) -> bool:
    """Whether a stream gives the calls of the whole and, white space at the ends aside, its text.

    Arguments that cannot be read in both count as equal: it is not the stream that broke them.
    """
    if "error" in whole or "error" in streamed:
        return all(str(each.get("error")).endswith("NotJson") for each in (whole, streamed))
    has_same_text = whole["text"].strip() == streamed["text"].strip() or not text
    return bool(whole["calls"] == streamed["calls"] and has_same_text)


# ---- growth ----------------------------------------------------------------------------------------------------------


def write_long_calls(format: str) -> str:
    """A call with a string that is longer than any stream that is measured."""
    from dragoman import formats

    return formats.render([("write_file", {"path": "a.txt", "content": WORDS * (GROWTH[-1] // 16)})], format)


def measure_growth(
    team: Team,
    names: dict[str, list[str]],
    texts: dict[str, str],
    pieces: dict[str, list[str]],
    progress: Progress,
    rounds: int,
) -> list[Figures]:
    """Microseconds per piece of a long call, by the number of pieces."""
    found: list[Figures] = []
    for format, text in texts.items():
        for side in (OURS, VLLM, SGLANG):
            parser = parser_of(side, format, names.get(side, []))
            if not parser:
                continue
            points: list[Figures] = []
            for size in GROWTH:
                progress.say(f"growth: {side}, {format}, {size:,} pieces")
                points += grow(team, side, parser, pieces[text][:size], rounds if size < GROWTH[-1] else 1)
            if len(points) == len(GROWTH):
                found.append({"format": format, "side": side, "points": points})
    return found


def grow(team: Team, side: str, parser: str, pieces: list[str], rounds: int) -> list[Figures]:
    """The cost of one stream; `done` is less than its pieces if the time was up. Empty if the library fails."""
    job = {"parser": parser, "tools": [TOOL], "pieces": pieces, "limit": GROWTH_LIMIT}
    # The first use of a parser compiles it.
    team.ask(side, 60.0, do="grow", **{**job, "pieces": pieces[:50]})
    answers = [team.ask(side, 60.0, do="grow", **job) for _ in range(rounds)]
    spent = [(answer["seconds"] / answer["done"], answer["done"]) for answer in answers if answer is not None]
    if not spent:
        return []
    least, done = min(spent)
    return [{"pieces": len(pieces), "done": done, "us": least * 1e6}]


# ---- JSON ------------------------------------------------------------------------------------------------------------


def compare_json(team: Team, progress: Progress) -> Figures:
    """Which faults in the JSON of arguments are read as they were meant, and what happens to text that was cut."""
    rows = make_rows()
    texts = [row.text for row in rows]
    found: Figures = {"faults": {}, "sides": {}}
    for row in rows:
        counts = found["faults"].setdefault(row.fault, {"rows": 0, "is_cut": row.value is None})
        counts["rows"] += 1
    for name in (OURS, BAML, JSON_REPAIR):
        progress.say(f"broken JSON: {name}")
        answer = team.ask(name, 120.0, do="repair", texts=texts)
        spent = [team.ask(name, 120.0, do="time_repair", texts=texts) for _ in range(5)]
        if answer is None or None in spent:
            continue
        right: Counter[str] = Counter()
        for row, value in zip(rows, answer["values"], strict=True):
            right[row.fault] += "error" in value if row.value is None else value.get("value") == row.value
        cost = median(each["seconds"] for each in spent if each is not None)
        found["sides"][name] = {"right": dict(right), "us": cost / len(texts) * 1e6}
    return found
