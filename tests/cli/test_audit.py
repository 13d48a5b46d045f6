"""`dragoman audit`: verifying the log and showing it, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.journal.audit import AuditLog


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of two runs, at its usual place."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state" / "dragoman" / "audit.jsonl"
    times = iter(range(1_700_000_000, 1_800_000_000, 60))
    log = AuditLog(path, clock=lambda: float(next(times)))
    log.append("run_started", run="run_1", model="openai:gpt")
    log.append("decision", run="run_1", call="call_1", tool="bash", verdict="ask", arguments={"command": "rm -r x"})
    log.append("started", run="run_2", call="call_1", tool="evil\x1b[2J\u202e\nname")
    log.append("ended", run="run_1", call="call_1", failed=False)
    return path


def test_a_sound_log(dragoman, log: Path) -> None:
    done = dragoman("audit", "verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"sound: 4 records, {log}\nhead: ")
    named = dragoman("audit", "verify", str(log))
    assert named.out == done.out


def test_a_log_that_was_changed(dragoman, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"verdict":"ask"', b'"verdict":"allow"'))
    done = dragoman("audit", "verify")
    assert done.code == 1
    assert f"not sound: {log}, line 2: it was changed" in done.out
    assert "before it: 1 sound record" in done.out
    assert "hint: keep the file unchanged" in done.out


def test_a_log_that_was_cut_off(dragoman, log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    done = dragoman("audit", "verify")
    assert done.code == 1
    assert "line 3: the log ends at record 2, and its head file knows record 4: 2 records are missing" in done.out


def test_a_head_from_elsewhere(dragoman, log: Path) -> None:
    head = dragoman("audit", "verify", "--json").data["head_hash"]
    assert dragoman("audit", "verify", "--head", head).code == 0
    log.unlink()
    log.with_name("audit.jsonl.head").unlink()
    AuditLog(log).append("run_started", run="forged")
    assert dragoman("audit", "verify").code == 0
    done = dragoman("audit", "verify", "--head", head)
    assert done.code == 1
    assert "it does not contain the given head" in done.out
    wrong = dragoman("audit", "verify", "--head", "x")
    assert (wrong.code, wrong.err) == (
        2,
        "error: a head is 64 hexadecimal digits\nhint: `dragoman audit verify` prints it\n",
    )


def test_a_report_for_a_program(dragoman, log: Path) -> None:
    data = dragoman("audit", "verify", "--json").data
    assert (data["ok"], data["records"], data["first_fault"], data["path"]) == (True, 4, None, str(log))
    log.write_bytes(log.read_bytes()[40:])
    done = dragoman("audit", "verify", "--json")
    assert (done.code, done.data["ok"], done.data["first_fault"]) == (1, False, 1)


def test_there_is_no_log(dragoman, log: Path) -> None:
    for words in (["verify"], ["show"]):
        done = dragoman("audit", *words, "nowhere.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "error: there is no audit log at nowhere.jsonl\nhint: " in done.err


def test_the_records_as_a_table(dragoman, log: Path) -> None:
    done = dragoman("audit", "show")
    lines = done.out.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["record", "time", "kind", "run", "call"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4"]
    assert "2023-11-1" in lines[1] and "model=openai:gpt" in lines[1]
    assert "tool=bash verdict=ask arguments=" in lines[2]
    assert "rm -r" not in done.out
    assert "evil\\u001b[2J\\u202e\\nname" in lines[3]
    assert "\x1b" not in done.out


def test_some_of_the_records(dragoman, log: Path) -> None:
    assert [each["n"] for each in dragoman("audit", "show", "--run", "run_1", "--json").data] == [1, 2, 4]
    assert [each["n"] for each in dragoman("audit", "show", "-n", "2", "--json").data] == [3, 4]
    assert [each["n"] for each in dragoman("audit", "show", "-n", "0", "--json").data] == [1, 2, 3, 4]
    assert dragoman("audit", "show", "--run", "run_9").out == f"no records of run run_9 in {log}\n"


def test_damaged_lines_are_marked_and_tamed(dragoman, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"openai:gpt"', b'"\\u001b[31m"') + b'{"at":"x","n":[]}\n[1]\n\xff\n')
    done = dragoman("audit", "show")
    assert done.code == 0
    assert done.out.count("NOT AS IT WAS WRITTEN") == 4
    assert "\x1b" not in done.out


@pytest.mark.parametrize("words", [[], ["--help"], ["verify", "--help"], ["show", "--help"]], ids=" ".join)
def test_the_help_teaches(dragoman, words: list[str]) -> None:
    done = dragoman("audit", *words)
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "verify" in told
    if words in ([], ["--help"], ["verify", "--help"]):
        assert "--head" in told
        assert "can write both" in told or "may write both" in told
