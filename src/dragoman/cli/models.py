"""`dragoman models`: list the models of a provider or a server."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import typer

from dragoman.characters import quote_value
from dragoman.cli.endpoints import EndpointFinder, EndpointOptions, run_until_interrupted
from dragoman.cli.options import with_options
from dragoman.cli.screen import Screen, Table, count, print_warnings, write_json
from dragoman.client.models import ListedModel
from dragoman.errors import ConfigError
from dragoman.secrets.exchanges import show_address

HELP = """List the models of a provider, or of the server at a URL, with their context windows where it reports them.

The list is a request that costs no tokens. A provider may need a key for it; `dragoman keys` shows which keys are
found. `dragoman local list` lists the models that run in this process.

\b
Examples:
  dragoman models ollama
  dragoman models openai
  dragoman models http://127.0.0.1:8080
  dragoman models http://box:8000 --key-env BOX_KEY
  dragoman models openrouter --json | jq -r '.models[].name'
  dragoman models ollama | grep qwen
"""

app = typer.Typer(name="models", add_completion=False, rich_markup_mode=None)


@app.command("models", help=HELP)
@with_options(EndpointOptions, target="The endpoint; without one, that of the model in the settings.")
def models(*, options: EndpointOptions) -> int:
    finder = EndpointFinder(options, os.environ, "models")
    if not options.as_json:
        print_warnings(finder.warnings)

    async def work() -> int:
        provider, where, listed = await _list(finder)
        finder.spinner.hide()
        if options.as_json:
            entries = [{"name": f"{provider}:{each.id}"} | msgspec.to_builtins(each) for each in listed]
            write_json({"provider": provider, "url": where, "models": entries})
        else:
            is_elsewhere = "://" in finder.target or bool(options.base_url)
            _draw(Screen(), provider, where, listed, is_elsewhere=is_elsewhere)
        return 0

    return run_until_interrupted(work, finder.spinner, lambda: None)


async def _list(finder: EndpointFinder) -> tuple[str, str, list[ListedModel]]:
    """The provider, its address, and its models."""
    target = finder.target
    if "://" in target:
        found = await finder.detect(target)
        if not found.models:
            raise ConfigError(
                f"{show_address(found.base_url)} lists no model", hint="load one, or name it: dragoman run -m MODEL"
            )
        return found.provider, found.base_url, list(found.models)
    provider = finder.registry.split(target, finder.options.base_url)[0]
    options = finder.options
    endpoint = finder.registry.resolve(provider, "", wire=options.wire, base_url=options.base_url)
    if endpoint.provider.transport:
        raise ConfigError(f"{provider} runs in this process", hint="its models are listed by: dragoman local list")
    finder.spinner.show(f"asking {provider}")
    return provider, endpoint.base_url, await finder.list_models(endpoint, details=True)


def _draw(screen: Screen, provider: str, where: str, listed: list[ListedModel], *, is_elsewhere: bool) -> None:
    tools: dict[Any, str] = {True: "yes", False: "no", None: "-"}
    rows = [(quote_value(each.id), f"{each.context:,}" if each.context else "-", tools[each.tools]) for each in listed]
    if any(each.context or each.tools is not None for each in listed):
        table = Table(screen, ("model", "context", "tools"), rows)
        table.heads()
        for row in rows:
            table.row(row, "green")
    else:
        for name, *_ in rows:
            screen.line((name, "green"))
    screen.line()
    screen.line(f"{count(len(listed), 'model')} at {where}")
    if listed:
        there = f" --base-url {where}" if is_elsewhere else ""
        screen.line(f'next: dragoman run "Hello" -m {quote_value(f"{provider}:{listed[0].id}")}{there}')
