"""Replies of generateContent: bodies, streams, and what becomes of those that are cut, odd or wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.gemini.samples import mutations_of

from dragoman.events import CallEnded, Event
from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Image, Reply, Request, StopReason, Text, Thinking, Tool, ToolCall, Usage
from dragoman.wire import registry
from dragoman.wire.codec import Prepared

GEMINI = registry.get("gemini")
SIGNATURE = "c2lnbmF0dXJl"
PIXEL = "iVBORw0KGgo="


def chunk(*parts: dict[str, Any], finish: str = "", **fields: Any) -> dict[str, Any]:
    """One GenerateContentResponse with these parts."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3-pro", "responseId": "r1", **fields}


def call(name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    own = {key: more.pop(key) for key in ("thoughtSignature",) if key in more}
    return {"functionCall": {"name": name, **({} if arguments is None else {"args": arguments}), **more}, **own}


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(entry) + b"\r\n\r\n" for entry in chunks)


def array(*chunks: Any) -> bytes:
    """The same as one list, laid out as the server does it."""
    written = [msgspec.json.format(msgspec.json.encode(entry), indent=2) for entry in chunks]
    return b"[" + b"\r\n,\r\n".join(written) + b"\n]\n"


def read(*pieces: bytes, sent: Prepared | None = None) -> list[Event]:
    return collect(GEMINI.reply_stream(sent), pieces)


USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 22,
}
RECORDED = (
    chunk({"text": "Let me ", "thought": True}),
    chunk({"text": "think.", "thought": True}, usageMetadata={"promptTokenCount": 10}),
    chunk({"text": "Grüße 世"}),
    chunk({"text": "界 🌍"}),
    chunk(call("search", {"query": "Ça \n"}, thoughtSignature=SIGNATURE)),
    chunk(call("ping", {}, id="srv-2")),
    chunk({"text": "", "thoughtSignature": "bGFzdA=="}, finish="STOP", usageMetadata=USAGE),
)


# ---- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sse, array])
def test_a_recorded_stream(form: Any) -> None:
    reply = fold(read(form(*RECORDED)))
    thought, text, search, ping, last = reply.message.parts
    assert thought == Thinking("Let me think.", {"gemini": {"thought": True}})
    assert text == Text("Grüße 世界 🌍")
    assert isinstance(search, ToolCall) and isinstance(ping, ToolCall)
    assert (search.name, search.arguments, search.wire_id) == ("search", {"query": "Ça \n"}, None)
    assert search.extra == {"gemini": {"thought_signature": SIGNATURE}}
    assert (ping.id, ping.wire_id, ping.arguments) == ("srv-2", "srv-2", {})
    assert last == Text("", {"gemini": {"thought_signature": "bGFzdA=="}})
    assert reply.usage == Usage(10, 12, 4, 7)
    assert (reply.stop, reply.model, reply.id, reply.failure) == ("tool_calls", "gemini-3-pro", "r1", None)


@pytest.mark.parametrize("form", [sse, array])
def test_any_split_gives_the_same_events(form: Any) -> None:
    stream = form(*RECORDED)
    whole = read(stream)
    for place in range(len(stream) + 1):
        assert read(stream[:place], stream[place:]) == whole
    assert read(*(stream[place : place + 1] for place in range(len(stream)))) == whole


@pytest.mark.parametrize("form", [sse, array])
def test_a_stream_that_ends_too_soon_completes_no_call(form: Any) -> None:
    stream = form(*RECORDED)
    # The last chunk is all there once its closing bracket is: what follows is framing.
    end = stream.rindex(b"}") + 1
    for place in range(end):
        events = read(stream[:place])
        assert not any(isinstance(event, CallEnded) for event in events)
        reply = fold(events)
        assert reply.calls == []
        assert reply.stop == "error"
        assert reply.failure is not None and reply.failure.kind == "stream_cut"
    assert len(fold(read(stream[:end])).calls) == 2


def test_whole_bodies_and_streams_agree() -> None:
    parts = [part for entry in RECORDED for part in entry["candidates"][0].get("content", {}).get("parts", [])]
    whole = chunk(*parts, finish="STOP", usageMetadata=USAGE)
    streamed = fold(read(sse(*RECORDED)))
    assert GEMINI.decode_reply(whole) == streamed
    assert GEMINI.decode_reply(msgspec.json.encode(whole)) == streamed
    assert GEMINI.decode_reply(msgspec.json.encode(list(RECORDED))) == streamed


def test_a_signed_part_is_never_merged_with_its_neighbours() -> None:
    signed = {"text": "b", "thoughtSignature": SIGNATURE}
    reply = fold(
        read(sse(chunk({"text": "a"}), chunk(signed), chunk({"text": "c"}), chunk({"text": "d"}, finish="STOP")))
    )
    assert reply.message.parts == [Text("a"), Text("b", {"gemini": {"thought_signature": SIGNATURE}}), Text("cd")]


def test_the_counts_may_come_behind_the_finish_reason() -> None:
    late = {"usageMetadata": USAGE, "modelVersion": "gemini-3-pro"}
    assert fold(read(sse(chunk({"text": "Hi"}, finish="STOP"), late))).usage == Usage(10, 12, 4, 7)


def test_what_built_in_tools_fed_to_the_model_counts_as_input() -> None:
    usage = {"promptTokenCount": 10, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 5}
    assert GEMINI.decode_reply(chunk({"text": "Hi"}, finish="STOP", usageMetadata=usage)).usage == Usage(13, 5)


def test_servers_that_say_the_finish_reason_every_time_are_read_to_the_end() -> None:
    reply = fold(read(sse(chunk({"text": "a"}, finish="STOP"), chunk(call("ping", {}), finish="STOP"))))
    assert (reply.text, [made.name for made in reply.calls], reply.stop) == ("a", ["ping"], "tool_calls")


def test_a_reason_before_the_first_part_is_no_end() -> None:
    early, words, last = chunk(finish="STOP"), chunk({"text": "Hi"}), chunk(finish="STOP")
    assert fold(read(sse(early), sse(early), sse(words), sse(last))).text == "Hi"
    cut = fold(read(sse(early), sse(words)))
    assert cut.failure is not None
    assert cut.failure.kind == "stream_cut"


def test_behind_the_chunk_that_ends_a_reply_only_the_counts_are_read() -> None:
    late = chunk(call("pong", {}), usageMetadata=USAGE)
    again = chunk(call("ping", {}), finish="MAX_TOKENS")
    reply = fold(read(sse(chunk(call("ping", {}), finish="STOP"), late, again)))
    assert ([made.name for made in reply.calls], reply.stop, reply.usage) == (
        ["ping"],
        "tool_calls",
        Usage(10, 12, 4, 7),
    )


def test_calls_without_ids_get_ids_that_no_call_of_the_history_has() -> None:
    sent = GEMINI.prepare(
        Request("gemini-3-pro", [GEMINI.decode_reply(chunk(call("ping", {}), finish="STOP")).message], [])
    )
    calls = fold(read(sse(chunk(call("ping", {}), call("ping", {}), finish="STOP")), sent=sent)).calls
    assert [(made.id, made.wire_id) for made in calls] == [("call_2", None), ("call_3", None)]


def test_two_calls_under_one_id_are_told_apart() -> None:
    calls = fold(read(sse(chunk(call("a", {}, id="x"), call("b", {}, id="x"), finish="STOP")))).calls
    assert [made.name for made in calls] == ["a", "b"]
    assert len({made.id for made in calls}) == 2


def test_names_and_arguments_come_back_as_the_tools_have_them() -> None:
    tool = Tool("weather/now!", "", {"type": "object", "properties": {"n": {"enum": [1, 2]}}})
    sent = GEMINI.prepare(Request("gemini-3-pro", [], [tool]))
    [made] = fold(read(sse(chunk(call("weather_now_", {"n": "2"}), finish="STOP")), sent=sent)).calls
    assert (made.name, made.arguments, made.known_tool) == ("weather/now!", {"n": 2}, True)


# ---- parts ---------------------------------------------------------------------------------------------------------


def test_pictures_that_the_model_made() -> None:
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thoughtSignature": SIGNATURE},
        {"file_data": {"file_uri": "gs://bucket/cat.webp", "mime_type": "image/webp"}},
    ]
    assert fold(read(sse(chunk(*parts, finish="STOP")))).message.parts == [
        Image(None, PIXEL, "image/png", {"gemini": {"thought_signature": SIGNATURE}}),
        Image("gs://bucket/cat.webp", None, "image/webp"),
    ]


def test_parts_of_other_kinds_are_kept_for_this_wire() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": SIGNATURE}
    reply = GEMINI.decode_reply(chunk({"text": "So:"}, code, {"text": "2"}, finish="STOP"))
    assert reply.message.parts == [Text("So:"), Text("", {"gemini": {"part": code}}), Text("2")]
    assert reply.text == "So:2"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(None, {}), ({}, {}), ({"a": 1}, {"a": 1}), ('{"a": 1}', {"a": 1}), ("", {})],
)
def test_arguments_in_the_forms_that_servers_give_them(arguments: Any, expected: Any) -> None:
    [made] = GEMINI.decode_reply(chunk(call("ping", arguments), finish="STOP")).calls
    assert made.arguments == expected


@pytest.mark.parametrize("part", [call("ping", [1]), call("ping", 7), call("", {}), {"functionCall": {}}])
def test_a_call_that_makes_no_sense_is_no_call(part: dict[str, Any]) -> None:
    reply = GEMINI.decode_reply(chunk(part, finish="STOP"))
    assert reply.calls == []
    assert len(reply.invalid) == 1


def test_only_the_first_candidate_counts() -> None:
    both = chunk({"text": "one"}, finish="STOP")
    both["candidates"].append({"index": 1, "content": {"parts": [{"text": "two"}]}, "finishReason": "STOP"})
    assert GEMINI.decode_reply(both).text == "one"


def test_what_the_candidate_says_beside_its_content_is_kept() -> None:
    grounded = chunk({"text": "Hi"}, finish="STOP")
    grounded["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["cats"]}
    extra = GEMINI.decode_reply(grounded).extra["gemini"]
    assert extra == {"reason": "STOP", "candidate": {"groundingMetadata": {"webSearchQueries": ["cats"]}}}


# ---- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("LANGUAGE", "refusal"),
        ("BLOCKLIST", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("SPII", "refusal"),
        ("IMAGE_SAFETY", "refusal"),
        ("CONTINUATION", "pause"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("MALFORMED_RESPONSE", "error"),
        ("UNEXPECTED_TOOL_CALL", "error"),
        ("TOO_MANY_TOOL_CALLS", "error"),
        ("OTHER", "error"),
        ("SOMETHING_NEW", "end"),
    ],
)
def test_finish_reasons(reason: str, stop: StopReason) -> None:
    reply = fold(read(sse(chunk({"text": "Hi"}, finish=reason))))
    assert reply.stop == stop
    assert reply.extra == {"gemini": {"reason": reason}}
    assert reply.failure is None


def test_a_malformed_call_tells_what_the_model_wrote() -> None:
    broken = chunk(finish="MALFORMED_FUNCTION_CALL")
    broken["candidates"][0]["finishMessage"] = "Malformed function call: print(default_api.ping("
    reply = fold(read(sse(broken)))
    assert reply.stop == "error"
    assert reply.extra["gemini"]["message"] == "Malformed function call: print(default_api.ping("
    assert reply.message.parts == []


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"])
def test_the_last_call_of_a_reply_that_was_cut_does_not_count(reason: str) -> None:
    reply = fold(read(sse(chunk(call("a", {}), call("b", {}), finish=reason))))
    assert [made.name for made in reply.calls] == ["a"]
    assert [made.name for made in reply.invalid] == ["b"]


def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}
    for reply in (GEMINI.decode_reply(blocked), fold(read(sse(blocked)))):
        assert (reply.stop, reply.failure, reply.usage.input_tokens) == ("refusal", None, 3)
        assert reply.extra["gemini"]["reason"] == "PROHIBITED_CONTENT"


# ---- errors --------------------------------------------------------------------------------------------------------

QUOTA = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ],
    }
}


@pytest.mark.parametrize("body", [QUOTA, [QUOTA], msgspec.json.encode(QUOTA), msgspec.json.encode([QUOTA]).decode()])
def test_an_error_body_also_inside_a_list(body: Any) -> None:
    failure = GEMINI.decode_failure(429, body)
    assert (failure.kind, failure.status, failure.code) == ("rate_limited", 429, "RESOURCE_EXHAUSTED")
    assert failure.retry_after == 34.5
    reply = GEMINI.decode_reply(body)
    assert reply.failure is not None and reply.failure.kind == "rate_limited"


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}, "unauthorized"),
        (
            400,
            {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
            "context_too_long",
        ),
        (400, {"message": "Unknown name", "status": "INVALID_ARGUMENT"}, "bad_request"),
        (403, {"status": "PERMISSION_DENIED"}, "unauthorized"),
        (404, {"status": "NOT_FOUND"}, "not_found"),
        (503, {"message": "The model is overloaded.", "status": "UNAVAILABLE"}, "overloaded"),
        (None, {"code": 504, "status": "DEADLINE_EXCEEDED"}, "timed_out"),
        (500, "broken", "server_error"),
        (None, {"status": "INTERNAL", "code": "x"}, "server_error"),
    ],
)
def test_kinds_of_errors(status: int | None, error: Any, kind: str) -> None:
    assert GEMINI.decode_failure(status, {"error": error}).kind == kind


@pytest.mark.parametrize("body", [None, [], "", "<html>", 7, {"error": None}, {"error": [1]}, b"\xff", [None]])
def test_an_error_body_of_any_shape_is_read(body: Any) -> None:
    assert GEMINI.decode_failure(502, body).kind == "server_error"


@pytest.mark.parametrize("form", [sse, array])
@pytest.mark.parametrize("error", [QUOTA, [QUOTA]])
def test_an_error_in_a_stream_undoes_its_calls(form: Any, error: Any) -> None:
    if form is array and isinstance(error, list):
        error = error[0]
    reply = fold(read(form(chunk({"text": "Hi"}), chunk(call("ping", {})), error)))
    assert (reply.text, reply.calls, reply.stop) == ("Hi", [], "error")
    assert reply.failure is not None and reply.failure.retry_after == 34.5


def test_an_error_page_in_place_of_a_stream() -> None:
    reply = fold(read(msgspec.json.format(msgspec.json.encode(QUOTA), indent=2)))
    assert reply.failure is not None and reply.failure.kind == "rate_limited"


@pytest.mark.parametrize("broken", [b"data: {oops}\n\n", b"data: " + b"[" * 5000 + b"\n\n"])
def test_a_frame_that_is_no_json_is_an_error(broken: bytes) -> None:
    reply = fold(read(sse(chunk(call("ping", {}))), broken, sse(chunk(finish="STOP"))))
    assert reply.calls == []
    assert reply.failure is not None and "not JSON" in reply.failure.message


def test_a_frame_that_is_too_large_is_an_error() -> None:
    reply = fold(read(sse(chunk(call("ping", {}))), b"data: " + b"x" * (17 << 20)))
    assert reply.calls == []
    assert reply.failure is not None and "too large" in reply.failure.message


# ---- the verb ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        chunk(call("ping", {"a": 1}), finish="STOP"),
        [chunk(call("ping", {"a": 1})), chunk(finish="STOP")],
        chunk(call("ping", {"a": 1}))["candidates"][0],
        {"role": "model", "parts": [{"text": "Hi"}, call("ping", {"a": 1})]},
        [{"text": "Hi"}, call("ping", {"a": 1})],
        call("ping", {"a": 1}),
        {"function_call": {"name": "ping", "args": {"a": 1}}},
        {"name": "ping", "args": {"a": 1}},
        [{"name": "ping", "args": {"a": 1}}],
        msgspec.json.encode(chunk(call("ping", {"a": 1}))),
    ],
)
def test_calls_are_found_in_whatever_holds_them(body: Any) -> None:
    [made] = GEMINI.decode_tool_calls(body)
    assert (made.name, made.arguments, made.wire_id) == ("ping", {"a": 1}, None)


@pytest.mark.parametrize("body", [None, {}, [], "", "x", 7, {"candidates": None}, [None], chunk({"text": "Hi"}), QUOTA])
def test_no_calls_where_there_are_none(body: Any) -> None:
    assert GEMINI.decode_tool_calls(body) == []


# ---- anything at all -----------------------------------------------------------------------------------------------

SAMPLES: tuple[Any, ...] = (
    chunk(
        {"text": "a", "thought": True},
        call("f", {"x": [1]}, id="i", thoughtSignature="s"),
        finish="STOP",
        usageMetadata=USAGE,
    ),
    chunk(
        {
            "functionCall": {
                "name": "f",
                "partialArgs": [{"jsonPath": "$.a[0].b", "stringValue": "x"}],
                "willContinue": True,
            }
        }
    ),
    chunk(
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}}, {"functionResponse": {"name": "f", "response": {}}}
    ),
    {"promptFeedback": {"blockReason": "SAFETY"}},
    QUOTA,
)


@given(st.lists(mutations_of(SAMPLES), min_size=1, max_size=3))
def test_no_chunk_makes_the_reader_raise(chunks: list[Any]) -> None:
    reply: Reply = fold(read(sse(*chunks)))
    assert all(made.name for made in reply.calls)
    GEMINI.decode_reply(chunks[0])
    GEMINI.decode_tool_calls(chunks[0])
    GEMINI.decode_failure(None, chunks[0])


@given(st.binary(max_size=60), st.sampled_from([b"", b"[", b"{", b"data: ", b"\xef\xbb\xbf["]))
def test_no_bytes_make_the_stream_raise(junk: bytes, head: bytes) -> None:
    assert fold(read(head + junk)).calls == []
