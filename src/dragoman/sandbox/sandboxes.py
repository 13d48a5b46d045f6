"""What every kind of sandbox can do, and the kind that is none."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from dragoman.sandbox.boxes import Box, Launch, check_box, full_environment
from dragoman.sandbox.cgroups import bound_processes
from dragoman.sandbox.shell_limits import limit

Tier = Literal["bubblewrap", "landlock", "none"]


class Finished(Struct, frozen=True):
    """How a command ended."""

    code: int
    """What it ended with; 128 and more says by which signal, as shells do."""
    output: bytes
    errors: bytes
    put_back: tuple[str, ...] = ()
    """Protected paths that had changed, each with what became of it."""
    timed_out: bool = False


class Sandbox:
    """A way to run commands so that they can do no more than a box allows."""

    tier: ClassVar[Tier]

    @property
    def confines(self) -> bool:
        """Whether commands are confined at all."""
        return self.tier != "none"

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """What to start in order to run `argv` in this box. Nothing is started here."""
        raise TypeError(f"{type(self).__name__} cannot launch anything")

    def run(self, argv: Sequence[str], box: Box, *, timeout: float | None = None) -> Finished:
        """Run `argv` in a box and wait for its end. All of its output is kept in memory."""
        launch = self.launch(argv, box)
        try:
            process = subprocess.Popen(
                launch.argv,
                env=launch.environment,
                pass_fds=launch.pass_fds,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            launch.started()
            output, errors, timed_out = _wait(process, timeout)
        finally:
            put_back = launch.finish()
        return Finished(process.returncode, output, errors, put_back, timed_out)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tier}>"


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[bytes, bytes, bool]:
    try:
        return *process.communicate(timeout=timeout), False
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return output, errors, True


class NoSandbox(Sandbox):
    """No confinement: only the environment is the box's own, and the limits hold."""

    tier = "none"

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        box = check_box(box)
        environment = full_environment(box, home=box.home or os.path.expanduser("~"), temporary=tempfile.gettempdir())
        return Launch(limit(argv, box.limits), environment, cwd=box.cwd or box.workspace)


def bounded_launch(
    argv: tuple[str, ...],
    processes: int | None,
    *,
    descriptors: list[int],
    endings: tuple[Callable[[], tuple[str, ...]], ...],
) -> Launch:
    """A launch with an empty environment of its own, in a group that bounds its processes where that is needed."""
    bound = bound_processes(processes)
    if bound is not None:
        argv, endings = bound.join(argv), (bound.remove, *endings)
    return Launch(argv, {}, cwd="/", pass_fds=tuple(descriptors), endings=endings)
