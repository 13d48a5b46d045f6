"""Environments for programs that others wrote: virtual environments and npm folders below one folder.

They need other versions of packages that we also use, so they may not be installed beside us. The folder is a temporary
one, or the user's cache, where the next run finds them.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

INSTALL_SECONDS = 1200.0
START_SECONDS = 400.0
# An idle worker ends at once. One that works is ended.
CLOSE_SECONDS = 3.0
_PASSED_ON = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_FOR_INSTALLERS = (
    "PIP_",
    "NPM_CONFIG_",
    "npm_config_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
)


class Unavailable(Exception):
    """A peer cannot be used on this machine. The text is the reason."""


def cache_folder() -> Path:
    """The folder of environments that the next run uses again."""
    # `or`: an empty value means the same as none.
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dragoman" / "benchmarks"


class Environments:
    """Installs peers below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def python(self, name: str, *packages: str, without: Sequence[str] = (), alone: Sequence[str] = ()) -> Path:
        """Return the folder with the programs of a virtual environment that has these packages.

        `without` names packages that they bring and that do harm. `alone` are packages without what they ask for.
        """
        place = self.folder / name
        programs = place / ("Scripts" if os.name == "nt" else "bin")
        # Another list of packages, or an installation that was interrupted, makes the environment anew.
        stamp, wanted = place / ".ready", "\n".join([*packages, *alone, *(f"-{each}" for each in without)])
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            print(f"installing {', '.join((*packages[:2], *alone))} into {place}", file=sys.stderr, flush=True)
            _run([sys.executable, "-m", "venv", "--clear", str(place)], "cannot create a virtual environment")
            self.add(programs, *packages)
            if alone:
                self.add(programs, "--no-deps", *alone)
            if without:
                pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check"]
                _run([*pip, "uninstall", "--quiet", "--yes", *without], "cannot remove packages")
            stamp.write_text(wanted, encoding="utf-8")
        return programs

    def add(self, programs: Path, *arguments: str) -> None:
        """Install more into a virtual environment, with these arguments of pip."""
        pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", "--only-binary=:all:", *arguments], "does not install")

    def node(self, name: str, *packages: str) -> Path:
        """Return the folder with the programs of these npm packages."""
        place = self.folder / name
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise Unavailable("node and npm are not installed")
        if not (place / ".ready").exists():
            place.mkdir(exist_ok=True)
            npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", str(place)]
            _run([*npm, *packages], "does not install")
            (place / ".ready").touch()
        return place / "node_modules/.bin"


def _run(command: Sequence[str], what: str) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_FOR_INSTALLERS)
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what}: not done within {INSTALL_SECONDS:.0f} s") from None
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()]
        raise Unavailable(f"{what}: {(said or ['no reason given'])[-1].strip()[:200]}")


# ---- processes -------------------------------------------------------------------------------------------------------


class Worker:
    """A process that takes one JSON object a line and answers each with one, until it is closed.

    Its first line says what it is: the versions of its packages.
    """

    def __init__(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        # It lives as long as the process that writes to it, and goes with it in `close`.
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        self.versions: dict[str, Any] = {}
        try:
            self.versions = self._answer(START_SECONDS)
        except BaseException:
            self.close()
            raise

    def ask(self, limit: float | None = None, /, **job: object) -> dict[str, Any]:
        """Send a job and return the answer. Without one within `limit` seconds, the process ends: `Unavailable`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # The answer says why it ended.
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        return self._answer(limit)

    def _answer(self, limit: float | None) -> dict[str, Any]:
        assert self._process.stdout is not None
        if limit is not None and not select.select([self._process.stdout], [], [], limit)[0]:
            end(self._process)
            raise Unavailable(f"no answer within {limit:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise Unavailable(f"its process ended: {self._last_error()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_error(self) -> str:
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["without output"])[-1].strip()[:200]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        end(self._process)
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], log: Path, ready: str, environment: Mapping[str, str] = {}
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs until the end of the block. `ready` is a URL that answers as soon as it can be used."""
    basic = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env={**basic, "HOME": str(log.parent), **environment},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_ready(process, ready, log)
        yield process
    finally:
        end(process)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    opener = build_opener(ProxyHandler({}))
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            opener.open(url, timeout=5).close()
            return
        except URLError as error:
            if getattr(error, "code", None) is not None:
                return  # It answers, if only with an error.
        except OSError:
            pass
        time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"]
    raise Unavailable(f"it does not start: {said[-1].strip()[:200]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server and its children, which are in a session of their own."""
    for number, seconds in ((15, 10.0), (9, 10.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
