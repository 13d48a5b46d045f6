"""`dragoman approvals mcp`: the definitions of tools that MCP servers brought, and approving one that changed."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.screen import Screen, pretty_json, write_json
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.mcp import Pin

HELP = """Show the tools of MCP servers as they were first seen, and approve those that changed since.

What a server says of a tool is remembered. If it says something else later, the tool is off until somebody has looked
at the difference and approved it. A tool counts as one that only reads if its server says so and it was approved.

\b
Examples:
  dragoman approvals mcp list
  dragoman approvals mcp show tickets/close       what it says, and what it said before
  dragoman approvals mcp approve tickets/close
  dragoman approvals mcp forget tickets/close     it counts as new when it is seen again
"""

app = typer.Typer(name="mcp", help=HELP, rich_markup_mode=None)
Key = Annotated[str, typer.Argument(metavar="SERVER/TOOL", help="A tool, by its server.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.callback(invoke_without_command=True)
def _mcp(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", short_help="All tools that were seen.")
def list_tools(as_json: Json = False) -> None:
    """List the tools of servers that were seen, and whether they were approved."""
    from dragoman.mcp import list_pins

    pins = list_pins(_place())
    if as_json:
        write_json([_as_data(pin) for pin in pins])
    elif not pins:
        print("no tool of an MCP server was seen so far")
    else:
        screen = Screen()
        width = max(len(_tame(pin.key)) for pin in pins)
        for pin in pins:
            style = "bold yellow" if pin.state == "changed" else ""
            screen.line((_tame(pin.key).ljust(width), "green"), "  ", (pin.state, style))


@app.command(short_help="What a tool says of itself.")
def show(key: Key, as_json: Json = False) -> None:
    """Show the definition that counts; of a tool that changed, the difference."""
    pin = _find(key)
    if as_json:
        write_json(_as_data(pin))
        return
    screen = Screen()
    screen.line((_tame(pin.key), "bold green"), f"  {pin.state}")
    before = pretty_json(pin.held.definition)
    if pin.pending is None:
        screen.block(_tame(before))
        return
    after = pretty_json(pin.pending.definition)
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=9):
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        screen.line("  ", (_tame(line), style))
    screen.line()
    screen.line(f"it is off; approve it with: dragoman approvals mcp approve {_tame(pin.key)}")


@app.command(short_help="Let a tool be used as it is now.")
def approve(key: Key) -> None:
    """Approve the newest definition of a tool. It is used from the next run on."""
    from dragoman.mcp import approve_pin

    pin = _find(key)
    seen = pin.pending or pin.held
    approve_pin(_place(), pin.key, digest=seen.digest)
    print(f"approved {_tame(pin.key)} ({seen.digest[:12]})")


@app.command(short_help="Forget a tool.")
def forget(key: Key) -> None:
    """Forget what was seen of a tool: it counts as new when it is seen again."""
    from dragoman.mcp import Pins

    Pins(_place()).forget(key)
    print(f"forgot {_tame(key)}")


def _tame(text: str) -> str:
    from dragoman.cli.excerpts import tame

    return tame(text)


def _place() -> Path:
    from dragoman.cli.guarding import pins_file

    path = pins_file(os.environ)
    if path is None:
        raise ConfigError("there is no folder in which tools of servers could be remembered", hint="set HOME")
    return path


def _find(key: str) -> Pin:
    from dragoman.mcp import list_pins

    pins = {pin.key: pin for pin in list_pins(_place())}
    if key not in pins:
        raise ConfigError(f"no tool {key!r} was seen so far", hint="`dragoman approvals mcp list` shows them")
    return pins[key]


def _as_data(pin: Pin) -> dict[str, Any]:
    return {
        "server": pin.server,
        "tool": pin.tool,
        "state": pin.state,
        "digest": pin.held.digest,
        "definition": pin.held.definition,
        "pending": None if pin.pending is None else pin.pending.definition,
    }
