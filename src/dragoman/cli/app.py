"""The command line: the table of commands, the group that loads them, and how a command ends."""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from dragoman import __version__
from dragoman.cli.exit_codes import NO_ANSWER, USAGE_ERROR, is_temporary
from dragoman.cli.parameters import PlainGroup
from dragoman.errors import DragomanError

_WIDE, _NARROWEST, _NARROW_COLUMN = 60, 24, 9

_HELP = """Find, repair, check and run the tool calls of language models, with any provider.

\b
Examples:
  dragoman demo                          a demonstration with a real model and real tools
  dragoman parse reply.txt               show the calls in a reply
  my-model | dragoman parse --json       read a pipe and print JSON
  dragoman parse --tools tools.json -    convert arguments to the types of your schemas
  dragoman formats                       list the text formats
  dragoman formats hermes                show one format, with an example
  dragoman providers                     list the known providers
  dragoman convert --from openai --to gemini request.json
  dragoman run "What is the weather in Paris?" -m ollama:qwen3 --tools weather.py
  dragoman chat -m ollama:qwen3          start a conversation
  dragoman doctor ollama:qwen3           test what works at an endpoint
  dragoman serve --to http://localhost:11434     a gateway for agent programs
  dragoman launch --to http://localhost:11434 claude
  dragoman batch tasks.jsonl -m ollama:qwen3     run many tasks; resume after anything
  dragoman worker shop.py:clerk --engine postgres://me@db/agents
"""


class CommandRow(NamedTuple):
    """A command of `dragoman`. Its module has a typer application with the name `application`."""

    name: str
    module: str
    short_help: str
    application: str = "app"

    def load(self) -> Any:
        """Import the module and build its command."""
        return _lay_out(get_command(getattr(import_module(self.module), self.application)))


def _lay_out(command: Any) -> Any:
    """Give a command, and all commands of a group, the layout of `--help`. Typer takes a class for each one only."""
    from dragoman.cli.options import GroupedCommand

    command.context_class = _HelpContext
    if type(command) is TyperCommand:
        command.__class__ = GroupedCommand
    for each in getattr(command, "commands", {}).values():
        _lay_out(each)
    return command


class _HelpFormatter(typer.Context.formatter_class):  # type: ignore[misc, valid-type]
    """The layout of `--help`, which also fits into a narrow terminal."""

    width: int

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.width = min(self.width, max(shutil.get_terminal_size().columns - 2, _NARROWEST))

    def write_text(self, text: str) -> None:
        super().write_text(_break_examples(text, self.width - self.current_indent))

    def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        room = self.width - self.current_indent
        rows = [(_break_choices(first, room), second) for first, second in rows]
        # The text of an option is below it, if there is no room beside it.
        super().write_dl(rows, col_max if self.width >= _WIDE else _NARROW_COLUMN, col_spacing)


_two_columns = re.compile(r"( *)(\S.*?)  +(\S.*)").fullmatch
_ROOM_FOR_TEXT = 24


def _break_examples(text: str, room: int) -> str:
    """A text for `--help` in which the lines of examples and tables fit. The formatter keeps them as they are."""
    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.startswith("\b"):
            lines = [row for line in paragraph.split("\n") for row in _break_line(line, room)]
            paragraphs[number] = "\n".join(lines)
    return "\n\n".join(paragraphs)


def _break_line(line: str, room: int) -> list[str]:
    """The rows of a line: of a command and its description, if there are two columns."""
    if len(line) <= room:
        return [line]
    found = _two_columns(line)
    indent = len(line) - len(line.lstrip())
    if found is None:
        return _wrap(line.strip(), room, indent, indent + 4)
    column = found.start(3)
    if room - column >= _ROOM_FOR_TEXT:
        rows = _wrap(found[3], room, column, column)
        return [line[:column] + rows[0].strip(), *rows[1:]]
    return [*_wrap(found[2], room, indent, indent + 4), *_wrap(found[3], room, indent + 6, indent + 6)]


def _break_choices(text: str, room: int) -> str:
    """An option whose choices, divided by bars, are broken into rows that fit."""
    if len(text) <= room:
        return text
    rows = _wrap(text.replace("|", "| "), room, 0, 6)
    return "\n".join(rows).replace("| ", "|").replace("\n", "\n  ")


def _wrap(text: str, room: int, first: int, others: int) -> list[str]:
    return textwrap.wrap(
        text,
        room,
        initial_indent=" " * first,
        subsequent_indent=" " * others,
        break_long_words=False,
        break_on_hyphens=False,
    )


class _HelpContext(typer.Context):
    formatter_class = _HelpFormatter


# `--help` and completion list the commands in this order, without loading them.
GROUPS: dict[str, tuple[CommandRow, ...]] = {
    "Models and tools": (
        CommandRow("run", "dragoman.cli.run", "Run a task with a model and tools."),
        CommandRow("chat", "dragoman.cli.chat", "Chat with a model that has tools."),
        CommandRow("demo", "dragoman.cli.demo", "Run a demonstration with a real model."),
        CommandRow("batch", "dragoman.cli.batch", "Run the tasks of a file, thousands if need be."),
    ),
    "Gateway": (
        CommandRow("serve", "dragoman.cli.serve", "Serve a gateway with working tool calls."),
        CommandRow("launch", "dragoman.cli.launch", "Start an agent program with a gateway."),
    ),
    "Text and requests": (
        CommandRow("parse", "dragoman.cli.parse", "Show the calls in a model's text."),
        CommandRow("formats", "dragoman.cli.formats", "List the formats, or show one."),
        CommandRow("convert", "dragoman.cli.convert", "Convert a request to another provider."),
        CommandRow("scrub", "dragoman.cli.scrub", "Hide the secrets of a text."),
    ),
    "Endpoints and settings": (
        CommandRow("doctor", "dragoman.cli.doctor", "Test what an endpoint supports."),
        CommandRow("providers", "dragoman.cli.providers", "List the providers, or show one."),
        CommandRow("models", "dragoman.cli.models", "List the models of a provider or a server."),
        CommandRow("local", "dragoman.cli.local", "Manage models that run in this process."),
        CommandRow("keys", "dragoman.cli.keys", "Show which keys of providers are found, and where."),
        CommandRow("mcp", "dragoman.cli.mcp", "Add, test and remove MCP servers, and log in."),
        CommandRow("prompts", "dragoman.cli.prompts", "List the saved prompts, or show one."),
        CommandRow("config", "dragoman.cli.config", "Show the settings, or write a settings file."),
    ),
    "Runs and approvals": (
        CommandRow("sessions", "dragoman.cli.sessions", "Search, show, fork, export and delete sessions."),
        CommandRow("approvals", "dragoman.cli.approvals", "List and answer pending approvals."),
        CommandRow("audit", "dragoman.cli.audit", "Verify and show the audit log."),
    ),
    "Workers": (
        CommandRow("worker", "dragoman.cli.worker", "Execute the submitted runs of agents."),
        CommandRow("submit", "dragoman.cli.submissions", "Submit a task to the workers of an agent.", "submit_app"),
        CommandRow("status", "dragoman.cli.submissions", "Show submitted runs and workers.", "status_app"),
        CommandRow("logs", "dragoman.cli.submissions", "Show what a run did, and follow it.", "logs_app"),
        CommandRow("cancel", "dragoman.cli.submissions", "Cancel submitted runs.", "cancel_app"),
    ),
}
COMMANDS = tuple(row for rows in GROUPS.values() for row in rows)


class LazyGroup(PlainGroup):
    """Loads a command when it is called. Until then it has a placeholder with the name and the short help.

    Loading all commands costs four times as much as loading typer.
    """

    context_class = _HelpContext

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for row in COMMANDS:
            self.add_command(TyperCommand(row.name, short_help=row.short_help))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(len(row.name) for row in COMMANDS)
        for title, rows in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(row.name.ljust(widest), row.short_help) for row in rows])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, placeholder, rest = super().resolve_command(ctx, args)
        row = next((row for row in COMMANDS if row.name == name), None)
        return name, placeholder if row is None else row.load(), rest


app = typer.Typer(
    name="dragoman",
    cls=LazyGroup,
    help=_HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(value: bool) -> None:
    if value:
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
    """Run one command and return its exit code. An error is printed as one line and a hint, never as a traceback."""
    args = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A model's text may contain lone surrogates; they are printed as escapes instead of raising an exception.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    show_notices(args)
    try:
        code = _run(args or ["--help"])
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader closed the pipe (`| head`). Typer raises SystemExit if that happens early.
        _discard_output()
        return 0
    except Exception as error:
        from dragoman.cli.screen import report_error

        code = report_error(error, os.environ)
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
    return code


def _discard_output() -> None:
    """Python flushes once more at exit, so standard output must be writable then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _run(arguments: list[str]) -> int:
    try:
        ended = app(args=arguments, prog_name="dragoman", standalone_mode=False)
    except DragomanError as error:
        _print_error(str(error), error.command_hint)
        return NO_ANSWER if is_temporary(error) else USAGE_ERROR
    except typer.TyperException as error:
        message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
        path = getattr(getattr(error, "ctx", None), "command_path", "dragoman")
        what = "commands" if path == "dragoman" else "options"
        _print_error(message[:1].lower() + message[1:], f"{path} --help shows the {what}")
        return USAGE_ERROR
    return ended if isinstance(ended, int) else 0


def _print_error(message: str, hint: str) -> None:
    from dragoman.characters import escape_message

    print(f"error: {escape_message(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {escape_message(hint)}", file=sys.stderr)


# ---- notices of the library ------------------------------------------------------------------------------------------

_SILENT = frozenset({"--json", "--quiet", "-q"})


class _NoticeHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which may be replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        from dragoman.characters import escape_message

        print(escape_message(record.getMessage()), file=sys.stderr, flush=True)


_handler = _NoticeHandler(logging.INFO)


def show_notices(arguments: Sequence[str]) -> None:
    """Show the notices of the library on standard error, unless the user asked for silence."""
    log = logging.getLogger("dragoman.local")
    log.removeHandler(_handler)
    log.propagate = False
    log.setLevel(logging.WARNING if _SILENT & set(arguments) else logging.INFO)
    log.addHandler(_handler)
