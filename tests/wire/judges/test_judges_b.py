"""The judges of gemini, ollama, cohere and bedrock read what is right, refuse what is wrong, and touch no network."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.genai.errors import UnknownApiResponseError
from pydantic import ValidationError
from tests.tables import each_row
from tests.wire.judges import bedrock, cohere, gemini, ollama, scenes
from tests.wire.judges.answers import (
    BEDROCK_END,
    BROKEN,
    GEMINI_ERROR,
    OLLAMA_CALLS,
    OLLAMA_END,
    PARIS,
    STREAMS,
    WHOLE,
    cohere_call,
    gemini_event,
    ollama_line,
    to_frames,
    to_sse,
)
from tests.wire.judges.seen import Seen

from dragoman.wire import eventstream, framing

JUDGES: dict[str, Any] = {"gemini": gemini, "ollama": ollama, "cohere": cohere, "bedrock": bedrock}
# ---- what the clients send ----------------------------------------------------------------------------------------

SENT = [(wire, *scene) for wire, judge in JUDGES.items() for scene in judge.sent()]
EVERYWHERE = {
    "plain",
    "stream",
    "max_tokens",
    "system",
    "unicode",
    "empty_text",
    "image",
    "reasoning",
    "tools",
    "parallel_calls",
    "replayed_reasoning",
    "no_argument_call",
    "error_result",
}


def respell(value: Any) -> Any:
    """Write the names of the gemini client's own models as the documents of the server have them."""
    if isinstance(value, list):
        return [respell(item) for item in value]
    if isinstance(value, dict):
        return {re.sub("_([a-z])", lambda hit: hit[1].upper(), key): respell(item) for key, item in value.items()}
    return value


@each_row(("wire", "label", "body", "said"), SENT, ids=[f"{wire}-{label}" for wire, label, _, _ in SENT])
def test_what_a_client_sends_fits_its_own_types(
    wire: str, label: str, body: dict[str, Any], said: dict[str, Any]
) -> None:
    JUDGES[wire].validate_request(respell(body) if wire == "gemini" else body)
    written = json.dumps(body, ensure_ascii=False)
    told = [said["system"], *said["texts"], *said["tools"], *(text for _, text, _ in said["results"])]
    for text in told:
        assert json.dumps(text, ensure_ascii=False)[1:-1] in written
    for id, name, arguments in said["calls"]:
        assert (id or name) in written
        assert all(str(value) in written for value in arguments.values())
    assert written.count(scenes.PIXEL) == said["images"]


@pytest.mark.parametrize("wire", JUDGES)
def test_every_scene_is_sent_and_none_twice(wire: str) -> None:
    labels = [label for owner, label, _, _ in SENT if owner == wire]
    assert len(set(labels)) == len(labels)
    assert set(labels) >= EVERYWHERE


def test_the_gemini_client_writes_its_own_models_in_snake_case() -> None:
    [body] = [body for wire, label, body, _ in SENT if (wire, label) == ("gemini", "image")]
    assert "mime_type" in body["contents"][0]["parts"][1]["inlineData"]
    with pytest.raises(AssertionError, match=r"inlineData\.mime_type: unknown key"):
        gemini.validate_request(body)


# ---- whole answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WHOLE)
def test_a_whole_answer(wire: str) -> None:
    body, seen = WHOLE[wire]
    assert JUDGES[wire].read_whole(body) == seen


EMPTY: list[tuple[str, dict[str, Any], str]] = [
    (
        "gemini",
        {"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}]},
        "STOP",
    ),
    ("ollama", {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}, "stop"),
    ("cohere", {"id": "r1", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": []}}, "COMPLETE"),
    (
        "bedrock",
        {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "end_turn", **BEDROCK_END},
        "end_turn",
    ),
]


@pytest.mark.parametrize(("wire", "body", "stop"), EMPTY, ids=[wire for wire, _, _ in EMPTY])
def test_an_answer_with_nothing_in_it(wire: str, body: dict[str, Any], stop: str) -> None:
    seen = JUDGES[wire].read_whole(body)
    assert (seen.text, seen.thinking, seen.calls, seen.stop, seen.error) == ("", "", (), stop, None)


def test_a_prompt_that_gemini_blocked() -> None:
    seen = gemini.read_whole({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (seen.stop, seen.extra) == ("", {"blocked": "SAFETY"})


# ---- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", STREAMS)
def test_a_stream(wire: str) -> None:
    chunks, seen = STREAMS[wire]
    assert JUDGES[wire].read_stream(chunks) == seen


@pytest.mark.parametrize("wire", STREAMS)
def test_a_stream_that_comes_byte_by_byte(wire: str) -> None:
    chunks, seen = STREAMS[wire]
    stream = b"".join(chunks)
    assert JUDGES[wire].read_stream([stream[place : place + 1] for place in range(len(stream))]) == seen


SEPARATED = "one\u2028two\u2029three\x85four"


@pytest.mark.parametrize(
    ("wire", "chunk"),
    [
        ("ollama", {**ollama_line(content=SEPARATED), **OLLAMA_END}),
        ("gemini", gemini_event({"text": SEPARATED}, finishReason="STOP")),
    ],
)
def test_two_clients_cut_lines_at_every_line_end_of_unicode(wire: str, chunk: dict[str, Any]) -> None:
    """What a server streams to them has U+0085, U+2028 and U+2029 escaped, or they cannot read it."""
    prefix, end = (b"data: ", b"\n\n") if wire == "gemini" else (b"", b"\n")
    escaped = prefix + json.dumps(chunk).encode() + end
    assert JUDGES[wire].read_stream([escaped]).text == SEPARATED
    bare = prefix + json.dumps(chunk, ensure_ascii=False).encode() + end
    with pytest.raises((json.JSONDecodeError, UnknownApiResponseError)):
        JUDGES[wire].read_stream([bare])


# ---- errors -------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[str, int, dict[str, Any], dict[str, str], Seen]] = [
    (
        "gemini",
        429,
        GEMINI_ERROR,
        {},
        Seen(error=("ClientError", 429, "slow down"), extra={"code": "RESOURCE_EXHAUSTED"}),
    ),
    (
        "gemini",
        503,
        {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}},
        {},
        Seen(error=("ServerError", 503, "busy"), extra={"code": "UNAVAILABLE"}),
    ),
    (
        "ollama",
        400,
        {"error": "registry.ollama.ai/library/x does not support tools"},
        {},
        Seen(error=("ResponseError", 400, "registry.ollama.ai/library/x does not support tools")),
    ),
    ("cohere", 429, {"message": "slow down"}, {}, Seen(error=("TooManyRequestsError", 429, "slow down"))),
    ("cohere", 500, {"message": "broken"}, {}, Seen(error=("InternalServerError", 500, "broken"))),
    (
        "bedrock",
        429,
        {"message": "slow down"},
        {"x-amzn-errortype": "ThrottlingException"},
        Seen(error=("ThrottlingException", 429, "slow down"), extra={"code": "ThrottlingException"}),
    ),
    (
        "bedrock",
        400,
        {"message": "blank text"},
        {"x-amzn-errortype": "ValidationException:http://internal.amazon.com/"},
        Seen(error=("ValidationException", 400, "blank text"), extra={"code": "ValidationException"}),
    ),
]


@pytest.mark.parametrize(
    ("wire", "status", "body", "headers", "seen"), ERRORS, ids=[f"{row[0]}-{row[1]}" for row in ERRORS]
)
def test_an_error(wire: str, status: int, body: dict[str, Any], headers: dict[str, str], seen: Seen) -> None:
    assert JUDGES[wire].read_whole(body, status=status, headers=headers) == seen


@pytest.mark.parametrize("wire", BROKEN)
def test_an_error_inside_a_stream_leaves_the_text_and_no_half_call(wire: str) -> None:
    chunks, seen = BROKEN[wire]
    assert JUDGES[wire].read_stream(chunks) == seen


# ---- what is refused ----------------------------------------------------------------------------------------------


def user_of(wire: str) -> dict[str, Any]:
    plain: dict[str, dict[str, Any]] = {
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        "ollama": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        "cohere": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        "bedrock": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    }
    return plain[wire]


def gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}


def ollama_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}


def bedrock_tool(**spec: Any) -> dict[str, Any]:
    return {"toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {}}, **spec}}]}}


def bedrock_says(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def messages(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(rows)}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("gemini", {"stream": True}, r"\$\.stream: unknown key"),
    ("gemini", {"system_instruction": {"parts": []}}, r"\$\.system_instruction: unknown key"),
    ("gemini", {"contents": [{"role": "user", "parts": [{"txt": "Hi"}]}]}, r"parts\[0\]\.txt: unknown key"),
    (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "%"}}]}]},
        r"inlineData\.data: '%' is not base64",
    ),
    (
        "gemini",
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": "{}"}}]}]},
        r"functionCall\.args: an object is wanted",
    ),
    ("gemini", gemini_schema({"type": "object"}), r"parameters\.type: 'object' is no Type"),
    ("gemini", gemini_schema({"type": "OBJECT", "const": 1}), r"parameters\.const: unknown key"),
    (
        "gemini",
        gemini_schema({"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "enum": [1]}}}),
        r"properties\.a\.enum\[0\]: 1 is no str",
    ),
    ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "any"}}}, r"\.mode: 'any' is no"),
    ("gemini", {"generationConfig": {"maxTokens": 5}}, r"generationConfig\.maxTokens: unknown key"),
    ("ollama", {"tool_choice": "auto"}, r"\$\.tool_choice: unknown key"),
    ("ollama", {"model": ""}, r"at least 1 character"),
    ("ollama", {"options": {"max_tokens": 5}}, r"options\.max_tokens: unknown key"),
    ("ollama", messages({"role": "tool", "content": "x", "name": "f"}), r"messages\[0\]\.name: unknown key"),
    ("ollama", messages({"role": "user", "content": [{"type": "text"}]}), r"messages\[0\]\.content"),
    ("ollama", messages({"role": "user", "content": "x", "images": ["data:image/png;base64,"]}), r"not base64"),
    (
        "ollama",
        messages({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
        r"function\.arguments: an object is wanted",
    ),
    (
        "ollama",
        ollama_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}),
        r"properties\.a\.pattern: unknown key",
    ),
    ("cohere", {"parallel_tool_calls": False}, r"\$\.parallel_tool_calls: unknown key"),
    ("cohere", {"tool_choice": "required"}, r"tool_choice: 'required' is none of"),
    ("cohere", {"thinking": {"type": "adaptive"}}, r"thinking\.type: 'adaptive' is none of"),
    ("cohere", {"tools": [{"type": "function", "function": {"name": "f"}}]}, r"the key 'parameters' is missing"),
    ("cohere", {"tools": [{"function": {"name": "f", "parameters": {}}}]}, r"tools\[0\]: the key 'type' is missing"),
    ("cohere", messages({"role": "tool", "content": "x"}), r"the key 'tool_call_id' is missing"),
    ("cohere", messages({"role": "user", "content": "x", "name": "n"}), r"messages\[0\]\.name: unknown key"),
    (
        "cohere",
        messages({"role": "user", "content": [{"type": "image_url", "image_url": "u"}]}),
        r"image_url: an object is wanted",
    ),
    (
        "cohere",
        messages(
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"arguments": PARIS}}]}
        ),
        r"function\.arguments: .* is no str",
    ),
    ("bedrock", {"stream": True}, r'Unknown parameter in input: "stream"'),
    ("bedrock", bedrock_says("tool", {"text": "x"}), r"role: 'tool' is none of"),
    ("bedrock", bedrock_says("user", {"text": "x", "toolUse": {}}), r"messages\[0\]\.content\[0\]"),
    ("bedrock", bedrock_says("assistant", {"toolUse": {"toolUseId": "a b", "name": "f", "input": {}}}), r"toolUseId"),
    (
        "bedrock",
        bedrock_says("user", {"image": {"format": "png", "source": {"bytes": "%"}}}),
        r"source\.bytes: '%' is not base64",
    ),
    (
        "bedrock",
        bedrock_says("user", {"toolResult": {"toolUseId": "t", "content": [], "status": "failed"}}),
        r"status: 'failed' is none of",
    ),
    ("bedrock", bedrock_tool(name="a.b"), r"name: 'a\.b' does not match"),
    ("bedrock", bedrock_tool(name="n" * 65), r"65 characters; at most 64"),
    ("bedrock", bedrock_tool(description=""), r"Invalid length for parameter .*description"),
    ("bedrock", bedrock_tool(parameters={}), r'Unknown parameter in .*"parameters"'),
]


@each_row(("wire", "change", "why"), REFUSED, ids=[f"{row[0]}-{number}" for number, row in enumerate(REFUSED)])
def test_a_request_that_does_not_fit(wire: str, change: dict[str, Any], why: str) -> None:
    JUDGES[wire].validate_request(user_of(wire))
    with pytest.raises((AssertionError, ValidationError), match=why):
        JUDGES[wire].validate_request(user_of(wire) | change)


@pytest.mark.parametrize(
    ("wire", "part"),
    [
        ("ollama", messages({"role": "tool", "content": "x", "tool_name": "f", "tool_call_id": "c1"})),
        ("ollama", messages({"role": "assistant", "tool_calls": OLLAMA_CALLS})),
        ("ollama", ollama_schema({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}})),
        (
            "gemini",
            gemini_schema({"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING"}}}}),
        ),
    ],
)
def test_what_the_server_reads_beyond_the_first_level(wire: str, part: dict[str, Any]) -> None:
    JUDGES[wire].validate_request(user_of(wire) | part)


WRONG_ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("gemini", {"model": "m"}, r"\$\.model: unknown key"),
    ("gemini", {"candidates": [{"finish_reason": "STOP"}]}, r"finish_reason: unknown key"),
    ("ollama", {"usage": {}}, r"\$\.usage: unknown key"),
    ("cohere", {"finish_reason": "stop"}, r"finish_reason: 'stop' is none of"),
    ("cohere", {"model": "m"}, r"\$\.model: unknown key"),
    ("bedrock", {"stopReason": "stop"}, r"stopReason: 'stop' is none of"),
    ("bedrock", {"usage": {"inputTokens": 1}}, r"Missing required parameter in usage"),
]


@pytest.mark.parametrize(
    ("wire", "change", "why"), WRONG_ANSWERS, ids=[f"{row[0]}-{number}" for number, row in enumerate(WRONG_ANSWERS)]
)
def test_an_answer_that_the_client_would_take_although_it_is_wrong(wire: str, change: dict[str, Any], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        JUDGES[wire].read_whole(WHOLE[wire][0] | change)


@pytest.mark.parametrize(
    ("wire", "chunks", "why"),
    [
        ("gemini", to_sse({"choices": []}), r"event 0\.choices: unknown key"),
        ("ollama", [framing.encode_ndjson({**ollama_line(content="x"), "index": 0})], r"line 0\.index: unknown key"),
        ("cohere", to_sse({"type": "text-delta", "text": "x"}), r"event 0"),
        ("cohere", to_sse(*cohere_call(0, "c1", "f", '{"a')), r"arguments of c1"),
        ("bedrock", to_frames(("ping", {})), r"event 0: 'ping' is none of"),
        ("bedrock", to_frames(("messageStop", {"stopReason": "stop"})), r"stopReason: 'stop' is none of"),
        ("bedrock", [eventstream.encode({":event-type": "messageStart"}, b"{}")], r":message-type is None"),
    ],
)
def test_a_stream_that_the_client_would_take_although_it_is_wrong(wire: str, chunks: list[bytes], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        JUDGES[wire].read_stream(chunks)


def test_the_machine_on_which_the_tests_run_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {
        "HTTP_PROXY": "http://nowhere.invalid",
        "HTTPS_PROXY": "http://nowhere.invalid",
        "OLLAMA_HOST": "nowhere.invalid",
        "CO_API_URL": "http://nowhere.invalid",
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_GEMINI_BASE_URL": "http://nowhere.invalid",
        "AWS_PROFILE": "nobody",
        "AWS_CONFIG_FILE": "/nowhere/config",
        "AWS_ENDPOINT_URL": "http://nowhere.invalid",
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    bedrock.forget_client()
    for wire, (body, seen) in WHOLE.items():
        assert JUDGES[wire].read_whole(body) == seen
    bedrock.forget_client()
