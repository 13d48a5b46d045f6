"""Recordings contain no secret, replay the answers, and a request without a recording names the difference."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from dragoman.client import Client, HttpRequest, Retries, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.secrets.exchanges import REDACTED, RecordingRedactor
from dragoman.testing import (
    Answer,
    CassetteMiss,
    RecordingTransport,
    ReplayTransport,
    ScriptedModel,
    call,
    cassette,
    every_split,
)
from dragoman.types import Message, Reply, Request, Text

NEVER_AGAIN = Retries(attempts=1)


def ask(transport: Any, words: str = "Is it warm?", *, whole: bool = True, spoken: str = "openai_chat") -> Reply:
    client = Client(ScriptedModel(wire=spoken).endpoint(), transport=transport, retries=NEVER_AGAIN)
    return asyncio.run(client.ask(Request("", [Message("user", [Text(words)])]), whole=whole))


def send(transport: Any, request: HttpRequest) -> tuple[int, bytes]:
    async def run() -> tuple[int, bytes]:
        response = await transport.send(request, Timeouts())
        try:
            return response.status, b"".join([piece async for piece in response.pieces()])
        finally:
            await response.close()

    return asyncio.run(run())


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("spoken", ["openai_chat", "anthropic", "ollama", "bedrock"])
def test_what_was_recorded_is_replayed(tmp_path: Path, spoken: str, whole: bool) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    script = ScriptedModel([["Zürich: ", call("weather", city="Zürich")]], wire=spoken, pieces=5)
    first = ask(RecordingTransport(script, path), whole=whole, spoken=spoken)
    again = ReplayTransport(path)
    assert ask(again, whole=whole, spoken=spoken) == first
    assert first.calls
    again.assert_all_used()


def test_a_line_is_readable_and_has_the_pieces_as_they_came(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    pieces = ["data: ä".encode()[:7], "data: ä".encode()[7:], b"\n\n"]
    script = ScriptedModel([Answer(200, {"Content-Type": "text/event-stream", "Date": "now"}, pieces=pieces)])
    send(RecordingTransport(script, path), HttpRequest("POST", "http://host/v1/chat/completions", {}, b'{"model":"m"}'))
    [line] = path.read_text("utf-8").splitlines()
    assert msgspec.json.decode(line) == {
        "number": 0,
        "request": {"method": "POST", "url": "http://host/v1/chat/completions", "body": {"model": "m"}},
        "response": {
            "status": 200,
            "headers": {"content-type": "text/event-stream"},
            "pieces": [{"base64": "ZGF0YTogww=="}, {"base64": "pA=="}, "\n\n"],
        },
    }


SECRET = "very-secret-0123456789"


@pytest.mark.parametrize(
    ("headers", "url", "body"),
    [
        ({"Authorization": f"Bearer {SECRET}"}, "http://host/v1/messages", b'{"a": 1}'),
        ({"X-Api-Key": SECRET}, "http://host/v1/messages", b'{"a": 1}'),
        ({"x-goog-api-key": SECRET}, "http://host/v1/messages", b'{"a": 1}'),
        ({"Cookie": f"session={SECRET}"}, "http://host/v1/messages", b'{"a": 1}'),
        ({"X-Amz-Security-Token": SECRET}, "http://host/v1/messages", b'{"a": 1}'),
        ({}, f"http://host/v1/messages?key={SECRET}&alt=sse", b'{"a": 1}'),
        ({}, f"http://name:{SECRET}@host/v1/messages", b'{"a": 1}'),
        ({"api-key": SECRET}, "http://host/v1/messages", f'{{"echo": "my key is {SECRET}."}}'.encode()),
        ({}, "http://host/v1/messages", b'{"echo": "sk-live-abcdefghijklmnop1234"}'),
        ({}, "http://host/v1/messages", b'{"echo": "customer 12345678"}'),
    ],
    ids=["bearer", "x-api-key", "goog", "cookie", "aws token", "query", "user info", "body", "shape", "own pattern"],
)
def test_no_secret_reaches_the_disk(tmp_path: Path, headers: dict[str, str], url: str, body: bytes) -> None:
    path = tmp_path / "run.jsonl"
    request = HttpRequest("POST", url, headers, body)
    echoes = Answer(200, {"Set-Cookie": f"id={SECRET}", "content-type": "text/plain"}, b"you said: " + body)
    script = ScriptedModel([echoes])
    send(RecordingTransport(script, path, redact=[r"customer \d+"]), request)
    written = path.read_text("utf-8")
    for secret in (SECRET, "sk-live-abcdefghijklmnop1234", "12345678"):
        assert secret not in written
    assert REDACTED in written
    status, _ = send(ReplayTransport(path, redact=[r"customer \d+"]), request)
    assert status == 200


def test_a_secret_across_two_pieces_is_found() -> None:
    redactor = RecordingRedactor()
    redactor.learn({"authorization": f"Bearer {SECRET}"})
    body = f"before {SECRET} after".encode()
    for pieces in every_split(body):
        assert b"".join(redactor.pieces(pieces)) == f"before {REDACTED} after".encode()


def test_another_key_finds_the_same_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    request = HttpRequest("POST", "http://host/v1/messages?key=first-key-1", {"x-api-key": "first-key-1"}, b'{"a":1}')
    send(RecordingTransport(ScriptedModel([Answer(body="hello")]), path), request)
    other = structs.replace(
        request, url="http://host/v1/messages?key=second-key-2", headers={"x-api-key": "second-key-2"}
    )
    assert send(ReplayTransport(path), other) == (200, b"hello")


def test_the_order_of_members_does_not_matter_and_that_of_messages_does(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    request = HttpRequest("POST", "http://host/v1/messages", {}, b'{"a": [1, 2], "b": 2}')
    send(RecordingTransport(ScriptedModel([Answer(body="hello")]), path), request)
    assert ReplayTransport(path).knows(structs.replace(request, body=b'{"b":2,"a":[1,2]}'))
    assert not ReplayTransport(path).knows(structs.replace(request, body=b'{"b":2,"a":[2,1]}'))


def test_each_lane_keeps_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = RecordingTransport(ScriptedModel(["a1", "b1", "a2"]), path)
    for words in ("a", "b", "a"):
        ask(recording, words)
    replay = ReplayTransport(path)
    assert [ask(replay, words).text for words in ("b", "a", "a")] == ["b1", "a1", "a2"]


def test_faults_of_the_connection_are_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cut = Answer(200, {"content-type": "text/event-stream"}, b"data: {}", fault=TransportFault("stream_cut", "gone"))
    recording = RecordingTransport(ScriptedModel([TransportFault("unreachable", "no", code="refused"), cut]), path)
    live = [ask(recording, whole=False).failure for _ in range(2)]
    replay = ReplayTransport(path)
    assert [ask(replay, whole=False).failure for _ in range(2)] == live
    assert [failure and failure.kind for failure in live] == ["unreachable", "stream_cut"]


def test_a_miss_is_loud_and_shows_the_difference_to_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = RecordingTransport(ScriptedModel(["a", "b"]), path)
    ask(recording, "Tell me of the sea and of the mountains")
    ask(recording, "Is it warm in Paris?")
    with pytest.raises(CassetteMiss) as caught:
        ask(ReplayTransport(path), "Is it warm in Rome?")
    shown = str(caught.value)
    assert '-      "content": "Is it warm in Paris?"' in shown
    assert '+      "content": "Is it warm in Rome?"' in shown
    assert "recorded, number 1" in shown


def test_a_request_made_once_too_often_is_a_miss(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask(RecordingTransport(ScriptedModel(["a"]), path))
    replay = ReplayTransport(path)
    ask(replay)
    with pytest.raises(CassetteMiss, match="contains this request 1 times"):
        ask(replay)


def test_unused_recordings_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = RecordingTransport(ScriptedModel(["a", "b"]), path)
    ask(recording, "one")
    ask(recording, "two")
    replay = ReplayTransport(path)
    ask(replay, "two")
    with pytest.raises(AssertionError, match=r"1 recordings(?s:.)*one"):
        replay.assert_all_used()


# ---- modes -----------------------------------------------------------------------------------------------------------


def dry() -> ScriptedModel:
    return ScriptedModel([])


def test_once_records_the_first_time_and_replays_ever_after(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with cassette(path, transport=ScriptedModel(["live"])) as transport:
        assert ask(transport).text == "live"
    with cassette(path, transport=dry(), all_used=True) as transport:
        assert ask(transport).text == "live"
    with pytest.raises(CassetteMiss), cassette(path, transport=dry()) as transport:
        ask(transport, "something else")


def test_none_never_records(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no recording"), cassette(tmp_path / "x.jsonl", record="none"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_new_records_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for _ in range(2):
        live = ScriptedModel(["live"])
        with cassette(path, "new", transport=live) as transport:
            ask(transport, "one")
        with cassette(path, "new", transport=ScriptedModel(["more"])) as transport:
            assert [ask(transport, "one").text, ask(transport, "two").text] == ["live", "more"]
    numbers = [msgspec.json.decode(line)["number"] for line in path.read_text().splitlines()]
    assert numbers == [0, 1]


def test_the_mode_all_records_every_request_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for words in ("old", "fresh"):
        with cassette(path, "all", transport=ScriptedModel([words])) as transport:
            assert ask(transport).text == words
    assert len(path.read_text().splitlines()) == 1


def test_unused_recordings_fail_the_test_when_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with cassette(path, transport=ScriptedModel(["live"])) as transport:
        ask(transport)
    with pytest.raises(AssertionError, match="were not used"), cassette(path, "none", all_used=True):
        pass


def test_what_differs_in_every_run_can_be_ignored(tmp_path: Path) -> None:
    def forget_user(body: Any) -> Any:
        return {name: value for name, value in body.items() if name != "messages"}

    path = tmp_path / "run.jsonl"
    with cassette(path, transport=ScriptedModel(["live"]), ignore=forget_user) as transport:
        ask(transport, "at 10:01")
    with cassette(path, "none", ignore=forget_user) as transport:
        assert ask(transport, "at 10:02").text == "live"


def test_the_error_of_a_damaged_recording_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask(RecordingTransport(ScriptedModel(["a"]), path))
    path.write_text(path.read_text() + "{half a li")
    with pytest.raises(ConfigError, match="line 2"):
        ReplayTransport(path)


def test_an_answer_that_was_not_read_to_its_end_is_kept_as_far_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def peek(transport: RecordingTransport) -> None:
        response = await transport.send(HttpRequest("POST", "http://host/v1/messages", {}), Timeouts())
        pieces = response.pieces()
        assert await anext(pieces) == b"one"
        await pieces.aclose()  # type: ignore[attr-defined]
        await transport.close()

    script = ScriptedModel([Answer(pieces=[b"one", b"two"])])
    asyncio.run(peek(RecordingTransport(script, path)))
    assert msgspec.json.decode(path.read_bytes())["response"]["pieces"] == ["one"]
    assert script.closed
