"""`dragoman batch`: every task of a file has one result, whatever happens to the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import COMMAND, Desk
from tests.cli.conftest import Command
from tests.postgres import postgres as postgres

from dragoman.testing import ScriptedModel, Upstream
from dragoman.types import Request, ToolCall, ToolResult

TOOLS = """
import os
import dragoman


@dragoman.tool
def note(name: str) -> str:
    "Write a note. It must not happen twice."
    with open("ledger", "a") as file:
        file.write(name + chr(10))
    return "noted"


@dragoman.tool(requires_approval=True)
def pay(name: str) -> str:
    "Pay a bill."
    return "paid"
"""


class Model:
    """Calls the tool that is the first word of its task, then answers. `busy` is set after some requests."""

    def __init__(self, busy_after: int = 0) -> None:
        self._left = busy_after
        self.busy = threading.Event()

    def __call__(self, request: Request) -> Any:
        self._left -= 1
        if self._left <= 0:
            self.busy.set()
        parts = [part for message in request.messages for part in message.parts]
        words = next(message.text for message in request.messages if message.role == "user")
        if any(isinstance(part, ToolResult) for part in parts):
            return f"Done with {words}."
        tool, _, name = words.partition(" ")
        return [ToolCall("call_1", tool, {"name": name})] if tool in ("note", "pay") else f"Hello, {words}."


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.write("tools.py", TOOLS)
    return made


def write_tasks(desk: Desk, tasks: list[Any]) -> str:
    return desk.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))


def batch(upstream: Upstream, *more: str) -> list[str]:
    at = ["-m", "custom:scripted", "--base-url", upstream.url, "--tool-mode", "native", "--builtin", "none"]
    return ["batch", "tasks.jsonl", *at, "-t", "tools.py", "--workers", "8", *more]


def read_results(desk: Desk, name: str = "tasks.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (desk.folder / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("number", "engine"),
    [
        (60, "embedded"),
        (30, "postgres"),
        pytest.param(2000, "embedded", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
        pytest.param(2000, "postgres", marks=[pytest.mark.full, pytest.mark.timeout(1800)]),
    ],
)
def test_a_killed_batch_that_starts_again_has_each_result_once(
    desk: Desk, number: int, engine: str, request: pytest.FixtureRequest
) -> None:
    more = ["--engine", request.getfixturevalue("postgres").new_database()] if engine == "postgres" else []
    write_tasks(desk, [{"id": f"t{each}", "task": f"note n{each}"} for each in range(number)])
    model = Model(busy_after=number)
    with Upstream(ScriptedModel(model, loop=True)) as upstream:
        words = [*batch(upstream, *more), "--allow", "note", "--json"]
        with subprocess.Popen(
            [*COMMAND, *words],
            cwd=desk.folder,
            env=desk.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as first:
            assert model.busy.wait(600)
            first.kill()
        written = len(read_results(desk)) if (desk.folder / "tasks.results.jsonl").exists() else 0
        assert written < number, "the batch was killed in the middle"
        # What a crash of the machine may leave: half a line at the end.
        with open(desk.folder / "tasks.results.jsonl", "a", encoding="utf-8") as file:
            file.write('{"id": "t0", "run_')
        done = subprocess.run(
            [*COMMAND, *words], cwd=desk.folder, env=desk.environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    results = read_results(desk)
    assert Counter(each["id"] for each in results) == Counter(f"t{each}" for each in range(number))
    assert {each["outcome"] for each in results} == {"answered"}
    ledger = Counter((desk.folder / "ledger").read_text(encoding="utf-8").split())
    assert max(ledger.values()) == 1, "a tool that may not be repeated ran twice"
    summary = json.loads(done.stdout)
    assert (summary["tasks"], summary["results"], summary["outcomes"]) == (number, number, {"answered": number})
    assert set(summary["seconds"]) == {"p50", "p90", "p99"}


def test_an_interrupted_batch_goes_on_where_it_was(desk: Desk) -> None:
    write_tasks(desk, [f"note n{each}" for each in range(40)])
    model = Model(busy_after=20)
    with Upstream(ScriptedModel(model, loop=True)) as upstream:
        words = batch(upstream, "--allow", "note")
        with desk.start(*words) as first:
            assert model.busy.wait(60)
            os.killpg(first.pid, signal.SIGINT)
            _, errors = first.communicate(timeout=30)
        assert first.returncode == 130, errors
        assert b"start the same command again to resume" in errors
        before = len(upstream.received)
        done = desk(*words)
        again = desk(*words)
    assert (done.code, again.code) == (0, 0), done.err
    assert "40 of 40 results" in done.out and "40 of 40: 40 answered" in again.err
    assert Counter(each["id"] for each in read_results(desk)) == Counter(str(each) for each in range(1, 41))
    ledger = Counter((desk.folder / "ledger").read_text(encoding="utf-8").split())
    # A stopped batch lets its tools finish, so no outcome is unknown.
    assert ledger == Counter(f"n{each}" for each in range(40))
    assert len(upstream.received) - before <= 80


def test_the_note_of_an_interrupt_has_a_row_of_its_own(desk: Desk) -> None:
    write_tasks(desk, [f"note n{each}" for each in range(1000)])
    with (
        Upstream(ScriptedModel(Model(), loop=True)) as upstream,
        desk.at_terminal(*batch(upstream, "--allow", "note")) as terminal,
    ):
        terminal.wait_for(" of 1,000: ")
        terminal.interrupt()
        terminal.wait_for("start the same command again to resume")
        assert terminal.wait() == 130
    assert any(row.startswith("stopping; ") for row in terminal.screen), terminal.screen


def test_runs_that_wait_for_an_approval_are_continued_by_the_next_start(desk: Desk) -> None:
    write_tasks(desk, [{"id": "a", "task": "pay rent"}, {"id": "b", "task": "you"}])
    with Upstream(ScriptedModel(Model(), loop=True)) as upstream:
        first = desk(*batch(upstream))
        assert first.code == 5 and "waiting (no result)" in first.out
        assert [each["id"] for each in read_results(desk)] == ["b"]
        journal = "tasks.results.jsonl.db"
        assert f"dragoman approvals list --journal {journal}, then" in first.err
        approved = desk("approvals", "approve", "--all", "--yes", "--journal", journal)
        assert approved.code == 0, approved.err
        second = desk(*batch(upstream))
    assert second.code == 0, second.err
    assert {each["id"]: each["text"] for each in read_results(desk)} == {
        "a": "Done with pay rent.",
        "b": "Hello, you.",
    }


def test_temporary_failures_are_repeated_if_the_user_asks_for_it(desk: Desk) -> None:
    write_tasks(desk, ["one", "two", "three"])
    desk.environment["DRAGOMAN_RETRIES_ATTEMPTS"] = "1"
    with Upstream(ScriptedModel(Model(), loop=True)) as upstream:
        words = batch(upstream, "--workers", "1")
    first = desk(*words)
    assert first.code == 1 and "3 provider_failed" in first.out
    again = desk(*words)
    assert again.code == 1 and "3 of 3: 3 provider_failed" in again.err
    with Upstream(ScriptedModel(Model(), loop=True)) as upstream:
        second = desk(*batch(upstream, "--retry"))
        assert second.code == 0, second.err
        third = desk(*batch(upstream))
        assert (third.code, len(upstream.received)) == (0, 3)
    assert Counter(each["text"] for each in read_results(desk)) == Counter(
        f"Hello, {name}." for name in ("one", "two", "three")
    )
    assert {each["attempt"] for each in read_results(desk)} == {2}
    # The results are in the journal, too.
    (desk.folder / "tasks.results.jsonl").unlink()
    assert desk(*batch(upstream)).code == 0
    assert {each["attempt"] for each in read_results(desk)} == {2}


def test_a_rate_limits_how_many_runs_start(desk: Desk) -> None:
    write_tasks(desk, ["one", "two", "three"])
    with Upstream(ScriptedModel(Model(), loop=True)) as upstream:
        with desk.start(*batch(upstream, "--rate", "2/h")) as first:
            for _ in range(2):
                assert upstream.wait_for_request(20)
            os.killpg(first.pid, signal.SIGTERM)
            first.communicate(timeout=30)
        assert (first.returncode, len(upstream.received)) == (143, 2)


def test_a_task_that_was_changed_is_executed_and_its_old_result_is_counted_apart(desk: Desk) -> None:
    """The file had two results with one id, and nothing said why. An editor on Windows begins a file with a mark."""
    with Upstream(ScriptedModel(Model(), loop=True)) as upstream:
        (desk.folder / "tasks.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "a", "task": "one"}\r\n"you"\r\n')
        first = desk(*batch(upstream))
        assert (first.code, "other results" in first.out) == (0, False), first.err
        write_tasks(desk, [{"id": "a", "task": "two"}, "you"])
        second = desk(*batch(upstream))
    assert second.code == 0 and "1, of tasks that were changed or removed since" in second.out
    assert sorted(each["text"] for each in read_results(desk)) == ["Hello, one.", "Hello, two.", "Hello, you."]
    assert len(upstream.received) == 3


def test_misuse_of_a_batch_is_told(desk: Desk, dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row: the content of the file of tasks, more words, and what the message says."""
    monkeypatch.chdir(desk.folder)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, desk.environment[name])
    good = '"one"\n'
    desk.write("other.txt", "not a result\n")
    rows: list[tuple[str, list[str], str]] = [
        ("", [], "tasks.jsonl has no tasks"),
        ('{"prompt": 1}\n', [], "line 1 has no text `task`"),
        ('{"tsk": 1}\n', [], "line 1: there is no key 'tsk'; did you mean 'task'?"),
        ('{"task": "a", "ID": 7}\n', [], "line 1: there is no key 'ID'; did you mean 'id'?"),
        ("one\n", [], "line 1 is not JSON"),
        ('"a"\n\n{"task": " "}\n', [], "line 3 has no text `task`"),
        ('{"id": 1, "task": "a"}\n{"id": "1", "task": "b"}\n', [], "line 2: the id '1' occurs twice"),
        ('{"id": [], "task": "a"}\n', [], "`id` is neither a text nor a number"),
        (good, ["--session", "s"], "a batch takes no --session"),
        (good, ["--resume"], "hint: start the batch again: that resumes it"),
        (good, ["--attach", "tasks.jsonl"], "a batch takes no --attach"),
        (good, ["--rate", "fast"], "--rate 'fast' is not a number and a period"),
        (good, ["--rate", "0/m"], "--rate '0/m'"),
        (good, ["--workers", "0"], "--workers"),
        (good, ["--output", "other.txt"], "line 1 is not a result of a batch"),
        (good, ["--output", "."], "cannot write"),
        # A device without an end was read until the memory was full.
        (good, ["--output", os.devnull], "it is not a regular file"),
        # The only line of a file without a line break was taken for a result that a crash cut off, and removed.
        ('"one"', ["--output", "tasks.jsonl"], "line 1 is not a result of a batch"),
        ('{"id":"a","task":"one"}', ["--output", "tasks.jsonl"], "line 1 is not a result of a batch"),
        (good, ["--agent", "clerk", "--deny", "bash"], "--agent takes no --model, --deny, --base-url"),
        # The workers of another program have their own limits. These two were ignored without a word.
        (good, ["--agent", "clerk", "--rate", "2/s", "--workers", "3"], "--agent takes no --model, --base-url, --work"),
        (good, ["--engine", "me:secret@db"], "--engine is not the address of a database"),
    ]
    for content, words, message in rows:
        desk.write("tasks.jsonl", content)
        done = dragoman("batch", "tasks.jsonl", "-m", "custom:m", "--base-url", "http://127.0.0.1:9/v1", *words)
        assert (done.code, message in done.err) == (2, True), (content, words, done.err)
        assert "secret" not in done.err
        assert (desk.folder / "tasks.jsonl").read_text(encoding="utf-8") == content
    assert "it is a folder" in dragoman("batch", ".", "-m", "custom:m", "--base-url", "http://127.0.0.1:9/v1").err
    assert "no engine is given" in dragoman("batch", "tasks.jsonl", "--agent", "clerk").err
    assert (desk.folder / "other.txt").read_text(encoding="utf-8") == "not a result\n"


def test_the_help_lists_no_option_that_a_batch_refuses(dragoman: Command) -> None:
    listed = dragoman("batch", "--help").out
    assert "--workspace" in listed
    assert not re.search(r"--(session|resume|no-journal|thinking|attach)\b", listed)


def test_a_folder_that_cannot_be_written_is_named_with_a_step_that_a_batch_can_take(desk: Desk) -> None:
    tasks = write_tasks(desk, ["one"])
    done = desk("batch", tasks, "-m", "custom:m", "--base-url", "http://127.0.0.1:9", XDG_STATE_HOME="/dev/null")
    assert done.code == 2
    assert "cannot create the journal /dev/null/dragoman/journal.db" in done.err
    assert "hint: set XDG_STATE_HOME to a folder with write permission" in done.err
