"""What becomes of the calls of a very small model: left free, read with repairs, and held by a grammar.

    python benchmarks/weak_model.py                     60 prompts in three formats; about ten minutes on two cores
    python benchmarks/weak_model.py --prompts 12        fewer
    python benchmarks/weak_model.py --formats hermes    other formats
    python benchmarks/weak_model.py --json              the same as JSON

The model is the default one of `dragoman local add` (SmolLM2-135M-Instruct), greedy and seeded. `valid` are replies
with a call that fits its schema, `tool` those that call the right one, `arguments` those with every argument right;
`replies` are the twelve further prompts that need no tool and got a plain answer. The row `repaired` reads the replies
of the row above it with dragoman's own reader, where `free` takes only what is written exactly in the format. The row
`grammar` lets the first token decide between a call and words, `required` demands a call, and `likelihoods` compares
the alternatives, as `local` does by default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.progress import Progress
from benchmarks.support.weak_judging import (
    WAYS,
    Prompt,
    Trial,
    Verdict,
    Way,
    ask,
    endpoint_for,
    judge_repaired,
    judge_strictly,
    load,
    write,
)

from dragoman.client import Client
from dragoman.toolset import Toolset

FORMATS = ("fenced_tool_name", "hermes", "qwen3_coder")
MOST_TOKENS = 80


class Row:
    """The count of one way to ask, in one format."""

    def __init__(self, format: str, name: str) -> None:
        self.format, self.name = format, name
        self.verdicts: list[tuple[Prompt, Verdict]] = []
        self.tokens = 0
        self.seconds = 0.0

    def add(self, prompt: Prompt, verdict: Verdict) -> None:
        self.verdicts.append((prompt, verdict))

    def counts(self) -> dict[str, Any]:
        asked = [verdict for prompt, verdict in self.verdicts if prompt.tool]
        idle = [verdict for prompt, verdict in self.verdicts if not prompt.tool]
        return {
            "format": self.format,
            "way": self.name,
            "prompts": len(asked),
            "valid": sum(verdict.valid for verdict in asked),
            "tool": sum(verdict.tool for verdict in asked),
            "arguments": sum(verdict.arguments for verdict in asked),
            "broken": sum(not verdict.valid and not verdict.replied for verdict in asked),
            "idle": len(idle),
            "replies": sum(verdict.replied for verdict in idle),
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
        }


async def measure(way: Way, format: str, prompts: Sequence[Prompt], tools: Toolset, most: int) -> list[Row]:
    """One way in one format: the row as it is, and for a free one the row of what can be repaired."""
    strict = Row(format, way.name)
    repaired = Row(format, f"{way.name.replace('free', 'repaired')}")
    progress = Progress()
    async with Client(endpoint_for(way, format)) as client:
        for number, prompt in enumerate(prompts, start=1):
            composed = write(prompt, tools, way, format, most)
            started = time.perf_counter()
            reply = await ask(client, composed)
            for row in (strict, repaired):
                row.seconds += time.perf_counter() - started
                row.tokens += reply.usage.output_tokens
            strict.add(prompt, judge_strictly(reply.text, prompt, tools, format))
            repaired.add(prompt, judge_repaired(reply, composed, prompt, tools))
            progress.say(f"{format} {way.name}: {number} of {len(prompts)}")
    progress.finish(f"{format} {way.name}: {len(prompts)} prompts")
    return [strict, repaired] if not way.grammar else [strict]


def choose(trial: Trial, most: int) -> list[Prompt]:
    """So many prompts that need a tool, in turn from each kind, and all that need none."""
    needed = [prompt for prompt in trial.prompts if prompt.tool]
    step = max(1, len(needed) // most)
    return needed[::step][:most] + [prompt for prompt in trial.prompts if not prompt.tool]


def draw(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| format | how | valid | right tool | all arguments right | plain replies |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        of = row["prompts"]
        replies = f"{row['replies']}/{row['idle']}" if "required" not in row["way"] else "-"
        counted = " | ".join(f"{row[name]}/{of}" for name in ("valid", "tool", "arguments"))
        lines.append(f"| {row['format']} | {row['way']} | {counted} | {replies} |")
    return "\n".join(lines)


async def run(formats: Sequence[str], most_prompts: int, ways: Sequence[Way]) -> list[dict[str, Any]]:
    trial = load()
    tools = Toolset(trial.tools)
    prompts = choose(trial, most_prompts)
    rows: list[dict[str, Any]] = []
    for format in formats:
        for way in ways:
            asked = prompts if way.choice == "auto" else [prompt for prompt in prompts if prompt.tool]
            rows += [row.counts() for row in await measure(way, format, asked, tools, MOST_TOKENS)]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--ways", default="", help="only the ways whose names begin with one of these, by comma")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    wanted = [way for way in WAYS if not given.ways or way.name.startswith(tuple(given.ways.split(",")))]
    rows = asyncio.run(run(given.formats.split(","), given.prompts, wanted))
    print(json.dumps(rows, indent=2) if given.json else draw(rows))
    broken = [row for row in rows if not row["way"].startswith(("free", "repaired")) and row["broken"]]
    missed = [row for row in rows if row["way"] == "grammar, required" and row["valid"] < row["prompts"]]
    for row in [*broken, *missed]:
        print(f"error: {row['format']}, {row['way']}: {row['valid']} of {row['prompts']} valid", file=sys.stderr)
    return 1 if broken or missed else 0


if __name__ == "__main__":
    sys.exit(main())
