"""What clients ask for in unusual ways: paths, methods, state at the endpoint, counts, arrays, fields that are lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.gateways import WEATHER, gateway_to, open_openai, run_gateway, settings_for
from tests.server.test_gateway import CHAT, PATHS, send
from tests.wire import test_media as media

from dragoman import wire as wires
from dragoman.server.router import Router
from dragoman.server.settings import GatewaySettings, ServerSettings, parse_settings
from dragoman.testing import Answer, Upstream, call

REQUEST = {**CHAT, "input": "Go.", "contents": [{"role": "user", "parts": [{"text": "Go."}]}], "max_tokens": 9}
ODD_PATHS = ("/v1/messages/", "/v1/v1/messages", "//v1//chat/completions", "/v1/api/chat", "/v1/v1/responses/")


def test_a_path_with_a_doubled_version_or_a_slash_too_many_is_translated() -> None:
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for path in ODD_PATHS:
            status, headers, _ = send(gateway, "POST", path, {**REQUEST, "stream": False})
            assert (status, upstream.received[-1].target) == (200, "/v1/chat/completions"), path
            assert "x-dragoman-exchange" in headers, f"{path} was not repaired"


def test_head_is_answered_like_get_without_a_body() -> None:
    with Upstream([]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for path in ("/", "/healthz", "/readyz", "/metrics", "/v1/models", "/v1/models/m", "/api/tags", "/api/version"):
            (status, _, data), (same, headers, whole) = send(gateway, "HEAD", path), send(gateway, "GET", path)
            assert (status, same, data) == (200, 200, b"") and len(whole) == int(headers["content-length"]), path
        assert upstream.received == []


def test_a_model_exists_if_a_route_accepts_its_name() -> None:
    for match, status in (("*", 200), ("other", 404)):
        with Upstream([]) as upstream, gateway_to(upstream.endpoint(), settings_for(match=match)) as gateway:
            for path in ("/v1/models/m", "/v1beta/models/m", "/models/m"):
                got, _, data = send(gateway, "GET", path)
                assert got == status and ("error" in json.loads(data)) == (status == 404), (path, data)
            assert upstream.received == []


def test_a_model_may_have_a_colon_or_a_slash_in_its_name() -> None:
    """Ollama's have the one, and those of most hubs the other."""
    names = ("qwen3:8b", "hf.co/org/model-GGUF:Q4_K_M", "org/model", "a:generate")
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for name in names:
            for written in (name, name.replace("/", "%2F").replace(":", "%3A")):
                for path in ("/v1/models/", "/v1beta/models/", "/models/"):
                    status, _, data = send(gateway, "GET", path + written)
                    found = json.loads(data)
                    assert status == 200 and (found.get("id") or found["name"].removeprefix("models/")) == name, data
                for verb in ("generateContent", "streamGenerateContent", "countTokens"):
                    assert send(gateway, "POST", f"/v1beta/models/{written}:{verb}", REQUEST)[0] == 200, (written, verb)
                assert gateway.reports[0]["requested_model"] == name
        assert send(gateway, "GET", "/v1beta/models/m:generateContent")[0] == 405


def test_a_request_that_is_too_large_is_the_fault_of_the_client_on_every_wire() -> None:
    plain = settings_for()
    settings = GatewaySettings(ServerSettings(port=0, most_of_a_request=1000), plain.endpoints, plain.routes)
    kinds = {"invalid_request_error", "request_too_large", "INVALID_ARGUMENT", None}
    with Upstream([]) as upstream, gateway_to(upstream.endpoint(), settings) as gateway:
        for path in PATHS:
            status, _, data = send(gateway, "POST", path, b'{"model": "' + b"m" * 1000 + b'"}')
            error = json.loads(data)["error"]
            kind = error.get("type") or error.get("status") if isinstance(error, dict) else None
            assert status == 413 and kind in kinds, (path, data)


def test_a_request_without_a_conversation_is_the_fault_of_the_client() -> None:
    fields = {"/v1/responses": "input", "/v1beta/models/m:generateContent": "contents"}
    with Upstream([]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for path in PATHS:
            name = fields.get(path, "messages")
            for given in ({}, {name: []}, {name: None}, {name: [7]}):
                status, _, data = send(gateway, "POST", path, {"model": "m", "max_tokens": 9, **given})
                if path == "/api/chat" and given.get(name) != [7]:
                    assert status == 200 and json.loads(data)["done_reason"] == "load", (given, data)
                else:
                    assert status == 400 and name in data.decode(), (path, given, status, data)
        assert upstream.received == []


STATE: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "previous_response_id": ({"previous_response_id": "resp_9"}, 400, "previous_response_not_found"),
    "conversation": ({"conversation": {"id": "conv_9"}}, 404, None),
    "prompt": ({"prompt": {"id": "pmpt_9"}}, 404, None),
    "input": ({"input": [{"type": "item_reference", "id": "msg_9"}]}, 404, None),
}


def test_state_that_no_endpoint_holds_gets_the_error_of_the_vendor() -> None:
    with Upstream([]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for param, (fields, status, code) in STATE.items():
            for stream in (False, True):
                got, _, data = send(gateway, "POST", "/v1/responses", {**REQUEST, **fields, "stream": stream})
                error = json.loads(data)["error"]
                assert (got, error["param"], error["code"]) == (status, param, code), data
                assert error["type"] == "invalid_request_error" and "_9' not found." in error["message"]
        assert upstream.received == []


def test_a_client_continues_a_response_that_an_endpoint_remembers() -> None:
    tools: Any = [{"type": "function", **WEATHER, "strict": False}]
    script = [call("weather", city="Paris"), "Sunny."] * 2
    with (
        Upstream(script, wire="openai_responses") as upstream,
        gateway_to(upstream.endpoint()) as gateway,
        open_openai(gateway.url) as client,
    ):
        for stream in (False, True):
            first: Any = client.responses.create(model="m", input="Go.", tools=tools, stream=stream)
            first = list(first)[-1].response if stream else first
            assert upstream.bodies[-1]["store"] is True, "the default of the vendor"
            [made] = first.output
            result: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "sunny"}
            client.responses.create(model="m", input=[result], previous_response_id=first.id, tools=tools)
            sent = upstream.bodies[-1]
            assert sent["input"] == [result] and sent["previous_response_id"] == "resp_0", "the id of the endpoint"


def test_gemini_streams_an_array_unless_it_is_asked_for_events() -> None:
    path = "/v1beta/models/m:streamGenerateContent"
    script = ["Hello.", "Hello.", call("weather", city="Paris"), ""]
    kinds = []
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for query in ("?alt=sse", "", "?alt=json", "?key=k"):
            status, headers, data = send(gateway, "POST", path + query, REQUEST)
            kinds.append(headers["content-type"].partition(";")[0])
            if query != "?alt=sse":
                replies = json.loads(data)
                assert status == 200 and replies[-1]["candidates"][0]["finishReason"] == "STOP", data
    assert kinds == ["text/event-stream", *["application/json"] * 3]


def test_tokens_are_counted_by_an_endpoint_that_can() -> None:
    number = Answer(200, {"content-type": "application/json"}, {"input_tokens": 77, "totalTokens": 77})
    paths = {"/v1/messages/count_tokens": "input_tokens", "/v1beta/models/m:countTokens": "totalTokens"}
    for wire, is_estimate in {"anthropic": False, "gemini": False, "openai_chat": True, "ollama": True}.items():
        script = [] if is_estimate else [number] * 2
        with Upstream(script, wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for path, name in paths.items():
                status, headers, data = send(gateway, "POST", path, {**REQUEST, "system": "Be brief."})
                assert status == 200 and ("x-dragoman-estimated" in headers) == is_estimate, (wire, path)
                assert (json.loads(data)[name] == 77) != is_estimate, (wire, path, data)
            assert all("count" in received.target for received in upstream.received)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    ),
    "responses": ("/v1/responses", {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
    "anthropic": ("/v1/messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    "anthropic, as a beta": ("/v1/messages", {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
    ),
    "ollama": ("/api/chat", {"format": SCHEMA, "stream": False}),
}


def test_the_schema_of_an_answer_reaches_an_endpoint_of_every_wire() -> None:
    for wire in ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama"):
        with Upstream(['{"a": 1}'] * len(FORMATS), wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for client, (path, fields) in FORMATS.items():
                assert send(gateway, "POST", path, {**REQUEST, **fields})[0] == 200
                assert '"required": ["a"]' in json.dumps(upstream.bodies[-1]), f"{client} to {wire}"


LOST: dict[str, tuple[dict[str, Any], list[str]]] = {
    "/v1/chat/completions": ({"n": 2, "logprobs": True, "top_logprobs": 3}, ["n", "logprobs", "top_logprobs"]),
    "/v1/responses": ({"top_logprobs": 3}, ["top_logprobs"]),
    "/v1beta/models/m:generateContent": (
        {"generationConfig": {"candidateCount": 2, "responseLogprobs": True, "topK": 3}},
        ["candidateCount", "responseLogprobs"],
    ),
}


def test_other_choices_and_likelihoods_are_not_asked_for_and_the_report_says_so() -> None:
    wires = ("openai_chat", "openai_responses", "gemini")
    for wire, (path, (fields, names)) in zip(wires, LOST.items(), strict=True):
        with Upstream(["Hello."] * 2, wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
            assert send(gateway, "POST", path, {**REQUEST, **fields})[0] == 200
            written = json.dumps(upstream.bodies)
            for name in names:
                assert f'"{name}"' not in written
                assert any(f" {name} was left out" in loss for loss in gateway.reports[0]["losses"]), gateway.reports[0]
            send(gateway, "POST", path, {**REQUEST, "n": 1, "generationConfig": {"candidateCount": 1}})
            assert not any("left out" in loss for loss in gateway.reports[0].get("losses", ()))


MEDIA_PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
    "ollama": "/api/chat",
}


def test_a_field_that_compatible_servers_have_added_reaches_them() -> None:
    """vLLM, SGLang and llama.cpp read top_k, which OpenAI does not have."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "top_k": 20, "min_p": 0.1}
    for wire in ("openai_chat", "anthropic", "ollama"):
        with Upstream(["Fine."], wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
            send(gateway, "POST", "/v1/chat/completions", body)
            assert upstream.bodies[0].get("options", upstream.bodies[0])["top_k"] == 20, wire
            assert "top_k" not in str(gateway.reports[0].get("losses")), wire


def test_media_of_every_client_reach_every_endpoint_or_are_in_the_report() -> None:
    names = ("image", "pdf", "wav", "text")
    wrong = []
    for wire in MEDIA_PATHS:
        with Upstream(["Fine."], wire=wire, loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for client, path in MEDIA_PATHS.items():
                for name in (name for name in names if name in media.CARRIED[client] | media.TEXTS):
                    for result in (False, True):
                        sent = wires.get(client).prepare(media.ask(client, media.PARTS[name], result=result)).body
                        if media.arrival(media.PARTS[name], json.dumps(sent)) == "nothing":
                            continue
                        status, _, data = send(gateway, "POST", path, {"max_tokens": 9, **sent, "stream": False})
                        assert status == 200, data
                        way = media.arrival(media.PARTS[name], json.dumps(upstream.bodies[-1]))
                        told = any("was left out: " in loss for loss in gateway.reports[0].get("losses", ()))
                        if (way == "nothing") != told or (way == "nothing") != (
                            name not in media.CARRIED[wire] | media.TEXTS
                        ):
                            wrong.append((client, wire, name, result, way, gateway.reports[0].get("losses")))
    assert not wrong, "\n".join(map(str, wrong))


def test_the_usage_of_a_stream_is_in_the_report_also_if_the_client_does_not_ask_for_it() -> None:
    asked: list[Any] = [None, {"include_usage": False}, {"include_usage": True}]
    with Upstream(["Hello."] * 3) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for options in asked:
            more = {} if options is None else {"stream_options": options}
            _, _, data = send(gateway, "POST", "/v1/chat/completions", {**CHAT, "stream": True, **more})
            assert upstream.bodies[-1]["stream_options"] == {"include_usage": True}
            assert (b'"usage":{' in data) == bool(options and options["include_usage"]), (options, data)


def test_features_that_a_client_switched_on_reach_an_endpoint_of_its_wire() -> None:
    """Anthropic refuses `context_management` without the header that the client sent with it."""
    for wire in ("anthropic", "openai_chat"):
        with Upstream(["Hello."] * 2, wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for betas in ("context-management-2025-06-27,b-1", ""):
                headers = {"anthropic-beta": betas} if betas else {}
                send(gateway, "POST", "/v1/messages", {**REQUEST, "context_management": {"edits": []}}, **headers)
                sent = upstream.received[-1].headers.get("anthropic-beta", "")
                assert sent == (betas if wire == "anthropic" else ""), wire


def test_a_missing_key_is_named_on_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = parse_settings('[[routes]]\nto = "openai:gpt-5"')
    with run_gateway(lambda transport: Router(settings, transport=transport)) as gateway:
        for path in (*PATHS, "/v1/embeddings", "/v1/messages/count_tokens", "/v1beta/models/m:countTokens"):
            status, _, data = send(gateway, "POST", path, REQUEST)
            assert status == 500 and b"OPENAI_API_KEY is not set" in data, (path, data)


PATCH = "*** Begin Patch\n*** End Patch"
CUSTOM = {"type": "custom", "description": "Edit files.", "format": {"syntax": "lark", "definition": 'start: "x"'}}


def test_a_custom_tool_of_a_responses_client_works_at_every_endpoint() -> None:
    """Codex edits files with such a tool. Other endpoints know it as a function with one text."""
    inner = {"type": "namespace", "name": "files", "tools": [{**CUSTOM, "name": "write_file"}]}
    given = [{**CUSTOM, "name": "apply_patch"}, {"type": "function", **WEATHER}, inner]
    # It offers its tools in the list, or for some models in an item of the conversation.
    for tools, begun in ((given, []), ([], [{"type": "additional_tools", "role": "developer", "tools": given}] * 2)):
        _check_custom_tools(tools, begun)


def _check_custom_tools(tools: list[Any], begun: list[Any]) -> None:
    for wire in ("openai_chat", "anthropic", "gemini", "ollama"):
        for native in (True, False):
            made = call("apply_patch", input=PATCH), call("write_file", input="x")
            said = [f'<tool_call>\n{{"name": "write_file", "arguments": {json.dumps({"input": "x"})}}}\n</tool_call>']
            script = [*made, "Done."] if native else [*said * 2, "Done."]
            with Upstream(script, wire=wire, native=native) as upstream, gateway_to(upstream.endpoint()) as gateway:
                words = [*begun, {"role": "user", "content": "Go."}]
                body = {"model": "m", "input": words, "tools": tools, "tool_choice": {**CUSTOM, "name": "apply_patch"}}
                if not native:
                    body["tool_choice"] = {**CUSTOM, "name": "write_file"}
                _, _, data = send(gateway, "POST", "/v1/responses", body)
                [item] = json.loads(data)["output"]
                text = PATCH if native else "x"
                assert (item["type"], item["input"]) == ("custom_tool_call", text), (wire, native, item)
                assert "grammar" in json.dumps(upstream.bodies[0])
                offered = [tool.name for tool in upstream.requests[0].tools]
                assert len(set(offered)) == len(offered), offered
                _, _, data = send(gateway, "POST", "/v1/responses", {**body, "tool_choice": "auto", "stream": True})
                assert b"response.custom_tool_call_input.done" in data and b'"namespace":"files"' in data, data
                answer = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "edited"}
                history = [*words, item, answer]
                send(gateway, "POST", "/v1/responses", {**body, "tool_choice": "auto", "input": history})
                sent = json.dumps(upstream.bodies[-1])
                assert "edited" in sent and json.dumps(text)[1:-1] in sent.replace("\\\\", "\\"), sent
