"""A comparison of models on the tools of the user: right tool, right arguments, turns, cost and time for each case.

The tools never run. Each call gets the result that its case names, so a comparison has no side effects.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from dragoman.agent import Agent, RunResult
from dragoman.args.loader import validate
from dragoman.errors import ConfigError, did_you_mean
from dragoman.formats.prompt import sample_calls
from dragoman.replies import add_usage
from dragoman.types import JsonObject, Tool, ToolCall, Usage

# --------------------------------------------------------------------------------------------------------------------
# Cases: a task, and the calls that are right for it.

DONE = "Done."
"""The result of a call for which the case names none."""
CASES_HINT = (
    'a case is {"task": "Is it warm in Paris?", "tool": "weather", "arguments": {"city": "Paris"}}; `calls` lists '
    "several calls, and [] means that no call is right"
)


class ExpectedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is right for a case."""

    tool: str
    arguments: JsonObject | None = None
    """None means that every value is right."""
    result: str = DONE
    """What the model receives as the result of the call."""


class Case(Struct, frozen=True):
    """A task for the models, and all calls that are right for it. Without calls, an answer without a call is right."""

    task: str
    calls: tuple[ExpectedCall, ...] = ()


class _CaseRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A case as the user writes it: with `calls`, or with the fields of a single call."""

    task: str
    calls: list[ExpectedCall] | None = None
    tool: str = ""
    arguments: JsonObject | None = None
    result: str = DONE


def read_cases(rows: Iterable[Any], tools: Iterable[Tool], where: str) -> list[Case]:
    """Check the cases of the user. Raises ConfigError with the number of the case."""
    known = {tool.name: tool for tool in tools}
    cases = []
    for number, row in enumerate(rows, 1):
        place = f"{where}, case {number}"
        try:
            given = msgspec.convert(row, _CaseRow)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{place}: {error}", hint=CASES_HINT) from None
        calls = given.calls
        if calls is None and given.tool:
            calls = [ExpectedCall(given.tool, given.arguments, given.result)]
        if calls is None:
            raise ConfigError(f"{place} names neither `tool` nor `calls`", hint=CASES_HINT)
        for call in calls:
            _check_call(call, known, place)
        cases.append(Case(given.task, tuple(calls)))
    if not cases:
        raise ConfigError(f"{where} has no cases", hint=CASES_HINT)
    return cases


def _check_call(call: ExpectedCall, known: Mapping[str, Tool], place: str) -> None:
    tool = known.get(call.tool)
    if tool is None:
        raise ConfigError(
            f"{place}: there is no tool {call.tool!r}{did_you_mean(call.tool, known)}",
            hint=f"the tools are {', '.join(known)}",
        )
    faults = validate(call.arguments, tool.parameters) if call.arguments is not None else []
    if faults:
        raise ConfigError(f"{place}: the arguments of {call.tool}: {faults[0]}", hint="no model could be right")


def parse_cases(data: bytes, where: str) -> list[Any]:
    """Read the rows of a file: TOML with `[[cases]]`, a JSON list, or one JSON object per line."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        if where.endswith(".toml"):
            rows = tomllib.loads(text).get("cases")
        elif text.lstrip().startswith("["):
            rows = msgspec.json.decode(text)
        else:
            rows = [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot read the cases in {where}: {error}", hint=CASES_HINT) from None
    if not isinstance(rows, list):
        raise ConfigError(f"{where} has no list of cases", hint=CASES_HINT)
    return rows


def derive_cases(tools: Sequence[Tool]) -> list[Case]:
    """Return one case for each tool, with a call of the values in its schema: examples, defaults and enums.

    A tool for which no such call fits the schema gets no case.
    """
    cases = []
    for tool, (name, arguments) in zip(tools, sample_calls(tools), strict=False):
        if not validate(arguments, tool.parameters):
            values = " and ".join(
                f"{each} = {json.dumps(value, ensure_ascii=False)}" for each, value in arguments.items()
            )
            how = f" with {values}" if values else ""
            cases.append(Case(f"Call the tool {name}{how}.", (ExpectedCall(name, arguments),)))
    if not cases:
        raise ConfigError("no case can be derived from the schemas of the tools", hint=f"--cases FILE: {CASES_HINT}")
    return cases


# --------------------------------------------------------------------------------------------------------------------
# Trials: one model with one case, and the score of a model.


class MadeCall(Struct, frozen=True):
    """A call that a model made."""

    tool: str
    arguments: JsonObject | None
    """None if they could not be read or do not fit the schema."""

    def __str__(self) -> str:
        shown = "..." if self.arguments is None else json.dumps(self.arguments, ensure_ascii=False)
        return f"{self.tool}({shown})"


class Trial(Struct, frozen=True):
    """What one model did with one case."""

    task: str
    right_tool: bool
    """It called all tools of the case, and no other."""
    right_arguments: bool
    """It made all calls of the case."""
    calls: tuple[MadeCall, ...] = ()
    turns: int = 0
    seconds: float = 0.0
    cost: float | None = None
    usage: Usage = Usage()
    failure: str = ""
    """Why the run ended without an answer; empty if it ended with one."""
    is_lost: bool = False
    """Whether the endpoint gave no answer at all, so that the other cases are pointless."""


class Score(Struct, frozen=True):
    """The trials of one model."""

    model: str
    trials: tuple[Trial, ...] = ()

    @property
    def right_tool(self) -> int:
        return sum(trial.right_tool for trial in self.trials)

    @property
    def right_arguments(self) -> int:
        return sum(trial.right_arguments for trial in self.trials)

    @property
    def turns(self) -> float:
        """The requests of a case, on average."""
        return sum(trial.turns for trial in self.trials) / max(len(self.trials), 1)

    @property
    def seconds(self) -> float:
        """The time of a case, on average."""
        return sum(trial.seconds for trial in self.trials) / max(len(self.trials), 1)

    @property
    def cost(self) -> float | None:
        """The cost of all cases; None if a price is unknown."""
        costs = [trial.cost for trial in self.trials]
        return None if None in costs or not costs else sum(filter(None, costs))

    @property
    def usage(self) -> Usage:
        total = Usage()
        for trial in self.trials:
            total = add_usage(total, trial.usage)
        return total

    @property
    def failure(self) -> str:
        """Why the endpoint gave no answer; empty if it did."""
        return next((trial.failure for trial in self.trials if trial.is_lost), "")

    @property
    def rank(self) -> tuple[Any, ...]:
        """The best model has the smallest: most arguments right, then most tools, least cost, least time."""
        cost = self.cost
        return (-self.right_arguments, -self.right_tool, cost is None, cost or 0.0, self.seconds)


async def compare(agents: Mapping[str, Agent[Any]], cases: Sequence[Case], tools: Sequence[Tool]) -> AsyncIterator[Any]:
    """Give each case to each model, one after another. Yields `(model, case)` before a trial, and `Score` after each.

    A score grows with each of its trials. If an endpoint gives no answer at all, its other cases are left out.
    """
    for model, agent in agents.items():
        score = Score(model)
        for case in cases:
            yield model, case
            score = structs.replace(score, trials=(*score.trials, await _try(agent, case, tools)))
            yield score
            if score.trials[-1].is_lost:
                break


async def _try(agent: Agent[Any], case: Case, tools: Sequence[Tool]) -> Trial:
    started = time.monotonic()
    result = await agent.arun(case.task, tools=_stub_tools(tools, case), check=False)
    seconds = time.monotonic() - started
    return _judge(result, case, {tool.name: tool for tool in tools}, seconds)


def _stub_tools(tools: Iterable[Tool], case: Case) -> list[Tool]:
    """Return tools with the same names and schemas that only return the results of the case."""

    def stand_in(name: str) -> Any:
        results = [call.result for call in case.calls if call.tool == name]

        def run(**arguments: Any) -> str:
            return results.pop(0) if len(results) > 1 else results[0] if results else DONE

        return run

    return [
        Tool(tool.name, tool.description, tool.parameters, stand_in(tool.name), read_only=True, repeatable=True)
        for tool in tools
    ]


def _judge(result: RunResult[Any], case: Case, tools: Mapping[str, Tool], seconds: float) -> Trial:
    made = [MadeCall(call.name, call.arguments if isinstance(call, ToolCall) else None) for call in result.calls]
    outcome = result.outcome
    reason = f"{outcome.kind.replace('_', ' ')}: {outcome.reason}" if outcome.reason else outcome.kind
    expected = case.calls
    left = list(made)
    for call in expected:
        left_out = next((each for each in left if _fits(each, call, tools[call.tool])), None)
        if left_out is None:
            break
        left.remove(left_out)
    right_tool = {call.tool for call in made} == {call.tool for call in expected}
    return Trial(
        case.task,
        right_tool,
        right_tool and len(made) - len(left) == len(expected),
        tuple(made),
        result.turns,
        seconds,
        result.cost,
        result.usage,
        "" if outcome.is_success else reason,
        outcome.kind in ("provider_failed", "unauthorized") and not made,
    )


def _fits(made: MadeCall, expected: ExpectedCall, tool: Tool) -> bool:
    """Whether a call is the expected one. An argument that is left out has its default."""
    if made.tool != expected.tool or made.arguments is None:
        return False
    if expected.arguments is None:
        return True
    properties = tool.parameters.get("properties")
    rows = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: rule["default"] for name, rule in rows if isinstance(rule, dict) and "default" in rule}
    return defaults | made.arguments == defaults | expected.arguments
