"""`dragoman serve`: a gateway between agent programs and a model, with working tool calls."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from dragoman.cli.screen import Screen, count, print_line, print_warnings, write_json
from dragoman.cli.serve_keys import group
from dragoman.client.auth import choose_auth
from dragoman.client.facts import shared_facts
from dragoman.client.keys import find_key
from dragoman.client.models import choose_model
from dragoman.config import load
from dragoman.config.layers import OF_GATEWAYS
from dragoman.errors import ConfigError, DragomanError
from dragoman.paths import expand
from dragoman.secrets.exchanges import show_address
from dragoman.server.access import open_access
from dragoman.server.gateway import Gateway
from dragoman.server.process import (
    GatewayServer,
    MakeGateway,
    address_of,
    handle_signals,
    open_gateway,
    open_socket,
    raise_file_limit,
    reload_settings,
    require_server,
)
from dragoman.server.programs import PLACEHOLDER_KEY, list_clients
from dragoman.server.router import find_row_key
from dragoman.server.settings import (
    EndpointSettings,
    GatewaySettings,
    RouteProfile,
    RouteSettings,
    as_list,
    read_settings,
    share_of,
)

if TYPE_CHECKING:
    from dragoman.server.shared import Sharing
    from dragoman.server.workers import Worker

app = typer.Typer(name="serve", add_completion=False, rich_markup_mode=None)
KeyEnv = Annotated[
    str | None,
    typer.Option(
        "--key-env", metavar="NAME", help="The variable with the key of the server at --to.", show_default=False
    ),
]
app.add_typer(group, short_help="Manage the keys of clients.")

_HELP = """Serve a gateway: any client, any endpoint, working tool calls.

A client that speaks OpenAI Chat, OpenAI Responses, Anthropic Messages, Gemini or Ollama sends its requests here. They
are translated for your endpoint, and the calls in its replies are found, repaired and translated back. The start
message shows how each agent program is told the address.

\b
Examples:
  dragoman serve --to http://localhost:11434     a server on this machine; its kind and models are detected
  dragoman serve -m local                        the embedded model
  dragoman serve -m openrouter:qwen/qwen3-coder  a model of a known provider
  dragoman serve --config gateway.toml           routes, aliases, fallbacks (docs/guides/gateway-settings.md)
  dragoman serve --config gateway.toml --check   check the file, and show where each model goes
  dragoman serve -m local --inspector            see every exchange in a browser (docs/guides/inspector.md)
  dragoman serve -c gateway.toml --workers 4     four processes (docs/guides/gateway-at-scale.md)
  dragoman serve keys add laptop                 make a key; from then on, every client needs one
"""


def _variable(option: str) -> str:
    """The environment variable of an option, for containers."""
    return OF_GATEWAYS + option


def make_settings(
    to: list[str], model: str | None, config: Path | None, host: str | None, port: int | None, profile: RouteProfile
) -> GatewaySettings:
    """Return the settings of a file, or of the arguments."""
    if config is not None:
        if to or model:
            raise ConfigError("--config and --to or -m exclude each other", hint="put the endpoint into the file")
        settings = read_settings(config)
    elif to:
        names = ["endpoint", *(f"endpoint_{number}" for number in range(2, len(to) + 1))]
        rows = {name: EndpointSettings(model=model or "", url=url) for name, url in zip(names, to, strict=True)}
        settings = GatewaySettings(endpoints=rows, routes=[RouteSettings(to=list(rows), profile=profile)])
    elif model:
        settings = GatewaySettings(routes=[RouteSettings(to=model, profile=profile)])
    else:
        raise ConfigError(
            "the gateway needs an endpoint", hint="give --to URL, -m PROVIDER:MODEL or --config FILE; see --help"
        )
    own = settings.gateway
    if config is not None and isinstance(own.keys, str):
        own = replace(own, keys=str(expand(own.keys, config.resolve().parent, os.environ)))
    server = replace(own, host=host or own.host, port=own.port if port is None else port)
    return replace(settings, gateway=server)


def with_key(settings: GatewaySettings, variable: str) -> GatewaySettings:
    """Return settings whose endpoints at URLs use the key in an environment variable."""
    if not os.environ.get(variable):
        raise ConfigError(f"the environment variable {variable} has no value", hint="put the key of the endpoint there")
    rows = {name: replace(row, key_env=variable) if row.url else row for name, row in settings.endpoints.items()}
    if rows == settings.endpoints:
        raise ConfigError(
            "--key-env is the key of a server at --to", hint="other endpoints have variables of their own"
        )
    return replace(settings, endpoints=rows)


@app.callback(invoke_without_command=True, help=_HELP)
def serve(
    context: typer.Context,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", envvar=_variable("TO"), metavar="URL", help="A server. Several of them share the load."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            envvar=_variable("MODEL"),
            metavar="MODEL",
            help="provider:model; with --to, the model there.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar=_variable("CONFIG"), metavar="FILE", help="A settings file."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", envvar=_variable("HOST"), help="The address; default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", metavar="N", envvar=_variable("PORT"), help="0 chooses a free one; default: 4000."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="compat|default|strict|passthrough", help="Trust in calls in text.")
    ] = "compat",
    keys: Annotated[
        str | None, typer.Option("--keys", metavar="FILE", help="Clients need a key of this file.", show_default=False)
    ] = None,
    key_env: KeyEnv = None,
    inspector: Annotated[
        bool, typer.Option("--inspector", help="Show the last exchanges in a browser of this machine.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="With --inspector: write exchanges there.", show_default=False),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", "-w", metavar="N", help="Processes that share the clients.")] = 1,
    check: Annotated[bool, typer.Option("--check", help="Check the settings and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the start message as one line of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log only errors.")] = False,
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    settings = make_settings(to or [], model, config, host, port, _read_profile(profile))
    if key_env is not None:
        settings = with_key(settings, key_env)
    if keys is not None:
        settings = replace(settings, gateway=replace(settings.gateway, keys=keys))
    if record is not None and not inspector:
        raise ConfigError("--record writes what the inspector keeps", hint="add --inspector")
    logging.getLogger("dragoman.server").setLevel(logging.ERROR if quiet or check else logging.INFO)
    install_log()
    if check:
        return asyncio.run(_check(settings, json=json))
    require_server()
    if workers != 1 and inspector:
        raise ConfigError("--inspector shows the exchanges of one process", hint="leave out --workers, or --inspector")
    sharing = _open_sharing(settings, workers)
    if workers != 1:
        return _serve_by_many(settings, config, workers, sharing, json=json)
    return run_loop(_serve(settings, config, _choose_application(inspector, record), json=json, sharing=sharing))


def _open_sharing(settings: GatewaySettings, workers: int) -> Sharing | None:
    """Return what several processes share; None for one process, so that nothing of it is loaded."""
    if workers == 1 and not settings.gateway.shared and not settings.gateway.shared_env:
        return None
    from dragoman.server.shared import open_sharing

    return open_sharing(settings.gateway, os.environ)


def _serve_by_many(
    settings: GatewaySettings, config: Path | None, number: int, sharing: Sharing | None, *, json: bool
) -> int:
    """Serve with several processes. This process becomes their parent."""
    from dragoman.server.workers import run_workers

    own = settings.gateway
    share_of(settings, 1, number)
    secret = sharing.secret if sharing is not None else None
    with open_socket(own.host, own.port) as listener:
        worker = run_workers(number, listener, grace=own.grace, reloads=config is not None, secret=secret)
        if isinstance(worker, int):
            return worker
        part = share_of(settings, worker.number, worker.of)
        return run_loop(_serve(part, config, None, json=json, sharing=sharing, listener=listener, worker=worker))


def run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Run a server, on the faster loop if it is installed."""
    run = asyncio.run
    try:
        import uvloop

        run = uvloop.run
    except ImportError:
        pass
    return run(work)


def _read_profile(text: str) -> RouteProfile:
    known: tuple[RouteProfile, ...] = ("compat", "default", "strict", "passthrough")
    for profile in known:
        if profile == text:
            return profile
    raise ConfigError(f"there is no profile {text!r}", hint=f"the profiles are {', '.join(known)}")


def install_log() -> None:
    """Write the log of the server to standard error, one line for each exchange."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log = logging.getLogger("dragoman.server")
    log.addHandler(handler)
    log.propagate = False


def _choose_application(inspector: bool, record: Path | None) -> MakeGateway | None:
    """Return what makes the gateway with the inspector; None without it, so that nothing of it is loaded."""
    if not inspector:
        return None
    from dragoman.server.inspector.app import open_inspector

    folder = expand(str(record), Path.cwd(), os.environ) if record is not None else None
    return open_inspector(folder, lambda link: print(f"inspector: {link}", file=sys.stderr, flush=True))


async def _serve(
    settings: GatewaySettings,
    config: Path | None,
    make: MakeGateway | None,
    *,
    json: bool,
    sharing: Sharing | None = None,
    listener: socket.socket | None = None,
    worker: Worker | None = None,
) -> int:
    """Serve until a signal; as a worker, on the socket of its parent and until the parent says so."""
    facts = shared_facts(os.environ)
    store, secret = None, worker.secret if worker is not None else None
    if sharing is not None:
        facts, store, secret = sharing.share_facts(facts), sharing.store, secret or sharing.secret
    raise_file_limit()
    own = load(environment=os.environ)
    access = open_access(settings.gateway, os.environ, own.prices(), store)
    gateway, transport = await open_gateway(settings, facts, access, make, secret, own["proxy"] or "env")
    try:
        listener = listener or open_socket(settings.gateway.host, settings.gateway.port)
        server = GatewayServer(gateway, listener)
        tasks: set[asyncio.Task[str]] = set()

        def reload() -> None:
            assert config is not None
            prepare = partial(share_of, number=worker.number, of=worker.of) if worker is not None else None
            task = asyncio.ensure_future(reload_settings(gateway, config, transport, facts, prepare))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        if worker is None:
            handle_signals(server, reload if config is not None else None)
        else:
            worker.count_together(gateway.records)
            worker.obey(server, reload if config is not None else None)
        if worker is None or worker.is_first:
            print_start(gateway, address_of(listener), json=json, workers=worker.of if worker is not None else 1)
        if store is not None:
            store.start()
        await server.run()
    finally:
        await transport.close()
    return 0


# ---- messages --------------------------------------------------------------------------------------------------------


def print_start(gateway: Gateway, url: str, *, json: bool = False, workers: int = 1) -> None:
    """Print where the gateway listens, where requests go, and how programs are told the address."""
    router = gateway.router
    names = [entry.name for entry in router.models()]
    model = names[0] if names else ""
    link = gateway.open_pages(url)
    # Before anything is printed: an endpoint that cannot be opened ends the command.
    endpoints = {name: describe_target(target) for name, target in router.targets.items()}
    if json:
        said: dict[str, Any] = {
            "url": url,
            "models": names,
            "endpoints": endpoints,
            **({"inspector": link} if link else {}),
        }
        said |= {"workers": workers} if workers > 1 else {}
        # One line, so that a program can read it while the gateway runs.
        print(msgspec.json.encode(said).decode(), flush=True)
        return
    screen = Screen()
    screen.line(("gateway ", "bold"), (url, "bold green"))
    for said in endpoints.values():
        mode = "native tool calls" if said["native_tool_calls"] else "tools as text"
        screen.line(f"  -> {said['model']} at {said['url'] or 'this process'} ({said['wire']}, {mode})")
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    screen.line(f"  models: {shown or 'any name'}")
    if gateway.access.needs_keys:
        screen.line("  clients need a key: dragoman serve keys list")
    if workers > 1:
        screen.line(f"  {workers} processes; they share the limits of keys, and not their reports")
    screen.line()
    clients = list_clients(url, model, "YOUR_KEY" if gateway.access.needs_keys else PLACEHOLDER_KEY)
    width = max(len(name) for name, _ in clients)
    for name, line in clients:
        screen.line((name.ljust(width), "cyan"), "  ", line)
    screen.line()
    screen.line("reports: ", f"{url}/dragoman/exchanges", "   metrics: ", f"{url}/metrics", "   Ctrl-C stops")
    if link:
        screen.line("inspector: ", link, "   works once")
    sys.stdout.flush()


def describe_target(target: Any) -> dict[str, Any]:
    """Return what is known about an endpoint."""
    listed = target.server.models if target.server is not None else ()
    model = target.endpoint.model or (choose_model(listed) if listed else "the model that the client names")
    endpoint = target.client_for("").endpoint
    return {
        "provider": endpoint.provider.name,
        "model": model,
        "wire": endpoint.wire,
        "url": "" if endpoint.provider.transport else show_address(endpoint.base_url),
        "native_tool_calls": endpoint.capabilities.native_tool_calls,
        "context_window": endpoint.quirks.context_window or None,
    }


async def _check(settings: GatewaySettings, *, json: bool) -> int:
    """Open every endpoint of the settings, and show where each route goes. No request costs tokens."""
    proxy = load(environment=os.environ)["proxy"] or "env"
    gateway, transport = await open_gateway(settings, shared_facts(os.environ), proxy=proxy)
    await transport.close()
    router = gateway.router
    problems = [
        f"{target.name}: no server answers at {show_address(target.settings.url)}" for target in router.missing()
    ]
    try:
        open_access(settings.gateway, os.environ)
        _open_sharing(settings, 1)
    except DragomanError as error:
        problems.append(f"{error}; {error.next_step}")
    for name, target in router.targets.items():
        try:
            key = find_key(target.endpoint, find_row_key(target.settings), None, os.environ)
            choose_auth(target.endpoint, key, os.environ)
        except DragomanError as error:
            problems.append(f"{name}: {error}")
    if json:
        routes = [{"match": route.settings.match, "to": route.settings.to} for route in router.routes]
        endpoints = {name: describe_target(target) for name, target in router.targets.items()}
        write_json({"routes": routes, "endpoints": endpoints, "problems": problems})
    else:
        for name, target in router.targets.items():
            said = describe_target(target)
            print_line(f"{name}: {said['model']} at {said['url'] or 'this process'} ({said['wire']})")
        for route in router.routes:
            match, to = (", ".join(as_list(names)) for names in (route.settings.match, route.settings.to))
            print_line(f"{match} -> {to}")
        print_warnings(problems)
        print_line(f"{count(len(router.routes), 'route')}, {count(len(problems), 'problem')}")
    return 1 if problems else 0
