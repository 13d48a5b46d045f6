"""The repair turn: a model whose reply the client cannot use is asked again, and a second request that fails changes
nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from tests.integrations.sdks import ASKED, NESTED, SDKS
from tests.server.gateways import CALLED, CLIENTS, gateway_to
from tests.server.test_gateway import send
from tests.server.test_repairs import PARIS, entry, native
from tests.tables import each_row

from dragoman.integrations import Repair
from dragoman.pipeline import Report
from dragoman.testing import Answer, Fault, Upstream, call, sse

THOUGHT = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'


def reply(message: dict[str, Any], finish: str = "stop") -> tuple[Any, Any]:
    """The same message of a chat server, whole and streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    frame = {"index": 0, "delta": {"role": "assistant", **message}, "finish_reason": finish}
    return Answer(200, {"content-type": "application/json"}, {"choices": [choice]}), sse([{"choices": [frame]}])


UNUSABLE: dict[str, tuple[tuple[Any, Any], str, str]] = {
    "an argument is missing": (native(entry("{}")), "arguments do not fit", "missing required"),
    "there is no such tool": (native(entry(name="forecast")), "no such tool", "no tool named"),
    "a call is cut off": (native(entry('{"city": "Par'), finish="length"), "cut off", "cut off"),
    "a complete call may be cut": (native(entry(), finish="length"), "cut off", "cut off"),
    "a call in reasoning": (reply({"content": "", "reasoning_content": THOUGHT}), "empty", "empty"),
    "a call in the tag of reasoning": (reply({"content": f"<think>{THOUGHT}</think>"}), "do not count", "looked like"),
    "an empty reply": (reply({"content": ""}), "empty", "empty"),
    "only reasoning": (reply({"content": None, "reasoning_content": "Hm."}), "empty", "empty"),
}
GOOD = native(entry())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_model_whose_reply_is_of_no_use_is_asked_again(client: str) -> None:
    script = [each[stream] for bad, _, _ in UNUSABLE.values() for stream in (0, 1) for each in (bad, GOOD)]
    wrong = []
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for name, (_, why, told) in UNUSABLE.items():
            for stream in (False, True):
                heard = CLIENTS[client](gateway.url, stream)
                report = gateway.reports[0]
                if (heard.calls, heard.stop, heard.text) != ([PARIS], CALLED[client], ""):
                    wrong.append(f"{name}, {stream=}: {heard}")
                if why not in report.get("repair_turn", "") or [call["name"] for call in report["calls"]] != [
                    "weather"
                ]:
                    wrong.append(f"{name}, {stream=}: {report}")
                if told not in json.dumps(upstream.bodies[-1]["messages"][1:]):
                    wrong.append(f"{name}, {stream=}: the model was told {upstream.bodies[-1]['messages']}")
    assert not wrong, "\n".join(wrong)


def test_the_model_sees_its_call_with_the_error_as_its_result() -> None:
    with Upstream([native(entry("{}"))[0], GOOD[0]]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        CLIENTS["openai_chat"](gateway.url, False)
        called, result = upstream.bodies[-1]["messages"][-2:]
    assert called["tool_calls"][0]["function"]["name"] == "weather"
    assert result["role"] == "tool" and "missing required 'city'" in result["content"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_words_of_both_replies_are_set_apart(client: str) -> None:
    script = [["I look.", call("forecast")], ["I look again.", call("weather", city="Paris")]]
    with Upstream(script * 2) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for stream in (False, True):
            heard = CLIENTS[client](gateway.url, stream)
            assert (heard.text, heard.calls) == ("I look.\n\nI look again.", [PARIS]), heard


def test_the_reasoning_before_a_call_goes_back_with_the_call() -> None:
    """Anthropic and DeepSeek reject a call in a turn with reasoning if the reasoning is missing."""
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    used = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [signed, used]}
    body |= {"stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    script = [Answer(200, {"content-type": "application/json"}, body), call("weather", city="Paris")]
    with Upstream(script, wire="anthropic") as upstream, gateway_to(upstream.endpoint()) as gateway:
        assert CLIENTS["anthropic"](gateway.url, False).calls == [PARIS]
        assert upstream.bodies[-1]["messages"][-2]["content"] == [signed, used]


FORECAST = ("forecast", {"city": "Paris"})
FAILURES = {
    "an error": Fault("status", status=400, body='{"error": {"message": "roles must alternate"}}'),
    "no JSON": Fault("html"),
    "an empty reply": reply({"content": ""}),
}
BROKEN = {"before the answer": [Fault("reset"), ""], "in the answer": [Fault("close", 4), ""]}


def script_of(again: Any, stream: bool) -> list[Any]:
    first = native(entry(name="forecast"))[stream]
    return [first, *([again[stream]] if isinstance(again, tuple) else again if isinstance(again, list) else [again])]


@pytest.mark.parametrize("name", FAILURES)
def test_a_repair_turn_that_fails_leaves_the_first_reply(name: str) -> None:
    for stream in (False, True):
        script = script_of(FAILURES[name], stream)
        with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
            heard = CLIENTS["openai_chat"](gateway.url, stream)
            assert heard.calls == [FORECAST] and heard.stop == "tool_calls", heard
            assert "the first reply was passed on" in gateway.reports[0]["notes"][-1]


@pytest.mark.parametrize("name", [*FAILURES, *BROKEN])
def test_an_sdk_receives_the_first_reply_if_the_repair_turn_fails(name: str) -> None:
    for stream in (False, True):
        reports: list[Report] = []
        http = Repair(on_report=reports.append).client(httpx2.Client(verify=False))
        with Upstream(script_of((FAILURES | BROKEN)[name], stream)) as upstream, http:
            client = openai.OpenAI(base_url=upstream.url, api_key="k", max_retries=0, http_client=http)
            got: Any = client.chat.completions.create(model="m", messages=ASKED, tools=NESTED, stream=stream)
            read = SDKS["openai"].read(list(got) if stream else got, stream)
            assert read.calls == [FORECAST] and read.stop == "tool_calls", read
        assert not reports[0].failure and [call.name for call in reports[0].calls] == ["forecast"]


@pytest.mark.parametrize("arguments", ['{"city": null}', '{"city": "Paris", "days": 1}', '{"city": {"name": "Paris"}}'])
def test_a_call_that_a_lenient_program_can_run_is_passed_on_as_it_came(arguments: str) -> None:
    """A program that accepts null would pay for a second request with every call."""
    tool = {**NESTED[0]["function"]}
    tool["parameters"] = {**tool["parameters"], "additionalProperties": False}
    http = Repair().client(httpx2.Client(verify=False))
    with Upstream([native(entry(arguments))[0]]) as upstream, http:
        client = openai.OpenAI(base_url=upstream.url, api_key="k", http_client=http)
        asked: Any = {"messages": ASKED, "tools": [{"type": "function", "function": tool}]}
        [made] = client.chat.completions.create(model="m", **asked).choices[0].message.tool_calls or []
        assert json.loads(made.function.arguments) == json.loads(arguments) and len(upstream.received) == 1


@each_row(
    "message, finish, prefill",
    [
        ({"content": ""}, "length", ""),
        ({"content": ""}, "content_filter", ""),
        ({"content": "", "refusal": "No."}, "stop", ""),
        ({"content": ""}, "stop", "The answer is 42."),
    ],
)
def test_a_reply_that_is_empty_for_a_reason_is_passed_on(message: Any, finish: str, prefill: str) -> None:
    asked = [*ASKED, *([{"role": "assistant", "content": prefill}] if prefill else [])]
    http = Repair().client(httpx2.Client(verify=False))
    with Upstream([reply(message, finish)[0]]) as upstream, http:
        client = openai.OpenAI(base_url=upstream.url, api_key="k", http_client=http)
        made = client.chat.completions.create(model="m", messages=asked, tools=NESTED)
        assert made.choices[0].finish_reason == finish and len(upstream.received) == 1


_SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
_PYTHON = {"executableCode": {"language": "PYTHON", "code": "1"}}
_CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed"}
_CLICK |= {"action": {"type": "screenshot"}, "pending_safety_checks": []}
_USED = {"input_tokens": 1, "output_tokens": 1}
OWN_ITEMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai_responses": ("/v1/responses", {"input": "Go.", "tools": [{"type": "function", **NESTED[0]["function"]}]},
        {"id": "resp_1", "object": "response", "status": "completed", "output": [_CLICK], "usage": _USED}),
    "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": ASKED, "tools": [{"name": "w", "input_schema": {}}]},
        {"id": "msg_1", "type": "message", "role": "assistant", "content": [_SEARCH], "stop_reason": "end_turn",
         "usage": _USED}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": "Go."}]}],
        "tools": [{"functionDeclarations": [{"name": "w"}]}]},
        {"candidates": [{"content": {"role": "model", "parts": [_PYTHON]}, "finishReason": "STOP"}]}),
}  # fmt: skip


@pytest.mark.parametrize("wire", OWN_ITEMS)
def test_a_reply_with_items_that_only_the_vendor_knows_is_not_empty(wire: str) -> None:
    path, asked, body = OWN_ITEMS[wire]
    with Upstream([Answer(200, {"content-type": "application/json"}, body)], wire=wire) as upstream:
        with gateway_to(upstream.endpoint()) as gateway:
            _, _, data = send(gateway, "POST", path, {"model": "m", **asked})
        assert len(upstream.received) == 1 and any(
            kind in data for kind in (b"_call", b"server_tool", b"executableCode")
        )


BASH = {"type": "bash_20250124", "name": "bash"}
WEATHER = {"name": "weather", "input_schema": NESTED[0]["function"]["parameters"]}


def test_a_call_of_a_tool_that_only_the_vendor_defines_is_no_mistake() -> None:
    import anthropic

    used = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [used]}
    body |= {"stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    answer = Answer(200, {"content-type": "application/json"}, body)
    with Upstream([answer], wire="anthropic") as upstream, gateway_to(upstream.endpoint()) as gateway:
        client = anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0)
        asked: Any = {"messages": ASKED, "tools": [BASH, WEATHER], "max_tokens": 9}
        made = client.messages.create(model="m", **asked)
        assert [block.type for block in made.content] == ["tool_use"]
        assert upstream.bodies[0]["tools"][0] == BASH and "invalid" not in gateway.reports[0]
