"""The tool `bash`: it runs one command line for a limited time, and leaves no processes behind."""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from dragoman.builtin.commands.operands import essences, find_operands, has_changed
from dragoman.builtin.commands.processes import GRACE, CommandSpec, Ended, RunningCommand, run_async
from dragoman.errors import ConfigError
from dragoman.own_code import SEARCH_PATH, absolute_entries, find_program
from dragoman.sandbox.boxes import Launch, secrets_below, system_secrets
from dragoman.tools import Context, Error, Ok, Options, ToolContext, tool_from_function
from dragoman.types import JsonObject, Operand, Tool

# --------------------------------------------------------------------------------------------------------------------
# The environment of a command: begun from nothing, with a short list of harmless variables.
#
# The environment often contains keys of providers. A command of a model does not need them.

ALLOWED = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TZ")
"""Passed on where they are set, beside LC_*; TERM is always `dumb`."""
# Each of these makes a shell, the loader or an interpreter run or load something before the command itself.
_NEVER = re.compile(
    r"(DRAGOMAN_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|GLOBIGNORE|BASH_FUNC_.*"
    r"|LD_.*|DYLD_.*|GCONV_PATH|PYTHONSTARTUP|PERL5OPT|RUBYOPT|NODE_OPTIONS)",
    re.IGNORECASE | re.DOTALL,
)
_FOR_GIT = (
    ("core.fsmonitor", "false"),
    ("safe.bareRepository", "explicit"),
    # What only reads shall neither write the index nor start the program that checks signatures.
    ("diff.autoRefreshIndex", "false"),
    ("log.showSignature", "false"),
)
"""Settings that count more than those of a repository: nothing is run to find changes, and a folder with the files of
a repository in it is none unless it is called `.git` or named with `--git-dir`."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def clean_environment(own: Mapping[str, str], more: Mapping[str, str] | Iterable[str] = ()) -> dict[str, str]:
    """What a command gets of our own environment: the list, and what the caller names or gives beside it."""
    found = {name: value for name, value in own.items() if name in ALLOWED or name.startswith("LC_")}
    found.setdefault("PATH", SEARCH_PATH)
    found["TERM"] = "dumb"
    if isinstance(more, Mapping):
        found.update(more)
    else:
        found.update({name: own[name] for name in more if name in own})
    found["PATH"] = os.pathsep.join(absolute_entries(found["PATH"])) or SEARCH_PATH
    found.update(_settings_for_git(found))
    return {name: value for name, value in found.items() if _NAME.fullmatch(name) and "\0" not in value}


def _settings_for_git(given: Mapping[str, str]) -> dict[str, str]:
    """What git is told beside its files, after what the caller tells it."""
    counted = given.get("GIT_CONFIG_COUNT", "")
    start = int(counted) if re.fullmatch(r"[0-9]{1,4}", counted) else 0
    # Without this `git status` writes the index anew, and runs a hook when it has.
    told = {"GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_COUNT": str(start + len(_FOR_GIT))}
    for index, (key, value) in enumerate(_FOR_GIT, start):
        told |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return told


def check_allowed(more: Mapping[str, str] | Iterable[str]) -> Mapping[str, str] | tuple[str, ...]:
    """What a caller wants commands to have beside the list; refused where it would be a key or a way in."""
    if isinstance(more, str):
        raise ConfigError(f"not a list of names: {more!r}", hint=f"write environment=({more!r},)")
    kept = dict(more) if isinstance(more, Mapping) else tuple(more)
    keys = _names_of_keys()
    for name in kept:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"not the name of an environment variable: {name!r}", hint="letters, digits and _")
        if name in keys and not isinstance(kept, dict):
            raise ConfigError(
                f"{name} holds the key of a provider, and commands never get ours",
                hint=f"give commands a key of their own: environment={{{name!r}: ...}}",
            )
        if _NEVER.fullmatch(name):
            raise ConfigError(f"{name} would change what a command runs, and is never passed on", hint="leave it out")
    return kept


@functools.cache
def _names_of_keys() -> frozenset[str]:
    from dragoman import providers

    return frozenset(name for row in providers.default() for name in row.key)


# --------------------------------------------------------------------------------------------------------------------
# What a command prints, kept within bounds and made readable: its beginning, its end, and a note of what is missing.
#
# Bytes are kept as they come and read as text only at the end, so that a character that arrives in two pieces is
# whole and a flood costs no more memory than a trickle.

MOST_CHARACTERS = 30_000
_KEPT_BYTES = 128 * 1024
"""Of the beginning, and as much of the end; more than is shown, because control sequences take room as well."""
_LINE_SEARCH = 4096

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements, erasing
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links and other strings for the terminal
    r"|\x1b[ -/]*[0-~]?"  # short ones, and whatever was cut off
)
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r\b"}


class Captured(Struct, frozen=True):
    """The text of an output as it is shown."""

    text: str
    size: int
    """How many bytes were printed."""
    left_out: int = 0
    """How many of them are not shown, beyond control characters."""
    has_odd_bytes: bool = False
    """Whether some were no text, and were replaced or removed."""


class Capture:
    """Takes the bytes of an output, however many, and holds on to the first and the last of them."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def feed(self, piece: bytes) -> None:
        self.size += len(piece)
        room = _KEPT_BYTES - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_size += len(piece)
            while self._tail_size - len(self._tail[0]) >= _KEPT_BYTES:
                self._tail_size -= len(self._tail.popleft())

    def finish(self) -> Captured:
        """The output as text. Where something is missing, a line says how much."""
        head, tail, half = bytes(self._head), b"".join(self._tail), self._most // 2
        missing = self.size - len(head) - len(tail)
        if missing:
            tail, skipped = _from_next_line(tail)
            is_odd = _is_odd(head) or _is_odd(tail)
            before, after = clean(_decode(head, whole=False)), clean(_decode(tail))
            first, last = before[: _end_of(before, half)], after[_start_of(after, half) :]
            dropped = _size(before[len(first) :]) + _size(after[: len(after) - len(last)])
            left_out = missing + skipped + dropped
        else:
            is_odd = _is_odd(head + tail)
            text = clean(_decode(head + tail))
            if len(text) <= self._most:
                return Captured(text, self.size, 0, is_odd)
            first, last = text[: _end_of(text, half)], text[_start_of(text, half) :]
            left_out = _size(text[len(first) : len(text) - len(last)])
        line_end = "" if first.endswith("\n") or not first else "\n"
        shown = f"{first}{line_end}... {left_out:,} bytes left out ...\n{last}"
        return Captured(shown, self.size, left_out, is_odd)


def clean(text: str) -> str:
    """The text without control sequences, and with every line as a terminal would show it in the end."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    text = text.translate(_CONTROLS)
    return "\n".join(map(_last_state, text.split("\n"))) if "\r" in text or "\b" in text else text


def last_line(piece: bytes) -> str:
    """The last line of a piece that holds anything, short, for whoever watches."""
    lines = clean(piece[-4096:].decode("utf-8", "replace")).split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _end_of(text: str, most: int) -> int:
    """Where the beginning ends: at the end of a line where one is near, for half a line may be half a secret."""
    return len(text) if len(text) <= most else text.rfind("\n", max(0, most - _LINE_SEARCH), most) + 1 or most


def _start_of(text: str, most: int) -> int:
    """Where the end begins, in the same way."""
    if len(text) <= most:
        return 0
    begin = len(text) - most
    line = text.find("\n", begin - 1, begin + _LINE_SEARCH) + 1
    return line if 0 < line < len(text) else begin


def _from_next_line(raw: bytes) -> tuple[bytes, int]:
    """Without the rest of a line or of a character whose beginning is missing."""
    begin = raw.find(b"\n", 0, _LINE_SEARCH) + 1
    if not 0 < begin < len(raw):
        begin = next((index for index in range(min(4, len(raw))) if raw[index] & 0xC0 != 0x80), 0)
    return raw[begin:], begin


def _decode(raw: bytes, *, whole: bool = True) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw, final=whole)


def _is_odd(raw: bytes) -> bool:
    """Whether this is not all text; a character that was cut off at the end does not count."""
    if b"\0" in raw:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return True
    return False


def _last_state(line: str) -> str:
    """A line after all returns to its beginning: progress bars leave their last state only."""
    line = line.rstrip("\r")
    line = line[line.rfind("\r") + 1 :]
    if "\b" not in line:
        return line
    shown: list[str] = []
    for character in line:
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)


# --------------------------------------------------------------------------------------------------------------------
# The tool `bash`: one command line in its own shell, with its output and how it ended.

DEFAULT_SECONDS = 120.0
LONGEST_SECONDS = 600.0
_MARGIN = GRACE + 1.0
"""Seconds before its deadline at which a command is ended, so that what it printed can still be told."""
_PROGRESS_SECONDS = 1.0
_SANDBOX = "bwrap"
_CHANGED = "Not run: a file that says what this command runs has changed since it was approved."
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

    options = Options(
        name="bash",
        description=_DESCRIPTION,
        timeout=longest + _MARGIN,
        max_output=max_output + 4_000,
        metadata={"class": "exec", "exec": True, "family": "bash", "origin": "builtin"},
    )
    made = tool_from_function(bash, options, names={"timeout_words": timeout_words})
    return replace(made, inspect=functools.partial(inspect_command, settings))


def inspect_command(settings: Settings, arguments: JsonObject, context: ToolContext) -> list[Operand]:
    """The operands of a call: the command line, and every file that says what it would run."""
    command = arguments.get("command")
    environment = clean_environment(os.environ, settings.environment)
    folder = context.workspace or os.getcwd()
    found = find_operands(command if isinstance(command, str) else "", folder, environment)
    is_confined = getattr(context.sandbox, "confines", False) is True
    if not is_confined and secrets_below([os.path.realpath(folder)], system_secrets()):
        # No sandbox hides them: whatever a command reads in this folder may be one.
        found.append(Operand("path", "what is kept secret in this folder", "read", inside=False))
    return found


async def run_command(settings: Settings, command: str, timeout: float | None, around: ToolContext) -> Ok:
    """Run one command line and tell of it; Error where it could not be run, or ran out of time."""
    folder = _folder(around)
    _check(command, timeout)
    seconds, grace = _time_for(settings, timeout, around)
    shell, note = _shell(settings, folder)
    capture = Capture(settings.max_output)

    def prepare() -> tuple[CommandSpec, Launch | None]:
        order, launch = _prepare(settings, (*shell, command), folder, around.sandbox)
        try:
            environment = clean_environment(os.environ, settings.environment)
            if has_changed(command, folder, environment, around.operands):
                raise Error(_CHANGED)
        except BaseException:
            if launch is not None:
                launch.finish()
            raise
        files = tuple(sorted(each for each in essences(around.operands) if each[2]))
        writable = (folder, *settings.writable)
        return replace(order, seconds=seconds, grace=grace, writable=writable, files=files), launch

    try:
        ended = await run_async(RunningCommand(prepare, _listener(capture, around.progress)))
    except OSError as problem:
        raise Error(_why(problem, shell[0])) from problem
    except (ValueError, ConfigError) as problem:
        raise Error(f"Not run: {problem}") from problem
    if ended.files_changed:
        raise Error(_CHANGED)
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
        raise Error("Not run: commands need a POSIX shell; on Windows, they run in WSL.")
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
    return min(seconds, max(0.01, left - margin)), min(GRACE, margin * 0.6)


def _shell(settings: Settings, folder: str) -> tuple[tuple[str, ...], str]:
    """How the shell is started, and what to say about it."""
    if settings.shell is not None:
        return (settings.shell, "-c"), ""
    found = "/bin/bash" if os.access("/bin/bash", os.X_OK) else find_program("bash", folder)
    if found:
        return (found, "--noprofile", "--norc", "-c"), ""
    return ("/bin/sh", "-c"), "[there is no bash on this system: it was run with sh]"


def _prepare(settings: Settings, argv: tuple[str, ...], folder: str, given: Any) -> tuple[CommandSpec, Launch | None]:
    """What to start. With a sandbox it is the sandbox that starts the shell; if it cannot, nothing is run."""
    environment = clean_environment(os.environ, settings.environment)
    sandbox = given if given is not None else settings.sandbox
    if sandbox is None and settings.limits is not None:
        sandbox = "none"  # Nothing is confined, and the limits hold.
    if sandbox is None:
        return CommandSpec(argv, environment, folder), None
    from dragoman.errors import DragomanError
    from dragoman.sandbox import Box, BoxLimits, find_sandbox, toolchains

    # The person's home and their folder for temporary files are not in the box; it brings its own.
    inner = {name: value for name, value in environment.items() if name not in ("HOME", "TMPDIR")}
    try:
        if isinstance(sandbox, str):
            sandbox = find_sandbox(cast(Any, sandbox), folder)
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
    name = launch.argv[0]
    program = name if "/" in name else find_program(name, folder, *settings.writable) or name
    order = CommandSpec((program, *launch.argv[1:]), dict(launch.environment), launch.cwd, tuple(launch.pass_fds))
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
    told = "\n".join([text.removesuffix("\n"), *words])
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
