"""Every command where something around it is missing: a stream is closed, a disk is full, the folder was deleted.

A new process for each case would take a minute. One process loads the commands, and forks for each
case. The child gets its streams as Python itself makes them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.cli.commands import Desk

from dragoman.cli.app import COMMANDS

# The shortest useful form of each command, and its exit code where nothing is missing.
WORDS: dict[str, tuple[tuple[str, ...], int]] = {
    "approvals": (("approvals", "list"), 0),
    "audit": (("audit", "verify"), 2),
    "batch": (("batch", "--help"), 0),
    "cancel": (("cancel", "run-x"), 2),
    "chat": (("chat", "-m", "llamacpp:m", "--base-url", "http://127.0.0.1:1", "-o", "max_tokens=5"), 0),
    "config": (("config", "show"), 0),
    "convert": (("convert", "--from", "openai", "--to", "gemini", "-"), 2),
    "demo": (("demo", "--help"), 0),
    "doctor": (("doctor", "no_such:model"), 2),
    "formats": (("formats", "hermes"), 0),
    "keys": (("keys",), 0),
    "launch": (("launch", "--help"), 0),
    "logs": (("logs", "run-x"), 2),
    "model": (("model", "list"), 0),
    "models": (("models", "http://127.0.0.1:1"), 2),
    "parse": (("parse", "-"), 0),
    "providers": (("providers", "groq"), 0),
    "run": (("run", "hi", "-m", "openai:gpt-5"), 2),
    "prompts": (("prompts",), 0),
    "scrub": (("scrub",), 0),
    "serve": (("serve", "--help"), 0),
    "sessions": (("sessions", "list"), 0),
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
PLACES = ("none", "full stdout", "no folder")
"""What is missing. What concerns one stream is tried with a few commands, below."""
ALONE = [
    ("parse", "no stdin"),
    ("run", "no stdout"),
    ("run", "no stderr"),
    ("run", "full stderr"),
    ("audit", "full stderr"),
]
SILENT = {
    "audit",
    "cancel",
    "chat",
    "convert",
    "doctor",
    "logs",
    "models",
    "run",
    "scrub",
    "status",
    "submit",
    "worker",
}
"""They print nothing on standard output here."""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_no_command_shows_a_traceback_or_changes_its_exit_code(tmp_path: Path) -> None:
    assert {row.name for row in COMMANDS} <= WORDS.keys()
    desk = Desk(tmp_path)
    cases = [*((name, place) for name in WORDS for place in PLACES), *ALONE]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=tmp_path,
        env=desk.environment,
        input=msgspec.json.encode([(WORDS[name][0], place) for name, place in cases]),
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    results = dict(zip(cases, msgspec.json.decode(done.stdout), strict=True))
    wrong = []
    for (name, place), (code, out, err) in results.items():
        expected = WORDS[name][1]
        if place == "full stdout" and name not in SILENT:
            expected = 1
            is_right = "cannot write the output: No space left on device" in err and "hint: " in err
        elif place == "no folder" and name in NEEDS_FOLDER:
            expected = 2
            is_right = "the current folder does not exist any more" in err and "hint: " in err
        else:
            is_right = place not in ("no folder", "no stdin") or bool(out) != (name in SILENT)
        if code != expected or not is_right or "Traceback" in err or "this is a bug" in err:
            wrong.append((name, place, code, out[-200:], err[-400:]))
    assert not wrong, "\n".join(map(str, wrong))
