"""The command line as a whole: help, version, colours, interrupts, closed pipes, a plain install."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman as package
from dragoman.cli.screen import report_error
from dragoman.errors import ConfigError, ConnectFailed
from dragoman.journal.journal import JournalFailed, JournalUnreachable

COMMAND = [sys.executable, "-m", "dragoman"]


def test_help_teaches_with_examples(dragoman) -> None:
    done = dragoman("--help")
    assert done.code == 0
    for line in ("dragoman parse reply.txt", "dragoman formats hermes", "demo       Run a demonstration"):
        assert line in done.out
    assert dragoman().out == done.out


@pytest.mark.parametrize(
    "command", ["chat", "config", "convert", "demo", "formats", "parse", "providers", "run", "sessions"]
)
def test_every_command_explains_itself(dragoman, command: str) -> None:
    done = dragoman(command, "-h")
    assert done.code == 0
    assert done.out.startswith(f"Usage: dragoman {command}")


def test_version(dragoman) -> None:
    assert dragoman("--version").out == f"dragoman {package.__version__}\n"


def test_an_unknown_command_is_one_line_and_a_hint(dragoman) -> None:
    done = dragoman("prase")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no such command 'prase'")
    assert done.err.splitlines()[-1].startswith("hint: ")


def test_the_module_and_the_script_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("dragoman")
    for command in (COMMAND, [str(script)]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"dragoman {package.__version__}\n"


def test_a_plain_install_says_how_to_get_the_commands(tmp_path: Path) -> None:
    # A typer that cannot be imported stands in for one that is not installed.
    (tmp_path / "typer.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')", encoding="utf-8"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for command, extras in (("formats", "cli"), ("serve", "cli,server"), ("demo", "cli,local")):
        done = subprocess.run([*COMMAND, command], capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f'that are not installed\nhint: pip install "dragoman[{extras}]"\n')
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, f"dragoman {package.__version__}\n")


@pytest.mark.parametrize("command", ["formats", "demo --replies"])
def test_a_closed_pipe_ends_quietly(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([*COMMAND, *command.split()], stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


INTERRUPTED_WHILE_READING = """
import io, os, signal, sys

class Keyboard(io.BytesIO):
    def read(self, size=-1):
        os.kill(os.getpid(), signal.SIGINT)

# Whoever runs the tests in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.stdin = io.TextIOWrapper(Keyboard())
sys.argv = ["dragoman", "parse", "-"]
from dragoman.__main__ import main
sys.exit(main())
"""


def test_an_interrupt_ends_quietly_with_130() -> None:
    command = [sys.executable, "-c", INTERRUPTED_WHILE_READING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def output_on_a_terminal(environment: dict[str, str]) -> bytes:
    parent, child = pty.openpty()
    process = subprocess.Popen([*COMMAND, "formats", "hermes"], stdout=child, stdin=child, env=environment)
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:  # how Linux tells that the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    assert process.wait() == 0
    return seen


def test_colours_only_on_a_terminal_and_never_with_no_color() -> None:
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")}
    plain["TERM"] = "xterm-256color"
    green = b"\x1b[1;32m"
    assert green in output_on_a_terminal(plain)
    assert green not in output_on_a_terminal(plain | {"NO_COLOR": "1"})
    piped = subprocess.run([*COMMAND, "formats", "hermes"], capture_output=True, env=plain, check=True)
    assert b"\x1b" not in piped.stdout


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectFailed("no server answers"), 4),
        (JournalUnreachable("the database is away"), 4),
        (ConfigError("no such option"), 2),
        (JournalFailed("the disk is full"), 1),
    ],
)
def test_the_exit_code_of_an_error_that_ends_a_run(error: Exception, code: int) -> None:
    assert report_error(error, {}) == code
