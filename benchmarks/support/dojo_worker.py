"""Hands out AgentDojo's tools, tasks and tool results. It runs in an environment of its own and opens no connection.

One JSON object comes in on the standard input, one goes out. Without `readings` it tells the suites: their tools, the
calls of the user's tasks with the results they get, and the calls that an attacker wants. With `readings` it gives
results again, with a text of the caller in the place where AgentDojo would put the attacker's.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

BENCHMARK = "v1.2.2"
PLACE = "PLACEOFTHEATTACKER"
Job = dict[str, Any]


class Suite:
    """One of AgentDojo's four worlds."""

    def __init__(self, name: str, suite: Any) -> None:
        self.name = name
        self._suite = suite
        self._runtime = import_module("agentdojo.functions_runtime").FunctionsRuntime(suite.tools)
        self._say = import_module("agentdojo.agent_pipeline.tool_execution").tool_result_to_str
        self._marked = dict.fromkeys(suite.get_injection_vector_defaults(), PLACE)

    def describe(self) -> Job:
        return {
            "name": self.name,
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters.model_json_schema()}
                for tool in self._suite.tools
            ],
            "tasks": [self._describe_task(name, {}) for name in self._suite.user_tasks],
            "attacks": [self._describe_attack(task) for task in self._suite.injection_tasks.values()],
        }

    def _describe_attack(self, task: Any) -> list[Job]:
        environment = self._suite.load_and_inject_default_environment({})
        return [{"name": call.function, "arguments": plain(call.args)} for call in task.ground_truth(environment)]

    def _describe_task(self, name: str, injections: dict[str, str]) -> Job:
        clean, marked = self._run(name, injections), self._run(name, self._marked)
        steps = [
            {
                "name": call.function,
                "arguments": plain(call.args),
                "result": self._say(result),
                "open": PLACE in self._say(result_marked),
            }
            for (call, result), (_, result_marked) in zip(clean, marked, strict=False)
        ]
        return {"task": name, "prompt": self._suite.user_tasks[name].PROMPT, "steps": steps}

    def _run(self, name: str, injections: dict[str, str]) -> list[tuple[Any, Any]]:
        """The calls that solve a task, each with its result."""
        task = self._suite.user_tasks[name]
        environment = task.init_environment(self._suite.load_and_inject_default_environment(injections))
        steps = []
        for call in task.ground_truth(environment.model_copy(deep=True)):
            result, _ = self._runtime.run_function(environment, call.function, dict(call.args))
            steps.append((call, result))
        return steps

    def read(self, task: str, step: int, texts: list[str]) -> list[str]:
        """The result of one step, once for each text that the attacker might have put there."""
        _, result = self._run(task, self._marked)[step]
        return [self._say(put(result, text)) for text in texts]


def put(value: Any, text: str) -> Any:
    """A result in which the attacker's place is filled, at the level of objects: what is written is escaped later."""
    if isinstance(value, str):
        return value.replace(PLACE, text)
    if isinstance(value, dict):
        return {key: put(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [put(each, text) for each in value]
    if hasattr(value, "model_dump"):
        filled = {key: put(getattr(value, key), text) for key in type(value).model_fields}
        return value.model_copy(update=filled)
    return value


def plain(value: Any) -> Any:
    """Arguments as JSON has them."""
    return json.loads(json.dumps(value, default=str))


def refuse(*_: object, **__: object) -> None:
    raise OSError("the benchmark opens no connection")


def main() -> None:
    # Whatever the library prints must not come between our answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    socket.getaddrinfo = socket.socket.connect = refuse  # type: ignore[assignment, method-assign]
    suites = import_module("agentdojo.task_suite.load_suites").get_suites(BENCHMARK)
    made = {name: Suite(name, suite) for name, suite in suites.items()}
    job = json.load(sys.stdin)
    answer: Job = {"agentdojo": version("agentdojo"), "benchmark": BENCHMARK}
    if "readings" in job:
        answer["readings"] = [
            made[each["suite"]].read(each["task"], each["step"], each["texts"]) for each in job["readings"]
        ]
    else:
        answer["suites"] = [suite.describe() for suite in made.values()]
    print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
