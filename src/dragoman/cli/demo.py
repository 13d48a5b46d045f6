"""`dragoman demo`: a real model in this process, real tools, and every step before the user's eyes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.screen import Screen, write_json
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.cli.demo_steps import Answered, Free
    from dragoman.local.engine import Engine

HELP = """Answer a few questions with a real model and real tools, in this process: no key, no server.

The model (SmolLM2-135M, 98 MB) is fetched once; afterwards no network is needed. Each step is shown: what the model
wrote, how it was read, what ran, what came back. Without a model, replies that ship with the package are shown instead.

\b
Examples:
  dragoman demo              fetch the model if it is not there, and ask it
  dragoman demo --replies    only what is read out of a few replies, without a model
  dragoman demo --json       the same steps, for a program

\b
Exit codes:
  0  shown
  4  there is no model and it could not be fetched; the replies were shown instead
"""

NO_MODEL = 4
NEXT = (
    ('dragoman run -m local "What is 6 * 7?" --tools FILE.py', "the same model with functions of your own"),
    ("dragoman chat -m ollama:qwen3 --tools FILE.py", "a larger model of an Ollama on this machine"),
    ("OPENAI_API_KEY=... dragoman run -m openai:gpt-5 ...", "a model behind a key; `dragoman providers` lists them"),
    ("dragoman demo --replies", "what is read out of replies as other models write them"),
)


def demo(
    replies: Annotated[bool, typer.Option("--replies", help="Show the replies that ship with the package.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> int:
    from dragoman.cli.demo_replies import replies_as_data, show_replies

    screen = Screen()
    if replies:
        if as_json:
            write_json({"replies": replies_as_data()})
        else:
            show_replies(screen)
        return 0
    try:
        _fetch(screen, silent=as_json)
    except DragomanError as error:
        if as_json:
            write_json({"error": str(error), "hint": error.next_step, "replies": replies_as_data()})
            return NO_MODEL
        print(f"error: {error}", file=sys.stderr)
        print(f"hint: {error.next_step}", file=sys.stderr)
        screen.line("Without a model, this is what is read out of a few replies that ship with the package.")
        screen.line()
        show_replies(screen)
        return NO_MODEL
    return _ask_all(screen, as_json=as_json)


def _fetch(screen: Screen, *, silent: bool) -> None:
    """Have llama.cpp and the model at hand, or raise and say what is missing."""
    from dragoman.cli.progress import ProgressLine
    from dragoman.local.download import CATALOGUE, DEFAULT
    from dragoman.local.engine import import_llama
    from dragoman.local.store import Store

    import_llama()
    store = Store()
    if any(model.name == DEFAULT for model in store.models()):
        return
    if not silent:
        entry = CATALOGUE[DEFAULT]
        screen.line(f"Fetching {entry.title} ({entry.bytes / 1e6:.0f} MB, {entry.licence}) into {store.root}, once.")
    with ProgressLine(silent=silent) as progress:
        store.add(progress=progress)


def _ask_all(screen: Screen, *, as_json: bool) -> int:
    from dragoman.cli.demo_steps import ask, ask_freely, draw, open_agent, questions
    from dragoman.local.engine import borrow, give_back
    from dragoman.local.store import Store

    store = Store()
    engine = borrow(store.path(), name=store.name_of(store.path()), context=_context())
    agent = open_agent()
    asked = questions(Path.cwd())
    answers: list[Answered] = []
    try:
        if not as_json:
            _introduce(screen, engine)
        for number, question in enumerate(asked, start=1):
            if not as_json:
                screen.line()
                screen.line((f"== {number}. {question}", "bold cyan"))
            answers.append(ask(agent, question))
            if not as_json:
                draw(screen, answers[-1])
        free = ask_freely(asked[0])
        if as_json:
            write_json(_as_data(engine, answers, free))
        else:
            _conclude(screen, answers, asked[0], free)
    finally:
        agent.close()
        give_back(engine)
    return 0


def _context() -> int:
    from dragoman import providers

    return providers.resolve("local").quirks.context_window


def _introduce(screen: Screen, engine: Engine) -> None:
    threads = f"{engine.threads} thread{'s' * (engine.threads > 1)}"
    screen.line(
        ("dragoman", "bold"),
        f" gives a real model real tools. {engine.name} was loaded in {engine.seconds:.1f} s ({threads}).",
    )
    screen.line("It is a very small one. A grammar made from the tools lets it write a right call or plain text, and")
    screen.line("nothing else; everything it writes is shown as it came.")


def _conclude(screen: Screen, answers: list[Answered], question: str, free: Free) -> None:
    screen.line()
    screen.line((f"== The same model, left free: {question}", "bold cyan"))
    screen.block(free.text.strip() or "(nothing)", style="dim")
    if not free.calls:
        screen.line("  No call, and so it made the answer up: the examples and the grammar make the difference.")
    screen.line()
    called = sum(bool(answer.steps) for answer in answers)
    seconds = sum(answer.seconds for answer in answers)
    screen.line(f"{len(answers)} questions, {called} answered with a tool, in {seconds:.1f} s. What to try next:")
    width = max(len(command) for command, _ in NEXT)
    for command, words in NEXT:
        screen.line("  ", (command.ljust(width), "bold"), f"  {words}")


def _as_data(engine: Engine, answers: list[Answered], free: Free) -> dict[str, Any]:
    import msgspec

    return {
        "model": engine.name,
        "threads": engine.threads,
        "load_seconds": round(engine.seconds, 3),
        "questions": [msgspec.to_builtins(answer) for answer in answers],
        "free": msgspec.to_builtins(free),
        "next": [command for command, _ in NEXT],
    }
