"""`dragoman sessions`: what the journal holds, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import dragoman as library
from dragoman.agent import Connection
from dragoman.agent.agent import Agent
from dragoman.journal import Entry, SqliteJournal
from dragoman.testing import ScriptedModel, ScriptExhausted, call, calls


@library.tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: empty"


@library.tool(requires_approval=True)
async def burn(what: str) -> str:
    """Burn something."""
    return "ashes"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal with a session of two runs, and a run that broke off."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"

    async def scene(journal: SqliteJournal) -> None:
        replies = [
            calls(call("look", place="desk"), call("burn", what="letters"), say="Looking."),
            calls(call("look", place="shelf"), call("fly", to="the moon")),
            "All is empty.",
            "Nothing at all.",
        ]
        model = ScriptedModel(replies)
        agent = Agent(model.endpoint(), [look, burn], journal=journal, connection=Connection(transport=model))
        await agent.arun("Is anything there?\x1b[2J", session="search", run_id="run-1")
        await agent.arun("Really nothing?", session="search", run_id="run-2")
        mute = ScriptedModel([call("look", place="cellar")])
        with pytest.raises(ScriptExhausted):
            await Agent(mute.endpoint(), [look], journal=journal, connection=Connection(transport=mute)).arun(
                "Look below.", run_id="run-3"
            )

    with SqliteJournal(path, clock=iter(range(1_700_000_000, 1_800_000_000)).__next__) as journal:
        asyncio.run(scene(journal))
    return path.read_bytes()


@pytest.fixture
def place(written: bytes, tmp_path: Path) -> str:
    path = tmp_path / "journal.db"
    path.write_bytes(written)
    return str(path)


def test_the_list_has_one_line_per_session_and_the_last_comes_first(dragoman, place: str) -> None:
    done = dragoman("sessions", "list", "--journal", place)
    assert (done.code, done.err) == (0, "")
    header, *lines = done.out.splitlines()
    assert header.split() == ["session", "last", "used", "runs", "turns", "state", "task"]
    assert [line.split()[0] for line in lines] == ["run-3", "search"]
    assert lines[0].split()[3:7] == ["1", "1", "interrupted", "Look"]
    assert lines[1].split()[3:6] == ["2", "4", "ended"]
    assert lines[1].endswith("Really nothing?")


def test_the_list_for_a_program(dragoman, place: str) -> None:
    data = dragoman("sessions", "list", "--json", "--journal", place).data
    assert [(each["session"], each["runs"], each["turns"], each["task"]) for each in data] == [
        ("run-3", 1, 1, "Look below."),
        ("search", 2, 4, "Really nothing?"),
    ]


def test_a_session_is_shown_with_its_calls_and_their_results(dragoman, place: str) -> None:
    done = dragoman("sessions", "show", "search", "--journal", place)
    assert (done.code, done.err) == (0, "")
    for expected in (
        "Run run-1",
        "Is anything there?",
        'look {"place": "desk"}',
        "desk: empty",
        'burn {"what": "letters"}',
        "needs approval, and nobody is there",
        "fly ",
        "is not valid",
        "shelf: empty",
        "All is empty.",
        "Run run-2",
        "Nothing at all.",
        "outcome: answered",
    ):
        assert expected in done.out
    assert "\x1b" not in done.out, "what was asked cannot repaint the terminal"


def test_a_session_for_a_program(dragoman, place: str) -> None:
    data = dragoman("sessions", "show", "search", "--json", "--journal", place).data
    first = data["runs"][0]
    assert [step["turn"] for step in first["steps"]] == [1, 2, 3]
    looked = first["steps"][0]["calls"][0]
    assert looked | {"id": ""} == {
        "id": "",
        "name": "look",
        "arguments": {"place": "desk"},
        "stage": "delivered",
        "result": "desk: empty",
        "is_error": False,
    }


def test_a_run_is_found_by_its_id(dragoman, place: str) -> None:
    assert dragoman("sessions", "show", "run-2", "--json", "--journal", place).data["session"] == "search"


def test_a_fork_keeps_the_turns_up_to_one(dragoman, place: str) -> None:
    done = dragoman("sessions", "fork", "search", "again", "--turn", "1", "--journal", place)
    assert done.code == 0
    assert done.out.startswith(
        "again: 1 run, 1 turn\nits last run is unfinished; resume it with: dragoman run --resume run_"
    )
    data = dragoman("sessions", "show", "again", "--json", "--journal", place).data
    assert [len(run["steps"]) for run in data["runs"]] == [1]
    assert dragoman("sessions", "fork", "search", "whole", "--journal", place).out == "whole: 2 runs, 4 turns\n"
    told = dragoman("sessions", "fork", "search", "third", "--turn", "3", "--json", "--journal", place).data
    assert (told["session"], [run["turns"] for run in told["runs"]]) == ("third", [3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "serach"], "did you mean 'search'?"),
        (["fork", "search", "x", "--turn", "9"], "has 4 turns"),
        (["fork", "search", "run-3"], "already a session 'run-3'"),
        (["fork", "search", "a\tb"], "cannot be the name of a session"),
        (["delete", "nothing", "--yes"], "no session and no run 'nothing'"),
        (["delete", "search"], "standard input is not a terminal"),
        (["export", "search", "-o", "/no/such/folder/file"], "cannot write /no/such/folder/file"),
    ],
    ids=["misspelt", "no such turn", "taken", "bad name", "not there", "unasked", "no folder"],
)
def test_a_mistake_is_one_line_and_a_hint(dragoman, place: str, arguments: list[str], message: str) -> None:
    done = dragoman("sessions", *arguments, "--journal", place)
    assert done.code == 2
    error, hint = done.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
    assert len(dragoman("sessions", "list", "--json", "--journal", place).data) == 2


def test_a_journal_that_is_not_there_is_not_made(dragoman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = dragoman("sessions", "list", "--journal", str(tmp_path / "none.db"))
    assert done.code == 2
    assert "there is no journal" in done.err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_CONFIG", "off")
    done = dragoman("sessions", "list")
    assert (done.code, done.out) == (0, f"no sessions in {tmp_path / 'dragoman' / 'journal.db'}\n")
    assert list(tmp_path.iterdir()) == []


def test_an_export_to_a_closed_pipe_ends_quietly(place: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "dragoman", "sessions", "export", "search", "--journal", place]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_export_is_lines_of_json(dragoman, place: str, tmp_path: Path) -> None:
    target = tmp_path / "search.jsonl"
    done = dragoman("sessions", "export", "search", "-o", str(target), "--journal", place)
    assert (done.code, done.out) == (0, "")
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["type"] for line in lines][:3] == ["session", "run", "record"]
    assert sum(line["type"] == "run" for line in lines) == 2
    kinds = [line["kind"] for line in lines if line["type"] == "record" and line["run_id"] == "run-1"]
    assert kinds[0] == "run"
    assert kinds[-1] == "ended"


def test_deleting_says_how_much_it_was(dragoman, place: str) -> None:
    data = dragoman("sessions", "delete", "search", "--yes", "--json", "--journal", place).data
    assert data[0]["session"] == "search"
    assert data[0]["records"] > 5
    assert [each["session"] for each in dragoman("sessions", "list", "--json", "--journal", place).data] == ["run-3"]


def test_old_sessions_are_deleted_together(dragoman, place: str) -> None:
    """A journal could only be kept small with a list of names. A session with an unfinished run remains."""
    for words, message in (((), "name sessions, or give --older-than"), (("--older-than", "soon"), "is not a period")):
        assert message in dragoman("sessions", "delete", *words, "--yes", "--journal", place).err
    assert "name sessions" in dragoman("sessions", "delete", "search", "--older-than", "1d", "--journal", place).err
    assert dragoman("sessions", "delete", "--older-than", "999999w", "--yes", "--json", "--journal", place).data == []
    done = dragoman("sessions", "delete", "--older-than", "0h", "--yes", "--journal", place)
    assert done.out.startswith("deleted 1 session: "), done.err
    assert [each["session"] for each in dragoman("sessions", "list", "--json", "--journal", place).data] == ["run-3"]


def test_one_damaged_session_does_not_hide_the_others(dragoman, place: str) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DROP TRIGGER records_stay")
        connection.execute("UPDATE records SET body = x'00' WHERE number = 0 AND run = 3")
        connection.commit()
    data = dragoman("sessions", "list", "--json", "--journal", place).data
    assert [each["task"] for each in data] == ["(damaged)", "Really nothing?"]
    done = dragoman("sessions", "show", "run-3", "--journal", place)
    assert done.code == 2
    assert "run run-3, record 0 is damaged" in done.err


def test_records_of_another_program_are_counted_and_not_shown(dragoman, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def scene(journal: SqliteJournal) -> None:
        token = await journal.begin("r", "s", b'"mine"')
        entries = [Entry("reply", b"[1]", calls=("c",)), Entry("started", b"1", "c"), Entry("input", b"x")]
        await journal.append("r", entries, token=token)

    with SqliteJournal(path) as journal:
        asyncio.run(scene(journal))
    done = dragoman("sessions", "show", "s", "--journal", str(path))
    assert done.code == 0
    assert "turn 1" in done.out
    assert "interrupted" in done.out
    listed = dragoman("sessions", "list", "--unfinished", "--journal", str(path))
    assert "interrupted" in listed.out


def test_without_a_verb_it_explains_itself(dragoman) -> None:
    done = dragoman("sessions")
    assert done.code == 0
    assert "dragoman sessions list" in done.out
