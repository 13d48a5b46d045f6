"""What a command may do, and what to start so that it can do no more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from types import TracebackType

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.sandbox.shields import PROTECTED, WATCHED

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where commands are looked for when a box names no PATH."""


class BoxLimits(Struct, frozen=True):
    """How much a command may use; None leaves it as it is. All but `processes` hold for each process on its own."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    """Address space. Programs that reserve much more than they use (Node, Java, Go) need room here."""
    file_bytes: int | None = None
    """The largest file that may be written."""
    processes: int | None = 1024
    open_files: int | None = None


class Box(Struct, frozen=True):
    """What a command may see, change and use. Everything that is not named here is out of its reach."""

    workspace: str
    """The folder that the command works in; it may read and change everything there but the protected paths."""
    writable: tuple[str, ...] = ()
    """More folders and files that it may change."""
    readable: tuple[str, ...] = ()
    """More folders and files that it may read and run, beside the system's own (/usr, /etc, /opt ...)."""
    network: bool = False
    protected: tuple[str, ...] = PROTECTED
    """Paths in the workspace that stay as they are, and stay absent where they are absent."""
    watched: tuple[str, ...] = WATCHED
    """Paths in the workspace that stay as they are where they exist; one that is created is removed afterwards."""
    hidden: tuple[str, ...] = ()
    """Paths that stay out of sight even where a folder above them is visible."""
    aside: str | None = None
    """Where to keep what protected paths had become before they were put back; None makes a new folder for it."""
    environment: Mapping[str, str] = {}
    """All that the command finds in its environment; PATH, HOME, TMPDIR and LANG are added where they are missing."""
    limits: BoxLimits = BoxLimits()
    home: str | None = None
    """A folder that the command gets as its own home, and may change; None gives an empty one that is gone later."""
    cwd: str | None = None
    """Where the command starts; None is the workspace."""


class Launch:
    """What to hand to `asyncio.create_subprocess_exec` or `subprocess.Popen`, once.

    Start it with exactly `argv`, `env=launch.environment`, `pass_fds=launch.pass_fds` and `cwd=launch.cwd`, in a group
    of its own (`start_new_session=True`), and from a thread that outlives it: where that thread ends, the command
    ends. Call `started()` once it runs, and `finish()` once it and everything it started are gone.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        cwd: str,
        pass_fds: tuple[int, ...] = (),
        endings: tuple[Callable[[], tuple[str, ...]], ...] = (),
    ) -> None:
        self.argv = argv
        self.environment = dict(environment)
        self.cwd = cwd
        self.pass_fds = pass_fds
        self._open = list(pass_fds)
        self._endings = list(endings)

    def started(self) -> None:
        """Close what only the new process needed."""
        while self._open:
            with contextlib.suppress(OSError):
                os.close(self._open.pop())

    def finish(self) -> tuple[str, ...]:
        """Clear everything away. Gives the protected paths that had changed meanwhile, each with what became of it."""
        self.started()
        put_back: list[str] = []
        with contextlib.ExitStack() as stack:
            # One that fails keeps none of the others from being done.
            while self._endings:
                stack.callback(_collect, self._endings.pop(0), put_back)
        return tuple(put_back)

    def __enter__(self) -> Launch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


def _collect(ending: Callable[[], tuple[str, ...]], into: list[str]) -> None:
    into.extend(ending())


def check_box(box: Box) -> Box:
    """The box with real, absolute paths; raises ConfigError where one makes no sense."""
    workspace = _real_folder("workspace", box.workspace)
    if workspace == "/":
        raise ConfigError(
            "the workspace of a box cannot be the whole file system", hint="choose the folder of the project"
        )
    cwd = workspace if box.cwd is None else os.path.realpath(os.path.join(workspace, box.cwd))
    home = None if box.home is None else _real_folder("home", box.home)
    for name, value in box.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"the environment of a box cannot hold a variable called {name!r}")
    for path in box.protected + box.watched:
        if os.path.isabs(path) or ".." in path.split("/"):
            raise ConfigError(
                f"protected path {path!r}: it has to lie in the workspace", hint="write it relative to it"
            )
    return Box(
        workspace=workspace,
        writable=tuple(map(os.path.realpath, box.writable)),
        readable=tuple(map(os.path.realpath, box.readable)),
        network=box.network,
        protected=box.protected,
        watched=box.watched,
        aside=box.aside,
        hidden=tuple(map(os.path.realpath, box.hidden)),
        environment=box.environment,
        limits=box.limits,
        home=home,
        cwd=cwd,
    )


def _real_folder(what: str, path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise ConfigError(f"the {what} of a box has to be a folder: {path}", hint="create it first")
    return real


def full_environment(box: Box, *, home: str, temporary: str) -> dict[str, str]:
    """What the command finds in its environment."""
    return {"PATH": SEARCH_PATH, "HOME": home, "TMPDIR": temporary, "LANG": "C.UTF-8"} | dict(box.environment)


def in_memory(name: str, content: bytes) -> int:
    """A descriptor to read `content` from, which no other process can see."""
    descriptor = os.memfd_create(f"dragoman-{name}", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
