"""`dragoman model`: list, fetch and remove the models that run in this process."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from dragoman.cli.options import command_group
from dragoman.cli.screen import ProgressLine, Screen, write_json
from dragoman.local.download import CATALOGUE, DEFAULT
from dragoman.local.store import Model, Store

HELP = """Fetch, list and remove models that run inside this process, without a server and without a key.

A model is fetched once and kept in the cache of the user (XDG_CACHE_HOME); afterwards no network is needed. They are
used as local:NAME, and any file as local:PATH.gguf; `local` alone is the default model. Running one needs the extra
`local`: pip install 'dragoman[local]'.

\b
Examples:
  dragoman model add                       fetch the default model (98 MB)
  dragoman model add ~/models/qwen3.gguf   take note of a file of your own
  dragoman model add owner/name            a repository of the Hugging Face hub
  dragoman model add owner/name:file.gguf  one file of it
  dragoman model list                      what is at hand
  dragoman model remove smollm2
  dragoman run -m local "What is 17 * 23?" --tools tools.py
"""

app = command_group("model", HELP)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command("list", short_help="What is at hand, and what can be fetched by name.")
def list_models(as_json: Json = False) -> None:
    """List the models of the store, and those that can be fetched by name."""
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
        screen.line((entry.name, "dim"), f"  {entry.title}, not fetched yet: dragoman model add {entry.name}")


@app.command(short_help="Fetch a model, or take note of a file.")
def add(
    what: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A name, a file, or owner/name[:file] of the hub.")
    ] = DEFAULT,
    name: Annotated[str, typer.Option("--name", help="What to call it; the name of the file unless said.")] = "",
    as_json: Json = False,
) -> None:
    """Fetch a model and check it, or take note of a file of your own. One that is there already is left as it is."""
    with ProgressLine(silent=as_json) as progress:
        model = Store().add(what, name=name, progress=progress)
    _print(
        as_json, as_data(model), f"{model.name} is at hand ({model.bytes / 1e6:.0f} MB): use it as local:{model.name}"
    )


@app.command(short_help="Forget a model and delete its file.")
def remove(name: Annotated[str, typer.Argument(help="Its name in the store.")], as_json: Json = False) -> None:
    """Forget a model. Its file is deleted if it was fetched; a file of your own stays where it is."""
    model = Store().remove(name)
    done = f"removed {model.name}" if model.is_ours else f"forgot {model.name}; {model.path} is still there"
    _print(as_json, as_data(model), done)


@app.command(short_help="Where a model lies.")
def path(
    name: Annotated[str, typer.Argument(help="Its name, or nothing for the folder of the store.")] = "",
    as_json: Json = False,
) -> None:
    """Print the path of a model's file, or of the folder that holds them all."""
    store = Store()
    found = str(store.path(name)) if name else str(store.root)
    _print(as_json, {"path": found}, found)


def as_data(model: Model) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(model)
    return data | {"fetched": data.pop("is_ours")}


def _print(as_json: bool, data: dict[str, Any], text: str) -> None:
    if as_json:
        write_json(data)
    else:
        print(text)
