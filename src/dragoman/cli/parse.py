"""`dragoman parse`: what a model's text holds, piece by piece."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman import formats
from dragoman.cli.report import as_data, draw, draw_explanations, explanations_as_data
from dragoman.cli.screen import Screen, write_json
from dragoman.cli.source import read_text, read_tools

HELP = """Show the calls, text, thinking and broken pieces in a model's text.

FILE is the text as the model wrote it; without one, or as -, it is read from standard input. Finding no call is no
error: the exit code is 0 whenever the text could be read.

\b
Examples:
  dragoman parse reply.txt
  dragoman parse --tools tools.json reply.txt     only offered tools; arguments typed by their schemas
  dragoman parse --format hermes reply.txt        you know how the model writes
  dragoman parse --loose --explain reply.txt      where is the call I can see, and why was it not taken?
  my-model | dragoman parse --json | jq .calls    for a program
"""


def parse(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The text; - is standard input.", show_default=False)
    ] = None,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="NAME", help="How the model writes calls; see `dragoman formats`.")
    ] = "auto",
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools", "-t", metavar="FILE", help="JSON list of the tools that were offered.", show_default=False
        ),
    ] = None,
    loose: Annotated[bool, typer.Option("--loose", help="Also find calls in prose, quotes and other fences.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say for every opener why it is or is not a call.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with everything.")] = False,
) -> None:
    offered = read_tools(tools)
    if format != "auto":
        formats.get(format)  # an unknown name is reported before anything is read
    text = read_text(file)
    parsed = formats.parse(text, format, offered, loose=loose)
    explanations = formats.explain(text, format, offered, loose=loose) if explain else []
    if as_json:
        data = {"format": format, "loose": loose} | as_data(text, parsed)
        if explain:
            data["explanations"] = explanations_as_data(text, explanations)
        write_json(data)
        return
    screen = Screen()
    draw(screen, text, parsed)
    if explain:
        draw_explanations(screen, text, explanations)
