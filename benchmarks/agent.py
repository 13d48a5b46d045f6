"""What a run of the agent costs: two requests and one call over loopback, against others that do the same.

    python benchmarks/agent.py            the table, and 1,000 runs at once
    python benchmarks/agent.py --json     the same as JSON

A blocking run hands its tool to a thread, so that a tool that hangs cannot hold it; in async code none is needed.
The yardsticks are a loop over `http.client` that checks nothing, and the official openai client. CPU time of the whole
process, best of several rounds in which all of them take turns; the upstream is another process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.loopback import ANSWER, Loopback
from benchmarks.support.timing import take_turns

import dragoman

MOST_MILLISECONDS = 2.0
MOST_TIMES_BARE = 4.0
MOST_TIMES_SDK = 0.5
MOST_MEGABYTES = 300
BLOCK = 20
TASK = "What is the weather in Paris?"
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]


@dragoman.tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def run_bare(port: int) -> Callable[[], str]:
    """A loop over http.client: it reads what it needs and checks nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def once() -> str:
        messages: list[Any] = [{"role": "user", "content": TASK}]
        while True:
            body = json.dumps({"model": "scripted", "messages": messages, "tools": TOOLS})
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            message = json.loads(connection.getresponse().read())["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                result = f"sunny in {json.loads(call['function']['arguments'])['city']}"
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    return once


def run_sdk(url: str) -> Callable[[], str]:
    """The same loop over the official client."""
    import openai

    client = openai.OpenAI(api_key="none", base_url=url)

    def once() -> str:
        messages: list[Any] = [{"role": "user", "content": TASK}]
        while True:
            reply = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
            message = reply.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                result = f"sunny in {json.loads(call.function.arguments)['city']}"  # type: ignore[union-attr]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return once


def make_agent(url: str) -> dragoman.Agent:
    return dragoman.Agent("custom:scripted", [weather], base_url=url, tool_mode="native")


def run_agent(url: str) -> Callable[[], str]:
    agent = make_agent(url)
    return lambda: agent.run(TASK).text


@dragoman.tool(name="weather")
async def weather_later(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def run_agent_async(url: str) -> Callable[[], None]:
    """A block of runs inside one event loop, with a tool that needs no thread."""
    agent = dragoman.Agent("custom:scripted", [weather_later], base_url=url, tool_mode="native")
    loop = asyncio.new_event_loop()

    async def block() -> None:
        for _ in range(BLOCK):
            assert (await agent.arun(TASK)).text == ANSWER

    return lambda: loop.run_until_complete(block())


async def run_many(url: str, count: int) -> tuple[int, float]:
    """So many runs at once in one process: how many gave the right answer, and the peak of memory in megabytes."""
    agent = make_agent(url)
    results = await asyncio.gather(*(agent.arun(TASK) for _ in range(count)))
    right = sum(result.text == ANSWER and len(result.results) == 1 for result in results)
    await agent.aclose()
    return right, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(rounds: int) -> dict[str, float]:
    """Milliseconds of CPU for one run, by who does it."""
    with Loopback() as upstream:
        runs: dict[str, Callable[[], str]] = {
            "http.client, nothing checked": run_bare(upstream.port),
            "dragoman, blocking": run_agent(upstream.url),
            "openai client": run_sdk(upstream.url),
        }
        for name, run in runs.items():
            assert run() == ANSWER, name
        blocks: dict[str, Callable[[], None]] = {name: repeat(run) for name, run in runs.items()}
        blocks = {"dragoman, async": run_agent_async(upstream.url), **blocks}
        # What the openai client brings into memory is not to be searched for garbage at our expense.
        gc.collect()
        gc.freeze()
        return {name: cost / 1000 / BLOCK for name, cost in take_turns(blocks, rounds).items()}


def repeat(run: Callable[[], str]) -> Callable[[], None]:
    """Several runs after another: one alone would pay for what the others left in the caches of the processor."""

    def block() -> None:
        for _ in range(BLOCK):
            run()

    return block


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=50, help="how often each is measured (default: 50)")
    options.add_argument("--runs", type=int, default=1000, help="how many runs at once (default: 1000)")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = options.parse_args()
    # First: what the others load would count as ours.
    with Loopback() as upstream:
        right, megabytes = asyncio.run(run_many(upstream.url, given.runs))
    costs = measure(given.rounds)
    ours, bare, sdk = costs["dragoman, async"], costs["http.client, nothing checked"], costs["openai client"]
    kept = ours <= MOST_MILLISECONDS and ours <= MOST_TIMES_BARE * bare and ours <= MOST_TIMES_SDK * sdk
    held = right == given.runs and megabytes <= MOST_MEGABYTES
    if given.json:
        figures = {"cpu_ms": costs, "kept": kept, "at_once": given.runs, "right": right, "peak_megabytes": megabytes}
        print(json.dumps(figures, indent=2))
        return 0
    print(f"{'two requests and one call':<30} {'CPU ms':>8} {'x http.client':>14} {'x openai':>9}")
    for name, cost in costs.items():
        print(f"{name:<30} {cost:>8.2f} {cost / bare:>14.2f} {cost / sdk:>9.2f}")
    print(
        f"budget of async runs (2.0 ms, 4 x http.client, half of the openai client): {'kept' if kept else 'EXCEEDED'}"
    )
    print(f"{given.runs} runs at once: {right} right, peak {megabytes:.0f} MB: {'kept' if held else 'EXCEEDED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
