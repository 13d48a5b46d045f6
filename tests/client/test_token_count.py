"""The number of tokens in a request: from the endpoint's counter, or an estimate that says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.client.pages import Pages

from dragoman import tool
from dragoman.client import TokenCount, acount_tokens, count_tokens
from dragoman.client.transport import TransportFault
from dragoman.types import Message

KEY = "sk-count-0001"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


COUNTERS: list[tuple[str, str, Any, set[str]]] = [
    (
        "anthropic:claude-x",
        "https://api.anthropic.com/v1/messages/count_tokens",
        {"input_tokens": 7},
        {"model", "messages", "system", "tools"},
    ),
    (
        "gemini:gemini-x",
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:countTokens",
        {"totalTokens": 7},
        {"generateContentRequest"},
    ),
    (
        "openai:gpt-5",
        "https://api.openai.com/v1/responses/input_tokens",
        {"object": "response.input_tokens", "input_tokens": 7},
        {"model", "input", "instructions", "tools"},
    ),
    ("vllm:qwen3", "http://localhost:8000/tokenize", {"count": 7, "max_model_len": 9}, {"model", "messages", "tools"}),
]


def test_an_endpoint_with_a_counter_counts_the_request_as_it_would_be_sent() -> None:
    for model, url, answer, fields in COUNTERS:
        pages = Pages({})
        pages.posts[url] = lambda body, answer=answer: answer  # type: ignore[misc]
        found = count_tokens(model, "Hi", tools=[weather], system="Be brief.", key=KEY, transport=pages)
        assert found == TokenCount(7, False), model
        body = json.loads(pages.requests[0].body)
        assert fields - {"instructions"} <= set(body) <= fields | {"reasoning", "tool_choice"}, (model, set(body))
        assert all(word in json.dumps(body) for word in ("weather", "Be brief.", "Hi")), model
        assert pages.asked == [("POST", url)]


def test_every_other_endpoint_gets_an_estimate_that_says_so() -> None:
    for model in ("ollama:qwen3", "openai_chat:gpt-4o", "groq:llama-3.3-70b", "local", "bedrock:anthropic.claude-x"):
        pages = Pages({})
        short = count_tokens(model, "Hi", key=KEY, transport=pages)
        long = count_tokens(model, "Hi " * 500, tools=[weather], system="Be brief.", key=KEY, transport=pages)
        assert short.is_estimate and long.is_estimate, model
        assert 0 < short.tokens < 400 < long.tokens < 3000, (model, short, long)
        assert pages.asked == [], model


def test_a_counter_that_does_not_answer_is_replaced_by_the_estimate() -> None:
    for answer in ((404, None), (200, {"tokens": "many"}), (200, {"input_tokens": 0}), (500, "<html>")):
        found = count_tokens("anthropic:claude-x", "Hi", key=KEY, transport=Pages({}, answer))
        assert found.is_estimate and found.tokens > 0, answer
    broken = Pages({}, TransportFault("unreachable", "nobody"))
    assert count_tokens("anthropic:claude-x", "Hi", key=KEY, transport=broken).is_estimate


def test_messages_are_counted_for_async_code_as_well() -> None:
    talk = [Message.user("Hi"), {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "And?"}]
    found = asyncio.run(acount_tokens("ollama:qwen3", talk))
    assert found.is_estimate
    assert found.tokens > count_tokens("ollama:qwen3", Message.user("Hi")).tokens
