"""Throw-away environments for peers: virtual environments and npm folders below one folder that is removed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from tests.peers.report import Unavailable

INSTALL_SECONDS = 900.0
START_SECONDS = 400.0
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


class Environments:
    """Installs peers below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def python(self, name: str, *packages: str, without: Sequence[str] = ()) -> Path:
        """Return the `bin` folder of a virtual environment with these packages, and without some of their own."""
        place = self.folder / name
        if not (place / ".ready").exists():
            _run([sys.executable, "-m", "venv", str(place)], "cannot create a virtual environment")
            pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
            _run([*pip, "install", "--quiet", "--only-binary=:all:", *packages], "does not install")
            if without:
                _run([*pip, "uninstall", "--quiet", "--yes", *without], "cannot remove packages")
            (place / ".ready").touch()
        return place / "bin"

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
