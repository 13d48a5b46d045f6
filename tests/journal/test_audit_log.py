"""The audit log: the form of a record, and records that cannot be written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.journal.audit import KINDS, AuditFailed, AuditLog, digest_of, encode_field, escape
from dragoman.journal.verification import read_records, verify
from dragoman.paths import beside
from dragoman.secrets import HumanSink

WRITERS = str(Path(__file__).with_name("writers.py"))
TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.jsonl"


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_a_record_says_who_did_what_and_holds_no_values(path: Path) -> None:
    log = AuditLog(path, clock=lambda: 1700000000.25)
    first = log.append("decision", run="run_1", call="call_1", tool="bash", arguments={"command": "echo secret"})
    second = log.append("started", run="run_1", call="call_1", tool="bash", rule=None)
    one, two = records(path)
    assert one == {
        "n": 1,
        "at": 1700000000.25,
        "kind": "decision",
        "run": "run_1",
        "call": "call_1",
        "tool": "bash",
        "arguments": digest_of({"command": "echo secret"}),
        "prev": "0" * 64,
        "hash": first.hash,
    }
    assert (two["n"], two["prev"], two["hash"]) == (2, one["hash"], second.hash)
    assert "rule" not in two
    assert b"secret" not in path.read_bytes()


def test_every_kind_can_be_written(path: Path) -> None:
    log = AuditLog(path, sync=False)
    for kind in KINDS:
        log.append(kind)
    assert [each["kind"] for each in records(path)] == list(KINDS)
    assert verify(path).ok


def test_only_the_owner_can_read_it(path: Path) -> None:
    AuditLog(path).append("run_started", run="r")
    for made in (path, path.with_name("audit.jsonl.head")):
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@given(run=TEXT, call=TEXT, tool=TEXT, names=st.lists(TEXT, max_size=3))
def test_one_event_is_one_line_of_plain_characters(tmp_path_factory, run, call, tool, names) -> None:
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    AuditLog(path, sync=False).append("started", run=run, call=call, tool=tool, names=names)
    written = path.read_bytes()
    assert written.count(b"\n") == 1 and written.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F for byte in written[:-1])
    (record,) = records(path)
    shown = [record["run"], record["call"], record["tool"], *record["names"]]
    assert all(text.isprintable() for text in shown), "what is decoded does nothing to a terminal either"
    assert verify(path).records == 1


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain name", "plain name"),
        ("red\x1b[31m", "red\\u001b[31m"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("delete\x7fc1\x9b", "delete\\u007fc1\\u009b"),
        ("right\u202eto left\u2066", "right\\u202eto left\\u2066"),
        ("line\u2028par\u2029", "line\\u2028par\\u2029"),
        ("lone \ud800", "lone \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("back\\slash", "back\\\\slash"),
        ("Größe 值", "Größe 值"),
        ("x" * 250, "x" * 200 + "...(+50 characters)"),
    ],
)
def test_names_are_escaped_and_cut(name: str, written: str) -> None:
    assert escape(name) == written


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_numbers_that_json_cannot_represent_are_text(path: Path, value: float) -> None:
    AuditLog(path).append("ended", seconds=value)
    assert records(path)[0]["seconds"] == str(value)


def test_anything_but_names_and_numbers_becomes_a_digest() -> None:
    assert encode_field({"a": [1]}) == digest_of({"a": [1]})
    assert encode_field([{"a": 1}]) == digest_of([{"a": 1}])
    assert encode_field(b"bytes").startswith("sha256:")
    assert encode_field([str(number) for number in range(20)])[-2:] == ["15", "...(+4)"]
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    assert encode_field({"deep": deep}) == "unwritable:RecursionError"


def test_a_digest_keeps_apart_what_differs_and_knows_no_order_of_keys() -> None:
    values = [1, 1.0, True, "1", None, [1], {"1": 1}, {"1": True}, "\ud800", float("nan")]
    assert len({digest_of(value) for value in values}) == len(values)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_credentials_in_texts_are_hidden(path: Path) -> None:
    log = AuditLog(path, sink=HumanSink({"mine": "tr0ub4dor-and-three"}))
    log.append(
        "approval_given", reason="use password=Xq7vB2kLm9pR4tW8 and tr0ub4dor-and-three", names=["tr0ub4dor-and-three"]
    )
    written = path.read_text(encoding="ascii")
    assert "Xq7v" not in written and "tr0ub4dor" not in written
    assert written.count("[redacted:") == 3


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("decisoin", {}, "did you mean 'decision'"),
        ("torn", {}, "there is no kind of record 'torn'"),
        ("gap", {}, "there is no kind of record 'gap'"),
        ("started", {"prev": "0", "hash": "1"}, "the log itself writes hash, prev"),
    ],
)
def test_what_cannot_be_recorded_is_refused(path: Path, kind: str, fields: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AuditLog(path).append(kind, **fields)
    assert not path.exists()


def test_a_full_disk_refuses_and_the_log_stays_sound(path: Path) -> None:
    """Fault 45. The limit on the size of files stops the write in the middle of a line."""
    done = subprocess.run(
        [sys.executable, WRITERS, str(path), "fill", "5000"], capture_output=True, text=True, check=True
    )
    number, _, hint = done.stdout.partition(" ")
    assert hint == "free space on the disk, then run it again\n"
    assert 5 < int(number) < 100
    report = verify(path)
    assert (report.ok, report.records, report.notes) == (True, int(number), ())
    AuditLog(path).append("ended", run="afterwards")
    assert verify(path).records == int(number) + 1


def test_a_half_written_record_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(path)
    log.append("decision", run="r")
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(AuditFailed, match="input/output error"):
        log.append("started", run="r")
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert log.append("started", run="r").number == 2
    assert verify(path).ok


def test_sync_is_an_option(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    AuditLog(path, sync=False).append("decision")
    assert flushed == []
    AuditLog(path).append("decision")
    assert len(flushed) == 1


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_no_log(tmp_path: Path, make) -> None:
    path = tmp_path / "audit.jsonl"
    make(path)
    with pytest.raises(AuditFailed) as caught:
        AuditLog(path).append("decision")
    assert caught.value.next_step
    with pytest.raises(AuditFailed):
        verify(path)


def test_records_are_read_by_run_and_from_the_end(path: Path) -> None:
    log = AuditLog(path, sync=False, max_bytes=900)
    for number in range(9):
        log.append("decision", run=f"run\n{number % 3}", call=str(number))
    assert len(list(path.parent.glob("audit.jsonl.[0-9]"))) > 1, "they are spread over files"
    assert [each["call"] for each in read_records(path, run="run\n1")] == ["1", "4", "7"]
    assert [each["call"] for each in read_records(path, last=2)] == ["7", "8"]
    with pytest.raises(AuditFailed, match="there is no audit log"):
        read_records(path.with_name("other"))


def test_damaged_lines_are_shown_as_such(path: Path) -> None:
    log = AuditLog(path)
    for word in ("one", "two"):
        log.append("decision", run=word)
    path.write_bytes(path.read_bytes().replace(b'"one"', b'"eno"') + b"rubbish\xff")
    assert [(each.get("run"), each.get("damaged")) for each in read_records(path)] == [
        ("eno", True),
        ("two", None),
        (None, True),
    ]


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "linux", "/s/dragoman/audit.jsonl"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "linux", "/h/.local/state/dragoman/audit.jsonl"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Application Support/dragoman/audit.jsonl"),
        ({"HOME": "/h", "LOCALAPPDATA": "/l"}, "win32", "/l/dragoman/audit.jsonl"),
    ],
)
def test_it_is_in_the_folder_of_the_journal(environment: dict[str, str], platform: str, expected: str) -> None:
    from dragoman.journal import default_path

    assert beside(default_path(environment, platform=platform)) == Path(expected)
