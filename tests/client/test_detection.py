"""Which server is at an address, which wires it speaks, and what it says about its models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct
from tests.client.pages import NOT_FOUND, Answered, Pages
from tests.client.servers import read_request, serve

from dragoman.client import DetectedServer, ListedModel, adetect, detect
from dragoman.client.detection import speaks
from dragoman.client.models import JsonAnswer
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault
from dragoman.errors import ConfigError, ConnectFailed, MissingKey, Unauthorized
from dragoman.testing import Upstream

ROOT = "http://box:8080"
PROPS = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}
TAGS = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]}
SHOW = {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
MISSING = (400, {"error": {"message": "messages is required"}})
GIN = (404, "404 page not found")
CPP = (404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})
STUDIO = (200, {"error": "Unexpected endpoint or method. (POST /x)"})


def listed(owner: str = "me", **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner, **more}]}


class Case(Struct, frozen=True):
    """A server: its pages and the answers to empty requests, by path, and what detection has to find."""

    name: str
    pages: Mapping[str, Any]
    posts: Mapping[str, Any]
    provider: str
    urls: dict[str, str]
    models: tuple[ListedModel, ...]
    otherwise: Answered = NOT_FOUND


V1 = f"{ROOT}/v1"
CASES = [
    Case(
        "ollama",
        {"/v1/models": listed("library"), "/api/tags": TAGS},
        {"/api/chat": (400, {"error": "model is required"}), CHAT: MISSING, "/api/show": SHOW},
        "ollama",
        {"ollama": ROOT, "openai_chat": V1},
        (ListedModel("qwen3:8b", "", 40960, True),),
        GIN,
    ),
    Case(
        "ollama with every wire, one of which looks for the model first",
        {"/api/tags": TAGS},
        {
            "/api/chat": (400, {"error": "model is required"}),
            CHAT: MISSING,
            RESPONSES: (404, {"error": {"message": "model '' not found"}}),
            MESSAGES: MISSING,
        },
        "ollama",
        {"ollama": ROOT, "openai_chat": V1, "openai_responses": V1, "anthropic": V1},
        (ListedModel("qwen3:8b"),),
        GIN,
    ),
    Case(
        "llama.cpp, whose path of Ollama is another protocol",
        {"/v1/models": listed("llamacpp"), "/props": PROPS, "/api/tags": TAGS},
        {CHAT: (500, {"error": {"message": "key 'messages' not found"}}), "/api/chat": MISSING, MESSAGES: MISSING},
        "llamacpp",
        {"openai_chat": V1, "anthropic": V1},
        (ListedModel("m", "llamacpp", 8192),),
        CPP,
    ),
    Case(
        "vLLM",
        {"/v1/models": listed("vllm", max_model_len=4096)},
        {CHAT: (422, {"detail": [{"msg": "Field required"}]}), RESPONSES: MISSING},
        "vllm",
        {"openai_chat": V1, "openai_responses": V1},
        (ListedModel("m", "vllm", 4096),),
    ),
    Case(
        "SGLang, which also has a list of Ollama",
        {"/v1/models": listed("sglang", max_model_len=4096), "/api/tags": TAGS},
        {CHAT: MISSING, "/api/chat": MISSING},
        "sglang",
        {"openai_chat": V1, "ollama": ROOT},
        (ListedModel("m", "sglang", 4096),),
    ),
    Case(
        "LM Studio, which answers 200 for a path that it does not have",
        {
            "/v1/models": listed("organization_owner"),
            "/api/v1/models": {"models": [{"key": "m", "type": "llm", "max_context_length": 131072}]},
        },
        {CHAT: MISSING, RESPONSES: MISSING},
        "lmstudio",
        {"openai_chat": V1, "openai_responses": V1},
        (ListedModel("m", "organization_owner", 131072),),
        STUDIO,
    ),
    Case(
        "a server that complains in plain text",
        {"/v1/models": listed("me")},
        {CHAT: (422, "Failed to deserialize the JSON body: missing field `messages`")},
        "custom",
        {"openai_chat": V1},
        (ListedModel("m", "me"),),
        (404, None),
    ),
    Case(
        "Anthropic's protocol without a list",
        {},
        {MESSAGES: (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "model: required"}})},
        "custom",
        {"anthropic": V1},
        (),
    ),
    Case(
        "a list in Anthropic's shape, and paths that prove nothing",
        {"/v1/models": {"data": [{"id": "m", "type": "model"}], "has_more": False}},
        {},
        "custom",
        {"anthropic": V1},
        (ListedModel("m"),),
        (400, {"error": "no"}),
    ),
    Case(
        "Gemini's protocol",
        {"/v1beta/models": {"models": [{"name": "models/g", "inputTokenLimit": 9}]}},
        {},
        "custom",
        {"gemini": f"{ROOT}/v1beta"},
        (ListedModel("models/g", "", 9),),
    ),
    Case(
        "a list of OpenAI at every path",
        {"/v1/models": listed("me"), "/v1beta/models": listed("me")},
        {},
        "custom",
        {"openai_chat": V1},
        (ListedModel("m", "me"),),
    ),
    Case(
        "paths without a version",
        {"/models": listed("me")},
        {"/chat/completions": MISSING},
        "custom",
        {"openai_chat": ROOT},
        (ListedModel("m", "me"),),
    ),
    Case(
        "a list, and a page for everything else",
        {"/v1/models": listed("me")},
        {},
        "custom",
        {"openai_chat": V1},
        (ListedModel("m", "me"),),
        (200, "<html>Welcome"),
    ),
]


def pages_of(case: Case, root: str = ROOT) -> Pages:
    pages = Pages({root + path: body for path, body in case.pages.items()}, case.otherwise)
    pages.posts = {root + path: (lambda body, said=said: said) for path, said in case.posts.items()}  # type: ignore[misc]
    return pages


def test_a_server_is_detected_by_its_address_alone_with_wires_models_and_context_windows() -> None:
    for case in CASES:
        found = detect(ROOT, transport=pages_of(case), environment={})
        assert found == DetectedServer(case.provider, case.urls, case.models), case.name
        assert list(found.urls) == list(case.urls), f"{case.name}: the preferred wire is first"


def test_every_spelling_of_the_address_gives_the_same_server() -> None:
    for case in CASES:
        spellings = [f"{ROOT}/", "box:8080", f"{ROOT}/v1", f"{ROOT}/v1/", f"{ROOT}{CHAT}"]
        if "/models" in case.pages:
            spellings = spellings[:2]
        for url in spellings:
            found = detect(url, transport=pages_of(case), environment={})
            assert (found.provider, found.urls) == (case.provider, case.urls), f"{case.name} at {url}"
    vllm = next(case for case in CASES if case.name == "vLLM")
    for prefix in ("/api", "/engines/llama.cpp", "/openai"):
        found = detect(f"{ROOT}{prefix}/v1", transport=pages_of(vllm, ROOT + prefix), environment={})
        assert found.base_url == f"{ROOT}{prefix}/v1"


def test_no_request_of_a_detection_can_cost_tokens() -> None:
    for case in CASES:
        pages = pages_of(case)
        detect(ROOT, transport=pages, environment={})
        for request in pages.requests:
            assert request.body in (b"", b"{}") or request.url.endswith("/api/show"), case.name
        assert len(pages.requests) <= 14, case.name


def test_an_endpoint_of_a_detected_server_has_what_the_server_reported() -> None:
    found = {case.provider: detect(ROOT, transport=pages_of(case), environment={}) for case in CASES[:5]}
    ollama = found["ollama"].endpoint()
    assert (ollama.model, ollama.wire, ollama.base_url) == ("qwen3:8b", "ollama", ROOT)
    # Ollama reports what the model supports: dragoman requests no more than its own default.
    assert ollama.quirks.context_window == 16384
    assert ollama.capabilities.native_tool_calls is (found["ollama"].models[0].tools is not False)
    chat = found["ollama"].endpoint(wire="openai_chat")
    assert (chat.base_url, chat.wire) == (V1, "openai_chat")
    assert found["llamacpp"].endpoint("m").quirks.context_window == 8192
    assert found["vllm"].endpoint("other").quirks.context_window == 0
    assert found["vllm"].endpoint("m", capabilities={"native_tool_calls": True}).capabilities.native_tool_calls


def test_a_host_of_a_known_provider_is_asked_in_its_own_way_and_gets_its_own_key() -> None:
    pages = Pages({"https://api.anthropic.com/v1/models?limit=1000": {"data": [{"id": "claude-x"}]}})
    found = detect("https://api.anthropic.com", transport=pages, environment={"ANTHROPIC_API_KEY": "sk-a"})
    assert found == DetectedServer(
        "anthropic", {"anthropic": "https://api.anthropic.com/v1"}, (ListedModel("claude-x"),)
    )
    assert pages.requests[0].headers["x-api-key"] == "sk-a"
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY"):
        detect("https://api.anthropic.com/v1", transport=pages, environment={})
    cloud = Pages({"https://ollama.com/api/tags": TAGS})
    found = detect("https://ollama.com", transport=cloud, environment={"OLLAMA_API_KEY": "sk-o"})
    assert (found.provider, found.base_url) == ("ollama", "https://ollama.com")


def test_no_other_server_gets_a_key_of_the_environment() -> None:
    keys = {name: "sk-secret-1" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY")}
    for url in (ROOT, "http://localhost:11434", "https://api.anthropic.com.example.net", "http://127.0.0.1:8000/v1"):
        pages = Pages({}, (404, None))
        with pytest.raises(ConfigError):
            detect(url, transport=pages, environment=keys)
        assert "sk-secret" not in str([request.headers for request in pages.requests]), url


FAILURES: list[tuple[Answered, type[Exception], str]] = [
    (TransportFault("unreachable", "no process listens", code="refused"), ConnectFailed, "no server answers at"),
    (TransportFault("insecure", "the certificate is not trusted"), ConnectFailed, "certificate"),
    (TransportFault("broken_protocol", "not an HTTP/1 answer", code="status_line"), ConnectFailed, "not an HTTP/1"),
    ((404, None), ConfigError, "GET /v1/models: 404"),
    ((200, "<html>Welcome"), ConfigError, "POST /v1/chat/completions: 200"),
    ((405, {"detail": "Method Not Allowed"}), ConfigError, "POST /v1/messages: 405"),
    (TransportFault("timed_out", "too slow", code="first_byte"), ConfigError, "GET /v1/models: first_byte"),
    ((401, {"error": "no key"}), Unauthorized, "needs one"),
    ((503, {"error": "Loading model"}), ConfigError, "GET /props: 503"),
]


def test_a_server_of_no_known_kind_is_an_error_that_names_what_was_tried() -> None:
    for answer, kind, words in FAILURES:
        with pytest.raises(kind) as caught:
            detect(ROOT, transport=Pages({}, answer), environment={}, key="sk-given-1")
        assert words in str(caught.value)
        assert "sk-given-1" not in str(caught.value)
    assumed = detect(f"{ROOT}/x/y", transport=Pages({}, (404, None)), environment={}, assume="openai_chat")
    assert assumed == DetectedServer("custom", {"openai_chat": f"{ROOT}/x/y"})


def test_a_server_that_accepts_few_connections_is_still_detected() -> None:
    class Busy(Pages):
        async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
            if self.requests and not request.url.endswith("/v1/chat/completions"):
                raise TransportFault("unreachable", "connection refused", code="refused")
            return await super().send(request, timeouts)

    pages = Busy({f"{ROOT}/v1/models": listed("vllm")})
    pages.posts[f"{ROOT}{CHAT}"] = lambda body: MISSING
    found = detect(ROOT, transport=pages, environment={})
    assert (found.provider, found.urls) == ("vllm", {"openai_chat": V1})


def test_an_answer_to_an_empty_request_is_read_by_its_status_and_body() -> None:
    page = JsonAnswer(400, None, "<html>")
    rows = {
        "a complaint": (JsonAnswer(400, {"error": "x"}, "{}"), True),
        "a reply": (JsonAnswer(200, {"choices": []}, "{}"), True),
        "a reply of another wire": (JsonAnswer(200, {"content": []}, "{}"), False),
        "a list": (JsonAnswer(200, [], "[]"), False),
        "a page": (page, False),
        "no answer": (None, False),
        "a gateway": (JsonAnswer(502, {"error": "x"}, "{}"), False),
        "a missing model": (JsonAnswer(404, {"error": "model not found"}, '{"error": "model not found"}'), True),
        "a missing path about models": (JsonAnswer(404, {"e": "see /v1/models"}, '{"e": "see /v1/models"}'), False),
    }
    for name, (answer, expected) in rows.items():
        assert speaks("openai_chat", answer) is expected, name


def test_a_silent_server_ends_the_detection_in_time() -> None:
    class Silent:
        async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None:
            pass

    with pytest.raises(ConnectFailed, match=r"within 0\.01 s"):
        detect(ROOT, transport=Silent(), environment={}, seconds=0.01)


def test_a_real_server_on_the_loopback() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            path = request.split(b" ", 2)[1]
            body, status = b'{"detail":"Not Found"}', b"404 Not Found"
            if path == b"/v1/models":
                body, status = b'{"data":[{"id":"m","owned_by":"vllm","max_model_len":77}]}', b"200 OK"
            elif path == b"/v1/chat/completions":
                body, status = b'{"error":"messages"}', b"400 Bad Request"
            head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: "
            writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            await writer.drain()

    async def scenario() -> DetectedServer:
        async with serve(answer) as server:
            found = await adetect(server.url, environment={})
            assert found.base_url == f"{server.url}/v1"
            return found

    found = asyncio.run(scenario())
    assert (found.provider, found.wire, found.models[0].context) == ("vllm", "openai_chat", 77)


def test_a_scripted_server_is_detected_and_keeps_its_script() -> None:
    for wire in ("openai_chat", "openai_responses", "anthropic"):
        with Upstream(["Hello."], wire=wire) as upstream:
            found = detect(upstream.url, environment={})
            assert list(found.urls) == [wire]
            assert upstream.bodies == []
