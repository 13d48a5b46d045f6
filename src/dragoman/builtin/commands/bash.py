"""The tool `bash`: one command line in a shell of its own, with its output, how it ended, and nothing left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from dragoman.builtin.commands.environments import check_allowed, clean_environment
from dragoman.builtin.commands.outputs import MOST_CHARACTERS, Capture, Captured, clean, last_line
from dragoman.builtin.commands.processes import GRACE, Ended, Order, Preparation, Running, run_async
from dragoman.builtin.commands.scripts import find_operands, has_changed
from dragoman.sandbox.system import secrets_below, system_secrets
from dragoman.tools import Context, Error, Ok, ToolContext, tool_from_function
from dragoman.types import JsonObject, Operand, Tool

DEFAULT_SECONDS = 120.0
LONGEST_SECONDS = 600.0
_MARGIN = GRACE + 1.0
"""Seconds before its deadline at which a command is ended, so that what it printed can still be told."""
_PROGRESS_SECONDS = 1.0
_SANDBOX = "bwrap"
_MOST_BYTES = 100_000
"""The system takes about 128 KiB in one argument."""

_DESCRIPTION = """\
Run a command line in bash, in the folder of the workspace, and get what it printed and how it ended.

Every call begins in the workspace with a new shell: `cd`, variables and aliases do not carry over to the next call. \
There is no input and no terminal, so nothing interactive works. Output and error output come together; of a long \
output the beginning and the end are shown. Processes in the background are ended when the command itself has ended."""


class Settings(Struct, frozen=True):
    """How commands are run."""

    sandbox: Any = None
    network: bool = False
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    environment: Mapping[str, str] | tuple[str, ...] = ()
    limits: Any = None
    shell: str | None = None
    seconds: float = DEFAULT_SECONDS
    longest: float = LONGEST_SECONDS
    max_output: int = MOST_CHARACTERS


def make_bash(
    *,
    sandbox: Any = None,
    network: bool = False,
    readable: Iterable[str] = (),
    writable: Iterable[str] = (),
    environment: Mapping[str, str] | Iterable[str] = (),
    limits: Any = None,
    shell: str | None = None,
    seconds: float = DEFAULT_SECONDS,
    longest: float = LONGEST_SECONDS,
    max_output: int = MOST_CHARACTERS,
) -> Tool:
    """The tool `bash` with settings of its own.

    - `sandbox`: a `dragoman.sandbox.Sandbox`, or the name of one for `find_sandbox`, for runs that bring none
    - `network`, `readable`, `writable`, `limits`: what a command in a sandbox may use beside the workspace
    - `environment`: names of variables to pass on beside the short list, or variables with their values
    - `shell`: the path of another shell that takes `-c`
    - `seconds`: for a command that asks for nothing else, and `longest` for one that does
    - `max_output`: characters of output that are shown
    """
    settings = Settings(
        sandbox=sandbox,
        network=network,
        readable=tuple(readable),
        writable=tuple(writable),
        environment=check_allowed(environment),
        limits=limits,
        shell=shell,
        seconds=min(seconds, longest),
        longest=longest,
        max_output=max_output,
    )
    timeout_words = f"seconds that it may take; {settings.seconds:g} unless given, {longest:g} at most"

    async def bash(
        command: Annotated[str, "the command line"],
        around: Context,
        timeout: Annotated[float | None, timeout_words] = None,
    ) -> Ok:
        return await run_command(settings, command, timeout, around)

    made = tool_from_function(
        bash,
        {
            "name": "bash",
            "description": _DESCRIPTION,
            "timeout": longest + _MARGIN,
            "max_output": max_output + 4_000,
            "metadata": {"class": "exec", "exec": True, "family": "bash", "origin": "builtin"},
        },
        names={"timeout_words": timeout_words},
    )

    def inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
        return inspect_command(settings, arguments, context)

    return replace(made, inspect=inspect)


def inspect_command(settings: Settings, arguments: JsonObject, context: ToolContext) -> list[Operand]:
    """The operands of a call: the command line, and every file that says what it would run."""
    command = arguments.get("command")
    environment = clean_environment(os.environ, settings.environment)
    folder = context.workspace or os.getcwd()
    found = find_operands(command if isinstance(command, str) else "", folder, environment)
    return found if getattr(context.sandbox, "confines", False) is True else [*found, *_find_secrets(folder)]


def _find_secrets(folder: str) -> list[Operand]:
    """Secrets that lie in the workspace, and that no sandbox hides: whatever a command reads there may be one."""
    is_any = secrets_below([os.path.realpath(folder)], system_secrets())
    return [Operand("path", "what is kept secret in this folder", "read", inside=False)] if is_any else []


async def run_command(settings: Settings, command: str, timeout: float | None, around: ToolContext) -> Ok:
    """Run one command line and tell of it; Error where it could not be run, or ran out of time."""
    folder = _folder(around)
    _check(command, timeout)
    seconds, grace = _time_for(settings, timeout, around)
    shell, note = _shell(settings)
    capture = Capture(settings.max_output)

    def prepare() -> tuple[Order, Preparation | None]:
        order, preparation = _prepare(settings, (*shell, command), folder, around.sandbox)
        try:
            environment = clean_environment(os.environ, settings.environment)
            if has_changed(command, folder, environment, around.operands):
                raise Error("Not run: a file that says what this command runs has changed since it was approved.")
        except BaseException:
            if preparation is not None:
                preparation.finish()
            raise
        return replace(order, seconds=seconds, grace=grace), preparation

    try:
        ended = await run_async(Running(prepare, _listener(capture, around.progress)))
    except OSError as problem:
        raise Error(_why(problem, shell[0])) from problem
    except ValueError as problem:
        raise Error(f"Not run: {problem}") from problem
    if ended.failure is not None:
        why = OSError(ended.failure, os.strerror(ended.failure))
        raise Error(f"Not run: {folder}: {why.strerror}" if ended.folder_failed else _why(why, shell[0]))
    return _tell(capture.finish(), ended, seconds, note)


# ---- before ----------------------------------------------------------------------------------------------------------


def _folder(around: ToolContext) -> str:
    try:
        folder = os.path.abspath(around.workspace or os.getcwd())
    except OSError as problem:
        raise Error("Not run: the current folder is gone.") from problem
    if not os.path.isdir(folder):
        raise Error(f"Not run: the workspace {folder} is not there.")
    return folder


def _check(command: str, timeout: float | None) -> None:
    if os.name != "posix":
        raise Error("Not run: commands need a system with a POSIX shell.")
    if not command.strip():
        raise Error("Not run: the command is empty.")
    if "\0" in command:
        raise Error("Not run: a command cannot hold a NUL character.")
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError as problem:
        raise Error("Not run: the command holds half a character (a lone surrogate).") from problem
    if size > _MOST_BYTES:
        raise Error(
            f"Not run: the command has {size:,} bytes, and {_MOST_BYTES:,} is the most. "
            "Write it into a file and run the file."
        )
    if timeout is not None and not timeout > 0:
        raise Error("Not run: timeout has to be more than 0 seconds.")


def _time_for(settings: Settings, timeout: float | None, around: ToolContext) -> tuple[float, float]:
    """Seconds for the command, and for its end after it was asked to end."""
    seconds = min(settings.seconds if timeout is None else timeout, settings.longest)
    if around.deadline is None:
        return seconds, GRACE
    clock: Callable[[], float] = getattr(around.scope, "clock", time.monotonic)
    left = max(0.0, around.deadline - clock())
    margin = min(_MARGIN, left * 0.3)
    if seconds <= left - margin:
        return seconds, min(GRACE, margin * 0.6)
    return max(0.01, left - margin), min(GRACE, margin * 0.6)


def _shell(settings: Settings) -> tuple[tuple[str, ...], str]:
    """How the shell is started, and what to say about it."""
    if settings.shell is not None:
        return (settings.shell, "-c"), ""
    found = "/bin/bash" if os.access("/bin/bash", os.X_OK) else shutil.which("bash")
    if found:
        return (found, "--noprofile", "--norc", "-c"), ""
    return ("/bin/sh", "-c"), "[there is no bash on this system: it was run with sh]"


def _prepare(settings: Settings, argv: tuple[str, ...], folder: str, given: Any) -> tuple[Order, Preparation | None]:
    """What to start. With a sandbox it is the sandbox that starts the shell; if it cannot, nothing is run."""
    environment = clean_environment(os.environ, settings.environment)
    sandbox = given if given is not None else settings.sandbox
    if sandbox is None and settings.limits is not None:
        sandbox = "none"  # Nothing is confined, and the limits hold.
    if sandbox is None:
        return Order(argv, environment, folder), None
    from dragoman.errors import DragomanError
    from dragoman.sandbox import Box, BoxLimits, find_sandbox, toolchains

    # The person's home and their folder for temporary files are not in the box; it brings its own.
    inner = {name: value for name, value in environment.items() if name not in ("HOME", "TMPDIR")}
    try:
        if isinstance(sandbox, str):
            sandbox = find_sandbox(cast(Any, sandbox))
        box = Box(
            workspace=folder,
            writable=settings.writable,
            readable=(*settings.readable, *toolchains(environment.get("PATH", ""))),
            network=settings.network,
            environment=inner,
            limits=settings.limits if settings.limits is not None else BoxLimits(),
        )
        launch = sandbox.launch(argv, box)
    except DragomanError as problem:
        raise Error(f"Not run, because the sandbox could not be set up: {problem}") from problem
    started = (launch.argv[0] if "/" in launch.argv[0] else shutil.which(launch.argv[0]) or launch.argv[0],)
    order = Order((*started, *launch.argv[1:]), dict(launch.environment), launch.cwd, tuple(launch.pass_fds))
    return order, launch


def _listener(capture: Capture, progress: Callable[..., None]) -> Callable[[bytes], None]:
    """Takes the output, and tells a watching person the last line of it now and then."""
    told = float("-inf")

    def listen(piece: bytes) -> None:
        nonlocal told
        capture.feed(piece)
        now = time.monotonic()
        if now - told >= _PROGRESS_SECONDS and (line := last_line(piece)):
            told = now
            with contextlib.suppress(Exception):  # Whoever watches does not end the command by failing.
                progress(line)

    return listen


# ---- after -----------------------------------------------------------------------------------------------------------


def _tell(output: Captured, ended: Ended, seconds: float, note: str) -> Ok:
    words = [_how(ended, seconds)]
    if output.has_odd_bytes:
        words.append("[some of the output is not text: those bytes were replaced or left out]")
    # The sandbox may still be clearing up behind the command; that is nothing the command left.
    left = [name for name in ended.left if name != _SANDBOX]
    count = ended.left_count - (len(ended.left) - len(left))
    if count and not ended.timed_out:
        names = ", ".join(clean(name).replace("\n", " ") for name in left)
        more = "" if count <= len(left) else f" and {count - len(left)} more"
        words.append(f"[it left processes in the background, which were ended: {names}{more}]")
    if ended.stuck:
        words.append(f"[{ended.stuck} processes could not be ended and may still run]")
    if ended.put_back:
        words.append(f"[protected paths were put back as they had been: {', '.join(ended.put_back)}]")
    if note:
        words.append(note)
    text = output.text if output.text.strip() else "(no output)"
    told = f"{text}{'' if text.endswith(chr(10)) else chr(10)}" + "\n".join(words)
    data = {
        "exit_code": ended.code,
        "signal": ended.signal or None,
        "seconds": round(ended.seconds, 3),
        "timed_out": ended.timed_out,
        "bytes": output.size,
        "bytes_left_out": output.left_out,
        "left_running": count,
    }
    if ended.timed_out:
        raise Error(told, data=data)
    return Ok(told, data)


def _how(ended: Ended, seconds: float) -> str:
    took = f"{ended.seconds:.1f} s"
    if ended.timed_out:
        return f"[timed out after {seconds:.3g} s and was ended; part of its work may be done]"
    if ended.signal:
        return f"[ended by {ended.signal} after {took}]"
    if ended.code is None:
        return f"[it is not known how it ended, after {took}: what watched over it was killed]"
    return f"[exit code {ended.code} after {took}]"


def _why(problem: OSError, shell: str) -> str:
    """Why a command could not be started."""
    if problem.errno == errno.ENOENT:
        return f"Not run: the shell {shell} is not there."
    if problem.errno == errno.E2BIG:
        return "Not run: the command is too long for this system. Write it into a file and run the file."
    return f"Not run: {problem.strerror or problem}"


Bash = make_bash()
"""The tool as it is without settings of its own."""
