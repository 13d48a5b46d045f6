"""`dragoman launch`: start an agent program with a gateway of its own, and end both together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.exit_codes import SIGNAL_BASE
from dragoman.cli.screen import print_line
from dragoman.cli.serve import KeyEnv, make_settings, with_key
from dragoman.config import load
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

\b
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
    key_env: KeyEnv = None,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The log of the gateway.")] = None,
) -> int:
    if os.name != "posix":
        hint = "start `dragoman serve`, and give its address to the program; or run both in WSL"
        raise ConfigError("dragoman launch does not run on Windows", hint=hint)
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
    if key_env is not None:
        settings = with_key(settings, key_env)
    _write_log(log)
    with _Watcher() as watcher:
        return asyncio.run(_run(settings, program, path, arguments or [], watcher))


def _write_log(path: Path | None) -> None:
    """The program owns the screen, so the log goes into a file, or nowhere."""
    log = logging.getLogger("dragoman.server")
    log.propagate = False
    log.addHandler(logging.FileHandler(path, encoding="utf-8") if path is not None else logging.NullHandler())
    log.setLevel(logging.INFO)


async def _run(settings: GatewaySettings, program: str, path: str, arguments: list[str], watcher: _Watcher) -> int:
    # Only this program knows the key, so no other one on the machine uses the endpoint through the gateway.
    # Claude Code asks once whether it may use a key, and remembers the last 20 characters.
    key = f"{make_key()}-for-dragoman-launch"
    proxy = load(environment=os.environ)["proxy"] or "env"
    gateway, transport = await open_gateway(settings, access=Access.for_one(key, settings.gateway), proxy=proxy)
    try:
        listener = open_socket("127.0.0.1", 0)
        async with GatewayServer(gateway, listener).running():
            names = [entry.name for entry in gateway.router.models()]
            setup = PROGRAMS[program](address_of(listener), names[0] if names else "", key)
            with tempfile.TemporaryDirectory(prefix="dragoman-launch-") as folder:
                watcher.add_folder(folder)
                code = await _start(setup, path, arguments, Path(folder), watcher)
    finally:
        await transport.close()
    repaired = sum(report.is_repaired for report in gateway.records.list())
    if repaired:
        print_line(f"dragoman: {repaired} of {len(gateway.records.list())} replies were repaired", error=True)
    return code


async def _start(setup: Setup, path: str, arguments: list[str], folder: Path, watcher: _Watcher) -> int:
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
            watcher.add_program(process.pid)
            started(process)
            code = await process.wait()
            watcher.add_program(0)
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


# ---- if this process is killed ---------------------------------------------------------------------------------------

_PATIENCE = 3.0
"""The seconds in which a program may end by itself."""


class _Watcher:
    """A process that ends the program if this one is killed, which can then not do it itself.

    It waits at a pipe whose other end only this process has. A signal of the kernel at the death of the parent
    (`PR_SET_PDEATHSIG`) would reach the program alone: many are scripts that start the real program below them.
    """

    def __enter__(self) -> _Watcher:
        reading, self._pipe = os.pipe()
        self._process = os.fork() if hasattr(os, "fork") else 0
        if self._process == 0 and hasattr(os, "fork"):
            try:
                os.close(self._pipe)
                _watch(reading)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"end\n")
        os.close(self._pipe)
        if self._process:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._process, 0)

    def add_program(self, process: int) -> None:
        """Note the program that runs; 0 if it has ended, so that its number may belong to another one."""
        os.write(self._pipe, b"program %d\n" % process)

    def add_folder(self, folder: str) -> None:
        """Note the folder with the settings of the program, which is removed as well."""
        os.write(self._pipe, b"folder %s\n" % os.fsencode(folder))


def _watch(pipe: int) -> None:
    """Wait for the end of the other process. It says so unless it was killed."""
    # In a session of its own, no key of the terminal reaches it.
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    said = b""
    while piece := os.read(pipe, 4096):
        said += piece
    words = dict(line.split(b" ", 1) for line in said.splitlines() if b" " in line)
    if said.endswith(b"end\n"):
        return
    if process := int(words.get(b"program", 0)):
        _end_tree(process)
    if b"folder" in words:
        shutil.rmtree(os.fsdecode(words[b"folder"]), ignore_errors=True)


def _end_tree(process: int) -> None:
    """Ask a process and all below it to end, and kill those that do not."""
    below = _find_below(process)
    until = time.monotonic() + _PATIENCE
    number: int = signal.SIGTERM
    while below := [each for each in below if _send(each, number)]:
        if number != signal.SIGTERM and time.monotonic() > until + _PATIENCE:
            return
        number = signal.SIGKILL if time.monotonic() > until else 0
        time.sleep(0.05)


def _find_below(process: int) -> list[int]:
    """Return a process and those below it; only itself where the system does not tell them."""
    from dragoman.builtin.commands.supervisor import parents_of_all

    try:
        parents = parents_of_all()
    except OSError:
        return [process]
    found = [process] if process in parents else []
    for each in found:
        found += [child for child, (parent, _) in parents.items() if parent == each]
    return found


def _send(process: int, number: int) -> bool:
    try:
        os.kill(process, number)
    except OSError:
        return False
    return True
