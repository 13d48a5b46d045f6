"""Faults 39 to 41: tools that leave processes behind, fill the disk, or change the state of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.runs import agent, wait

import dragoman
from dragoman.testing import call

POSIX = pytest.mark.skipif(os.name == "nt", reason="processes and devices of POSIX")


@POSIX
def test_39_a_daemon_that_keeps_the_output_of_a_tool_open_costs_the_call_and_not_the_run() -> None:
    reading, writing = os.pipe()

    @dragoman.tool(timeout=0.05)
    def start_server() -> str:
        """Start a server."""
        # The daemon inherits the writing end, so that reading never comes to an end.
        return os.read(reading, 1).decode()

    try:
        result = wait(agent([call("start_server"), "It did not come up."], start_server).arun("hi"))
    finally:
        os.close(writing)
        os.close(reading)
    assert result.outcome.kind == "answered"
    assert "did not answer within" in str(result.results[0].content)
    assert "tool_abandoned" in [problem.kind for problem in result.problems]


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device on this system")
def test_40_a_full_disk_is_an_error_of_the_tool() -> None:
    @dragoman.tool
    def save(text: str) -> str:
        """Save a text."""
        with open("/dev/full", "w", encoding="utf-8") as file:
            file.write(text)
        return "saved"

    result = wait(agent([call("save", text="hello"), "The disk is full."], save).arun("hi"))
    assert result.outcome.kind == "answered"
    assert result.results[0].is_error and "No space left" in str(result.results[0].content)


SCRIPT = """
import os, sys, tempfile
import dragoman
from dragoman.testing import ScriptedModel, call, scripted_endpoint

@dragoman.tool
def vandal() -> str:
    "Remove the working folder, and the output."
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    os.close(1)
    return "done"

report = os.dup(2)
model = ScriptedModel([call("vandal"), call("vandal"), "Still here."])
journal = os.path.join(sys.argv[1], "journal.db")
agent = dragoman.Agent(scripted_endpoint(), [vandal], connection=dragoman.Connection(transport=model), journal=journal)
result = agent.run("hi", session="s")
agent.close()
os.write(report, f"{result.outcome.kind} {result.text}".encode())
"""


@POSIX
def test_41_a_tool_that_leaves_no_folder_and_no_output_leaves_the_loop_and_the_journal_alone(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stderr.startswith("answered Still here."), done.stderr
