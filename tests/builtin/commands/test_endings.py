"""No process of a command is left after its end. Faults 36, 37, 39 and 41, and promise 4.

No test here waits for time to pass: a probe in the workspace tells when a process is there and when the last one is
gone, and the clock is put forward where a time has to be over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builtin.commands.process_probe import PATIENCE, ProcessProbe, ask, output_of, processes_with, run

from dragoman.builtin.commands import bash as bash_module
from dragoman.builtin.commands import processes
from dragoman.builtin.commands.bash import Bash, make_bash
from dragoman.tools import ToolContext
from dragoman.types import Tool

ROOT = Path(__file__).resolve().parents[3]
DAEMON = "(setsid nohup sleep 1000 9>probe &)"


ClockAdvance = Callable[..., Callable[..., None]]


@pytest.fixture
def advance_clock_at(monkeypatch: pytest.MonkeyPatch) -> ClockAdvance:
    """Return a function for `progress` that advances the clock of commands when one of these lines is reported."""
    hours = 0

    def make(*lines: str) -> Callable[..., None]:
        waiting = list(lines)

        def progress(line: str, fraction: float | None = None) -> None:
            nonlocal hours
            if line in waiting:
                waiting.remove(line)
                hours += 1

        return progress

    monkeypatch.setattr(bash_module, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(processes, "monotonic", lambda: time.monotonic() + 3600 * hours)
    return make


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_command_that_runs_out_of_time_is_ended(
    tmp_path: Path, probe: ProcessProbe, advance_clock_at: ClockAdvance
) -> None:
    context = ToolContext(workspace=str(tmp_path), progress=advance_clock_at("begun"))
    result = asyncio.run(ask("exec 9>probe; echo begun; sleep 1000; echo unreachable", context, timeout=5)).result
    assert result.is_error
    assert result.content == "begun\n[timed out after 5 s and was ended; part of its work may be done]"
    assert result.data["timed_out"]
    assert probe.is_alone()


def test_a_command_is_asked_to_end_before_it_is_killed(
    tmp_path: Path, probe: ProcessProbe, advance_clock_at: ClockAdvance
) -> None:
    command = "exec 9>probe; trap 'echo tidied up; exit 7' TERM; echo begun; sleep 1000 & wait"
    result = asyncio.run(
        ask(command, ToolContext(workspace=str(tmp_path), progress=advance_clock_at("begun")), timeout=5)
    ).result
    assert str(result.content).startswith("begun\ntidied up\n[timed out")
    assert result.data["exit_code"] == 7
    assert probe.is_alone()


def test_a_command_that_does_not_listen_is_killed(
    tmp_path: Path, probe: ProcessProbe, advance_clock_at: ClockAdvance
) -> None:
    """Fault 37."""
    command = "exec 9>probe; trap 'echo no' TERM; echo begun; while true; do sleep 1000; done"
    result = asyncio.run(
        ask(command, ToolContext(workspace=str(tmp_path), progress=advance_clock_at("begun", "no")), timeout=5)
    ).result
    assert str(result.content).startswith("begun\n")
    assert result.data["signal"] == "SIGKILL"
    assert probe.is_alone()


def test_what_prints_without_end_is_ended(tmp_path: Path, advance_clock_at: ClockAdvance) -> None:
    """Fault 38."""
    result = asyncio.run(
        ask("yes", ToolContext(workspace=str(tmp_path), progress=advance_clock_at("y")), timeout=5)
    ).result
    assert result.is_error
    assert result.data["timed_out"]


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_a_sandbox_ends_with_its_time(tmp_path: Path, probe: ProcessProbe, advance_clock_at: ClockAdvance) -> None:
    command = "exec 9>probe; trap '' TERM; (setsid sleep 1000 &); echo begun; sleep 1000; sleep 1000"
    context = ToolContext(workspace=str(tmp_path), progress=advance_clock_at("begun"))
    result = asyncio.run(ask(command, context, make_bash(sandbox="bubblewrap"), timeout=5)).result
    assert str(result.content).startswith("begun\n[timed out")
    assert probe.is_alone()


# ---- cancelling ------------------------------------------------------------------------------------------------------


async def cancel_when_begun(command: str, workspace: Path, tool: Tool = Bash, *, times: int = 1) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    context = ToolContext(workspace=str(workspace), progress=lambda *_: loop.call_soon_threadsafe(begun.set))
    task = asyncio.create_task(ask(command, context, tool))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("times", [1, 3], ids=["once", "again and again"])
def test_cancelling_kills_everything_and_waits_for_it(tmp_path: Path, probe: ProcessProbe, times: int) -> None:
    command = f"exec 9>probe; trap '' TERM; {DAEMON}; sleep 1000 | cat & echo begun; sleep 1000; sleep 1000"
    asyncio.run(cancel_when_begun(command, tmp_path, times=times))
    assert probe.is_alone()


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_cancelling_kills_what_is_in_a_sandbox(tmp_path: Path, probe: ProcessProbe) -> None:
    command = f"exec 9>probe; trap '' TERM; {DAEMON}; echo begun; sleep 1000; sleep 1000"
    asyncio.run(cancel_when_begun(command, tmp_path, make_bash(sandbox="bubblewrap")))
    assert probe.is_alone()


def test_cancelling_before_it_has_begun_is_no_different(tmp_path: Path, probe: ProcessProbe) -> None:
    async def at_once() -> None:
        task = asyncio.create_task(ask("exec 9>probe; sleep 1000", ToolContext(workspace=str(tmp_path))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(at_once())
    assert probe.is_alone()


# ---- what is left in the background ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begin",
    [
        "sleep 1000 9>probe &",
        DAEMON,
        "(setsid bash -c '(setsid sleep 1000 9>probe &) & wait; exec sleep 1000 9>probe' &)",
        "sleep 1000 9>probe & disown -a; kill -STOP $!",
        "trap '' HUP TERM INT; sleep 1000 9>probe &",
    ],
    ids=["background", "daemon", "daemon of a daemon", "stopped", "deaf"],
)
def test_a_process_that_keeps_the_output_open_is_not_waited_for(
    tmp_path: Path, probe: ProcessProbe, begin: str
) -> None:
    """Fault 39."""
    answer = run(f"{begin}\necho begun", tmp_path)
    assert output_of(answer) == "begun\n"
    assert "[it left processes in the background, which were ended: " in str(answer.result.content)
    assert probe.is_alone()


def test_processes_without_the_output_are_ended_too(tmp_path: Path, probe: ProcessProbe) -> None:
    command = "for number in 1 2 3 4 5 6 7 8 9 10 11 12; do (setsid sleep 1000 9>probe >&9 2>&9 &); done; echo begun"
    answer = run(command, tmp_path)
    assert output_of(answer) == "begun\n"
    assert answer.result.data["left_running"] >= 12
    assert " and 4 more]" in str(answer.result.content) or answer.result.data["left_running"] > 12
    assert probe.is_alone()


def test_what_is_printed_shortly_after_the_end_is_not_lost(tmp_path: Path) -> None:
    answer = run("exec > >(cat; echo last words); echo first words", tmp_path)
    assert output_of(answer) == "first words\nlast words\n"


def test_nothing_is_found_by_its_name_afterwards(tmp_path: Path) -> None:
    marker = f"dragoman-marker-{os.getpid()}-{time.monotonic_ns()}"
    command = f"(setsid bash -c 'exec -a {marker} sleep 1000' >/dev/null 2>&1 &); echo begun"
    assert output_of(run(command, tmp_path)) == "begun\n"
    assert processes_with(marker) == []


# ---- violence --------------------------------------------------------------------------------------------------------


def test_a_command_that_kills_its_watcher_dies_with_it(tmp_path: Path, probe: ProcessProbe) -> None:
    answer = run("exec 9>probe; sleep 1000 & echo begun; kill -9 $PPID; sleep 1000", tmp_path)
    assert "[it is not known how it ended" in str(answer.result.content)
    probe.wait_until_alone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_watcher_that_is_told_to_end_ends_the_command_first(
    tmp_path: Path, probe: ProcessProbe, number: signal.Signals
) -> None:
    answer = run(f"exec 9>probe; {DAEMON}; echo begun; kill -{number.value} $PPID; sleep 1000", tmp_path)
    assert answer.result.data["signal"] == "SIGKILL"
    assert probe.is_alone()


PROGRAM = """
import asyncio, sys
from dragoman.builtin.commands.bash import Bash
from dragoman.tools import ToolContext, answer_async, bind
from dragoman.types import ToolCall

arguments = {"command": sys.argv[2]}
bound = bind(Bash, arguments, ToolContext(workspace=sys.argv[1]))
asyncio.run(answer_async(bound, ToolCall("c", "bash", arguments)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_killing_the_whole_program_leaves_nothing(tmp_path: Path, probe: ProcessProbe, number: signal.Signals) -> None:
    command = f"exec 9>probe; trap '' TERM INT HUP; {DAEMON}; sleep 1000 & echo begun >&9; sleep 1000; sleep 1000"
    program = subprocess.Popen(
        (sys.executable, "-c", PROGRAM, str(tmp_path), command), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    with program:
        probe.wait_for(b"begun")
        program.send_signal(number)
        probe.wait_until_alone()
    assert program.returncode != 0


FORKING = """
import asyncio, os, signal, sys
from dragoman.builtin.commands.bash import Bash
from dragoman.tools import ToolContext, answer_async, bind
from dragoman.types import ToolCall

forked = []

def fork(*_):
    forked.append(os.fork())
    if not forked[0]:
        signal.pause()

arguments = {"command": sys.argv[2]}
bound = bind(Bash, arguments, ToolContext(workspace=sys.argv[1], progress=fork))
print(asyncio.run(answer_async(bound, ToolCall("c", "bash", arguments))).result.content, flush=True)
os.kill(forked[0], signal.SIGKILL)
"""


def test_a_fork_of_the_program_does_not_keep_a_command_alive(tmp_path: Path, probe: ProcessProbe) -> None:
    """A copy of the process holds copies of all its pipes; the end of a command must not hang on these."""
    command = (sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path), f"{DAEMON}; echo begun")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.startswith("begun\n[exit code 0")
    assert probe.is_alone()
