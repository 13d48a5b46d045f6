"""Group `parsers`: calls in text, read by dragoman, vLLM, SGLang and BAML; broken JSON, read also by json-repair."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.peers.parser_data import NO_VECTORS, Row, read_own_rows, read_shared_rows
from benchmarks.peers.progress import Progress
from benchmarks.peers.rows import OURS, PARSERS, start
from benchmarks.support.damaged_json import make_rows
from benchmarks.support.environments import Environments, Unavailable, Worker

VLLM, SGLANG, BAML = "vLLM", "SGLang", "BAML"
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
    rows: dict[str, Figures] = {}
    own, shared = read_own_rows(), read_shared_rows()
    growth = {name: write_long_calls(name) for name in GROWTH_FORMATS}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        names: dict[str, list[str]] = {}
        texts = [row.text for row in (*own, *shared)] + [text for text in growth.values()]
        for peer in PARSERS:
            progress.say(f"starting {peer.name}")
            rows[peer.name] = {"settings": peer.settings}
            try:
                worker = stack.enter_context(start(environments, peer))
                if peer.name in (OURS, VLLM, SGLANG, BAML):
                    answer = worker.ask(300.0, do="load", texts=texts)
                    if "error" in answer:
                        raise Unavailable(str(answer["error"]["message"]))
                    names[peer.name] = answer["names"]
                workers[peer.name] = worker
                rows[peer.name] |= worker.versions
            except Unavailable as reason:
                rows[peer.name]["not_measured"] = str(reason)
        pieces = split_texts(workers, texts)
        calls = [
            compare(workers, names, other, own, shared, pieces, progress, quick=quick)
            for other in names
            if other != OURS
        ]
        grown = measure_growth(workers, names, growth, pieces, progress, rounds=1 if quick else 3)
        return {
            "peers": rows,
            "vectors": "" if shared else NO_VECTORS,
            "calls": [figures for figures in calls if figures],
            "growth": grown,
            "json": compare_json({name: workers[name] for name in workers if name not in (VLLM, SGLANG)}, progress),
        }


def split_texts(workers: dict[str, Worker], texts: list[str]) -> dict[str, list[str]]:
    """The tokens of the texts. Without a tokenizer, four characters are a token."""
    for name in (VLLM, SGLANG):
        if name in workers:
            return dict(zip(texts, workers[name].ask(300.0, do="split", texts=texts)["pieces"], strict=True))
    return {text: [text[place : place + 4] for place in range(0, len(text), 4)] or [""] for text in texts}


def parser_of(server: str, format: str, known: Sequence[str]) -> str:
    """The server's name of a format; empty if it has none."""
    if server == BAML:
        return format if format in BAML_FORMATS else ""
    name = NAMES.get(server, {}).get(format, format)
    return name if name in known else ""


# ---- calls -----------------------------------------------------------------------------------------------------------


def compare(
    workers: dict[str, Worker],
    names: dict[str, list[str]],
    other: str,
    own: list[Row],
    shared: list[Row],
    pieces: dict[str, list[str]],
    progress: Progress,
    *,
    quick: bool,
) -> Figures:
    """Another library and dragoman on the rows in the formats that the other has."""
    # The schemas of the recorded rows are not all classes of BAML.
    offered = own if other == BAML else [*own, *shared]
    fitting = [row for row in offered if parser_of(other, row.format, names[other]) and row.format in names[OURS]]
    if other not in workers or not fitting:
        return {}
    foreign = find_foreign(workers[other], [row for row in fitting if row.kind == "well-formed"], other, names[other])
    usable = [row for row in fitting if row.format not in foreign]
    formats = sorted({row.format for row in usable})
    sides = {
        other: [parser_of(other, row.format, names[other]) for row in usable],
        OURS: [row.format for row in usable],
        f"{OURS}, auto": ["auto"] * len(usable),
    }
    figures: Figures = {"other": other, "formats": formats, "foreign": foreign, "sides": {}}
    for side, parsers in sides.items():
        progress.say(f"calls in text: {side}, beside {other}")
        worker = workers[side.partition(",")[0]]
        jobs = [[row.text, row.tools, name, pieces[row.text]] for row, name in zip(usable, parsers, strict=True)]
        readings = worker.ask(600.0, do="read", rows=jobs)["readings"]
        figures["sides"][side] = {**score(usable, readings), "costs": []}
    timed = [place for place, row in enumerate(usable) if row.kind == "well-formed"]
    for _ in range(1 if quick else 3):
        for side, parsers in sides.items():
            progress.say(f"time of calls in text: {side}, beside {other}")
            jobs = [[usable[at].text, usable[at].tools, parsers[at], pieces[usable[at].text]] for at in timed]
            spent = workers[side.partition(",")[0]].ask(600.0, do="time", rows=jobs)
            figures["sides"][side]["costs"].append(spent)
    for side in figures["sides"].values():
        side |= average(side.pop("costs"), len(timed))
    return figures


def find_foreign(worker: Worker, rows: list[Row], other: str, known: Sequence[str]) -> list[str]:
    """The formats of which the other reads less than half of our well-formed rows.

    There the name means another form, or the parser needs a package or a tokenizer that is not here. To count them
    would be unfair to the other.
    """
    jobs = [[row.text, row.tools, parser_of(other, row.format, known), [""]] for row in rows]
    right: Counter[str] = Counter()
    for row, reading in zip(rows, worker.ask(600.0, do="read", rows=jobs)["readings"], strict=True):
        right[row.format] += 1 if row.is_right(reading["whole"].get("calls", [])) else -1
    return sorted(format for format, balance in right.items() if balance < 0)


def average(costs: list[Figures], count: int) -> Figures:
    """Microseconds per response, and per piece of a stream."""
    costs = [cost for cost in costs if "whole" in cost]
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
    return {
        "right": {kind: dict(counts) for kind, counts in right.items()},
        "same": dict(same),
        "raised": raised,
        "unreadable": unreadable,
        "rows": len(rows),
    }


def is_same(whole: Figures, streamed: Figures) -> bool:
    """Whether a stream gives the calls and the text of the whole, white space at the ends aside.

    Arguments that cannot be read in both count as equal: it is not the stream that broke them.
    """
    if "error" in whole or "error" in streamed:
        return all(str(each.get("error")).endswith("NotJson") for each in (whole, streamed))
    return bool(whole["calls"] == streamed["calls"] and whole["text"].strip() == streamed["text"].strip())


# ---- growth ----------------------------------------------------------------------------------------------------------


def write_long_calls(format: str) -> str:
    """A call with a string that is longer than any stream that is measured."""
    from dragoman import formats

    return formats.render([("write_file", {"path": "a.txt", "content": WORDS * (GROWTH[-1] // 16)})], format)


def measure_growth(
    workers: dict[str, Worker],
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
            if side not in workers or not parser:
                continue
            figures: Figures = {"format": format, "side": side, "points": []}
            for size in GROWTH:
                progress.say(f"growth: {side}, {format}, {size:,} pieces")
                figures["points"].append(
                    grow(workers[side], parser, pieces[text][:size], rounds if size < 20_000 else 1)
                )
            found.append(figures)
    return found


def grow(worker: Worker, parser: str, pieces: list[str], rounds: int) -> Figures:
    """The cost of one stream; `done` is less than its pieces if the time was up."""
    job = {"parser": parser, "tools": [TOOL], "pieces": pieces, "limit": GROWTH_LIMIT}
    worker.ask(60.0, do="grow", **{**job, "pieces": pieces[:50]})
    answers = [worker.ask(60.0, do="grow", **job) for _ in range(rounds)]
    good = [answer for answer in answers if "done" in answer]
    if not good:
        return {"pieces": len(pieces), "error": str(answers[0].get("error"))[:200]}
    best = min(good, key=lambda answer: float(answer["seconds"]) / int(answer["done"]))
    return {"pieces": len(pieces), "done": best["done"], "us": best["seconds"] / best["done"] * 1e6}


# ---- JSON ------------------------------------------------------------------------------------------------------------


def compare_json(workers: dict[str, Worker], progress: Progress) -> Figures:
    """Which faults in the JSON of arguments are read as they were meant, and what happens to text that was cut."""
    rows = make_rows()
    texts = [row.text for row in rows]
    found: Figures = {"faults": {}, "sides": {}}
    for row in rows:
        counts = found["faults"].setdefault(row.fault, {"rows": 0, "is_cut": row.value is None})
        counts["rows"] += 1
    for name, worker in workers.items():
        progress.say(f"broken JSON: {name}")
        values = worker.ask(120.0, do="repair", texts=texts)["values"]
        right: Counter[str] = Counter()
        for row, answer in zip(rows, values, strict=True):
            right[row.fault] += "error" in answer if row.value is None else answer.get("value") == row.value
        spent = median(worker.ask(120.0, do="time_repair", texts=texts)["seconds"] for _ in range(5))
        found["sides"][name] = {"right": dict(right), "us": spent / len(texts) * 1e6}
    return found
