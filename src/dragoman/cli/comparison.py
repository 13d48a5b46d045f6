"""The comparison of models on the user's tools, for `dragoman doctor --tools`: cases, agents, table and JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.agent import Agent, Connection, Limits
from dragoman.cli.endpoints import DoctorOptions, EndpointFinder, run_until_interrupted
from dragoman.cli.exit_codes import NO_ANSWER
from dragoman.cli.screen import Screen, count, ellipsis, one_line, print_line, read_bytes, write_json
from dragoman.client import Retries
from dragoman.client.facts import shared_facts
from dragoman.config.tool_sources import CASES, listed_cases, load_tools
from dragoman.doctor.comparison import Case, Score, Trial, compare, derive_cases, parse_cases, read_cases
from dragoman.types import Tool

_TURNS = 6
"""The requests of one case, at most."""
_HEADS = ("tool", "args", "turns", "time", "cost")
_WIDTHS = (7, 7, 5, 7, 8)
_NAME_CHARS = 24
"""The characters of a name that have to fit into its column."""
_MOST_MISSES = 10
"""The wrong calls that are printed; --json has all of them."""


class ComparisonRun:
    """One comparison: loads tools and cases, tries each model, prints the scores."""

    def __init__(self, finder: EndpointFinder, options: DoctorOptions) -> None:
        self._finder = finder
        self._options = options
        self._tools = load_tools(self._options.tools).require()
        self._cases, self._source = _find_cases(self._options.cases, self._options.tools, self._tools)
        self._screen = Screen()
        self._names: list[str] = []
        self._scores: dict[str, Score] = {}

    def run(self) -> int:
        """Compare the models, and return the exit code. After Ctrl-C the scores so far are printed."""
        return run_until_interrupted(self._compare, self._finder.spinner, self._interrupted)

    async def _compare(self) -> int:
        agents = await self._agents()
        if not self._options.as_json:
            self._screen.line(f"{count(len(self._cases), 'case')} {self._source}; the tools do not run")
            self._screen.line()
            self._print_heads()
        try:
            await self._try_all(agents)
        finally:
            for agent in agents.values():
                await agent.aclose()
        self._finish(complete=True)
        return NO_ANSWER if all(score.failure for score in self._scores.values()) else 0

    async def _agents(self) -> dict[str, Agent[Any]]:
        """An agent for each model. Its calls need no approval, because nothing runs."""
        finder, options = self._finder, self._options
        facts = shared_facts(os.environ)
        if "://" in (options.target or ""):
            wanted = [(finder.target, model) for model in options.models or ("",)]
        else:
            named = [*filter(None, [options.target]), *options.models] or [finder.target]
            wanted = [(name, "") for name in named]
        agents: dict[str, Agent[Any]] = {}
        for name, model in wanted:
            endpoint = await finder.find(name, model, facts)
            finder.spinner.hide()
            request = {"max_tokens": options.tokens} if options.tokens is not None else {}
            agents[f"{endpoint.provider.name}:{endpoint.model}"] = Agent(
                endpoint,
                key=finder.key,
                mode="bypass",
                approve=lambda request: True,
                limits=Limits(turns=_TURNS, seconds=options.seconds),
                options={**finder.config.options, **request},
                connection=Connection(
                    transport=finder.open_transport(endpoint) if finder.config["proxy"] else None,
                    timeouts=finder.config.timeouts,
                    retries=Retries(attempts=2),
                    registry=finder.registry,
                    environment=finder.environment,
                    facts=facts,
                    prices=finder.config.prices(),
                ),
            )
        self._names = list(agents)
        return agents

    async def _try_all(self, agents: dict[str, Agent[Any]]) -> None:
        async for step in compare(agents, self._cases, self._tools):
            if isinstance(step, Score):
                self._scores[step.model] = step
                if len(step.trials) == len(self._cases) or step.failure:
                    self._print_row(step)
            else:
                model, case = step
                done = len(self._scores[model].trials) if model in self._scores else 0
                number = f"{done + 1} of {len(self._cases)}"
                self._finder.spinner.show(f"{model}, case {number}: {one_line(case.task, 60)}")

    # ---- printing ----------------------------------------------------------------------------------------------------

    @property
    def _name_width(self) -> int | None:
        """The width of the column of names; None if the table does not fit, and each model takes several lines."""
        wanted = max(map(len, self._names), default=0)
        if self._screen.width is None:
            return wanted
        room = self._screen.width - sum(_WIDTHS) - 2 * len(_WIDTHS)
        return min(wanted, room) if room >= min(wanted, _NAME_CHARS) else None

    def _print_heads(self) -> None:
        width = self._name_width
        if width is not None:
            heads = (f"  {head:>{size}}" for head, size in zip(_HEADS, _WIDTHS, strict=True))
            self._screen.line((f"{'model':{width}}{''.join(heads)}", "bold"))

    def _print_row(self, score: Score) -> None:
        if self._options.as_json:
            return
        width, cells = self._name_width, _cells(score, len(self._cases))
        with self._finder.spinner.paused():
            if width is not None:
                values = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, _WIDTHS, strict=True))
                self._screen.line((f"{ellipsis(score.model, width):{width}}", "green"), values)
            else:
                self._screen.line((score.model, "green"))
                pairs = [f"{head} {cell}" for head, cell in zip(_HEADS, cells, strict=True)]
                self._screen.line("  ", "  ".join(pairs[:3]))
                self._screen.line("  ", "  ".join(pairs[3:]))

    def _interrupted(self) -> None:
        """Print what is known: the row of the model that was interrupted, and the rest of a complete comparison."""
        unprinted = [score for score in self._scores.values() if len(score.trials) < len(self._cases)]
        for score in unprinted:
            if not score.failure:
                self._print_row(score)
        self._finish(complete=False)

    def _finish(self, *, complete: bool) -> None:
        self._finder.spinner.hide()
        scores = list(self._scores.values())
        if self._options.as_json:
            write_json(self._as_data(scores, complete=complete))
            return
        misses = [(score.model, trial) for score in scores for trial in score.trials if not trial.right_arguments]
        if misses:
            self._screen.line()
        for model, trial in misses[:_MOST_MISSES]:
            self._screen.line((f"{model}: ", "yellow"), one_line(trial.task, 80))
            self._screen.line("    ", one_line(_describe_miss(trial), 300))
        if len(misses) > _MOST_MISSES:
            self._screen.line(f"... and {count(len(misses) - _MOST_MISSES, 'more miss')}es; --json has all of them")
        self._screen.line()
        answered = [score for score in scores if not score.failure]
        if not complete:
            print_line("interrupted; the table is partial", error=True)
        elif len(answered) > 1:
            best = min(answered, key=lambda score: score.rank)
            right = f"{best.right_arguments} of {len(self._cases)} cases right"
            self._screen.line(("best: ", "bold"), f"{best.model} ({right})")

    def _as_data(self, scores: Sequence[Score], *, complete: bool) -> dict[str, Any]:
        names = ("right_tool", "right_arguments", "turns", "seconds", "cost", "usage", "failure")
        return {
            "complete": complete,
            "source": self._source,
            "cases": msgspec.to_builtins(self._cases),
            "models": [
                {"model": score.model, "cases": len(score.trials)}
                | {name: msgspec.to_builtins(getattr(score, name)) for name in names}
                | {"trials": msgspec.to_builtins(score.trials)}
                for score in scores
            ],
        }


def _cells(score: Score, cases: int) -> tuple[str, ...]:
    if score.failure:
        return "failed", "-", "-", f"{score.seconds:.1f} s", "-"
    tried = len(score.trials)
    of = f"{tried}" if tried == cases else f"{tried}*"
    cost = "-" if score.cost is None else f"${score.cost:.4f}"
    seconds = f"{score.seconds:.1f} s"
    return f"{score.right_tool}/{of}", f"{score.right_arguments}/{of}", f"{score.turns:.1f}", seconds, cost


def _describe_miss(trial: Trial) -> str:
    if trial.is_lost:
        return trial.failure
    made = ", ".join(map(str, trial.calls)) or "no call"
    what = "wrong arguments" if trial.right_tool else "wrong tool"
    return f"{what}: {made}" + (f"; {trial.failure}" if trial.failure else "")


def _find_cases(path: str | None, sources: Sequence[str], tools: Sequence[Tool]) -> tuple[list[Case], str]:
    """The cases, and where they come from."""
    if path is not None:
        return read_cases(parse_cases(read_bytes(path), path), tools, path), f"from {path}"
    where, rows = listed_cases(sources)
    if rows:
        return read_cases(rows, tools, where), f"from {where}"
    hint = f"--cases FILE, or a list {CASES} in the file of tools, gives your own"
    return derive_cases(tools), f"derived from the schemas of the tools ({hint})"
