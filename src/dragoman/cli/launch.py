"""`dragoman launch`: start an agent program with a gateway of its own, and end both together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.screen import SIGNAL_BASE, print_line
from dragoman.cli.serve import make_settings
from dragoman.errors import ConfigError, nearest
from dragoman.server.access import Access
from dragoman.server.keys import make_key
from dragoman.server.process import GatewayServer, address_of, open_gateway, open_socket
from dragoman.server.programs import FILE, PROGRAMS, Setup
from dragoman.server.settings import GatewaySettings

app = typer.Typer(name="launch", add_completion=False, rich_markup_mode=None)

_HELP = f"""Start an agent program with a gateway between it and your model.

The programs are {", ".join(PROGRAMS)}. Arguments after the name of the program go to the program. The gateway listens
at a free port of this machine, and ends with the program.

\\b
Examples:
  dragoman launch --to http://localhost:11434 claude
  dragoman launch -m local claude -p "list the files here"
  dragoman launch --config gateway.toml codex exec "write a test"
"""


@app.command(help=_HELP, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def launch(
    program: Annotated[str, typer.Argument(metavar="PROGRAM")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGUMENTS")] = None,
    to: Annotated[list[str] | None, typer.Option("--to", metavar="URL", help="A server.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="provider:model; with --to, the model there.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="A settings file.")] = None,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The log of the gateway.")] = None,
) -> int:
    if program not in PROGRAMS:
        guess = nearest(program, PROGRAMS)
        meant = f"did you mean {guess!r}? " if guess else ""
        raise ConfigError(f"cannot launch {program!r}", hint=f"{meant}the programs are {', '.join(PROGRAMS)}")
    path = shutil.which(program)
    if path is None:
        raise ConfigError(f"{program} is not installed", hint=f"install it, so that `{program} --version` works")
    if not (to or model or config):
        hint = f"dragoman launch --to URL {program}; what follows {program} goes to the program"
        raise ConfigError("the gateway needs an endpoint, before the name of the program", hint=hint)
    settings = make_settings(to or [], model, config, "127.0.0.1", 0, "compat")
    _write_log(log)
    return asyncio.run(_run(settings, program, path, arguments or []))


def _write_log(path: Path | None) -> None:
    """The program owns the screen, so the log goes into a file, or nowhere."""
    log = logging.getLogger("dragoman.server")
    log.propagate = False
    log.addHandler(logging.FileHandler(path, encoding="utf-8") if path is not None else logging.NullHandler())
    log.setLevel(logging.INFO)


async def _run(settings: GatewaySettings, program: str, path: str, arguments: list[str]) -> int:
    # Only this program knows the key, so no other one on the machine uses the endpoint through the gateway.
    # Claude Code asks once whether it may use a key, and remembers the last 20 characters.
    key = f"{make_key()}-for-dragoman-launch"
    gateway, transport = await open_gateway(settings, access=Access.for_one(key, settings.gateway))
    try:
        listener = open_socket("127.0.0.1", 0)
        async with GatewayServer(gateway, listener).running():
            names = [entry.name for entry in gateway.router.models()]
            setup = PROGRAMS[program](address_of(listener), names[0] if names else "", key)
            with tempfile.TemporaryDirectory(prefix="dragoman-launch-") as folder:
                code = await _start(setup, path, arguments, Path(folder))
    finally:
        await transport.close()
    repaired = sum(report.is_repaired for report in gateway.records.list())
    if repaired:
        print_line(f"dragoman: {repaired} of {len(gateway.records.list())} replies were repaired", error=True)
    return code


async def _start(setup: Setup, path: str, arguments: list[str], folder: Path) -> int:
    variables = {**os.environ, **setup.variables}
    file = folder / setup.file_name
    if setup.file:
        file.write_text(setup.file, encoding="utf-8")
    given = [str(file) if word == FILE else word for word in setup.arguments]
    # The terminal sends Ctrl-C to the program as well, which decides what it means.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _forwarded_signals() as started:
            process = await asyncio.create_subprocess_exec(
                path, *given, *arguments, env=variables, preexec_fn=_restore_interrupt
            )
            started(process)
            code = await process.wait()
    except OSError as error:
        raise ConfigError(f"cannot start {path}: {error.strerror}", hint="try to start it without dragoman") from None
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else SIGNAL_BASE - code


@contextlib.contextmanager
def _forwarded_signals() -> Iterator[Callable[[asyncio.subprocess.Process], None]]:
    """Send the program the signals that would end this process. Yield what takes the program once it runs.

    A signal can arrive before the program is known. It must not end this process alone.
    """
    loop = asyncio.get_running_loop()
    waiting: list[int] = []
    programs: list[asyncio.subprocess.Process] = []

    def forward(number: int) -> None:
        if not programs:
            waiting.append(number)
        elif programs[0].returncode is None:
            programs[0].send_signal(number)

    def started(process: asyncio.subprocess.Process) -> None:
        programs.append(process)
        for number in waiting:
            forward(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in numbers:
        loop.add_signal_handler(number, forward, number)
    try:
        yield started
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _restore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
