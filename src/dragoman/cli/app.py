"""The command line: its commands, and how each of them ends."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dragoman import __version__
from dragoman.cli import (
    approvals,
    audit,
    chat,
    config,
    convert,
    demo,
    doctor,
    formats,
    model,
    parse,
    providers,
    sessions,
)
from dragoman.cli.run import HELP as RUN_HELP
from dragoman.cli.run import run as run_task
from dragoman.cli.screen import show_controls
from dragoman.errors import DragomanError

# --------------------------------------------------------------------------------------------------------------------
# What the library tells while a command waits: a model that is being loaded, for one.

_SILENT = frozenset({"--json", "--quiet", "-q"})


class _OnStandardError(logging.Handler):
    """Writes to whatever standard error is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        print(show_controls(record.getMessage()), file=sys.stderr, flush=True)


_handler = _OnStandardError(logging.INFO)


def show_notices(arguments: Sequence[str]) -> None:
    """Show the notices of the library on standard error, unless the user asked for silence."""
    log = logging.getLogger("dragoman.local")
    log.removeHandler(_handler)
    log.propagate = False
    log.setLevel(logging.WARNING if _SILENT & set(arguments) else logging.INFO)
    log.addHandler(_handler)


# --------------------------------------------------------------------------------------------------------------------
# The command line itself: which commands there are, and how every one of them ends.

MISUSED = 2

_HELP = """Find, repair and type the tool calls of models, and carry them from any provider to any other.

\b
Examples:
  dragoman demo                          see it at work with a real model and real tools
  dragoman parse reply.txt               what is in this reply?
  my-model | dragoman parse --json       the same from a pipe, for a program
  dragoman parse --tools tools.json -    arguments typed by your schemas
  dragoman formats                       every spelling that is understood
  dragoman formats hermes                one of them, with an example
  dragoman providers                     every endpoint that is known by name
  dragoman convert --from openai --to gemini request.json
  dragoman run "What is the weather in Paris?" -m ollama:qwen3 --tools weather.py
  dragoman chat -m ollama:qwen3          the same, as a conversation
  dragoman doctor ollama:qwen3           what works there, and what does not
"""

app = typer.Typer(
    name="dragoman",
    help=_HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(approvals.app, name="approvals", help=approvals.HELP, short_help="Answer calls that wait for approval.")
app.add_typer(audit.app, name="audit", help=audit.HELP, short_help="Verify and show the log of decisions.")
app.command("chat", help=chat.HELP, short_help="Talk with a model that has tools.")(chat.chat)
app.add_typer(config.app, name="config", help=config.HELP, short_help="Show the settings, or write a file of them.")
app.add_typer(sessions.app, name="sessions", help=sessions.HELP, short_help="Show what runs have left behind.")
app.command("convert", help=convert.HELP, short_help="Turn a request into another provider's.")(convert.convert)
app.command("demo", help=demo.HELP, short_help="See it at work with a real model.")(demo.demo)
app.command("doctor", help=doctor.HELP, short_help="Find out what an endpoint can do.")(doctor.doctor)
app.command("formats", help=formats.HELP, short_help="List the formats, or show one.")(formats.formats)
app.add_typer(model.app, name="model", help=model.HELP, short_help="Fetch and list models that run in this process.")
app.command("parse", help=parse.HELP, short_help="Show what is in a model's text.")(parse.parse)
app.command("providers", help=providers.HELP, short_help="List the endpoints, or explain one.")(providers.providers)
app.command("run", help=RUN_HELP, short_help="Do a task with a model and tools.")(run_task)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a mistake ends in one line and a hint, never in a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A model's text may hold lone surrogates; they are shown as escapes instead of raising.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    show_notices(given)
    try:
        code = _run(given or ["--help"])
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # Whoever reads us has seen enough (`| head`); typer turns that into SystemExit when it happens early.
        # Python flushes once more at exit, so give it a place to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return 0
    return code


def _run(arguments: list[str]) -> int:
    try:
        ended = app(args=arguments, prog_name="dragoman", standalone_mode=False)
    except DragomanError as error:
        _complain(str(error), error.next_step)
        return MISUSED
    except typer.TyperException as error:
        _complain(_lower_first(error.format_message()).rstrip("."), "dragoman --help shows the commands")
        return MISUSED
    return ended if isinstance(ended, int) else 0


def _complain(message: str, hint: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
