"""Faults 7 to 14: faults inside a stream."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.faults.streams import QUESTION, TWICE, WIRES, ask, header, record

from dragoman.testing import Answer, ScriptedModel, call, chunkings, sse
from dragoman.types import Failure, JsonObject, Message, Reply, Text, Usage

LINES = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
SSE = [spoken for spoken in WIRES if spoken not in ("ollama", "bedrock")]


def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(index: Any, arguments: str, **more: Any) -> JsonObject:
    """A delta of one call of the OpenAI wire."""
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return chunk({"tool_calls": [{"index": index, "function": function, **more}]})


def read(*frames: Any, done: bool = True, **settings: Any) -> Reply:
    return ask(ScriptedModel([sse(frames, done=done)]), **settings)


def named(reply: Reply) -> list[tuple[str, JsonObject]]:
    return [(made.name, made.arguments) for made in reply.calls]


EXPECTED = [("weather", {"city": "Paris"}), ("weather", {"city": "Zürich", "days": 3})]
START = piece(0, "", id="call_a", name="weather")
END = chunk({}, "tool_calls")


# ---- 7 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", LINES)
@pytest.mark.parametrize("spoken", SSE)
def test_7_line_ends_comments_empty_data_and_a_bom_in_any_chunking_change_nothing(spoken: str, ending: str) -> None:
    data = b"".join(record(spoken)).replace(b"\n", LINES[ending])
    blank = LINES[ending]
    decorated = b"\xef\xbb\xbf: hello" + blank + blank + b"data:" + blank + blank + b"retry: 10" + blank + data
    for pieces in chunkings(decorated, most=12):
        reply = ask(ScriptedModel([Answer(200, header(spoken), pieces=pieces)], wire=spoken))
        assert (named(reply), reply.text, reply.failure) == (EXPECTED, "Let me look: °C.", None)


@pytest.mark.parametrize("spoken", ["ollama", "bedrock"])
def test_7_other_framings_in_any_chunking(spoken: str) -> None:
    data = b"".join(record(spoken))
    if spoken == "ollama":
        data = b"\n\n" + data.replace(b"\n", b"\r\n")
    for pieces in chunkings(data, most=40):
        reply = ask(ScriptedModel([Answer(200, header(spoken), pieces=pieces)], wire=spoken))
        assert (named(reply), reply.text, reply.failure) == (EXPECTED, "Let me look: °C.", None)


# ---- 8: the same event twice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoken", WIRES)
def test_8_a_frame_that_comes_twice_never_changes_the_arguments_of_a_call(spoken: str) -> None:
    frames = record(spoken)
    whole = 0
    for place, frame in enumerate(frames):
        doubled = [*frames[:place], frame, *frames[place:]]
        reply = ask(ScriptedModel([Answer(200, header(spoken), pieces=doubled)], wire=spoken))
        for made in named(reply):
            assert made in EXPECTED, (place, made)
        whole += named(reply) == EXPECTED
    assert whole, "some frames may come twice without harm"


# ---- 9 and 10 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoken", WIRES)
def test_9_a_frame_that_comes_late_never_mixes_arguments(spoken: str) -> None:
    frames = record(spoken)
    for place in range(len(frames) - 1):
        swapped = [*frames[:place], frames[place + 1], frames[place], *frames[place + 2 :]]
        reply = ask(ScriptedModel([Answer(200, header(spoken), pieces=swapped)], wire=spoken))
        for made in named(reply):
            assert made in EXPECTED, (place, made)


def test_9_the_second_call_before_the_first_is_put_in_its_place() -> None:
    second = piece(1, '{"city": "Rome"}', id="call_b", name="weather")
    first = piece(0, '{"city": "Paris"}', id="call_a", name="weather")
    reply = read(second, first, END)
    assert sorted(made["city"] for _, made in named(reply)) == ["Paris", "Rome"]


def test_9_arguments_before_the_name_are_no_other_call() -> None:
    reply = read(piece(0, '{"city": '), piece(0, '"Paris"}', id="call_a", name="weather"), END)
    assert named(reply) in ([("weather", {"city": "Paris"})], [])
    assert reply.calls or reply.invalid


def test_10_interleaved_calls_stay_apart() -> None:
    reply = read(
        piece(0, "", id="call_a", name="weather"),
        piece(1, "", id="call_b", name="weather"),
        piece(0, '{"city": '),
        piece(1, '{"city": "Ro'),
        piece(0, '"Paris"}'),
        piece(1, 'me"}'),
        END,
    )
    assert named(reply) == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]
    assert [made.id for made in reply.calls] == ["call_a", "call_b"]


# ---- 11 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [7, -1, None, "0", 10**12], ids=str)
def test_11_a_delta_without_a_name_is_never_a_call(index: Any) -> None:
    reply = read(START, piece(0, '{"city": "Paris"}'), piece(index, '{"city": "Rome"}'), END)
    assert all(made == ("weather", {"city": "Paris"}) for made in named(reply))


@pytest.mark.parametrize(
    ("spoken", "late"),
    [
        ("openai_chat", b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":5,"id":"x","function":'),
        ("anthropic", b'event: content_block_start\ndata: {"type":"content_block_start","index":9,"content_block":'),
        ("ollama", b'{"message":{"tool_calls":[{"function":{"name":"weather","arguments":{"city":"late"}}}]}}\n'),
        ("gemini", b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":{}}}]}}]}\n\n'),
    ],
)
def test_11_what_comes_behind_the_end_is_never_a_call(spoken: str, late: bytes) -> None:
    if spoken == "openai_chat":
        late += b'{"name":"weather","arguments":"{}"}}]}}]}\n\n'
    if spoken == "anthropic":
        late += b'{"type":"tool_use","id":"x","name":"weather","input":{}}}\n\n'
    reply = ask(ScriptedModel([Answer(200, header(spoken), pieces=[*record(spoken), late])], wire=spoken))
    assert named(reply) == EXPECTED


# ---- 12 and 13: the end of a stream ----------------------------------------------------------------------------------


def test_12_without_the_last_frame_nothing_runs_unless_the_endpoint_is_known_for_it() -> None:
    frames = [START, piece(0, '{"city": "Paris"}'), END]
    reply = read(*frames, done=False)
    assert (reply.calls, reply.failure and reply.failure.kind) == ([], "stream_cut")
    script = ScriptedModel([sse(frames, done=False)])
    known = ask(script, endpoint=script.endpoint(quirks={"final_frame": False}))
    assert (named(known), known.failure) == ([("weather", {"city": "Paris"})], None)


def test_13_the_last_frame_is_an_end_also_without_a_reason() -> None:
    reply = read(START, piece(0, '{"city": "Paris"}'))
    assert (named(reply), reply.failure) == ([("weather", {"city": "Paris"})], None)


def test_13_and_half_arguments_stay_half() -> None:
    reply = read(START, piece(0, '{"city": "Par'))
    assert reply.calls == [] and len(reply.invalid) == 1


# ---- 14: an error inside of the stream -------------------------------------------------------------------------------


def failing(*said: Any) -> Reply:
    failure = Failure("overloaded", "too many people ask", code="overloaded_error")
    return Reply(Message("assistant", list(said)), Usage(1, 1), "error", failure=failure)


@pytest.mark.parametrize("spoken", WIRES)
def test_14_an_error_in_mid_stream_ends_the_reply_and_discards_its_calls(spoken: str) -> None:
    script = ScriptedModel([failing(Text("Let me "), call("weather", city="Paris")), "never asked for"], wire=spoken)
    reply = ask(script, retries=TWICE)
    assert reply.failure is not None and reply.failure.kind in ("overloaded", "server_error")
    assert (reply.text, reply.calls, reply.stop) == ("Let me ", [], "error")
    assert script.left == 1, "something was delivered, so nothing is tried again"


@pytest.mark.parametrize("spoken", WIRES)
def test_14_an_error_before_anything_else_is_tried_again(spoken: str) -> None:
    script = ScriptedModel([failing(), "Yes."], wire=spoken)
    reply = ask(script, retries=TWICE)
    assert (reply.text, reply.failure, len(script.exchanges)) == ("Yes.", None, 2)


def test_the_question_was_sent_as_it_is() -> None:
    script = ScriptedModel(["Yes."])
    ask(script)
    assert msgspec.json.decode(script.exchanges[0].sent.body)["stream"] is True
    assert script.requests[0].messages == QUESTION.messages
