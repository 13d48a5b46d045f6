"""Endpoints that a command line names: by provider and model, by a URL, or by the settings."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from dragoman.characters import quote_value
from dragoman.cli.context import read_key_option
from dragoman.cli.exit_codes import SIGNAL_BASE
from dragoman.cli.screen import Spinner, print_line
from dragoman.cli.signals import InterruptHandler
from dragoman.client.client import open_transport
from dragoman.client.detection import DetectedServer, adetect
from dragoman.client.models import ListedModel, alist_models, choose_model
from dragoman.client.transport import Transport
from dragoman.config import keys_by_variable, load
from dragoman.errors import ConfigError
from dragoman.providers import Endpoint, Facts

if TYPE_CHECKING:
    from rich.console import Console


class EndpointOptions(Struct, frozen=True, kw_only=True):
    """The options that name an endpoint."""

    target: Annotated[
        str | None, typer.Argument(metavar="[URL|PROVIDER:MODEL]", help="The endpoint to examine.", show_default=False)
    ] = None
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="The base URL of the provider.", show_default=False)
    ] = ""
    wire: Annotated[
        str, typer.Option("--wire", metavar="NAME", help="The wire to use, if there are several.", show_default=False)
    ] = ""
    key: Annotated[
        str | None, typer.Option("--key", metavar="@FILE|KEY", help="The key of the endpoint.", show_default=False)
    ] = None
    key_env: Annotated[
        str, typer.Option("--key-env", metavar="NAME", help="The variable that contains the key.", show_default=False)
    ] = ""
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False


class DoctorOptions(EndpointOptions, frozen=True, kw_only=True):
    """The options of `dragoman doctor`, in the order of `--help`."""

    models: Annotated[
        tuple[str, ...],
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="The model, if the target is a URL. With --tools: a model to compare; may be repeated.",
            show_default=False,
        ),
    ] = ()
    tools: Annotated[
        tuple[str, ...],
        typer.Option(
            "--tools",
            "-t",
            metavar="SOURCE",
            help="Compare models on these tools, which do not run: file.py, package.module or entry:NAME. May be "
            "repeated.",
            show_default=False,
        ),
    ] = ()
    cases: Annotated[
        str | None,
        typer.Option(
            "--cases",
            metavar="FILE",
            help="Tasks for --tools, and the calls that are right for them: JSON lines, JSON or TOML. Without it, a "
            "list CASES in the file of tools; without that, one simple task for each tool.",
            show_default=False,
        ),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Run only the most important probes.")] = False
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            metavar="N",
            help="The maximum tokens of a reply; default: 1024, and with --tools no maximum.",
            min=32,
            show_default=False,
        ),
    ] = None
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="N", help="The maximum time of one request; with --tools of one case.", min=1
        ),
    ] = 120.0
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not save the findings.")] = False
    forget: Annotated[bool, typer.Option("--forget", help="Delete the saved findings, and send nothing.")] = False
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Examine the sandbox for commands instead.")] = False


class EndpointFinder:
    """Finds the endpoints that the options of the command and the settings name."""

    def __init__(self, options: EndpointOptions, environment: Mapping[str, str], command: str = "doctor") -> None:
        self.options = options
        self._command = command
        self.key = environment.get(options.key_env, "").strip() or None if options.key_env else None
        if options.key is not None:
            self.key = read_key_option(options.key)
        elif options.key_env and self.key is None:
            raise ConfigError(
                f"{options.key_env} is not set", hint="--key-env names the variable that contains the key"
            )
        self.config = load(environment=environment)
        self.warnings = list(self.config.warnings)
        self.registry = self.config.registry()
        keys = keys_by_variable(self.config, self.registry, environment, self.warnings)
        self.environment = {**environment, **keys}
        self.spinner = Spinner(_open_console, shown=not options.as_json)

    @property
    def target(self) -> str:
        """The name or the URL of the endpoint. Raises ConfigError without one."""
        target: str = self.options.target or self.options.base_url or self.config["model"]
        if not target:
            hint = (
                f"name one: dragoman {self._command} provider:model, or dragoman {self._command} http://127.0.0.1:8080"
            )
            raise ConfigError("there is no endpoint to examine", hint=hint)
        return target

    async def find(self, target: str, model: str = "", facts: Facts | None = None) -> Endpoint:
        """The endpoint of a name or a URL. Without a model, it is the first one that the endpoint lists."""
        options = self.options
        if "://" in target:
            return await self._find_by_url(target, model, facts)
        settings: dict[str, Any] = {"wire": options.wire, "base_url": options.base_url}
        provider, named = self.registry.split(target, options.base_url)
        model = model or named
        row = self.registry.get(provider.partition("@")[0])
        if not model and not row.model:
            model = await self._first_model(self.registry.resolve(provider, "", **settings))
        return self.registry.resolve(f"{provider}:{model or row.model}", facts=facts, **settings)

    async def _find_by_url(self, url: str, model: str, facts: Facts | None) -> Endpoint:
        options = self.options
        found = await self.detect(url, assume=(options.wire or "openai_chat") if model else "")
        model = model or self._choose_model(found.models, found.base_url)
        wire = options.wire or found.wire
        base_url = found.urls.get(wire, found.base_url)
        return self.registry.resolve(found.provider, model, base_url=base_url, wire=wire, facts=facts)

    async def detect(self, url: str, assume: str = "") -> DetectedServer:
        """The server at a URL. Without a list of models, `assume` is its wire."""
        self.spinner.show(f"detecting the server at {url}")
        transport = self.open_transport(self.registry.resolve("custom", "", base_url=url))
        try:
            return await adetect(
                url,
                key=self.key,
                transport=transport,
                environment=self.environment,
                registry=self.registry,
                assume=assume,
            )
        finally:
            await transport.close()

    def _choose_model(self, listed: Sequence[ListedModel], where: str) -> str:
        model = choose_model(listed)
        if not model:
            raise ConfigError(f"{where} lists no model", hint="load one, or name it with --model NAME")
        if len(listed) > 1:
            print_line(
                f"the server has {len(listed)} models; using {quote_value(model)} (--model NAME chooses another)",
                error=True,
            )
        return model

    async def _first_model(self, endpoint: Endpoint) -> str:
        return self._choose_model(await self.list_models(endpoint), endpoint.provider.name)

    async def list_models(self, endpoint: Endpoint, *, details: bool = False) -> list[ListedModel]:
        """The models that an endpoint lists."""
        transport = self.open_transport(endpoint)
        try:
            return await alist_models(
                endpoint, key=self.key, transport=transport, environment=self.environment, details=details
            )
        finally:
            await transport.close()

    def open_transport(self, endpoint: Endpoint) -> Transport:
        if endpoint.provider.transport or not self.config["proxy"]:
            return open_transport(endpoint, self.environment)
        from dragoman.client.http import HttpTransport

        return HttpTransport(proxy=self.config["proxy"], environment=self.environment)


def run_until_interrupted(work: Callable[[], Coroutine[Any, Any, int]], spinner: Spinner, on_interrupt: Any) -> int:
    """Run the work of a command, and return the exit code. `on_interrupt` is called after Ctrl-C and SIGTERM."""

    async def run() -> int:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work())
        with InterruptHandler(loop, task.cancel, spinner.hide) as handler:
            try:
                return await task
            except asyncio.CancelledError:
                spinner.hide()
                on_interrupt()
                return SIGNAL_BASE + (handler.signal_number or signal.SIGINT)
            finally:
                spinner.hide()

    with asyncio.Runner() as runner:
        return runner.run(run())


@cache
def _open_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)
