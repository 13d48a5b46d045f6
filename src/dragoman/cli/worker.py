"""`dragoman worker`: execute the submitted runs of agents. And what all commands about an engine share."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from dragoman.characters import escape_line, quote_value
from dragoman.cli.context import describe_journal, find_engine
from dragoman.cli.options import Json
from dragoman.cli.screen import Screen, count, print_line
from dragoman.errors import ConfigError
from dragoman.extras import missing_extra

if TYPE_CHECKING:
    from dragoman.agent import Agent
    from dragoman.engine import PostgresEngine, Rate

# ---- what the commands about an engine share -------------------------------------------------------------------------

T = TypeVar("T")
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ADDRESS",
        help="The database that the workers share, such as postgres://user@host/name; default: the setting `engine` "
        "(DRAGOMAN_ENGINE). A password belongs into ~/.pgpass or PGPASSWORD: other users can see what is typed here.",
        show_default=False,
    ),
]
RateOption = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="N/PERIOD",
        help="Start at most N runs in a second, minute or hour, over all workers: 5/s, 100/m, 1000/h.",
        show_default=False,
    ),
]
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_rate = re.compile(r"([1-9]\d{0,8})/(s|m|h)").fullmatch


def read_rate(text: str | None) -> Rate | None:
    """The value of --rate."""
    if text is None:
        return None
    from dragoman.engine import Rate

    found = _rate(text.strip())
    if found is None:
        raise ConfigError(f"--rate {text!r} is not a number and a period", hint="for example --rate 100/m")
    return Rate(int(found[1]), _PERIODS[found[2]])


def with_engine(address: str, work: Callable[[PostgresEngine], Awaitable[T]]) -> T:
    """Open an engine, call `work` with it, and close it."""
    engine = open_engine(address)

    async def opened() -> T:
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(opened())


def open_engine(address: str, **settings: Any) -> PostgresEngine:
    install_log(logging.WARNING)
    try:
        from dragoman.engine import PostgresEngine
    except ImportError as error:
        raise missing_extra(f"an engine needs {error.name}", "durable") from error
    return PostgresEngine(address, **settings)


# ---- `dragoman worker` -----------------------------------------------------------------------------------------------

HELP = """Execute the runs that are submitted to agents, on any number of machines that reach the same database.

AGENT names an agent in your code: package.module:agent, file.py:agent, or the name of an entry point of the group
dragoman.agents. It may also be a function without arguments that makes the agent. Workers keep its runs going: if one
dies, another takes over within seconds. A tool that was running then is repeated only if it is repeatable; otherwise
the model is told that the outcome is unknown.

A run continues only on workers that have the same tools as the worker for which it was submitted. A worker with other
tools leaves it to the others and says so. For a new version, start new workers, and stop the old ones when
`dragoman status` shows no more runs of theirs.

Ctrl-C or SIGTERM hands the runs over to the other workers. A second one ends the program at once.

\b
Examples:
  dragoman worker shop.py:clerk --engine postgres://me@db/agents
  DRAGOMAN_ENGINE=postgres://me@db/agents dragoman worker shop.agents:clerk shop.agents:buyer
  dragoman worker clerk --concurrency 20 --rate 100/m
  dragoman submit clerk "Where is order 7?" --wait     from anywhere
"""

_PAUSE_SECONDS = 0.02

app = typer.Typer(name="worker", add_completion=False, rich_markup_mode=None)


@app.command("worker", help=HELP)
def worker(
    agents: Annotated[list[str], typer.Argument(metavar="AGENT...", help="The agents to serve.", show_default=False)],
    engine: EngineOption = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="The runs that are executed at the same time.")
    ] = 50,
    rate: RateOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The name of this worker; it has to be unique.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    from dragoman.config import load_agents

    address = find_engine(engine)
    loaded = load_agents(agents)
    opened = open_engine(address, worker=name, concurrency=concurrency, rate=read_rate(rate))
    install_log(logging.INFO)
    return asyncio.run(_work(opened, loaded, lambda: _print_start(opened, loaded, address, as_json=as_json)))


def install_log(level: int) -> None:
    """Write what the engine does, and what it waits for, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    for log in map(logging.getLogger, ("dragoman.engine", "dragoman.journal")):
        log.handlers[:] = [handler]
        log.setLevel(level)
        log.propagate = False
    # It warns if a cancelled run is submitted again, which changes nothing.
    logging.getLogger("dbos").setLevel(logging.ERROR)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_line(super().format(record))


def _print_start(engine: PostgresEngine, agents: Mapping[str, Agent[Any]], address: str, *, as_json: bool) -> None:
    from dragoman.engine import digest_tools

    place = describe_journal(address)
    if as_json:
        served = {
            name: {"tools": list(agent.tools.names), "digest": digest_tools(agent)} for name, agent in agents.items()
        }
        # One line, so that a program can read it while the worker runs.
        print(msgspec.json.encode({"worker": engine.worker, "engine": place, "agents": served}).decode(), flush=True)
        return
    screen = Screen()
    screen.line(("worker ", "bold"), (engine.worker, "bold green"), f" on {place}")
    for name, agent in agents.items():
        screen.line(f"  {quote_value(name)}: {count(len(agent.tools), 'tool')}, digest {digest_tools(agent)}")
    screen.line("  Ctrl-C hands the runs over and stops")
    sys.stdout.flush()


async def _work(engine: PostgresEngine, agents: Mapping[str, Agent[Any]], print_start: Callable[[], None]) -> int:
    from dragoman.cli.signals import InterruptHandler

    stop = asyncio.Event()

    def on_first() -> None:
        print_line("stopping; other workers continue the runs. Interrupt again to end at once", error=True)
        stop.set()

    # Not `end_children` of the handler: the processes of tools belong to runs that may still finish them.
    with InterruptHandler(asyncio.get_running_loop(), on_first, lambda: None):
        try:
            # The digest of an agent covers the tools of its MCP servers.
            for agent in agents.values():
                await agent.load_tools()
            work = asyncio.ensure_future(engine.work(agents, stop))
            while not (work.done() or engine.is_working):
                await asyncio.sleep(_PAUSE_SECONDS)
            if engine.is_working:
                # Only now: a program that reads this may submit, and a database that cannot be used is an error alone.
                print_start()
            await work
        finally:
            await engine.close()
            for agent in agents.values():
                await agent.aclose()
    print_line("stopped", error=True)
    sys.stdout.flush()
    return os.EX_OK
