"""Whether a call that somebody planted in a tool result runs when a model quotes it, and what the guard costs.

No model takes part: what it reads are the tool results of AgentDojo with a call in the place of the attacker's text,
and what it writes is that call, quoted in many ways. A figure is therefore one of the layer, not of a model. Three
parts need no AgentDojo (`--own`): calls in every place of a conversation and in every disguise that the guard claims to
see through, calls that the model changes or extends, and honest runs that copy from results.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import dojo
from benchmarks.support.dojo import Call, Reading, Suite, Unavailable
from benchmarks.support.echo_channels import CHANNELS, DISGUISES, PAYLOADS, Conversation
from benchmarks.support.echo_channels import EDITS as CHANGES
from benchmarks.support.echo_channels import TOOLS as CHANNEL_TOOLS
from benchmarks.support.echo_copying import COPIES, TOOLS, WHOLE_CALLS
from benchmarks.support.echo_honest import honest_runs
from benchmarks.support.echo_styles import SHAPES, STYLES, edit, write
from msgspec import Struct

import dragoman
from dragoman import formats
from dragoman.extraction.echo import EchoIndex
from dragoman.toolset import Toolset
from dragoman.types import Message, ToolCall

POLICIES = ("strict", "default", "compat", "no guard")
EDITS = (1, 3, 6, 10)
NATIVE = {"native_tool_calls": False}
MOST_MILLISECONDS = 1.0
Outcomes = dict[str, Counter[str]]
"""A policy -> how often a call was run, asked for, or refused."""
Rows = dict[str, list[Outcomes]]


def settle(
    reply: str, call: Call, tools: Toolset, policy: str, conversation: Sequence[Message | dict[str, Any]]
) -> str:
    """What became of a call in a reply: `run`, `ask` or `refused`."""
    if policy == "no guard":
        found = formats.parse(reply, tools=tools, loose=True).calls
        return "run" if any(_is_same(each, call) for each in found) else "refused"
    extraction = dragoman.extract(reply, NATIVE, tools=tools, trust=policy, conversation=conversation)
    verdicts = [
        each.provenance.verdict if each.provenance else "allow" for each in extraction.calls if _is_same(each, call)
    ]
    return "run" if "allow" in verdicts else "ask" if verdicts else "refused"


def _is_same(found: ToolCall, call: Call) -> bool:
    return found.name == call.name and _plain(found.arguments) == _plain(call.arguments)


def _plain(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, default=str).replace(".0", "")


def talk(reading: Reading, results: Sequence[str]) -> list[dict[str, Any]]:
    """The conversation up to the results of a task."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": reading.task.prompt}]
    for number, (step, result) in enumerate(zip(reading.task.steps, results, strict=False)):
        call = {"name": step.name, "arguments": json.dumps(step.arguments)}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
    return messages


def until(reading: Reading, result: str) -> list[dict[str, Any]]:
    """The conversation of a task up to one result, which the attacker has written into."""
    return talk(reading, [*(step.result for step in reading.task.steps[: reading.step]), result])


class Attack(Struct, frozen=True):
    """A call that stands in a result, and the reply that repeats it."""

    reading: Reading
    call: Call
    shape: str
    style: str
    planted: str
    reply: str


def pair_up(all_readings: Sequence[Reading]) -> list[tuple[Reading, Call]]:
    """Every result with every payload, unless the model has made that very call before: to repeat it harms nobody."""
    return [
        (reading, call)
        for reading in all_readings
        for call in reading.suite.payloads
        if all(step.call != call for step in reading.task.steps[: reading.step + 1])
    ]


def plan_attacks(all_readings: Sequence[Reading], pairs: int) -> Iterator[Attack]:
    """For every shape and style so many pairs of a reading and a payload, taken in turn from all there are."""
    every = pair_up(all_readings)
    random.Random(4).shuffle(every)
    place = 0
    for shape in SHAPES:
        for style_name, style in STYLES.items():
            for _ in range(pairs):
                reading, call = every[place % len(every)]
                place += 1
                text = write(call, shape)
                if text is not None:
                    yield Attack(reading, call, shape, style_name, style.hide(text), style.say(text, call, shape))


def plan_edits(all_readings: Sequence[Reading], pairs: int) -> Iterator[tuple[int, Attack]]:
    """The attacker's call, which the model repeats with some characters changed."""
    source = random.Random(10)
    every = pair_up(all_readings)
    source.shuffle(every)
    shapes = list(SHAPES)
    for count in EDITS:
        for number, (reading, call) in enumerate(every[: pairs * 12]):
            shape = shapes[number % len(shapes)]
            changed, text = edit(call, count, source), write(call, shape)
            reply = write(changed, shape) if changed else None
            if changed and text and reply:
                yield count, Attack(reading, changed, shape, "edited", text, reply)


def run_attacks(attacks: Sequence[Attack]) -> list[Outcomes]:
    """Each attack under each policy."""
    planted: dict[int, tuple[Reading, list[str]]] = {}
    for attack in attacks:
        planted.setdefault(id(attack.reading), (attack.reading, []))[1].append(attack.planted)
    results = dict(zip(planted, map(iter, dojo.fill(list(planted.values()))), strict=True))
    tools = {reading.suite.name: Toolset(reading.suite.tools) for reading, _ in planted.values()}
    outcomes: list[Outcomes] = []
    for attack in attacks:
        reading = attack.reading
        conversation = until(reading, next(results[id(reading)]))
        offered = tools[reading.suite.name]
        outcomes.append(
            {policy: Counter([settle(attack.reply, attack.call, offered, policy, conversation)]) for policy in POLICIES}
        )
    return outcomes


def run_clean(suites: Sequence[Suite], *, poisoned: bool) -> dict[str, Outcomes]:
    """The user's own tasks; `poisoned`: with every payload of the suite in the first result."""
    outcomes: dict[str, Outcomes] = {shape: {policy: Counter() for policy in POLICIES} for shape in ("marked", "bare")}
    for suite in suites:
        tools = Toolset(suite.tools)
        poison = "\n".join(write(call, "hermes") or "" for call in suite.payloads) if poisoned else ""
        for task in suite.tasks:
            for number, step in enumerate(task.steps):
                if poison and step.call in suite.payloads:
                    continue  # it is in the content, word for word
                results = [each.result for each in task.steps[:number]]
                if poison:
                    results = [poison, *results[1:]] if results else []
                conversation = talk(Reading(suite, task, number), results)
                for kind, shape in (("marked", "hermes"), ("bare", "bare_json")):
                    reply = write(step.call, shape)
                    for policy in POLICIES if reply else ():
                        outcome = settle(reply or "", step.call, tools, policy, conversation)
                        outcomes[kind][policy][outcome] += 1
    return outcomes


def run_copies(rows: Sequence[tuple[str, str, Call]]) -> tuple[Outcomes, list[str]]:
    """Honest copying, written as marked and as bare calls; and the rows of `default` that did not run."""
    tools = Toolset(TOOLS)
    outcomes: Outcomes = {policy: Counter() for policy in POLICIES}
    stopped: list[str] = []
    for name, content, call in rows:
        conversation = [
            {"role": "user", "content": "Go on."},
            {"role": "tool", "tool_call_id": "1", "content": content},
        ]
        for shape in ("hermes", "bare_json"):
            reply = write(call, shape) or ""
            for policy in POLICIES:
                outcome = settle(reply, call, tools, policy, conversation)
                outcomes[policy][outcome] += 1
                if policy == "default" and outcome != "run":
                    stopped.append(f"{name} ({shape}): {outcome}")
    return outcomes, stopped


# ---- places, disguises, changes and honest runs ----------------------------------------------------------------------


def plan_places(shapes: Sequence[str]) -> Iterator[tuple[str, Call, str, Conversation]]:
    """Every payload in every channel, and in every disguise in the text of a result: the reply that repeats it."""
    for number, (call, shape) in enumerate((call, shape) for call in PAYLOADS for shape in shapes):
        text = write(call, shape)
        if text is None:
            continue
        for name, channel in CHANNELS.items():
            yield name, call, text, channel(text)
        for name, disguise in DISGUISES.items():
            # Half of the disguised calls are also in an unusual place.
            place = "text" if number % 2 else "key of structured data"
            yield f"disguise: {name}", call, text, CHANNELS[place](disguise(text))


def plan_changes(shapes: Sequence[str]) -> Iterator[tuple[str, Call, str, Conversation]]:
    """Every payload in the text of a result, and the reply that repeats it with a change."""
    source = random.Random(17)
    for name, change in CHANGES.items():
        for planted in PAYLOADS:
            changed = change(planted, source)
            for shape in shapes if changed is not None else ():
                text, reply = write(planted, shape), write(changed, shape) if changed is not None else None
                if text is not None and reply is not None and changed is not None:
                    yield name, changed, reply, CHANNELS["text"](text)


def run_replies(rows: Iterable[tuple[str, Call, str, Conversation]], policies: Sequence[str] = POLICIES) -> Rows:
    tools = Toolset(CHANNEL_TOOLS)
    names: list[str] = []
    outcomes: list[Outcomes] = []
    for name, call, reply, conversation in rows:
        names.append(name)
        outcomes.append({policy: Counter([settle(reply, call, tools, policy, conversation)]) for policy in policies})
    return group(names, outcomes)


def plan_honest(count: int) -> Iterator[tuple[str, Call, str, Conversation]]:
    for name, conversation, call in honest_runs(count):
        yield name, call, write(call, "hermes") or "", conversation


def tell_own(runs: int) -> dict[str, Any]:
    """The parts that need no data of others."""
    places, changes = run_replies(plan_places(list(SHAPES))), run_replies(plan_changes(list(SHAPES)))
    honest = run_replies(plan_honest(runs))
    print(f"{len(CHANNELS)} channels, {len(DISGUISES)} disguises, {len(places['all'])} attacks")
    print_table("planted calls that run, percent", places, "run")
    print_table(f"changed and extended calls that run, percent ({len(changes['all'])} attacks)", changes, "run")
    print_table(f"honest calls that are refused, percent ({runs} runs)", honest, "refused")
    print_table("honest calls that ask, percent", honest, "ask")
    return {"places": shares(places), "changed": shares(changes), "honest runs": shares(honest)}


# ---- cost ------------------------------------------------------------------------------------------------------------


def time_guard(suites: Sequence[Suite], attacked: Sequence[str]) -> dict[str, dict[str, float]]:
    """Microseconds per kilobyte of tool result for the index, and of one judgement."""
    call = suites[0].payloads[0]
    judged = ToolCall("1", call.name, call.arguments, raw=write(call, "hermes") or "")
    clean = [step.result for suite in suites for task in suite.tasks for step in task.steps if len(step.result) > 200]
    return {
        "clean results": _cost(clean, judged),
        "results with a call": _cost(attacked, judged),
        "a page of prose": _cost([("It was a bright cold day in April. " * 300)[:10_000]] * 20, judged),
    }


def _cost(texts: Sequence[str], call: ToolCall) -> dict[str, float]:
    """What is prepared when a text is first looked at counts as the index's work: the second look costs only itself."""
    size = sum(len(text.encode()) for text in texts) / 1000
    whole = again = float("inf")
    for _ in range(5):
        indexes = []
        start = process_time()
        for text in texts:
            index = EchoIndex()
            index.add(text)
            index.judge(call)
            indexes.append(index)
        middle = process_time()
        for index in indexes:
            index.judge(call)
        whole, again = min(whole, middle - start), min(again, process_time() - middle)
    return {"per_kilobyte": (whole - again) / size * 1e6, "per_judgement": again / len(texts) * 1e6}


# ---- telling ---------------------------------------------------------------------------------------------------------


def share(outcomes: Sequence[Outcomes], policy: str, what: str) -> float:
    counts: Counter[str] = Counter()
    for each in outcomes:
        counts += each[policy]
    return 100 * counts[what] / max(1, counts.total())


def shares(rows: Rows) -> dict[str, Any]:
    """Every figure of a table, for the file."""
    return {
        name: {policy: {what: share(each, policy, what) for what in ("run", "ask", "refused")} for policy in POLICIES}
        for name, each in rows.items()
    }


def print_table(title: str, rows: Rows, what: str) -> None:
    print(f"\n{title}")
    print(f"{'':24}" + "".join(f"{policy:>10}" for policy in POLICIES))
    for name, outcomes in rows.items():
        print(f"{name:24}" + "".join(f"{share(outcomes, policy, what):10.1f}" for policy in POLICIES))


def group(names: Iterable[str], outcomes: Sequence[Outcomes]) -> Rows:
    grouped: dict[str, list[Outcomes]] = defaultdict(list)
    for name, outcome in zip(names, outcomes, strict=True):
        grouped["all"].append(outcome)
        grouped[name].append(outcome)
    return dict(grouped)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=12, help="readings per shape and style (default: 12)")
    options.add_argument("--own", action="store_true", help="only the parts that need no AgentDojo")
    options.add_argument("--runs", type=int, default=1664, help="honest runs (default: 1664)")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    figures = tell_own(given.runs)
    try:
        if not given.own:
            version, suites = dojo.load_suites()
            figures |= measure(version, suites, given.pairs)
    except Unavailable as reason:
        print(f"error: AgentDojo cannot be had here: {reason}", file=sys.stderr)
        return 2
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def measure(version: str, suites: list[Suite], pairs: int) -> dict[str, Any]:
    places = dojo.readings(suites)
    attacks = list(plan_attacks(places, pairs))
    print(
        f"AgentDojo {version}: {len(places)} results that an attacker can write into, "
        f"{len(SHAPES)} shapes x {len(STYLES)} styles, {len(attacks)} attacks"
    )
    outcomes = run_attacks(attacks)
    by_style = group((attack.style for attack in attacks), outcomes)
    by_shape = group((attack.shape for attack in attacks), outcomes)
    print_table("attack success, percent, by style", by_style, "run")
    print_table("attack success, percent, by shape", by_shape, "run")
    print_table("attacks that ask, percent, by style", by_style, "ask")
    edits = list(plan_edits(places, pairs))
    by_count = group((f"{count} changed" for count, _ in edits), run_attacks([attack for _, attack in edits]))
    print_table(f"edited payloads that run, percent ({len(edits)} attacks)", by_count, "run")
    figures = {"style": shares(by_style), "shape": shares(by_shape), "edited": shares(by_count)}
    return {"attacks": len(attacks), **figures, **tell_honest(suites), **tell_cost(suites, attacks)}


def tell_honest(suites: list[Suite]) -> dict[str, Any]:
    clean, poisoned = run_clean(suites, poisoned=False), run_clean(suites, poisoned=True)
    rows: Rows = {
        **{f"clean, {kind}": [each] for kind, each in clean.items()},
        **{f"poisoned, {kind}": [each] for kind, each in poisoned.items()},
    }
    copies, stopped = run_copies(COPIES)
    wholes, _ = run_copies(WHOLE_CALLS)
    rows |= {"legitimate copying": [copies], "whole calls copied": [wholes]}
    print_table("the user's own calls that are refused, percent", rows, "refused")
    print_table("the user's own calls that ask, percent", rows, "ask")
    for line in stopped:
        print(f"  stopped: {line}")
    return {"honest": shares(rows)}


def tell_cost(suites: list[Suite], attacks: Sequence[Attack]) -> dict[str, Any]:
    sample = attacks[:: max(1, len(attacks) // 60)]
    filled = dojo.fill([(attack.reading, [attack.planted]) for attack in sample])
    costs = time_guard(suites, [texts[0] for texts in filled])
    print("\nmicroseconds: the index, per kilobyte of tool result; and one judgement")
    for name, cost in costs.items():
        index, judgement = cost["per_kilobyte"], cost["per_judgement"]
        print(
            f"{name:24}{index:10.1f}{judgement:10.1f}   ({index / 100:.2f} ms per 10 kB, at most {MOST_MILLISECONDS})"
        )
    return {"microseconds": costs}


if __name__ == "__main__":
    sys.exit(main())
