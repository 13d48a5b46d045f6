"""What the gateway repairs: the faults of servers that other gateways pass on, on every client wire."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.gateways import CALLED, CLIENTS, ENDED, gateway_to

from dragoman.testing import Answer, Upstream, sse

CITY = '{"city": "Paris"}'
PARIS = ("weather", {"city": "Paris"})
ROME = ("weather", {"city": "Rome"})


def native(*entries: dict[str, Any], finish: str | None = "tool_calls") -> tuple[Any, Any]:
    """The same reply of a chat server, whole and streamed."""
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": list(entries)}}]}
    whole["choices"][0]["finish_reason"] = finish
    frames = [{"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]} for entry in entries]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return Answer(200, {"content-type": "application/json"}, whole), sse(frames)


def said(text: str) -> tuple[Any, Any]:
    return text, text


def entry(arguments: Any = CITY, name: str = "weather", index: int | None = 0, id: str | None = "c1") -> dict[str, Any]:
    made: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    if id is not None:
        made["id"] = id
    return made


REPAIRED: dict[str, tuple[tuple[Any, Any], list[Any]]] = {
    "the finish reason says stop": (native(entry(), finish="stop"), [PARIS]),
    "the finish reason is null": (native(entry(), finish=None), [PARIS]),
    "the call has no id": (native(entry(id=None)), [PARIS]),
    "the arguments are an object": (native(entry({"city": "Paris"})), [PARIS]),
    "a comma before the brace": (native(entry('{"city": "Paris",}')), [PARIS]),
    "quotes of Python": (native(entry("{'city': 'Paris'}")), [PARIS]),
    "a namespace before the name": (native(entry(name="functions.weather")), [PARIS]),
    "another case of the name": (native(entry(name="Weather")), [PARIS]),
    "both calls have the index 0": (
        native(entry(), entry('{"city": "Rome"}', id="c2")),
        [PARIS, ROME],
    ),
    "no call has an index": (
        native(entry(index=None), entry('{"city": "Rome"}', index=None, id="c2")),
        [PARIS, ROME],
    ),
    "a call in a tag": (said(f'<tool_call>{{"name": "weather", "arguments": {CITY}}}</tool_call>'), [PARIS]),
    "bare JSON": (said(f'{{"name": "weather", "arguments": {CITY}}}'), [PARIS]),
    "a fence after a sentence": (
        said(f'Sure:\n```json\n{{"name": "weather", "arguments": {CITY}}}\n```'),
        [PARIS],
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_faulty_calls_arrive_as_calls(client: str) -> None:
    wrong: list[str] = []
    script = [given for (whole, streamed), _ in REPAIRED.values() for given in (whole, streamed)]
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for fault, (_, expected) in REPAIRED.items():
            for stream in (False, True):
                heard = CLIENTS[client](gateway.url, stream)
                if heard.calls != expected or heard.stop != CALLED[client]:
                    wrong.append(f"{fault}, {'streamed' if stream else 'whole'}: {heard}")
                elif "{" in heard.text or "tool_call" in heard.text:
                    wrong.append(f"{fault}, {'streamed' if stream else 'whole'}: markup in the text {heard.text!r}")
                elif client in ("openai_chat", "openai_responses", "anthropic") and (
                    len(set(heard.ids)) != len(expected) or not all(heard.ids)
                ):
                    wrong.append(f"{fault}, {'streamed' if stream else 'whole'}: ids {heard.ids}")
    assert not wrong, "\n".join(wrong)


CUT = {"openai_chat": "length", "openai_responses": "incomplete", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_truncated_call_is_marked_and_never_passed_on_as_a_call(client: str) -> None:
    """The model is asked once more, and its second call is cut off as well."""
    whole, streamed = native(entry('{"city": "Par'), finish="length")
    with Upstream([whole, whole, streamed, streamed]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        heard = [CLIENTS[client](gateway.url, stream) for stream in (False, True)]
        assert [each.calls for each in heard] == [[], []]
        assert {each.stop for each in heard} == {CUT.get(client, "length")}
        assert all("could not be passed on" in each.text for each in heard)
        assert gateway.reports[0]["invalid"][0]["name"] == "weather"


REFUSED = {
    "a code span": 'Write `<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>` to call it.',
    "reasoning": '<think><tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call></think>No.',
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_that_does_not_count_stays_text(client: str) -> None:
    wrong: list[str] = []
    script = [text for text in REFUSED.values() for _ in range(2)]
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for where in REFUSED:
            for stream in (False, True):
                heard = CLIENTS[client](gateway.url, stream)
                if heard.calls or heard.stop != ENDED[client]:
                    wrong.append(f"in {where}: {heard}")
        assert len([report for report in gateway.reports if report["refused"]]) == 4
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_suspect_gets_one_repair_turn_in_the_same_message(client: str) -> None:
    broken = "Let me see.\n<tool_call>\nweather of Paris\n</tool_call>"
    good = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    with Upstream([broken, good, broken, good]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for stream in (False, True):
            heard = CLIENTS[client](gateway.url, stream)
            assert heard.calls == [PARIS], heard
            assert heard.stop == CALLED[client]
            assert heard.text.startswith("Let me see.")
            assert gateway.reports[0]["repair_turn"]
        asked = [len(request.messages) for request in upstream.requests]
        assert asked == [1, 3, 1, 3], "the model is told once, after its own reply"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_of_the_endpoint_has_the_form_of_the_wire(client: str) -> None:
    import anthropic
    import ollama
    import openai
    from google.genai import errors

    kinds: dict[str, Any] = {
        "openai_chat": openai.RateLimitError,
        "openai_responses": openai.RateLimitError,
        "anthropic": anthropic.RateLimitError,
        "gemini": errors.ClientError,
        "ollama": ollama.ResponseError,
    }
    limited = Answer(429, {"content-type": "application/json", "retry-after": "9999"}, {"error": {"message": "slow"}})
    with Upstream([limited, limited]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for stream in (False, True):
            with pytest.raises(kinds[client], match="slow"):
                CLIENTS[client](gateway.url, stream)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_key_of_the_gateway_is_not_taken_for_the_key_of_the_client(client: str) -> None:
    refused = Answer(401, {"content-type": "application/json"}, {"error": {"message": "bad key"}})
    with Upstream([refused, refused]) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for stream in (False, True):
            with pytest.raises(Exception, match="refused the key of the gateway: bad key"):
                CLIENTS[client](gateway.url, stream)


def _gemini(**settings: Any) -> dict[str, Any]:
    from google.genai import types

    return {"tool_config": types.ToolConfig(function_calling_config=types.FunctionCallingConfig(**settings))}


_ONE = {"type": "function", "name": "search"}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "none": {
        "openai_chat": {"tool_choice": "none"},
        "openai_responses": {"tool_choice": "none"},
        "anthropic": {"tool_choice": {"type": "none"}},
        "gemini": _gemini(mode="NONE"),
    },
    "required": {
        "openai_chat": {"tool_choice": "required"},
        "openai_responses": {"tool_choice": "required"},
        "anthropic": {"tool_choice": {"type": "any"}},
        "gemini": _gemini(mode="ANY"),
    },
    "one tool": {
        "openai_chat": {"tool_choice": {"type": "function", "function": {"name": "search"}}},
        "openai_responses": {"tool_choice": _ONE},
        "anthropic": {"tool_choice": {"type": "tool", "name": "search"}},
        "gemini": _gemini(mode="ANY", allowed_function_names=["search"]),
    },
    "one call": {
        "openai_chat": {"parallel_tool_calls": False},
        "openai_responses": {"parallel_tool_calls": False},
        "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    },
}
OBEYED = {"none": [], "required": ["weather", "search"], "one tool": ["search"], "one call": ["weather"]}


@pytest.mark.parametrize("native", [True, False])
def test_the_tool_choice_of_every_wire_is_enforced(native: bool) -> None:
    """The model makes two calls in every reply, or none at first where one is required."""
    both = "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {{"{key}": "Paris"}}}}\n</tool_call>'
        for name, key in (("weather", "city"), ("search", "query"))
    )
    wrong: list[str] = []
    for choice, rows in CHOICES.items():
        script = ["I will not.", both] if choice == "required" else [both]
        for client, fields in rows.items():
            with Upstream(script * 2, native=native) as upstream, gateway_to(upstream.endpoint()) as gateway:
                for stream in (False, True):
                    heard = CLIENTS[client](gateway.url, stream, **fields)
                    if [name for name, _ in heard.calls] != OBEYED[choice]:
                        wrong.append(f"{client}, {choice}: {heard}")
    assert not wrong, "\n".join(wrong)
