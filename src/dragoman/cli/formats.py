"""`dragoman formats`: list the text formats, or show one of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dragoman import formats as catalogue
from dragoman.cli.screen import Screen, Table, write_json
from dragoman.errors import CannotExpress
from dragoman.formats import Format

HELP = """List the text formats that dragoman can parse, or show one of them.

\b
Examples:
  dragoman formats                 list all formats
  dragoman formats hermes          show its template and a rendered example
  dragoman formats --json          print JSON
"""

EXAMPLE_CALLS = (("get_weather", {"city": "Paris", "days": 3}), ("search", {"query": "opening hours", "exact": True}))
FAMILIES = {
    "A": "a JSON object in a tag",
    "B": "a JSON list after a marker",
    "C": "a marked name and JSON arguments",
    "D": "XML parameters",
    "E": "Python calls",
    "G": "its own notation of values",
    "H": "channel headers",
    "I": "bare or improvised",
}


def family_of(row: Format) -> str:
    return FAMILIES.get(row.family, row.family)


app = typer.Typer(name="formats", add_completion=False, rich_markup_mode=None)


@app.command("formats", help=HELP)
def formats(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name or an alias of one format.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    if name is not None:
        row = catalogue.get(name)
        if as_json:
            write_json(as_data(row))
        else:
            _show(Screen(), row)
        return
    if as_json:
        write_json([as_data(row) for row in rows()])
    else:
        _list(Screen(), rows())


def rows() -> list[Format]:
    """Every row of the catalogue once, without its aliases."""
    return list({row.name: row for row in map(catalogue.get, catalogue.names())}.values())


def as_data(row: Format) -> dict[str, Any]:
    return {
        "name": row.name,
        "aliases": list(row.aliases),
        "family": family_of(row),
        "template": row.template,
        "also": list(row.also),
        "section": row.section and list(row.section),
        "models": row.models,
        "note": row.note,
        "example": example_of(row),
    }


def example_of(row: Format) -> str:
    """Two calls as a model of this format writes them, or one if it cannot write two."""
    try:
        return catalogue.render(EXAMPLE_CALLS, row.name)
    except CannotExpress:
        return catalogue.render(EXAMPLE_CALLS[:1], row.name)


def _list(screen: Screen, listed: list[Format]) -> None:
    cells = [(row.name, family_of(row), _on_one_line(row.template or example_of(row))) for row in listed]
    table = Table(screen, ("name", "family", "how a call is written"), cells, ["family"])
    table.heads()
    for row in cells:
        table.row(row, "green", "dim")
    screen.line()
    screen.line(f"{len(listed)} formats; dragoman formats NAME shows one with an example")


def _show(screen: Screen, row: Format) -> None:
    screen.line((row.name, "bold green"), (f"  {family_of(row)}", "dim"))
    section = " ... ".join(map(_on_one_line, row.section or ()))
    screen.facts(
        [("aliases", ", ".join(row.aliases)), ("models", row.models), ("note", row.note), ("around all calls", section)]
    )
    if row.template:
        screen.heading("Template")
        screen.block(row.template)
    for other in row.also:
        screen.heading("Also read")
        screen.block(other)
    screen.heading("Example")
    screen.block(example_of(row))


def _on_one_line(written: str) -> str:
    return written.replace("\n", "⏎")
