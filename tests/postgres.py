"""A real Postgres server for tests, started from the machine's programs as an ordinary user, in its own folder."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

_NAMES = itertools.count(1)
_OPTIONS = {
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


def find_programs() -> Path:
    """Return the folder of `initdb` and `postgres`. Debian does not put them on the search path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        pytest.skip("Postgres is not installed (package postgresql): run scripts/system-parts")
    return folders[-1].parent


class PostgresServer:
    """A server that a test may stop and kill. Everything of it is in one temporary folder."""

    def __init__(self, fsync: str = "off") -> None:
        # The system keeps what a killed server wrote, so tests need not wait for the disk.
        self._fsync = fsync
        self._programs = find_programs()
        self._user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._folder = Path(tempfile.mkdtemp(prefix="dragoman-postgres-"))
        self.port = _free_port()
        if os.geteuid() == 0:
            # The server refuses to run as root.
            shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8")
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url(self, database: str) -> str:
        return f"postgres://tester@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its address."""
        name = f"t{next(_NAMES)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def start(self) -> None:
        settings = {
            **_OPTIONS,
            "fsync": self._fsync,
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-s", "-w", "-D", str(self._data), "-l", log, "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server. The mode `immediate` is a crash: nothing is written any more."""
        self._run("pg_ctl", "stop", "-s", "-w", "-D", str(self._data), "-m", mode)

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self._folder)

    def _run(self, program: str, *words: str) -> None:
        as_user: dict[str, Any] = (
            {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid} if os.geteuid() == 0 else {}
        )
        subprocess.run(
            [str(self._programs / program), *words],
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            # A server that inherits a blocked or ignored signal does not stop.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),
            env={"PATH": os.defpath, "LC_ALL": "C"},
            **as_user,
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A Postgres server for all tests of this process. Each test makes its own database."""
    server = PostgresServer()
    yield server
    server.remove()
