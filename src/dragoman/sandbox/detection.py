"""Detection of the sandbox that works on this machine, and a probe that tries to break out of it."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.own_code import find_interpreter, read_script, script_command
from dragoman.sandbox.boxes import Box, BoxLimits, Launch, NoSandbox, Sandbox, Tier, User, find_user
from dragoman.sandbox.protection import closing
from dragoman.types import SandboxName

# --------------------------------------------------------------------------------------------------------------------
# A probe that tries to break out of a sandbox, and reports which attempts were stopped.
#
# If the attacker reports success, the attempt counts as successful. If it reports a failure, the probe also checks the
# effects outside the box: whether a file exists, a listener received data, or the attacked process still lives.

_MEMORY = 1024 * 1024 * 1024
_FILE = 16 * 1024 * 1024
_LIMITS = BoxLimits(cpu_seconds=60, memory_bytes=_MEMORY, file_bytes=_FILE, processes=48)
_TIMEOUT = 60.0
_ATTEMPTS = read_script(__name__, "attempts.py")
_DAEMON_LIVES = 20
_DAEMON_MAY_DIE_IN = 3.0
_VICTIM = "import sys; sys.stdin.buffer.read()"
_ORDINARY = {"PATH", "HOME", "TMPDIR", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}

NOT_REQUIRED = frozenset({"change_mode_outside", "start_many_processes", "type_into_terminal"})
"""Attempts that `holds` ignores: they use resources or change a mode, but read, write and send no data."""


class Attempt(Struct, frozen=True):
    """One attempt to break out."""

    name: str
    stopped: bool
    how: str
    """What stopped it, or the evidence that nothing did."""

    @property
    def required(self) -> bool:
        """Whether a sandbox that does not prevent this attempt is refused."""
        return self.name not in NOT_REQUIRED


class ProbeReport(Struct, frozen=True):
    """The results of all attempts."""

    tier: Tier
    user: int
    attempts: tuple[Attempt, ...]

    @property
    def holds(self) -> bool:
        """Whether the sandbox stopped all attempts that matter for the mode `sandboxed`."""
        return bool(self.attempts) and all(each.stopped for each in self.attempts if each.required)

    @property
    def escaped(self) -> tuple[str, ...]:
        """The names of the attempts that the sandbox did not stop."""
        return tuple(each.name for each in self.attempts if not each.stopped)


class _ProbeSetup:
    """The environment of the probe: a workspace, files outside it, listeners, and a process to attack."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self.secret = secrets.token_hex(16)
        self.workspace, self.outside = self._folder("workspace"), self._folder("outside")
        self.home, self.aside = self._folder("home"), self._folder("aside")
        self._file(f"{self.outside}/target", "target")
        self._folder("home/.ssh")
        self._file(f"{self.home}/.ssh/id_canary", self.secret)
        self._folder("workspace/.git/hooks")
        self._file(f"{self.workspace}/.git/hooks/pre-push", "hook", 0o700)
        self._file(f"{self.workspace}/.git/config", "[core]\n")
        self._file(f"{self.workspace}/dragoman.toml", "")
        os.symlink("../outside", f"{self.workspace}/link")
        self._file(f"{self.workspace}/attempts.py", _ATTEMPTS)
        self._close = contextlib.ExitStack()
        self._listen()
        self._start_victim()

    def __enter__(self) -> _ProbeSetup:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def _folder(self, name: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def _file(self, path: str, text: str, mode: int = 0o600) -> None:
        Path(path).write_text(text, encoding="utf-8")
        os.chmod(path, mode)

    def _listen(self) -> None:
        self.abstract = f"dragoman-probe-{self.secret[:8]}"
        self.listeners = {
            "connect_tcp": self._socket(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "send_udp": self._socket(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "connect_unix": self._socket(socket.AF_UNIX, socket.SOCK_STREAM, f"{self.folder}/s"),
            "connect_in_workspace": self._socket(socket.AF_UNIX, socket.SOCK_STREAM, f"{self.workspace}/socket"),
            "connect_abstract": self._socket(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.abstract}"),
        }

    def _socket(self, family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
        made = self._close.enter_context(socket.socket(family, kind))
        made.bind(address)
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def _start_victim(self) -> None:
        with open(f"{self.home}/.ssh/id_canary", "rb") as file:
            self.victim_file = file.fileno()
            self.victim = subprocess.Popen(
                [*script_command(_VICTIM, self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"CANARY": self.secret},
                pass_fds=(self.victim_file,),
            )
        self._close.callback(self.victim.communicate)
        self._close.callback(self.victim.kill)

    def write_plan(self) -> None:
        """Write the plan of the attacker, which it reads in the box. Its secret is made up for this probe."""
        plan = {
            "outside": self.outside,
            "home": self.home,
            "secret": self.secret,
            "names": sorted(set(os.environ) - _ORDINARY),
            "victim": self.victim.pid,
            "victim_file": self.victim_file,
            "tcp": self.listeners["connect_tcp"].getsockname()[1],
            "udp": self.listeners["send_udp"].getsockname()[1],
            "unix": f"{self.folder}/s",
            "abstract": self.abstract,
            "ipc": _ipc_namespace(),
            "memory": 4 * _MEMORY,
            "file": 4 * _FILE,
            "processes": 200,
            "patience": _DAEMON_LIVES,
        }
        self._file(f"{self.workspace}/plan.json", msgspec.json.encode(plan).decode())

    # ---- effects outside the box ----

    def heard(self, name: str) -> bool:
        with contextlib.suppress(BlockingIOError):
            if name == "send_udp":
                return bool(self.listeners[name].recv(64))
            self.listeners[name].accept()[0].close()
            return True
        return False

    def is_there(self, relative: str) -> bool:
        return os.path.lexists(os.path.join(self.folder, relative))

    def differs(self, relative: str, text: str) -> bool:
        try:
            return Path(self.folder, relative).read_text(encoding="utf-8") != text
        except OSError:
            return True

    def lives_on(self, tier: Tier) -> bool:
        """Whether the daemon still holds its lock some time after the end of the command."""
        import fcntl

        try:
            descriptor = os.open(f"{self.workspace}/alive", os.O_RDWR)
        except FileNotFoundError:
            return False
        with closing(descriptor):
            until = time.monotonic() + _DAEMON_MAY_DIE_IN
            while time.monotonic() < until:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.01)
                    if tier == "none":
                        break
                else:
                    return False
            if tier == "none":
                # Without a box, its process id is valid here. In a box, the number would mean another process.
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(os.read(descriptor, 20)), signal.SIGKILL)
            return True


def _ipc_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/ipc")
    except OSError:
        return ""


def probe(sandbox: Sandbox) -> ProbeReport:
    """Try to break out of this sandbox in every known way. This takes less than a second on most machines."""
    if not sys.platform.startswith("linux"):
        raise SandboxMissing(f"there is no sandbox for {sys.platform}, so there is nothing to test", hint=_ELSEWHERE)
    from dragoman.sandbox.attempts import ATTEMPTS

    made = tempfile.TemporaryDirectory(prefix="dragoman-probe-", ignore_cleanup_errors=True)
    with made as folder, _ProbeSetup(folder) as setup:
        setup.write_plan()
        claims, failure = _attack(sandbox, setup)
        attempts = tuple(_judge(name, claims, failure, setup, sandbox.tier) for name in ATTEMPTS)
    return ProbeReport(tier=sandbox.tier, user=os.getuid(), attempts=attempts)


@functools.cache
def proof(sandbox: Sandbox) -> ProbeReport:
    """Return the report of this sandbox. The probe runs once per process. The mode `sandboxed` uses the report."""
    return probe(sandbox)


def _attack(sandbox: Sandbox, setup: _ProbeSetup) -> tuple[dict[str, str], str]:
    """Return the claim of the attacker for each attempt, "" for success, and the reason if it ended early."""
    python = find_interpreter(setup.folder)
    readable = tuple({os.path.realpath(sys.base_prefix), os.path.realpath(sys.base_exec_prefix)})
    box = Box(workspace=setup.workspace, readable=readable, limits=_LIMITS, aside=setup.aside)
    ran = sandbox.run([python, "-I", "-S", "attempts.py", "plan.json"], box, timeout=_TIMEOUT)
    claims = dict(msgspec.json.decode(line, type=tuple[str, str]) for line in ran.output.splitlines())
    said = ran.errors.decode(errors="replace").strip().splitlines()
    return claims, said[-1] if said else f"the attacker ended with {ran.code}"


def _judge(name: str, claims: dict[str, str], failure: str, setup: _ProbeSetup, tier: Tier) -> Attempt:
    seen = _EVIDENCE.get(name)
    shown = seen(setup, tier) if seen is not None else False
    if name not in claims:
        # An attempt that did not run does not count as stopped.
        return Attempt(name, False, f"was not tried: {failure}")
    if shown:
        return Attempt(name, False, "its effect can be seen outside")
    stopped = claims[name] or ("" if tier == "none" and name != "send_udp" else _WITHOUT_EFFECT.get(name, ""))
    return Attempt(name, bool(stopped), stopped or "nothing stopped it")


_UNDONE = "change_hook create_hook change_config create_startup_file create_watched_file move_protected"
_WITHOUT_EFFECT = {
    **dict.fromkeys(_UNDONE.split(), "undone when the command had ended"),
    "send_udp": "sent, but nothing outside received it",
    "outlive": "ended with the command",
}
"""Attempts that can seem to succeed in the box, and the reason why they had no effect."""
_EVIDENCE: dict[str, Callable[[_ProbeSetup, Tier], bool]] = {
    "write_outside": lambda setup, _: setup.is_there("outside/planted"),
    "follow_link_out": lambda setup, _: setup.is_there("outside/through_link"),
    "link_file_in": lambda setup, _: setup.is_there("workspace/linked"),
    "change_mode_outside": lambda setup, _: os.stat(f"{setup.outside}/target").st_mode & 0o777 != 0o600,
    "connect_tcp": lambda setup, _: setup.heard("connect_tcp"),
    "send_udp": lambda setup, _: setup.heard("send_udp"),
    "connect_unix": lambda setup, _: setup.heard("connect_unix"),
    "connect_in_workspace": lambda setup, _: setup.heard("connect_in_workspace"),
    "connect_abstract": lambda setup, _: setup.heard("connect_abstract"),
    "change_hook": lambda setup, _: setup.differs("workspace/.git/hooks/pre-push", "hook"),
    "create_hook": lambda setup, _: setup.is_there("workspace/.git/hooks/pre-commit"),
    "change_config": lambda setup, _: setup.differs("workspace/dragoman.toml", ""),
    "create_startup_file": lambda setup, _: setup.is_there("workspace/.bashrc"),
    "create_watched_file": lambda setup, _: setup.is_there("workspace/.vscode"),
    "move_protected": lambda setup, _: setup.is_there("workspace/.git/hooks/pre-rebase"),
    "kill_process": lambda setup, _: setup.victim.poll() is not None,
    "outlive": lambda setup, tier: setup.lives_on(tier),
}


# --------------------------------------------------------------------------------------------------------------------
# Detection of a working sandbox. dragoman runs a command in it.


_ELSEWHERE = "to confine commands, run dragoman on Linux, in a container or in WSL; here they need an approval"


class SandboxMissing(DragomanError):
    """The requested sandbox does not work on this machine."""

    hint = "on Debian or Ubuntu: apt-get install bubblewrap"


def find_sandbox(wanted: SandboxName = "auto", workspace: str | None = None) -> Sandbox:
    """Return the requested sandbox, or the best one that works. The result is cached for this process.

    It starts no program inside the workspace (by default, the current folder). "auto" falls back to no confinement, so
    check `sandbox.confines`. Raises SandboxMissing if the named kind does not work.
    """
    if wanted not in get_args(SandboxName):
        raise SandboxMissing(f"unknown sandbox {wanted!r}", hint=f"choose one of {', '.join(get_args(SandboxName))}")
    found, reasons = (None, ()) if wanted == "none" else _look(wanted, _top(workspace))
    if found is None and wanted not in ("auto", "none"):
        hint = None if sys.platform.startswith("linux") else _ELSEWHERE
        raise SandboxMissing(f"the sandbox {wanted!r} does not work here: {'; '.join(reasons)}", hint=hint)
    return found or NoSandbox()


class AutoSandbox(Sandbox):
    """The best sandbox that works, detected on first use.

    The detection runs a command. A caller that runs no command does not have to wait for it.
    """

    @property
    def tier(self) -> Tier:
        return find_sandbox().tier

    def check(self, box: Box) -> Box:
        return find_sandbox(workspace=box.workspace).check(box)

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        return find_sandbox(workspace=box.workspace).launch(argv, box)


def why_not(wanted: SandboxName, workspace: str | None = None) -> tuple[str, ...]:
    """Return a reason for each kind of sandbox that does not work here and that `find_sandbox` would prefer."""
    return () if wanted == "none" else _look(wanted, _top(workspace))[1]


def _top(workspace: str | None) -> str:
    return os.path.realpath(workspace or os.getcwd())


@functools.cache
def _look(wanted: str, workspace: str) -> tuple[Sandbox | None, tuple[str, ...]]:
    if not sys.platform.startswith("linux"):
        return None, (f"there is none for {sys.platform}",)
    reasons: list[str] = []
    for kind in ("bubblewrap", "landlock") if wanted == "auto" else (wanted,):
        try:
            return _working(kind, workspace), tuple(reasons)
        except SandboxMissing as error:
            reasons.append(f"{kind}: {error}")
    return None, tuple(reasons)


def _working(kind: str, workspace: str) -> Sandbox:
    """Return the sandbox of this kind. Raises SandboxMissing if no command runs in it."""
    if kind == "bubblewrap":
        from dragoman.sandbox.bubblewrap import BubblewrapSandbox, find_bubblewrap

        program = find_bubblewrap(workspace)
        if program is None:
            raise SandboxMissing("bwrap is not installed")
        sandbox = _create(BubblewrapSandbox, program)
    else:
        from dragoman.sandbox.landlock import LandlockSandbox, why_no_landlock

        reason = why_no_landlock()
        if reason:
            raise SandboxMissing(reason)
        sandbox = _create(LandlockSandbox)
    _try(sandbox, find_user(workspace) if os.path.isdir(workspace) else None)
    return sandbox


@functools.cache
def _create(kind: type[Sandbox], *arguments: str) -> Sandbox:
    return kind(*arguments)


@functools.cache
def _try(sandbox: Sandbox, user: User | None) -> None:
    """Run a command, as the user that commands in the workspace run as: the kernel may forbid it to some users."""
    try:
        with tempfile.TemporaryDirectory(prefix="dragoman-sandbox-") as folder:
            if user is not None:
                os.chown(folder, user.uid, user.gid)
            ran = sandbox.run(["true"], Box(workspace=folder), timeout=20)
    except OSError as error:
        raise SandboxMissing(f"it does not start: {error}") from error
    if ran.code != 0:
        said = ran.errors.decode(errors="replace").strip().splitlines()
        raise SandboxMissing(said[-1][:300] if said else f"it ended with {ran.code}")
