"""`dragoman parse`: parse the output of a model, and show the calls, text and thinking in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman import formats
from dragoman.characters import quote_value
from dragoman.cli.screen import LineIndex, Screen, pretty_json, read_text, read_tools, write_arguments, write_json
from dragoman.events import CallBroken
from dragoman.types import Provenance, ToolCall

if TYPE_CHECKING:
    from dragoman.formats import Explanation, Parsed


# ---- printing a parsed reply -----------------------------------------------------------------------------------------

_VERDICT_STYLES = {"call": "green", "refused": "yellow", "broken": "red", "near miss": "yellow"}
_MAX_OPENER_CHARS = 40


def draw(screen: Screen, text: str, parsed: Parsed) -> None:
    """Print everything that was found in `text`, each piece with its position."""
    lines = LineIndex(text)
    screen.heading("Calls")
    for call in parsed.calls:
        _draw_call(screen, lines, call)
    if not parsed.calls:
        screen.line("  none")
    for title, content in (("Text", parsed.text), ("Thinking", parsed.thinking)):
        if content.strip():
            screen.heading(title)
            screen.block(content.strip("\n"), style="dim" if title == "Thinking" else "")
    if parsed.refused:
        screen.heading("Refused")
    for refused in parsed.refused:
        _draw_call(screen, lines, refused.call, ("refused: ", refused.why))
    if parsed.broken:
        screen.heading("Broken")
    for broken in parsed.broken:
        _draw_broken(screen, lines, broken)


def draw_explanations(screen: Screen, text: str, explanations: Sequence[Explanation]) -> None:
    """Print for every opener and every near miss why it is or is not a call."""
    lines = LineIndex(text)
    screen.heading("Explanation")
    for item in explanations:
        style = _VERDICT_STYLES.get(item.verdict, "")
        named = f" as {item.format}" if item.format else ""
        # A format without a marker has no opener; its first characters are printed instead.
        opener = item.opener or text[item.span[0] : item.span[0] + _MAX_OPENER_CHARS]
        screen.line(
            "  ",
            (item.verdict, style),
            f"{named}  ",
            (opener, "cyan"),
            f"  ({lines.describe(item.span)})",
        )
        screen.block(item.why, indent=4)
    if not explanations:
        screen.line("  nothing in this text looks like the start of a call")


def as_data(text: str, parsed: Parsed) -> dict[str, Any]:
    """Everything that was found as one JSON object, not shortened."""
    lines = LineIndex(text)
    return {
        "calls": [_call_data(lines, call) for call in parsed.calls],
        "text": parsed.text,
        "thinking": parsed.thinking,
        "refused": [{"why": refused.why, "call": _call_data(lines, refused.call)} for refused in parsed.refused],
        "broken": [msgspec.to_builtins(broken) | _position_data(lines, broken.span) for broken in parsed.broken],
    }


def explanations_as_data(text: str, explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    lines = LineIndex(text)
    return [
        {"span": list(item.span)}
        | _position_data(lines, item.span)
        | {"opener": item.opener, "format": item.format, "verdict": item.verdict, "why": item.why}
        for item in explanations
    ]


def _draw_call(screen: Screen, lines: LineIndex, call: ToolCall, *notes: tuple[str, str]) -> None:
    found = call.provenance or Provenance()
    region = "" if found.region == "answer" else f", in {found.region}"
    screen.line(
        "  ", (quote_value(call.name), "bold green"), (f"  {found.format}, {lines.describe(found.span)}{region}", "dim")
    )
    screen.block(pretty_json(call.arguments), indent=4)
    if call.known_tool is False:
        notes = (*notes, ("unknown tool: ", "its name was not offered"))
    if call.repairs:
        notes = (*notes, ("repairs: ", ", ".join(call.repairs)))
    for label, content in notes:
        screen.line("    ", (label, "yellow"), content)
    for change in call.changes:
        before, after = write_arguments(change.before), write_arguments(change.after)
        screen.line("    ", ("change: ", "yellow"), f"{change.path} {before} -> {after} ({change.rule})")


def _draw_broken(screen: Screen, lines: LineIndex, broken: CallBroken) -> None:
    named = f"{quote_value(broken.name)}  " if broken.name else ""
    screen.line("  ", (named, "bold red"), (f"{broken.format}, {lines.describe(broken.span)}", "dim"))
    screen.line("    ", ("why: ", "red"), broken.why)
    screen.block(broken.raw.strip("\n"), indent=4, style="dim")


def _call_data(lines: LineIndex, call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(call)
    if call.provenance is not None:
        data["provenance"] |= _position_data(lines, call.provenance.span)
    return data


def _position_data(lines: LineIndex, span: tuple[int, int]) -> dict[str, int]:
    line, column = lines.line_and_column(span[0])
    return {"line": line, "column": column}


# ---- the command -----------------------------------------------------------------------------------------------------

HELP = """Show the calls, text, thinking and broken calls in a model's text.

FILE is the unchanged text of the model. Without FILE, or if it is -, the command reads standard input. A text without
calls is not an error: the exit code is 0 if the text could be read.

\b
Examples:
  dragoman parse reply.txt
  dragoman parse --tools tools.json reply.txt     only calls of these tools, with arguments of their types
  dragoman parse --format hermes reply.txt        parse one format only
  dragoman parse --loose --explain reply.txt      find more calls, and explain why a text is not a call
  my-model | dragoman parse --json | jq .calls    print JSON
"""


app = typer.Typer(name="parse", add_completion=False, rich_markup_mode=None)


@app.command("parse", help=HELP)
def parse(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The text; - is standard input.", show_default=False)
    ] = None,
    format: Annotated[
        str,
        typer.Option("--format", "-f", metavar="NAME", help="The text format of the calls; see `dragoman formats`."),
    ] = "auto",
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools",
            "-t",
            metavar="FILE",
            help="The offered tools: a JSON list, or a Python file.",
            show_default=False,
        ),
    ] = None,
    loose: Annotated[
        bool, typer.Option("--loose", help="Also find calls in prose, quotes and other code blocks.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain for every opener why it is or is not a call.")
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
