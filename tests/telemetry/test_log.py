"""The log: one line per event, of limited size, without secrets. A failure of it stops no run."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.telemetry.conftest import call, ended, reply, send, started, tool_ended, whole_run

from dragoman.agent.events import RunEvent, ToolEnded, ToolStarted
from dragoman.events import ArgumentsDelta, CallStarted, ReplyFailed, TextDelta, ThinkingDelta
from dragoman.telemetry import Bounds, JsonLog
from dragoman.types import Failure, Image, ToolCall, ToolResult


def lines_of(events: list[RunEvent], **options: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    with JsonLog(stream, clock=lambda: 0.0, **options) as log:
        send(log, events)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_line_per_event_with_run_turn_and_time() -> None:
    lines = lines_of(whole_run())
    assert [(line["type"], line["turn"]) for line in lines] == [
        ("RunStarted", 0),
        ("Asked", 1),
        ("ReplyStarted", 1),
        ("CallEnded", 1),
        ("UsageReported", 1),
        ("ReplyEnded", 1),
        ("ToolStarted", 1),
        ("ToolEnded", 1),
        ("TurnEnded", 1),
        ("Asked", 2),
        ("ReplyStarted", 2),
        ("TextDelta", 2),
        ("UsageReported", 2),
        ("ReplyEnded", 2),
        ("TurnEnded", 2),
        ("RunEnded", 2),
    ]
    assert {line["run"] for line in lines} == {"run-1"}
    assert {line["time"] for line in lines} == {"1970-01-01T00:00:00.000Z"}
    assert lines[6]["call"] == {"id": "call_weather_1", "name": "weather", "arguments": {"city": "Paris"}}
    assert lines[7]["result"]["content"] == "12 degrees"
    assert lines[11]["text"] == "It is cold."
    assert (lines[-1]["outcome"]["kind"], lines[-1]["cost"]) == ("answered", 0.25)


def test_pieces_of_a_text_are_joined_or_skipped_and_arguments_always_skipped() -> None:
    events: list[RunEvent] = [
        started(),
        ThinkingDelta("hm"),
        ThinkingDelta("m"),
        TextDelta("a"),
        TextDelta("b"),
        CallStarted(0, "x", "1"),
        ArgumentsDelta(0, "{}"),
        TextDelta("c"),
    ]
    joined = [(line["type"], line.get("text")) for line in lines_of(events)]
    assert joined == [
        ("RunStarted", None),
        ("ThinkingDelta", "hmm"),
        ("TextDelta", "ab"),
        ("CallStarted", None),
        ("TextDelta", "c"),
    ]
    assert [line["type"] for line in lines_of(events, deltas="skip")] == ["RunStarted", "CallStarted"]


def test_texts_of_two_runs_are_not_mixed() -> None:
    stream = io.StringIO()
    with JsonLog(stream) as log:
        for letter in "abc":
            log("one", TextDelta(letter))
            log("two", TextDelta(letter.upper()))
    told = {line["run"]: line["text"] for line in map(json.loads, stream.getvalue().splitlines())}
    assert told == {"one": "abc", "two": "ABC"}


SECRET = 'sk-"quoted"-secret'


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(f"the key is {SECRET}."),
        ToolStarted(call("x", key=SECRET, inner=[{SECRET: [SECRET]}])),
        tool_ended(call("x"), json.dumps({"key": SECRET})),
        ReplyFailed(Failure("unauthorized", f"bad key {SECRET}", body={"sent": SECRET})),
        ended(text=SECRET),
    ],
    ids=["text", "arguments", "a result as JSON", "a failure", "the answer"],
)
def test_registered_secrets_are_nowhere(event: RunEvent) -> None:
    stream = io.StringIO()
    with JsonLog(stream, secrets=[SECRET]) as log:
        log("run-1", event)
    assert "quoted" not in stream.getvalue()
    assert "run-1" in stream.getvalue()


@given(
    st.text("ab", max_size=60),
    st.integers(0, 60),
    st.text("ab", max_size=60),
    st.lists(st.integers(0, 120), max_size=6),
)
def test_a_secret_across_pieces_and_cuts_is_never_shown_in_part(
    before: str, most: int, after: str, cuts: list[int]
) -> None:
    secret = "S1234567890"
    text = before + secret + after + secret
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [TextDelta(text[start:stop]) for start, stop in pairwise(places)]
    (line,) = lines_of(list(pieces), secrets=[secret], bounds=Bounds(text=most))
    told = line["text"].replace("[redacted:secret]", "").partition("…")[0]
    assert not set(told) & set(secret)


def test_long_values_are_cut_where_one_can_see_it() -> None:
    huge = call("x", text="x" * 10_000, many=list(range(500)), deep=json.loads("[" * 50 + "]" * 50))
    (line,) = lines_of([ToolStarted(huge)])
    arguments = line["call"]["arguments"]
    assert arguments["text"] == "x" * 2_000 + "… [cut, 10000 characters in all]"
    assert arguments["many"][-1] == "… [400 of 500 entries cut]"
    assert "nested deeper" in json.dumps(arguments["deep"], ensure_ascii=False)


def test_a_line_has_a_bound_however_many_values_there_are() -> None:
    (line,) = lines_of([ToolStarted(call("x", **{f"a{number}": "y" * 1_900 for number in range(100)}))])
    assert set(line) == {"time", "run", "turn", "type", "cut"}


def test_a_long_text_is_gathered_in_bounded_memory() -> None:
    (line,) = lines_of([TextDelta("z" * 100) for _ in range(1_000)], bounds=Bounds(text=50))
    assert line["text"] == "z" * 50 + "… [cut, 100000 characters in all]"


@pytest.mark.parametrize(
    "content",
    ["two\nlines\r\nand\u2028more\u0085", "half \ud83d a pair", "\0 \x1b[31m"],
    ids=["ends", "half", "control"],
)
def test_a_line_stays_one_line(content: str) -> None:
    stream = io.StringIO()
    with JsonLog(stream) as log:
        log("run\n1", tool_ended(call("x"), content))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["result"]["content"] == content


def test_odd_values_of_tools_do_not_stop_it() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    arguments = {"number": float("nan"), "bytes": b"abc", "rude": Rude(), "set": {1}}
    image = ToolResult("1", "x", [Image(data="A" * 5_000, media_type="image/png")])
    (first, second) = lines_of(
        [
            ToolStarted(ToolCall("1", "x", arguments)),
            ToolEnded(call("x"), image),
        ]
    )
    assert first["call"]["arguments"] == {"number": "nan", "bytes": "[3 bytes]", "rude": "[Rude]", "set": [1]}
    assert second["result"]["content"] == [{"kind": "image", "media_type": "image/png", "characters": 5000}]


# ---- the disk ------------------------------------------------------------------------------------------------------


def test_a_file_is_appended_to_and_private(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    for _ in range(2):
        with JsonLog(path) as log:
            send(log, [started()])
    assert len(path.read_text(encoding="ascii").splitlines()) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_opened_is_reported_once_and_stops_no_run(tmp_path: Path) -> None:
    reports: list[str] = []
    log = JsonLog(tmp_path / "no" / "such" / "folder.log", report=reports.append)
    send(log, whole_run())
    log.close()
    assert len(reports) == 1
    assert "the run continues without it" in reports[0]


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    room = [10_000]
    write = os.write

    def scarce(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr("dragoman.telemetry.log.os.write", scarce)
    reports: list[str] = []
    log = JsonLog(path, report=reports.append)
    log("run-1", started())
    room[0] = 20
    for event in reply(1)[:3]:
        log("run-1", event)
    assert log.lost == 3
    room[0] = 10_000
    log("run-1", ended())
    log.close()
    lines = path.read_text(encoding="ascii").splitlines()
    assert len(reports) == 1
    assert len(lines[1]) == 20, "what was taken of the line that did not fit"
    assert [json.loads(line)["type"] for line in (lines[0], *lines[2:])] == ["RunStarted", "LinesLost", "RunEnded"]
    assert json.loads(lines[2])["lines"] == 3


def test_a_closed_stream_stops_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    stream.close()
    send(log, whole_run())
    assert capsys.readouterr().err.count("cannot write the log") == 1


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with JsonLog(path) as log:
        threads = [threading.Thread(target=send, args=(log, whole_run(f"run-{n}"), f"run-{n}")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert len(lines) == 8 * 16
