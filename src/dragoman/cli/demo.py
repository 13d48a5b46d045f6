"""`dragoman demo`: questions to the embedded model with real tools, and sample replies if there is no model."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import Meta, Struct, structs

from dragoman import formats, providers
from dragoman.agent import Agent, Limits
from dragoman.agent.events import RunEnded, ToolEnded
from dragoman.args.tolerant_scalars import evaluate
from dragoman.cli.parse import as_data, draw
from dragoman.cli.screen import (
    ProgressLine,
    Screen,
    count,
    first_lines,
    print_error,
    result_text,
    write_arguments,
    write_json,
)
from dragoman.errors import DragomanError
from dragoman.events import CallEnded
from dragoman.paths import current_folder
from dragoman.stage import collect
from dragoman.tools import tool
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

if TYPE_CHECKING:
    from dragoman.local.engine import Engine


# ---- tools of the demo -----------------------------------------------------------------------------------------------


@tool
def get_time() -> str:
    """Tell the current time."""
    return datetime.now().strftime("%H:%M")


@tool
def list_files(folder: Annotated[str, Meta(examples=["docs"], max_length=60)]) -> str:
    """List the files in a folder."""
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r} here")
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    # The model is too small to repeat a long list: it would not find an end.
    return f"{count(len(names), 'file')}, the first is {names[0]}." if names else "no files"


@tool
def calculate(expression: Annotated[str, Meta(examples=["2 + 3"], max_length=40)]) -> str:
    """Work out an arithmetic expression."""
    value = evaluate(expression)
    if value is None:
        raise ValueError(f"{expression!r} is not an arithmetic expression")
    return f"{value:g}" if isinstance(value, float) else str(value)


DEMO_TOOLS: list[Any] = [get_time, list_files, calculate]


# ---- sample replies, for a demo without a model ----------------------------------------------------------------------


class Sample(msgspec.Struct, frozen=True):
    """One reply that ships with the package, and its title."""

    file: str
    title: str
    loose: bool = False

    @property
    def text(self) -> str:
        return _read_reply(self.file)


def show_replies(screen: Screen) -> None:
    offered = tools()
    screen.line(
        ("dragoman", "bold"), f" reads what a model wrote and finds the calls in it. Tools: {', '.join(offered.names)}."
    )
    seconds = 0.0
    streamed_alike = 0
    shown = samples()
    for number, sample in enumerate(shown, start=1):
        screen.line()
        screen.line((f"== {number}. {sample.title}", "bold cyan"))
        screen.line()
        screen.block(sample.text.rstrip("\n"), indent=0, style="dim")
        # Before the measurement, so that one-time preparation is not included.
        parser = formats.parser(tools=offered, loose=sample.loose)
        streamed = [event.call for event in collect(parser, sample.text) if isinstance(event, CallEnded)]
        started = perf_counter()
        parsed = formats.parse(sample.text, tools=offered, loose=sample.loose)
        seconds += perf_counter() - started
        draw(screen, sample.text, parsed)
        streamed_alike += streamed == parsed.calls
    screen.line()
    screen.line(
        f"{len(shown)} replies read in {seconds * 1000:.1f} ms; fed one character at a time, "
        f"{streamed_alike} of {len(shown)} give the same calls."
    )
    command = own_command()
    screen.line(f"Next: {command} parse FILE parses your own reply, {command} formats lists the text formats,")
    screen.line(f"      {command} convert converts a request, {command} providers lists the providers.")


def replies_as_data() -> list[dict[str, Any]]:
    offered = tools()
    shown = []
    for sample in samples():
        parsed = formats.parse(sample.text, tools=offered, loose=sample.loose)
        shown.append({"title": sample.title, "reply": sample.text, **as_data(sample.text, parsed)})
    return shown


def samples() -> list[Sample]:
    """The sample replies, in the order in which they are printed."""
    return msgspec.json.decode(_read_reply("index.json"), type=list[Sample])


def tools() -> Toolset:
    """The tools that are offered in every sample."""
    return Toolset(msgspec.json.decode(_read_reply("tools.json"), type=list[dict[str, object]]))


def _read_reply(name: str) -> str:
    return (files("dragoman") / "samples" / name).read_text(encoding="utf-8")


# ---- questions and answers -------------------------------------------------------------------------------------------

_FOLDERS = ("docs", "src", "Documents", "Downloads", "Desktop")
_MAX_TOKENS = 64
_MAX_UNGUIDED_TOKENS = 60
_MAX_LINES = 6


class Step(Struct, frozen=True):
    """One call: the text of the model, how it was parsed, and the result."""

    wrote: str
    format: str
    repairs: tuple[str, ...]
    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool
    milliseconds: float


class AnsweredQuestion(Struct, frozen=True):
    """A question, the calls that were made for it, and the answer."""

    question: str
    steps: list[Step]
    answer: str
    outcome: str
    turns: int
    seconds: float


class UnguidedReply(Struct, frozen=True):
    """A reply without a grammar, and the number of calls in it."""

    text: str
    calls: int


def questions(workspace: Path) -> list[str]:
    """One question for each tool, and one that needs no tool."""
    names = [*_FOLDERS, *sorted(entry.name for entry in workspace.iterdir() if entry.is_dir() and entry.name.isalpha())]
    folder = next((name for name in names if (workspace / name).is_dir()), None)
    about_files = [f"How many files are in {folder}?"] if folder is not None else []
    return ["What time is it?", *about_files, "What is 17 * 23?", "Hello!"]


def ask(agent: Agent, question: str) -> AnsweredQuestion:
    """Ask the model, and record every call."""
    started = perf_counter()
    steps: list[Step] = []
    answer, outcome, turns = "", "", 0
    for event in agent.stream(question):
        if isinstance(event, ToolEnded):
            steps.append(_read_step(event))
        elif isinstance(event, RunEnded):
            answer, outcome, turns = event.result.text, event.result.outcome.kind, event.result.turns
    return AnsweredQuestion(question, steps, answer, outcome, turns, round(perf_counter() - started, 3))


def ask_without_grammar(question: str) -> UnguidedReply:
    """The reply of the same model to the same question with the same tools, but without a grammar."""

    import dragoman

    endpoint = providers.resolve("local")
    without_grammar = structs.replace(
        endpoint,
        quirks=structs.replace(endpoint.quirks, grammar_field=""),
        profile=structs.replace(endpoint.profile, weak=False),
    )
    reply = dragoman.ask(
        without_grammar, question, tools=DEMO_TOOLS, max_tokens=_MAX_UNGUIDED_TOKENS, temperature=0.0, seed=1
    )
    calls = [part for part in reply.message.parts if isinstance(part, ToolCall)]
    return UnguidedReply("\n".join(filter(None, [reply.text, *(call.raw for call in calls)])), len(calls))


def draw_answer(screen: Screen, answered: AnsweredQuestion) -> None:
    for step in answered.steps:
        screen.line("  ", ("the model wrote", "dim"))
        screen.block(step.wrote, indent=4)
        repairs_text = f"repairs: {', '.join(step.repairs)}" if step.repairs else "nothing to repair"
        screen.line("  ", ("read as ", "dim"), step.format, f", {repairs_text}")
        call_text = f"{step.name}({write_arguments(step.arguments)})"
        screen.line("  ", ("ran     ", "dim"), (call_text, "green"), (f" in {step.milliseconds:.1f} ms", "dim"))
        for number, line in enumerate(first_lines(step.result, _MAX_LINES)):
            screen.line("  ", ("        " if number else "result  ", "dim"), (line, "red" if step.failed else ""))
    answer = answered.answer.strip() or f"(no answer: {answered.outcome})"
    for number, line in enumerate(first_lines(answer, _MAX_LINES)):
        screen.line("  ", ("        " if number else "answer  ", "dim"), (line, "bold"))
    screen.line("  ", (f"{count(answered.turns, 'turn')}, {answered.seconds:.1f} s", "dim"))


def _read_step(event: ToolEnded) -> Step:
    call, result = event.call, event.result
    return Step(
        wrote=call.raw,
        format=(call.provenance.format if call.provenance is not None else "") or "no known format",
        repairs=call.repairs if isinstance(call, ToolCall) else (),
        name=call.name,
        arguments=call.arguments if isinstance(call, ToolCall) else {},
        result=result_text(result),
        failed=result.is_error,
        milliseconds=round(event.seconds * 1000, 3),
    )


# ---- the command -----------------------------------------------------------------------------------------------------

HELP = """Answer a few questions with a real model and real tools, in this process: no key, no server.

The model (SmolLM2-135M, 98 MB) is downloaded once; later runs need no network. The output shows each step: the text of
the model, the parsed call, the execution and the result. Without a model, the command shows sample replies instead.

\b
Examples:
  dragoman demo              download the model if necessary, and ask it
  dragoman demo --replies    parse the sample replies, without a model
  dragoman demo --json       print the steps as JSON

\b
Exit codes:
  0  success
  4  the model is missing and could not be downloaded; the sample replies were shown instead
"""

NO_MODEL = 4
_TASK = f'"What is 6 * 7?" -t {__name__}'
NEXT_COMMANDS = (
    (f"run -m local {_TASK}", "the same model and tools; -t FILE.py takes your own functions"),
    (f"run -m ollama:qwen3 {_TASK}", "a larger model of Ollama on this machine"),
    (f"run -m openai:gpt-5 {_TASK}", "a model behind a key, in OPENAI_API_KEY"),
    ("providers", "all providers and the variables of their keys"),
    ("demo --replies", "sample replies of other models, parsed"),
)


def own_command() -> str:
    """Return what to type for this command. `make demo` calls it by its path, and the shell does not find its name."""
    script = Path(sys.executable).parent / "dragoman"
    if shutil.which("dragoman") is not None or not script.exists():
        return "dragoman"
    here = current_folder(os.environ)
    is_below = script.is_relative_to(here) and script.parent != here
    return shlex.quote(str(script.relative_to(here) if is_below else script))


app = typer.Typer(name="demo", add_completion=False, rich_markup_mode=None)


@app.command("demo", help=HELP)
def demo(
    replies: Annotated[bool, typer.Option("--replies", help="Parse the sample replies, without a model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> int:
    screen = Screen()
    if replies:
        if as_json:
            write_json({"replies": replies_as_data()})
        else:
            show_replies(screen)
        return 0
    try:
        _fetch_model(screen, silent=as_json)
    except DragomanError as error:
        if as_json:
            write_json({"error": str(error), "hint": error.next_step, "replies": replies_as_data()})
            return NO_MODEL
        print_error(str(error), error.next_step)
        screen.line("Without a model, the demo parses sample replies that ship with the package.")
        screen.line()
        show_replies(screen)
        return NO_MODEL
    return _run_demo(screen, as_json=as_json)


def _fetch_model(screen: Screen, *, silent: bool) -> None:
    """Import llama.cpp and download the model, or raise an error that names what is missing."""
    from dragoman.local.download import CATALOGUE, DEFAULT
    from dragoman.local.engine import import_llama
    from dragoman.local.store import Store

    import_llama()
    store = Store()
    if any(model.name == DEFAULT for model in store.models()):
        return
    if not silent:
        entry = CATALOGUE[DEFAULT]
        screen.line(f"Downloading {entry.title} ({entry.bytes / 1e6:.0f} MB, {entry.licence}) into {store.root}, once.")
    with ProgressLine(silent=silent) as progress:
        store.add(progress=progress)


def _run_demo(screen: Screen, *, as_json: bool) -> int:
    from dragoman.local.engine import borrow, give_back
    from dragoman.local.store import Store

    store = Store()
    window = providers.resolve("local").quirks.context_window
    engine = borrow(store.path(), name=store.name_of(store.path()), context=window)
    options = {"temperature": 0.0, "seed": 1, "max_tokens": _MAX_TOKENS}
    agent = Agent("local", DEMO_TOOLS, limits=Limits(turns=4), options=options)
    asked = questions(Path.cwd())
    answers: list[AnsweredQuestion] = []
    try:
        if not as_json:
            _draw_introduction(screen, engine)
        for number, question in enumerate(asked, start=1):
            if not as_json:
                screen.line()
                screen.line((f"== {number}. {question}", "bold cyan"))
            answers.append(ask(agent, question))
            if not as_json:
                draw_answer(screen, answers[-1])
        unguided = ask_without_grammar(asked[0])
        if as_json:
            write_json(_as_data(engine, answers, unguided))
        else:
            _draw_conclusion(screen, answers, asked[0], unguided)
    finally:
        agent.close()
        give_back(engine)
    return 0


def _draw_introduction(screen: Screen, engine: Engine) -> None:
    threads = count(engine.threads, "thread")
    screen.line(
        ("dragoman", "bold"),
        f" gives a real model real tools. {engine.name} was loaded in {engine.seconds:.1f} s ({threads}).",
    )
    screen.line("The model is very small. A grammar made from the tools restricts it to correct")
    screen.line("calls and plain text. Its output is shown unchanged.")


def _draw_conclusion(screen: Screen, answers: list[AnsweredQuestion], question: str, unguided: UnguidedReply) -> None:
    screen.line()
    screen.line((f"== The same model without a grammar: {question}", "bold cyan"))
    screen.block(unguided.text.strip() or "(nothing)", style="dim")
    if not unguided.calls:
        screen.line("  No call, so the answer is invented.")
        screen.line("  Above, examples in the prompt and the grammar led to a call.")
    screen.line()
    with_tool = sum(bool(answer.steps) for answer in answers)
    seconds = sum(answer.seconds for answer in answers)
    screen.line(f"{len(answers)} questions, {with_tool} answered with a tool, in {seconds:.1f} s. What to try next:")
    for command, words in NEXT_COMMANDS:
        screen.line("  ", (f"{own_command()} {command}", "bold"))
        screen.line(f"    {words}")


def _as_data(engine: Engine, answers: list[AnsweredQuestion], unguided: UnguidedReply) -> dict[str, Any]:
    return {
        "model": engine.name,
        "threads": engine.threads,
        "load_seconds": round(engine.seconds, 3),
        "questions": [msgspec.to_builtins(answer) for answer in answers],
        "free": msgspec.to_builtins(unguided),
        "next": [f"{own_command()} {command}" for command, _ in NEXT_COMMANDS],
    }
