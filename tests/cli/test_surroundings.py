"""Every command where something around it is missing: a stream is closed, a disk is full, the folder was deleted.

A new process for each case would take a minute. One process loads the commands, and forks for each
case. The child gets its streams as Python itself makes them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.commands import Desk

from dragoman.cli.app import COMMANDS

# The shortest useful form of each command, and its exit code where nothing is missing.
WORDS: dict[str, tuple[tuple[str, ...], int]] = {
    "approvals": (("approvals",), 0),
    "approvals list": (("approvals", "list"), 0),
    "approvals show": (("approvals", "show", "x"), 2),
    "approvals approve": (("approvals", "approve", "x"), 2),
    "approvals deny": (("approvals", "deny", "x"), 2),
    "approvals answer": (("approvals", "answer", "x", "y"), 2),
    "approvals keys": (("approvals", "keys", "--help"), 0),
    "approvals mcp": (("approvals", "mcp"), 0),
    "approvals serve": (("approvals", "serve", "--help"), 0),
    "audit": (("audit",), 0),
    "audit verify": (("audit", "verify"), 2),
    "audit show": (("audit", "show"), 2),
    "batch": (("batch", "--help"), 0),
    "cancel": (("cancel", "run-x"), 2),
    "chat": (("chat", "-m", "llamacpp:m", "--base-url", "http://127.0.0.1:1", "-o", "max_tokens=5"), 0),
    "config": (("config",), 0),
    "config show": (("config", "show"), 0),
    "config init": (("config", "init", "--help"), 0),
    "config path": (("config", "path"), 0),
    "convert": (("convert", "--from", "openai", "--to", "gemini", "-"), 2),
    "demo": (("demo", "--help"), 0),
    "doctor": (("doctor", "no_such:model"), 2),
    "formats": (("formats", "hermes"), 0),
    "keys": (("keys",), 0),
    "launch": (("launch", "--help"), 0),
    "logs": (("logs", "run-x"), 2),
    "mcp": (("mcp",), 0),
    "mcp add": (("mcp", "add", "x"), 2),
    "mcp list": (("mcp", "list"), 0),
    "mcp login": (("mcp", "login", "x"), 2),
    "mcp logout": (("mcp", "logout", "x"), 2),
    "mcp remove": (("mcp", "remove", "x"), 2),
    "mcp test": (("mcp", "test", "x"), 2),
    "local": (("local",), 0),
    "local list": (("local", "list"), 0),
    "local add": (("local", "add", "no/such.gguf"), 2),
    "local remove": (("local", "remove", "x"), 2),
    "local path": (("local", "path", "x"), 2),
    "models": (("models", "http://127.0.0.1:1"), 4),
    "parse": (("parse", "-"), 0),
    "providers": (("providers", "groq"), 0),
    "run": (("run", "hi", "-m", "openai:gpt-5"), 2),
    "run -a": (("run", "hi", "-m", "openai:gpt-5", "-a", "none.png"), 2),
    "prompts": (("prompts",), 0),
    "scrub": (("scrub",), 0),
    "serve": (("serve", "--help"), 0),
    "serve keys": (("serve", "keys", "--help"), 0),
    "sessions": (("sessions",), 0),
    "sessions list": (("sessions", "list"), 0),
    "sessions search": (("sessions", "search", "x"), 1),
    "sessions show": (("sessions", "show", "x"), 2),
    "sessions fork": (("sessions", "fork", "x", "y"), 2),
    "sessions export": (("sessions", "export", "x"), 2),
    "sessions delete": (("sessions", "delete", "x"), 2),
    "status": (("status",), 2),
    "submit": (("submit", "clerk", "hi"), 2),
    "worker": (("worker", "clerk"), 2),
    "--help": (("--help",), 0),
    "--version": (("--version",), 0),
}
NEEDS_FOLDER = {"chat", "run"}
DRIVER = """
import gc, io, json, os, sys
from importlib import import_module
from dragoman.cli.app import COMMANDS
import dragoman.__main__ as entry
import rich.console, rich.text, typer.main, dragoman.config, dragoman.agent, dragoman.cli.context, dragoman.cli.runner
for row in COMMANDS:
    import_module(row.module)
dragoman.config.load().registry()
gc.collect(); gc.freeze()

def streams(place):
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if place in ("no " + name, "none"):
            os.close(number)
            stream = None
        else:
            if place == "full " + name:
                os.dup2(os.open("/dev/full", os.O_WRONLY), number)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)

def child(words, place):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if place == "no folder":
        os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
    if place == "narrow":
        os.environ.update(COLUMNS="40", NO_COLOR="1", TTY_COMPATIBLE="1")
    streams(place)
    sys.argv = ["dragoman", *words]
    code = 99
    try:
        code = entry.main()
    except BaseException as error:
        os.write(2, ("Traceback " + repr(error)).encode())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException as error:
            os.write(2, ("Traceback at exit " + repr(error)).encode())
            code = 120
    os._exit(code)

results = []
for words, place in json.load(sys.stdin):
    pid = os.fork()
    if pid == 0:
        child(words, place)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    results.append([code, open("out", errors="replace").read(), open("err", errors="replace").read()])
print(json.dumps(results))
"""
USUAL = ("none", "full stdout", "no folder", "narrow")
STREAMS = ("no stdin", "no stdout", "no stderr", "full stderr")
SILENT = {"chat", "convert", "doctor", "models", "run", "scrub"}
"""They print nothing on standard output here, as all commands that fail."""
COLUMNS = 40
_without_styles = re.compile(r"\x1b\[[0-9;]*m").sub


def run_all(tmp_path: Path, cases: list[tuple[str, str]]) -> dict[tuple[str, str], list[Any]]:
    desk = Desk(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=tmp_path,
        env=desk.environment,
        input=msgspec.json.encode([(WORDS[name][0], place) for name, place in cases]),
        capture_output=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr.decode()
    return dict(zip(cases, msgspec.json.decode(done.stdout), strict=True))


def find_fault(name: str, place: str, code: int, out: str, err: str) -> str:
    """What is wrong with how a command ended; nothing if it is right."""
    expected, is_silent = WORDS[name][1], name in SILENT or WORDS[name][1] == 2
    if place == "full stdout" and not is_silent:
        expected = 1
        if "cannot write the output: No space left on device" not in err or "hint: " not in err:
            return "the full disk is not told"
    elif place == "no folder" and name in NEEDS_FOLDER:
        expected = 2
        if "the current folder does not exist any more" not in err or "hint: " not in err:
            return "the deleted folder is not told"
    elif place in ("no folder", "no stdin", "narrow") and bool(out) == is_silent:
        return "the output is missing, or there should be none"
    if code != expected:
        return f"the exit code is not {expected}"
    if "Traceback" in err or "this is a bug" in err:
        return "a traceback"
    if expected and err and (err.count("error: ") != 1 or "hint: " not in err):
        return "not one line and a hint"
    if place == "narrow" and ("\x1b[3" in out or "\x1b[9" in out):
        return "a colour"
    too_long = [line for line in _without_styles("", out).splitlines() if len(line) > COLUMNS and _could_break(line)]
    return f"too wide: {too_long[0]!r}" if place == "narrow" and too_long else ""


def _could_break(line: str) -> bool:
    """Whether a line could be shorter: examples, names of options and long words are not broken."""
    if line.startswith("    ") or line.lstrip().startswith(("dragoman ", "-", "Usage:")):
        return False
    return any(len(word) < COLUMNS // 2 for word in line.split()[1:])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    "places", [USUAL, pytest.param((*USUAL, *STREAMS), marks=pytest.mark.full)], ids=["usual", "all"]
)
def test_no_command_shows_a_traceback_or_changes_its_exit_code(tmp_path: Path, places: tuple[str, ...]) -> None:
    names = {row.name for row in COMMANDS}
    for row in COMMANDS:
        names |= {f"{row.name} {inner}" for inner in getattr(row.load(), "commands", {})}
    assert names <= WORDS.keys(), names - WORDS.keys()
    cases = [(name, place) for name in WORDS for place in places]
    if places is USUAL:
        # What has no code for each command is tried with a few of them; all of them meet it among the long tests.
        few = {"parse", "run", "audit verify", "chat", "config show"}
        cases = [(name, place) for name, place in cases if place in ("full stdout", "no folder") or " " not in name]
        cases += [(name, place) for name in few for place in STREAMS]
    results = run_all(tmp_path, cases)
    wrong = [
        (fault, *case, code, out[-200:], err[-400:])
        for case, (code, out, err) in results.items()
        if (fault := find_fault(*case, code, out, err))
    ]
    assert not wrong, "\n".join(map(str, wrong))
