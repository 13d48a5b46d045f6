"""What the gateway promises about every exchange: how much is held, and which bytes stay equal from turn to turn."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from tests.server.gateways import TOOLS, gateway_to
from tests.server.test_gateway import CHAT, send

from dragoman.events import TextDelta
from dragoman.extraction.responses import ConversationContext
from dragoman.extraction.tool_mode import choose_tool_mode, compose
from dragoman.pipeline.gate import MOST_HELD
from dragoman.pipeline.translator import ReplyTranslator
from dragoman.providers import resolve
from dragoman.testing import Answer, Upstream, sse
from dragoman.toolset import Toolset
from dragoman.types import Message

WORDS = "The quick brown fox jumps over the lazy dog. "
OPENERS = {
    "prose": "",
    "a brace": "{",
    "an object": '{"name": "nobody", "x": "',
    "an object of a tool": '{"name": "weather", "x": "',
    "a list": "[",
    "a fence": "```json\n",
    "a fence with a tool": '```json\n{"name": "weather", ',
    "an angle bracket": "<",
    "half a tag": "<tool_cal",
    "a bracket of Mistral": "[TOOL_CALL",
    "a function": "weather(",
    "a tag of HTML": "<div>",
    "a table": "| a | b |\n|---|---|\n",
    "XML": "<function_results>\n",
    "a thought": "Thought: ",
}


def test_text_is_held_up_to_a_limit_and_everything_arrives() -> None:
    """A call that has begun is held to its end. Text that may only begin one is not."""
    tools = Toolset(TOOLS)
    endpoint = resolve("custom", "m", base_url="http://there.invalid/v1", wire="openai_chat")
    messages = [Message.user("Go.")]
    for trust in ("compat", "default"):
        composed = compose(messages, choose_tool_mode(endpoint, tools, "native", trust=trust), {})
        for name, opener in OPENERS.items():
            translator = ReplyTranslator(composed, ConversationContext(messages, tools))
            said = "First. \n" + opener + WORDS * (2 * MOST_HELD // len(WORDS))
            sent, most = "", 0
            for start in range(0, len(said), 2000):
                events = translator.feed(TextDelta(said[start : start + 2000]))
                sent += "".join(event.text for event in events if isinstance(event, TextDelta))
                most = max(most, min(start + 2000, len(said)) - len(sent))
                assert start or sent.startswith("First."), (trust, name, "what stands before it is sent at once")
            verdict = translator.close()
            rest = "".join(event.text for event in verdict.events if isinstance(event, TextDelta))
            assert sent + rest == said and not verdict.calls, (trust, name)
            assert most <= MOST_HELD + 2000, f"{trust}, {name}: {most} characters were held"


LEAK = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
SPOKEN: list[list[dict[str, Any]]] = [
    [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And now?"}],
    [{"role": "assistant", "content": LEAK}, {"role": "user", "content": "continue"}],
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ],
    [{"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Thanks."}],
    [{"role": "assistant", "content": "You are welcome."}, {"role": "user", "content": "Bye."}],
]


def read_messages(body: dict[str, Any]) -> list[str]:
    """The conversation in a body of any wire, each message as its text, without the marks of a cache."""
    entries = body.get("messages") or body.get("input") or body.get("contents") or []
    first = [json.dumps(body.get(name)) for name in ("system", "systemInstruction", "instructions", "tools")]
    return [*first, *(json.dumps(entry).replace(', "cache_control": {"type": "ephemeral"}', "") for entry in entries)]


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
def test_the_prefix_of_a_prompt_stays_equal_while_a_conversation_grows(wire: str) -> None:
    """A prompt cache recognises equal bytes. The last message may differ: what belongs to one turn is there."""
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    for native in (True, False):
        script = Upstream(["Fine."], wire=wire, native=native, loop=True)
        with script as upstream, gateway_to(upstream.endpoint()) as gateway:
            messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
            messages.append({"role": "user", "content": "Go."})
            before: list[str] = []
            for turn in [[], *SPOKEN]:
                messages += turn
                body = {**CHAT, "messages": messages, "tools": tools}
                status, _, data = send(gateway, "POST", "/v1/chat/completions", body)
                assert status == 200, data
                now = read_messages(upstream.bodies[-1])
                same = sum(1 for old, new in zip(before, now, strict=False) if old == new)
                assert same >= len(before) - 1, (wire, native, before[same], now[same])
                before = now


def test_what_an_endpoint_cannot_express_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.server")
    with Upstream(["Fine."], wire="anthropic") as upstream, gateway_to(upstream.endpoint()) as gateway:
        send(gateway, "POST", "/v1/chat/completions", {**CHAT, "logit_bias": {"1": 1}, "n": 2, "seed": 4})
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "losses: " in said and all(name in said for name in ("seed", "n was left out", "logit_bias")), said


def test_the_usage_of_a_reply_with_a_repair_turn_is_the_sum() -> None:
    broken, good = "Let me see.\n<tool_call>\nweather of Paris\n</tool_call>", LEAK
    script: list[Any] = []
    for stream in (False, True):
        for said, (given, made) in ((broken, (100, 20)), (good, (150, 30))):
            usage = {"prompt_tokens": given, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": 64}}
            message = {"role": "assistant", "content": said}
            if stream:
                frames = [{"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}]
                script.append(sse([*frames, {"choices": [], "usage": usage}]))
            else:
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                script.append(Answer(200, {"content-type": "application/json"}, {"choices": [choice], "usage": usage}))
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for stream in (False, True):
            more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            _, _, data = send(gateway, "POST", "/v1/chat/completions", {**CHAT, "tools": tools, **more})
            usage = json.loads(data.split(b"data: ")[-2] if stream else data)["usage"]
            assert (usage["prompt_tokens"], usage["completion_tokens"]) == (250, 50), data
            assert (
                usage["prompt_tokens_details"]["cached_tokens"] == 128 == gateway.reports[0]["usage"]["cached_tokens"]
            )
            assert b"weather" in data and gateway.reports[0]["repair_turn"]
        assert len(upstream.received) == 4
