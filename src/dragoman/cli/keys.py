"""`dragoman keys`: which keys of providers are found, and where; never the keys themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dragoman.characters import quote_value
from dragoman.cli.screen import GAP, Screen, print_warnings, write_json
from dragoman.config import Config, load, read_key
from dragoman.errors import ConfigError
from dragoman.providers import Provider, Registry

HELP = """Show for which providers a key is found, and where it comes from. The keys themselves are never shown.

A key comes from your settings file, where it is the key itself, the name of a variable or the path of a file, or from
the variable of the provider. Your file has priority. To add a key, set the variable, or add a line to the table [keys]
of the file that `dragoman config path` prints:

\b
  [keys]
  openai = { file = "~/.keys/openai" }       # mode 600
  groq = { env = "MY_GROQ_KEY" }

\b
Examples:
  dragoman keys                      list the providers with a key
  dragoman keys openai               show where the key of one provider is looked up
  dragoman keys --all                list all providers that use a key
  dragoman keys --json | jq -r '.[].provider'
  dragoman run "Hello" -m openai:gpt-5 --key @~/.keys/openai     a key for one command

`dragoman serve keys` manages the keys of the clients of a gateway.
"""

app = typer.Typer(name="keys", add_completion=False, rich_markup_mode=None)


@app.command("keys", help=HELP)
def keys(
    name: Annotated[str | None, typer.Argument(metavar="[PROVIDER]", help="One provider.", show_default=False)] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also list the providers without a key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> int:
    config = load(environment=os.environ)
    registry = config.registry(Registry.default())
    listed = [registry.get(name.partition(":")[0])] if name else [row for row in registry if row.key]
    found = [key_as_data(row, config, os.environ) for row in listed]
    if not name and not show_all:
        found = [data for data in found if data["found"] or data["problem"]]
    if as_json:
        write_json(found)
    else:
        _draw(Screen(), found, is_filtered=not name and not show_all)
        print_warnings(config.warnings)
    return 1 if name and not any(data["found"] for data in found) else 0


def key_as_data(row: Provider, config: Config, environment: Mapping[str, str]) -> dict[str, Any]:
    """Where the key of a provider is found. The result never contains the key."""
    data: dict[str, Any] = {"provider": row.name, "variables": list(row.key), "found": None, "problem": None}
    if row.name in config["keys"]:
        source = config["keys"][row.name]
        place = str(config.origin("keys"))
        if not isinstance(source, str):
            place = f"the file {source['file']}" if "file" in source else f"${source['env']}"
            place += f", which {config.origin('keys')} names"
        try:
            read_key(config, row.name, environment)
            data["found"] = place
        except ConfigError as error:
            data["problem"] = str(error)
    elif variable := next((name for name in row.key if environment.get(name, "").strip()), None):
        data["found"] = f"${variable}"
    return data


def _draw(screen: Screen, found: list[dict[str, Any]], *, is_filtered: bool) -> None:
    if not found:
        screen.line("no key is found; --all lists the variables of all providers")
        return
    rows = [(data["provider"], data["problem"] or data["found"] or _not_set(data["variables"])) for data in found]
    width = max(len(name) for name, _ in rows)
    for data, (name, where) in zip(found, rows, strict=True):
        style = "red" if data["problem"] else "" if data["found"] else "dim"
        label = (name.ljust(width), "green" if data["found"] else "")
        if screen.width is None or width + len(GAP) + len(where) <= screen.width:
            screen.line(label, GAP, (where, style))
        else:
            screen.line(label)
            screen.line(GAP * 2, (where, style))
    if is_filtered:
        screen.line()
        screen.line("--all also lists the providers without a key")


def _not_set(variables: list[str]) -> str:
    if not variables:
        return "it needs no key"
    return f"not set: {' or '.join(quote_value(name) for name in variables)}"
