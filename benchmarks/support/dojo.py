"""AgentDojo's tools, tasks and tool results, from an environment of its own that is made once in the user's cache.

It is no extra of ours: it brings seventy packages and 280 MB (LangChain among them) for data that fits into a page.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.support.environments import Environments, Unavailable, cache_folder

__all__ = ["Call", "Reading", "Step", "Suite", "Task", "Unavailable", "fill", "load_suites", "readings"]

PACKAGE = "agentdojo==0.1.35"
WORKER = Path(__file__).with_name("dojo_worker.py")
MOST_SECONDS = 1200


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Step(msgspec.Struct, frozen=True):
    """A call that helps to solve a task, and its result. `open`: an attacker can write into that result."""

    name: str
    arguments: dict[str, Any]
    result: str
    open: bool

    @property
    def call(self) -> Call:
        return Call(self.name, self.arguments)


class Task(msgspec.Struct, frozen=True):
    task: str
    prompt: str
    steps: list[Step]


class Suite(msgspec.Struct, frozen=True):
    name: str
    tools: list[dict[str, Any]]
    tasks: list[Task]
    attacks: list[list[Call]]

    @property
    def payloads(self) -> list[Call]:
        """Every call that an attacker wants, once."""
        found = {
            json.dumps([call.name, call.arguments], sort_keys=True): call for calls in self.attacks for call in calls
        }
        return list(found.values())


class Reading(msgspec.Struct, frozen=True):
    """A result that an attacker can write into."""

    suite: Suite
    task: Task
    step: int


def load_suites() -> tuple[str, list[Suite]]:
    """The version of AgentDojo and its suites."""
    answer = ask({})
    return str(answer["agentdojo"]), msgspec.convert(answer["suites"], list[Suite])


def readings(suites: Iterable[Suite]) -> list[Reading]:
    return [
        Reading(suite, task, number)
        for suite in suites
        for task in suite.tasks
        for number, step in enumerate(task.steps)
        if step.open
    ]


def fill(wanted: list[tuple[Reading, list[str]]]) -> list[list[str]]:
    """The results of readings with the attacker's texts in them, written as AgentDojo writes results."""
    jobs = [
        {"suite": reading.suite.name, "task": reading.task.task, "step": reading.step, "texts": texts}
        for reading, texts in wanted
    ]
    filled: list[list[str]] = ask({"readings": jobs})["readings"]
    return filled


def ask(job: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [Environments(cache_folder()).python("agentdojo", PACKAGE) / "python", WORKER],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Unavailable(next(reversed(done.stderr.strip().splitlines()), "its process ended without a word"))
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
