"""The questions of the demo, and each step of an answer to them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec import Struct

from dragoman.agent import Agent, Limits
from dragoman.agent.events import RunEnded, ToolEnded
from dragoman.cli.demo_tools import demo_tools
from dragoman.cli.excerpts import first_lines, write_arguments
from dragoman.cli.screen import Screen
from dragoman.types import ToolCall, ToolResult

_FOLDERS = ("docs", "src", "Documents", "Downloads", "Desktop")
_MOST_TOKENS = 64
_MOST_FREE = 60
_MOST_LINES = 6


class Step(Struct, frozen=True):
    """One call: as it was written, how it was read, and what came of it."""

    wrote: str
    format: str
    repairs: tuple[str, ...]
    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool
    milliseconds: float


class Answered(Struct, frozen=True):
    """A question with every step to its answer."""

    question: str
    steps: list[Step]
    answer: str
    outcome: str
    turns: int
    seconds: float


class Free(Struct, frozen=True):
    """What the model says when nothing holds it, and how many calls are in it."""

    text: str
    calls: int


def questions(here: Path) -> list[str]:
    """What is asked: of the clock, of the files around the user, of the calculator, and of nobody."""
    names = [*_FOLDERS, *sorted(entry.name for entry in here.iterdir() if entry.is_dir() and entry.name.isalpha())]
    folder = next((name for name in names if (here / name).is_dir()), None)
    about_files = [f"List the files in {folder}."] if folder is not None else []
    return ["What time is it?", *about_files, "What is 17 * 23?", "Hello!"]


def open_agent() -> Agent:
    """The embedded model with the tools of the demo."""
    options = {"temperature": 0.0, "seed": 1, "max_tokens": _MOST_TOKENS}
    return Agent("local", demo_tools(), limits=Limits(turns=4), options=options)


def ask(agent: Agent, question: str) -> Answered:
    """Ask, and keep every step."""
    started = perf_counter()
    steps: list[Step] = []
    answer, outcome, turns = "", "", 0
    for event in agent.stream(question):
        if isinstance(event, ToolEnded):
            steps.append(_read(event))
        elif isinstance(event, RunEnded):
            answer, outcome, turns = event.result.text, event.result.outcome.kind, event.result.turns
    return Answered(question, steps, answer, outcome, turns, round(perf_counter() - started, 3))


def ask_freely(question: str) -> Free:
    """What the same model says to the same question with the same tools explained to it, and no grammar."""
    from msgspec import structs

    import dragoman
    from dragoman import providers

    endpoint = providers.resolve("local")
    free = structs.replace(
        endpoint,
        quirks=structs.replace(endpoint.quirks, grammar_field=""),
        profile=structs.replace(endpoint.profile, weak=False),
    )
    reply = dragoman.ask(free, question, tools=demo_tools(), max_tokens=_MOST_FREE, temperature=0.0, seed=1)
    calls = [part for part in reply.message.parts if isinstance(part, ToolCall)]
    return Free("\n".join(filter(None, [reply.text, *(call.raw for call in calls)])), len(calls))


def draw(screen: Screen, answered: Answered) -> None:
    """Show what happened, step by step."""
    for step in answered.steps:
        screen.line("  ", ("the model wrote", "dim"))
        screen.block(step.wrote, indent=4)
        mended = f"repairs: {', '.join(step.repairs)}" if step.repairs else "nothing to repair"
        screen.line("  ", ("read as ", "dim"), step.format, f", {mended}")
        called = f"{step.name}({write_arguments(step.arguments)})"
        screen.line("  ", ("ran     ", "dim"), (called, "green"), (f" in {step.milliseconds:.1f} ms", "dim"))
        for number, line in enumerate(first_lines(step.result, _MOST_LINES)):
            screen.line("  ", ("        " if number else "result  ", "dim"), (line, "red" if step.failed else ""))
    answer = answered.answer.strip() or f"(no answer: {answered.outcome})"
    for number, line in enumerate(first_lines(answer, _MOST_LINES)):
        screen.line("  ", ("        " if number else "answer  ", "dim"), (line, "bold"))
    screen.line("  ", (f"{answered.turns} turn{'s' * (answered.turns != 1)}, {answered.seconds:.1f} s", "dim"))


def _read(event: ToolEnded) -> Step:
    call, result = event.call, event.result
    read = call if isinstance(call, ToolCall) else None
    return Step(
        wrote=call.raw,
        format=(call.provenance.format if call.provenance is not None else "") or "no known format",
        repairs=read.repairs if read is not None else (),
        name=call.name,
        arguments=read.arguments if read is not None else {},
        result=_text(result),
        failed=result.is_error,
        milliseconds=round(event.seconds * 1000, 3),
    )


def _text(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(getattr(part, "text", "") for part in result.content)
