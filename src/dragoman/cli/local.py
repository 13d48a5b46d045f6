"""`dragoman local`: list, fetch and remove the models that run in this process."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any

import msgspec
import typer

from dragoman.cli.options import command_group
from dragoman.cli.screen import ProgressLine, Screen, print_line, print_path, write_json
from dragoman.extras import install_command
from dragoman.local.download import CATALOGUE, DEFAULT
from dragoman.local.store import Model, Store

HELP = """Download, list and remove models that run inside this process, without a server and without a key.

A model is downloaded once to the user's cache (XDG_CACHE_HOME); later runs need no network. The name of a model is
local:NAME, or local:PATH.gguf for any file; `local` alone is the default model. To run a model, install the extra
`local`: pip install "dragoman[local]".

\b
Examples:
  dragoman local add                       download the default model (98 MB)
  dragoman local add ~/models/qwen3.gguf   register your own file
  dragoman local add owner/name            download from a repository of the Hugging Face Hub
  dragoman local add owner/name:file.gguf  download one file of a repository
  dragoman local list                      list the models
  dragoman local remove smollm2
  dragoman run -m local "What is 17 * 23?" --tools tools.py
"""

app = command_group("local", HELP)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command("list", short_help="List the models of the store.")
def list_models(as_json: Json = False) -> None:
    """List the models of the store, and the models that can be downloaded by name."""
    store = Store()
    models = store.models()
    missing = [entry for name, entry in CATALOGUE.items() if name not in {model.name for model in models}]
    if as_json:
        write_json(
            {
                "folder": str(store.root),
                "models": [as_data(model) for model in models],
                "missing": [{"name": entry.name, "title": entry.title, "bytes": entry.bytes} for entry in missing],
            }
        )
        return
    screen = Screen()
    for model in models:
        mark = "  (default)" if model.name == DEFAULT else ""
        screen.line((model.name, "bold"), f"  {model.bytes / 1e6:.0f} MB  {model.source}", (mark, "dim"))
    for entry in missing:
        screen.line((entry.name, "dim"), f"  {entry.title}, not downloaded yet: dragoman local add {entry.name}")


@app.command(short_help="Download a model, or register a file.")
def add(
    what: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A name, a file, or owner/name[:file] of the Hugging Face Hub.")
    ] = DEFAULT,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name in the store; default: the name of the file.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Download a model and verify it, or register your own file. An existing model is not downloaded again."""
    with ProgressLine(silent=as_json) as progress:
        model = Store().add(what, name=name, progress=progress)
    _print(as_json, as_data(model), f"{model.name} is ready ({model.bytes / 1e6:.0f} MB): use it as local:{model.name}")
    if not as_json and find_spec("xllamacpp") is None:
        print_line(f"to run it, install the extra `local`: {install_command('local')}", error=True)


@app.command(short_help="Remove a model and its downloaded file.")
def remove(name: Annotated[str, typer.Argument(help="The name in the store.")], as_json: Json = False) -> None:
    """Remove a model from the store. A downloaded file is deleted; your own file is kept."""
    model = Store().remove(name)
    done = f"removed {model.name}" if model.is_ours else f"removed {model.name}; the file {model.path} is kept"
    _print(as_json, as_data(model), done)


@app.command(short_help="Print the path of a model.")
def path(
    name: Annotated[str, typer.Argument(help="The name in the store; without a name, the folder of the store.")] = "",
    as_json: Json = False,
) -> None:
    """Print the path of a model's file, or of the folder of the store."""
    store = Store()
    found = str(store.path(name)) if name else str(store.root)
    if as_json:
        write_json({"path": found})
    else:
        print_path(found)


def as_data(model: Model) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(model)
    return data | {"fetched": data.pop("is_ours")}


def _print(as_json: bool, data: dict[str, Any], text: str) -> None:
    if as_json:
        write_json(data)
    else:
        print_line(text)
