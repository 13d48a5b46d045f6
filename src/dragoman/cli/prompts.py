"""`dragoman prompts`: list the saved prompts, or show one of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dragoman.cli.options import Json
from dragoman.cli.screen import GAP, Screen, pad_columns, write_json
from dragoman.config.files import shorten
from dragoman.config.prompts import Prompt, find_prompt, find_prompts, prompt_folders
from dragoman.errors import ConfigError
from dragoman.paths import current_folder
from dragoman.types import Message

HELP = """List the saved prompts, or show one of them.

A prompt is a file NAME.md in the folder `prompts` of your configuration, or in `.dragoman/prompts` of the project.
Words in braces are placeholders; {task} is the task. Your own prompt has precedence over the project's of the same
name.

\b
Examples:
  dragoman prompts                                        list all prompts
  dragoman prompts review                                 show one
  dragoman run -p review --fill language=German notes.md  use one
"""

app = typer.Typer(name="prompts", add_completion=False, rich_markup_mode=None)


@app.command("prompts", help=HELP)
def prompts(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of one prompt.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    screen, here = Screen(), current_folder(os.environ)
    if name is not None:
        if name.startswith("mcp:"):
            place = name.removeprefix("mcp:").partition("/")[0]
            raise ConfigError(
                f"{name!r} is not a saved prompt", hint=f"`dragoman mcp test {place}` shows those of a server"
            )
        prompt = find_prompt(name, os.environ, here)
        if as_json:
            write_json({**_describe(prompt), "text": prompt.text})
        else:
            screen.line((shorten(prompt.path, os.environ), "dim"))
            for line in prompt.text.rstrip().splitlines():
                screen.line(line)
        return
    found = list(find_prompts(os.environ, here).values())
    if as_json:
        write_json([_describe(prompt) for prompt in found])
    elif found:
        _list(screen, found)
    else:
        places = " or ".join(shorten(folder, os.environ) for folder, _ in prompt_folders(os.environ, here)[:2])
        screen.line(f"There are no saved prompts. Save one as NAME.md in {places}.")


def _describe(prompt: Prompt) -> dict[str, Any]:
    return {
        "name": prompt.name,
        "source": prompt.source,
        "path": str(prompt.path),
        "placeholders": prompt.placeholders,
    }


def _list(screen: Screen, found: list[Prompt]) -> None:
    cells = [(each.name, each.source, " ".join(f"{{{name}}}" for name in each.placeholders) or "-") for each in found]
    heads, *lines = pad_columns([("name", "source", "placeholders"), *cells])
    screen.line((f"{GAP.join(heads)}{GAP}text", "bold"))
    for prompt, (name, source, words) in zip(found, lines, strict=True):
        first = next((line.strip() for line in prompt.text.splitlines() if line.strip()), "")
        shown = screen.fit(first, len(name) + len(source) + len(words) + 3 * len(GAP))
        screen.line((name, "green"), GAP, (source, "dim"), GAP, words, GAP, shown)


def fill_prompt(
    name: str | None, fill: list[str] | None, task: str, servers: Sequence[str] = ()
) -> str | list[Message]:
    """The task of a prompt, saved or of an MCP server, with its values; without a prompt, the task.

    `servers` are the MCP servers of `--mcp`, which may have the prompt.
    """
    if name is None:
        if fill:
            raise ConfigError("--fill needs --prompt", hint="name the prompt: -p NAME --fill NAME=VALUE")
        return task
    values = {}
    for each in fill or ():
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"--fill {each!r} has no value", hint="write it as NAME=VALUE")
        values[key.strip()] = value
    if name.startswith("mcp:"):
        from dragoman.cli.mcp import read_prompt

        return read_prompt(name, values, task, servers)
    return find_prompt(name, os.environ, current_folder(os.environ)).fill(values, task)
