"""What a repairing HTTP client leaves as it is: errors, retries, timeouts, other paths, and what is right."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import openai
import pytest
from tests.integrations.sdks import ASKED, NESTED, SDKS, Sdk, opened
from tests.integrations.test_sdks import SPOKEN
from tests.tables import each_row

from dragoman import wire
from dragoman.errors import ConfigError
from dragoman.integrations import Repair
from dragoman.integrations.relay import patch
from dragoman.pipeline import Report
from dragoman.replies import unfold
from dragoman.testing import Answer, Fault, Upstream, call
from dragoman.types import Message, Reply, Text, ToolCall

CHAT = {"model": "any", "messages": ASKED, "tools": NESTED}


def open_client(upstream: Upstream, repair: Repair | None = None, **settings: Any) -> openai.OpenAI:
    plain = httpx2.Client(verify=False)
    http = (repair or Repair()).client(plain)
    settings = {"max_retries": 0, **settings}
    return openai.OpenAI(base_url=upstream.url, api_key="sk-of-the-user", http_client=http, **settings)


# ---- faults ----------------------------------------------------------------------------------------------------------

_LATER = {"retry-after": "7", "x-request-id": "req_1", "x-ratelimit-remaining-requests": "0"}
FAULTS = {
    "429": Fault("status", status=429, headers=_LATER, body='{"error": {"message": "slow", "type": "rate", "x": 1}}'),
    "400": Fault("status", status=400, body='{"error": {"message": "bad field", "param": "n", "code": "c"}}'),
    "401": Fault("status", status=401, body='{"error": {"message": "wrong key sk-of-the-user"}}'),
    "500 without JSON": Fault("status", status=500, body="<html>oops</html>"),
    "529": Fault("status", status=529, body='{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}'),
    "reset": Fault("reset"),
    "close": Fault("close"),
    "no answer": Fault("stall"),
    "garbage": Fault("garbage"),
    "HTML": Fault("html"),
    "a long page": Fault("status", status=200, headers={"content-type": "text/html"}, body="<p>" * 30_000),
    "a long error": Fault("status", status=502, body="<p>" * 500_000),
}


def _try(client: openai.OpenAI, stream: bool) -> tuple[Any, ...]:
    try:
        got = client.chat.completions.create(**CHAT, stream=stream, timeout=0.3)
        return ("answer", *(map(type, got) if stream else [type(got)]))
    except openai.APIStatusError as error:
        sent = {name: value for name, value in error.response.headers.items() if name in _LATER}
        return type(error), error.status_code, error.body, error.request_id, sent, error.response.content
    except Exception as error:
        return (type(error),)


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_endpoint_looks_the_same_with_and_without_the_repair(stream: bool) -> None:
    wrong = []
    for name, fault in FAULTS.items():
        with Upstream([fault, fault]) as upstream:
            with openai.OpenAI(
                base_url=upstream.url, api_key="k", max_retries=0, http_client=httpx2.Client(verify=False)
            ) as plain:
                expected = _try(plain, stream)
            with open_client(upstream) as client:
                got = _try(client, stream)
            if got != expected:
                wrong.append(f"{name}: {got} instead of {expected}")
    assert not wrong, "\n".join(wrong)


_ANSWERS = [
    Fault("status", status=400, body='{"error": {"message": "bad", "code": 400, "status": "X"}, "message": "bad"}'),
    Fault("status", status=403, headers={"x-request-id": "r_1"}, body='{"error": "no", "type": "error"}'),
    Fault("status", status=404, body="not JSON"),
    Fault("html"),
    Fault("status", status=422, body='{"detail": [{"loc": ["body"], "msg": "m", "type": "t"}]}'),
]


@pytest.mark.parametrize("name", SDKS)
def test_every_sdk_raises_its_own_errors(name: str) -> None:
    sdk, wrong = SDKS[name], []
    for fault in _ANSWERS:
        for stream in (False, True):
            with Upstream([fault] * 2, wire=sdk.wire) as upstream:
                url = upstream.url.removesuffix("/v1")
                told = [_fail(sdk, url, inner, stream) for inner in (None, Repair())]
            if told[0] != told[1]:
                wrong.append(f"{fault.status} {fault.kind}, {stream=}: {told[1]} instead of {told[0]}")
    assert not wrong, "\n".join(wrong)


_forget_exchange = re.compile(r"'x-dragoman-exchange': '\w+',? ?|, 'x-dragoman-exchange': '\w+'").sub
"""Some errors of Cohere quote all headers of an answer that is a reply."""


def _fail(sdk: Sdk, url: str, repair: Repair | None, stream: bool) -> tuple[type[BaseException], str] | None:
    """Return the error of an SDK, with or without a repair."""
    library: Any = httpx if sdk.library == "httpx" else httpx2
    plain = library.HTTPTransport(verify=False)
    transport = plain if repair is None else repair.transport(plain)
    with library.Client(transport=transport, follow_redirects=True) as client:
        try:
            got = sdk.ask(sdk.open(url, transport if sdk.takes == "transport" else client, False), stream)
            sdk.read(list(got) if stream else got, stream)
        except Exception as error:
            return type(error), _forget_exchange("", str(error))
    return None


def test_a_report_of_an_error_has_no_key() -> None:
    reports: list[Report] = []
    with Upstream([FAULTS["401"]] * 2) as upstream, open_client(upstream, Repair(on_report=reports.append)) as client:
        for tools in ({"tools": NESTED}, {}):
            with pytest.raises(openai.AuthenticationError, match="sk-of-the-user"):
                client.chat.completions.create(model="any", messages=ASKED, **tools)
    assert [report.failure for report in reports] == ["unauthorized: wrong key ***"] * 2


def test_a_redirect_is_followed_by_the_client() -> None:
    moved = Fault("redirect", headers={"location": "/v1/chat/completions"})
    with Upstream([moved, SPOKEN]) as upstream:
        http = Repair().client(httpx2.Client(verify=False, follow_redirects=True))
        with openai.OpenAI(base_url=upstream.url, api_key="k", http_client=http) as client:
            assert client.chat.completions.create(**CHAT).choices[0].finish_reason == "tool_calls"
        assert len(upstream.received) == 2


def test_the_sdk_retries_and_every_attempt_has_its_report() -> None:
    reports: list[Report] = []
    busy = Fault("status", status=429, headers={"retry-after-ms": "1"}, body='{"error": {"message": "slow down"}}')
    with Upstream([busy, SPOKEN]) as upstream, open_client(upstream, Repair(on_report=reports.append)) as client:
        made = client.with_options(max_retries=1).chat.completions.create(**CHAT)
    assert made.choices[0].finish_reason == "tool_calls"
    assert [report.failure for report in reports] == ["rate_limited: slow down", ""]


@each_row("fault", [Fault("reset", at=500), Fault("stall", at=500)])
def test_a_stream_that_breaks_raises_the_error_of_the_sdk(fault: Fault) -> None:
    reports: list[Report] = []
    with Upstream([fault, "word " * 40]) as upstream, open_client(upstream, Repair(on_report=reports.append)) as client:
        stream = client.chat.completions.create(**CHAT, stream=True, timeout=0.3)
        with pytest.raises(openai.APIConnectionError):
            list(stream)
    assert [bool(report.failure) for report in reports] == [True]


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_text_arrives_before_the_endpoint_has_sent_the_rest() -> None:
    written = "Let us see. " * 20
    with Upstream([Fault("slow", at=400), written]) as upstream, open_client(upstream) as client:
        upstream.go_on()
        stream = client.chat.completions.create(**CHAT, stream=True)
        texts = [chunk.choices[0].delta.content for chunk in (next(stream), next(stream))]
        assert "".join(texts).startswith("Let us")
        stream.close()
        assert upstream.wait_for_hangup(), "the answer of the endpoint is closed with the stream"


def test_an_asynchronous_stream_that_is_cancelled_closes_the_answer_of_the_endpoint() -> None:
    reports: list[Report] = []

    async def read(upstream: Upstream) -> None:
        http = Repair(on_report=reports.append).async_client(httpx2.AsyncClient(verify=False))
        async with openai.AsyncOpenAI(base_url=upstream.url, api_key="k", http_client=http) as client:
            stream = await client.chat.completions.create(**CHAT, stream=True)

            async def rest() -> None:
                async for _ in stream:
                    arrived.set()

            arrived = asyncio.Event()
            task = asyncio.create_task(rest())
            await arrived.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.close()

    with Upstream([Fault("stall", at=400), "Let us see. " * 40]) as upstream:
        asyncio.run(read(upstream))
        assert upstream.wait_for_hangup()
    assert reports[0].notes == ["the stream was closed before its end"]


def test_a_response_that_is_never_read_is_closed_too() -> None:
    reports: list[Report] = []
    repair = Repair(on_report=reports.append)
    with Upstream([Fault("stall", at=400), "Let us see. " * 40]) as upstream, repair.client() as http:
        with http.stream("POST", f"{upstream.url}/chat/completions", json={**CHAT, "stream": True}) as response:
            assert response.headers["x-dragoman-exchange"].startswith("ex_")
        assert upstream.wait_for_hangup()
    assert len(reports) == 1


def test_a_blocking_sdk_works_inside_a_running_event_loop() -> None:
    async def main() -> Any:
        with Upstream([SPOKEN, SPOKEN]) as upstream, open_client(upstream) as client:
            list(client.chat.completions.create(**CHAT, stream=True))
            return client.chat.completions.create(**CHAT)

    assert asyncio.run(main()).choices[0].finish_reason == "tool_calls"


# ---- what stays as it is ---------------------------------------------------------------------------------------------

_ANTHROPIC = {"anthropic-version": "2023-06-01"}
OTHER: list[tuple[str, str, dict[str, str], bytes]] = [
    ("GET", "/v1/models", {}, b""),
    ("POST", "/v1/embeddings", {}, b'{"input": "x"}'),
    ("POST", "/v1/threads/t_1/messages", {}, b'{"role": "user", "content": "x", "tools": [1]}'),
    ("POST", "/v1/messages/count_tokens", _ANTHROPIC, b"{}"),
    ("POST", "/v1/messages/batches", _ANTHROPIC, b"{}"),
    ("POST", "/v1/chat", {}, b'{"message": "the first version of Cohere"}'),
    ("POST", "/v1/responses/resp_1/cancel", {}, b""),
    ("POST", "/api/generate", {}, b'{"prompt": "x"}'),
    ("POST", "/v1beta/models/m:countTokens", {}, b"{}"),
    ("POST", "/v1/audio/transcriptions", {"content-type": "multipart/form-data; boundary=b"}, b"--b--"),
    ("DELETE", "/v1/chat/completions", {}, b""),
    ("POST", "/v1/chat/completions", {"content-encoding": "gzip"}, gzip.compress(b"{}", mtime=0)),
    ("POST", "/v1/chat/completions", {}, b"not JSON"),
    ("POST", "/v1/chat/completions", {}, b"[1]"),
    ("POST", "/v1/chat/completions", {}, b'{"messages": [], "functions": [{"name": "weather"}]}'),
]


@each_row("library", [httpx, httpx2], ids=lambda library: library.__name__)
def test_other_requests_pass_untouched(library: Any) -> None:
    seen: list[Any] = []
    told = gzip.compress(b'{"some": "answer"}', mtime=0)

    def answer(request: Any) -> Any:
        seen.append(request)
        headers = {"content-encoding": "gzip", "x-request-id": "r", "set-cookie": "a=b"}
        return library.Response(207, headers=headers, stream=library.ByteStream(told))

    repair = Repair(on_report=lambda report: pytest.fail("there was no exchange"))
    with repair.client(library.MockTransport(answer)) as client:
        for method, path, headers, body in OTHER:
            sent = client.build_request(method, f"http://there.invalid{path}?a=b", headers=headers, content=body)
            got = client.send(sent, stream=True)
            raw = b"".join(got.iter_raw())
            assert (got.status_code, raw, got.headers["x-request-id"]) == (207, told, "r"), path
            assert seen[-1] is sent, path


_AZURE = "https://it.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
_VERTEX = "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l/publishers"


@each_row(
    "url, headers, expected",
    [
        ("https://api.openai.com/v1/chat/completions", {}, "openai_chat"),
        ("http://localhost:8000/chat/completions", {}, "openai_chat"),
        (_AZURE, {}, "openai_chat"),
        ("https://api.mistral.ai/v1/chat/completions#stream", {}, "mistral"),
        ("http://localhost/v1/chat/completions", {"user-agent": "mistral-client-python/3"}, "mistral"),
        ("https://api.openai.com/v1/responses", {}, "openai_responses"),
        ("https://api.anthropic.com/v1/messages?beta=true", _ANTHROPIC, "anthropic"),
        ("https://api.openai.com/v1/threads/t/messages", {}, ""),
        (f"{_VERTEX}/google/models/gemini-3:streamGenerateContent?alt=sse", {}, "gemini"),
        (f"{_VERTEX}/anthropic/models/claude:rawPredict", {}, ""),
        ("https://generativelanguage.googleapis.com/v1beta/models/g:batchGenerateContent", {}, ""),
        ("http://localhost:11434/api/chat", {}, "ollama"),
        ("https://api.cohere.com/v2/chat", {}, "cohere"),
        ("https://api.cohere.com/v1/chat", {}, ""),
    ],
    ids=str,
)
def test_the_path_of_a_request_determines_its_wire(url: str, headers: dict[str, str], expected: str) -> None:
    assert Repair().find_wire("POST", url, headers) == expected
    assert Repair().find_wire("GET", url, headers) == ""


_EXTRA = {"timings": {"predicted_ms": 12.5}, "service_tier": "flex"}


@pytest.mark.parametrize("name", [name for name in SDKS if name != "openai, Responses"])
def test_requests_and_replies_without_a_fault_keep_their_bytes(name: str) -> None:
    """Also the fields and the spelling that no codec knows."""
    sdk = SDKS[name]
    codec = wire.get(sdk.wire)
    replies = [
        Reply(Message("assistant", [Text("It is warm.")]), stop="end", model="m", id="r_1"),
        Reply(Message("assistant", [ToolCall("c_1", "weather", {"city": "Paris"})]), stop="tool_calls", model="m"),
    ]
    for reply in replies:
        told = json.dumps({**codec.encode_reply(reply, created=5), **_EXTRA}, indent=3).encode()
        exchanged = _exchange(name, told)
        assert exchanged == (exchanged[0], told)
        assert exchanged[0], "the request kept its bytes"


def _exchange(name: str, told: bytes) -> tuple[bool, bytes]:
    """Send a request of an SDK; return whether it was sent as it came, and the answer."""
    library: Any = httpx if SDKS[name].library == "httpx" else httpx2
    asked: list[bytes] = []

    def answer(request: Any) -> Any:
        asked.append(request.content)
        return library.Response(200, headers={"content-type": "application/json"}, content=told)

    sent: list[Any] = []
    transport = Repair().transport(library.MockTransport(answer))

    class Watched(library.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            response = transport.handle_request(request)
            sent.append((request.content, response.read()))
            return response

    given: Any = Watched() if SDKS[name].takes == "transport" else library.Client(transport=Watched())
    SDKS[name].ask(SDKS[name].open("http://there.invalid", given, False), False)
    assert len(asked) == 1
    return sent[0][0] == asked[0], sent[0][1]


def test_a_repaired_reply_keeps_the_fields_of_its_endpoint() -> None:
    codec = wire.get("openai_chat")
    body = codec.encode_reply(Reply(Message("assistant", [Text(SPOKEN)]), stop="end", model="m", id="r_1"), created=5)
    second = {"index": 1, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}
    body["choices"][0]["content_filter"] = "none"
    body["choices"].append(second)
    told = json.dumps({**body, **_EXTRA}).encode()
    got = json.loads(_exchange("openai", told)[1])
    assert {name: got[name] for name in ("id", "created", "model", *_EXTRA)} == {
        "id": "r_1",
        "created": 5,
        "model": "m",
        **_EXTRA,
    }
    first, other = got["choices"]
    assert (first["finish_reason"], first["content_filter"], other) == ("tool_calls", "none", second)
    assert first["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Paris"}'}


BROKEN_CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("trailing comma", {"arguments": '{"city": "Paris",}'}, {"arguments": '{"city":"Paris"}'}),
    ("an object", {"arguments": {"city": "Paris"}}, {"arguments": '{"city":"Paris"}'}),
    ("JSON inside JSON", {"arguments": '"{\\"city\\": \\"Paris\\"}"'}, {"arguments": '{"city":"Paris"}'}),
    ("another layout", {"arguments": '{ "city" : "Paris" }'}, {"arguments": '{ "city" : "Paris" }'}),
]


@pytest.mark.parametrize("has_id", [True, False])
def test_a_native_call_of_a_whole_reply_is_repaired(has_id: bool) -> None:
    """A codec repairs while it reads, so a comparison of what it read before and after the repair finds no fault."""
    for name, sent, expected in BROKEN_CALLS:
        made = {"type": "function", "function": {"name": "weather", **sent}, "own": 1} | (
            {"id": "c1"} if has_id else {}
        )
        choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [made]}, "finish_reason": "tool_calls"}
        second = {"index": 1, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}
        body = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice, second]}
        got = json.loads(_exchange("openai", json.dumps({**body, **_EXTRA}).encode())[1])
        found = got["choices"][0]["message"]["tool_calls"][0]
        assert found["function"] == {"name": "weather", **expected}, name
        assert found["id"] == "c1" if has_id else found["id"], name
        assert (found["own"], got["choices"][1], {key: got[key] for key in _EXTRA}) == (1, second, _EXTRA), name


def test_a_native_call_that_was_cut_off_is_not_passed_on() -> None:
    """Words replace it. The second row is complete JSON, and may still be cut."""
    for arguments in ('{"city": "Par', '{"city": "Par"}'):
        made = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
        choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [made]}, "finish_reason": "length"}
        body = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        told = json.dumps({**body, **_EXTRA}).encode()

        with Repair(repair_turns=0).client(
            httpx2.MockTransport(lambda _, told=told: httpx2.Response(200, content=told))
        ) as http:
            client = openai.OpenAI(base_url="http://there.invalid/v1", api_key="k", http_client=http)
            first = client.chat.completions.create(**CHAT).choices[0]
        assert not first.message.tool_calls and first.finish_reason == "length"
        assert first.message.content and "could not be passed on" in first.message.content


@each_row(
    "raw, before, after, expected",
    [
        ({"a": 1, "own": 2}, {"a": 1}, {"a": 1}, {"a": 1, "own": 2}),
        ({"a": 1, "own": 2}, {"a": 1}, {"a": 3}, {"a": 3, "own": 2}),
        ({"a": 1, "own": 2}, {"a": 1}, {"b": 3}, {"own": 2, "b": 3}),
        ([{"a": 1, "own": 2}, 5], [{"a": 1}], [{"a": 4}], [{"a": 4, "own": 2}, 5]),
        ([1], [1], [1, 2], [1, 2]),
        ({"a": None}, {"a": ""}, {"a": ""}, {"a": None}),
        ({"a": 1}, {"a": 1, "b": 0}, {"a": 2, "b": 0}, {"a": 2}),
        ("x", {"a": 1}, {"a": 2}, {"a": 2}),
    ],
)
def test_a_patch_changes_what_the_repair_changed(raw: Any, before: Any, after: Any, expected: Any) -> None:
    assert patch(raw, before, after) == expected


def test_a_compressed_reply_and_a_stream_of_http_2_are_repaired() -> None:
    """A stream of Gemini has no last frame: the protocol itself says that it is complete."""
    reply = Reply(Message("assistant", [Text(SPOKEN)]), stop="end", model="m")
    whole = json.dumps(wire.get("openai_chat").encode_reply(reply)).encode()
    writer = wire.get("gemini").event_stream(model="m")
    frames = b"".join([*(frame for event in unfold(reply) for frame in writer.feed(event)), *writer.close()])

    def answer(request: Any) -> Any:
        if "Generate" in str(request.url):
            kind, version = {"content-type": "text/event-stream"}, {"http_version": b"HTTP/2"}
            return httpx2.Response(200, headers=kind, stream=httpx2.ByteStream(frames), extensions=version)
        kind = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx2.Response(200, headers=kind, stream=httpx2.ByteStream(gzip.compress(whole)))

    with Repair().client(httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(base_url="http://there.invalid/v1", api_key="k", http_client=http)
        assert client.chat.completions.create(**CHAT).choices[0].finish_reason == "tool_calls"
        sdk = SDKS["google-genai"]
        heard = sdk.read(list(sdk.ask(sdk.open("http://there.invalid", http, False), True)), True)
    assert (heard.calls, heard.stop) == ([("weather", {"city": "Paris"})], "STOP")


def test_a_model_that_has_no_native_calls_gets_the_tools_as_text() -> None:
    with Upstream([SPOKEN, SPOKEN]) as upstream, open_client(upstream) as client:
        for stream in (False, True):
            got = client.chat.completions.create(**{**CHAT, "model": "gemma-2-9b-it"}, stream=stream)
            assert SDKS["openai"].read(list(got) if stream else got, stream).calls == [("weather", {"city": "Paris"})]
        assert all("tools" not in body and "weather" in str(body["messages"]) for body in upstream.bodies)


# ---- repairs in replies without text calls ---------------------------------------------------------------------------


def test_an_endpoint_that_refuses_tools_gets_them_as_text_from_then_on() -> None:
    refused = Fault("status", status=400, body='{"error": {"message": "any does not support tools"}}')
    with Upstream([refused, SPOKEN, SPOKEN]) as upstream, open_client(upstream) as client:
        for _ in range(2):
            made = client.chat.completions.create(**CHAT)
            assert made.choices[0].message.tool_calls[0].function.name == "weather"
        assert len(upstream.received) == 3, "the second request was in text at once"
        assert not any("tools" in body for body in upstream.bodies)
        assert {request.headers["authorization"] for request in upstream.received} == {"Bearer sk-of-the-user"}


def test_a_call_that_cannot_be_read_gets_one_more_turn() -> None:
    broken = '<tool_call>\n{"name": "weather", "arguments": {"town": 5}}\n</tool_call>'
    reports: list[Report] = []
    with Upstream([broken, call("weather", city="Paris"), broken], wire="openai_chat") as upstream:
        with open_client(upstream, Repair(on_report=reports.append)) as client:
            made = client.chat.completions.create(**CHAT)
            assert made.choices[0].message.tool_calls[0].function.arguments == '{"city":"Paris"}'
        with open_client(upstream, Repair(repair_turns=0)) as client:
            made = client.chat.completions.create(**CHAT)
            assert made.choices[0].message.content == broken
    assert reports[0].repair_turn == "a call could not be read"


def test_a_repair_turn_differs_from_the_request_in_its_messages_only() -> None:
    """Not even a field is lost that dragoman does not know."""
    own = {"top_k": 3, "chat_template_kwargs": {"enable_thinking": False}, "seed": 4}
    for stream in (False, True):
        with Upstream([call("forecast"), SPOKEN], wire="openai_chat") as upstream, open_client(upstream) as client:
            made = client.chat.completions.create(**CHAT, extra_body=own, stream=stream)
            assert not stream or list(made)
            first, second = ({**body, "messages": len(body["messages"])} for body in upstream.bodies)
        assert second == {**first, "messages": 3}


def test_a_request_that_cannot_be_repaired_is_left_to_the_endpoint() -> None:
    reports: list[Report] = []
    chosen = {"type": "function", "function": {"name": "flights"}}
    with Upstream([SPOKEN, SPOKEN]) as upstream, open_client(upstream, Repair(on_report=reports.append)) as client:
        for stream in (False, True):
            got = client.chat.completions.create(**CHAT, tool_choice=chosen, stream=stream)
            assert SDKS["openai"].read(list(got) if stream else got, stream).text == SPOKEN
    assert {note for report in reports for note in report.notes} == {
        "passed on as it came: tool_choice names 'flights', which is not offered"
    }


def test_a_stream_of_several_replies_is_passed_on_as_it_came() -> None:
    with Upstream([SPOKEN]) as upstream, open_client(upstream) as client:
        chunks = list(client.chat.completions.create(**CHAT, n=2, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == SPOKEN


# ---- reports and spans -----------------------------------------------------------------------------------------------


def test_a_request_for_several_replies_gets_all_of_them_and_no_repair_turn() -> None:
    message = {"role": "assistant", "content": ""}
    choices = [{"index": place, "message": message, "finish_reason": "stop"} for place in range(2)]
    answer = Answer(200, {"content-type": "application/json"}, {"id": "r", "choices": choices})
    with Upstream([answer]) as upstream, open_client(upstream) as client:
        assert len(client.chat.completions.create(**CHAT, n=2).choices) == 2


def test_every_exchange_has_a_report_and_a_span() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.trace import SpanKind

    from dragoman.telemetry.exchanges import EXCHANGE, Spans

    provider = trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    reports: list[Report] = []
    repair = Repair(on_report=reports.append)
    repair.spans = Spans(provider, kind="client")
    busy = Fault("status", status=500, body="{}")
    work = provider.get_tracer("a program").start_as_current_span("work")
    script: list[Any] = [SPOKEN, "Warm.", "Warm.", busy]
    with Upstream(script) as upstream, open_client(upstream, repair) as client, work as above:
        raw = client.chat.completions.with_raw_response.create(**CHAT)
        client.chat.completions.create(model="any", messages=ASKED)
        list(client.chat.completions.create(model="any", messages=ASKED, stream=True))
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**CHAT)
    spans = [span for span in memory.get_finished_spans() if span.name != "work"]
    assert [span.attributes[EXCHANGE] for span in spans] == [report.id for report in reports]
    assert raw.headers["x-dragoman-exchange"] == reports[0].id
    assert {(span.kind, span.parent.span_id) for span in spans} == {(SpanKind.CLIENT, above.get_span_context().span_id)}
    assert [span.name for span in spans] == ["chat any"] * 4
    assert [span.attributes.get("error.type") for span in spans] == [None, None, None, "server_error"]
    assert [report.stop for report in reports] == ["tool_calls", "end", "end", "error"]


# ---- options ---------------------------------------------------------------------------------------------------------


def test_an_error_of_the_listener_is_logged_and_the_program_receives_its_reply(caplog: Any) -> None:
    def fail(report: Report) -> None:
        raise ValueError("the metrics are down")

    with Upstream([SPOKEN] * 2) as upstream, open_client(upstream, Repair(on_report=fail)) as client:
        assert client.chat.completions.create(**CHAT).choices[0].finish_reason == "tool_calls"
        chunks = list(client.chat.completions.create(**CHAT, stream=True))
    assert chunks[-1].choices[0].finish_reason == "tool_calls" and len(caplog.records) == 2


@pytest.mark.parametrize("script", [SPOKEN, "It is warm.", FAULTS["400"]])
def test_the_response_tells_its_time_and_its_length(script: Any) -> None:
    seen: list[Any] = []
    with Upstream([script]) as upstream:
        http = Repair().client(httpx2.Client(verify=False))
        with httpx2.Client(transport=http._transport, event_hooks={"response": [seen.append]}) as client:
            answer = client.post(f"{upstream.url}/chat/completions", json=CHAT)
    assert answer is seen[0] and answer.elapsed.total_seconds() > 0
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_the_client_keeps_the_settings_of_the_client_that_it_is_given() -> None:
    inner = httpx2.Client(
        base_url="http://there.invalid/x", headers={"x-own": "1"}, timeout=7, transport=httpx2.MockTransport(_echo)
    )
    with Repair().client(inner) as client:
        assert client.timeout == httpx2.Timeout(7)
        assert client.get("y").json() == {"url": "http://there.invalid/x/y", "x-own": "1"}
    assert inner.is_closed
    assert Repair().client().timeout == openai.DefaultHttpxClient().timeout, "the defaults of the SDKs"


def _echo(request: Any) -> Any:
    return httpx2.Response(200, json={"url": str(request.url), "x-own": request.headers.get("x-own")})


@each_row(
    "open, said",
    [
        (lambda: Repair(profile="loose"), "no trust profile 'loose'"),  # type: ignore[arg-type]
        (lambda: Repair(wire="antropic"), "did you mean 'anthropic'"),
        (lambda: Repair(repair_turns=-1), "repair_turns is -1"),
        (lambda: Repair(tool_mode="natve"), "tool_mode is 'natve'"),  # type: ignore[arg-type]
        (lambda: Repair(format="hermess"), "unknown format 'hermess'; did you mean 'hermes'"),
        (lambda: Repair().client(library="requests"), "use httpx2 or httpx"),
        (lambda: Repair().client(httpx2.AsyncClient()), "is not a blocking client"),
        (lambda: Repair().async_client(httpx.Client()), "httpx.AsyncClient"),
        (lambda: Repair().client("http://proxy"), "str is not a blocking client"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(open: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open()
    assert said in f"{caught.value}; {caught.value.next_step}"


def test_the_libraries_are_found_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    assert isinstance(Repair().client(), httpx.Client)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match="httpx2 or httpx is not installed") as caught:
        Repair().client()
    assert "install the SDK" in str(caught.value.next_step)


def test_threads_share_a_client() -> None:
    def ask(number: int) -> list[str]:
        messages, ids = list(ASKED), []
        for _ in range(4):
            message = client.chat.completions.create(model=f"any{number % 3}", messages=messages, tools=NESTED)
            made = message.choices[0].message
            ids += [made.tool_calls[0].id]
            result = {"role": "tool", "tool_call_id": ids[-1], "content": f"sunny {number}"}
            messages += [made.model_dump(exclude_none=True), result]
        return ids

    with Upstream([SPOKEN], loop=True) as upstream, open_client(upstream) as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == [["call_1", "call_2", "call_3", "call_4"]] * 16


def test_a_wire_that_the_path_does_not_tell_can_be_named() -> None:
    with Upstream([SPOKEN], wire="anthropic", loop=True) as upstream:
        for repair in (Repair(), Repair(wire="anthropic")):
            with opened(SDKS["anthropic"], upstream.url.removesuffix("/v1"), repair) as client:
                assert SDKS["anthropic"].ask(client, False).stop_reason == "tool_use"
