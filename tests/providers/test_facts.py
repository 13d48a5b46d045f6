"""What is learned from an endpoint's answers, and what follows from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman import providers
from dragoman.providers import Fact, MemoryFacts, learn_from_error, learn_from_show

REFUSALS = {
    "Ollama": "registry.ollama.ai/library/gemma3 does not support tools",
    "vLLM": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "OpenRouter": "No endpoints found that support tool use. To learn more about provider routing, visit: ...",
    "Gemini": "Function calling is not enabled for models/gemma-3-27b-it",
    "is": "tool is not supported by this model",
    "are": "Tools are not supported in this mode",
    "use": "Tool use is not available for this model.",
    "quoted": "Invalid request: `tools` is not supported",
    "parameter": "Unsupported parameter: 'tools'",
    "function calling": "This model does not support function calling",
}


@each_row("status", [400, 404, 422, 500, None])
@each_row("words", REFUSALS.values(), ids=REFUSALS)
def test_an_endpoint_that_refuses_tools(words: str, status: int | None) -> None:
    for error in (words, words.upper().encode(), {"error": {"message": words, "code": 400}}, [{"error": words}]):
        fact = learn_from_error(error, status)
        assert fact is not None and fact.native_tool_calls is False
    assert learn_from_error(words, 400) == Fact(native_tool_calls=False, why=words)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Rate limit reached", 429),
        ("The tools array is too long", 400),
        ("tool_choice 'required' is not supported", 400),
        ("Invalid schema for function 'search'", 400),
        ("model not found", 404),
        ("", 400),
        (None, 500),
        (REFUSALS["Ollama"], 401),
        (REFUSALS["Ollama"], 429),
        (REFUSALS["Ollama"], 200),
    ],
)
def test_other_errors_teach_nothing(words: object, status: int) -> None:
    assert learn_from_error(words, status) is None


def test_a_refusal_on_the_chat_wire_that_names_the_other_one_moves_the_model_there() -> None:
    words = (
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    )
    fact = learn_from_error({"error": {"message": words}}, 400)
    assert fact is not None
    assert (fact.native_tool_calls, fact.wire) == (None, "openai_responses")
    facts = MemoryFacts()
    azure = "https://me.openai.azure.com/openai/v1"
    settings = {"variables": {"resource": "me"}, "facts": facts}
    assert providers.resolve("azure:my-deployment", **settings).wire == "openai_chat"
    facts.put(azure, "my-deployment", fact)
    assert providers.resolve("azure:my-deployment", **settings).wire == "openai_responses"
    assert providers.resolve("azure:my-deployment", wire="openai_chat", **settings).wire == "openai_chat"


@given(st.recursive(st.none() | st.text() | st.integers() | st.binary(), lambda deeper: st.lists(deeper)))
def test_no_answer_raises(body: object) -> None:
    assert learn_from_error(body, 400) is None
    assert learn_from_show(body) is None


def test_a_deep_or_long_answer_is_read_without_harm() -> None:
    deep: object = "does not support tools"
    for _ in range(100_000):
        deep = [deep]
    assert learn_from_error(deep, 400) is not None
    fact = learn_from_error("does not support tools " * 100_000, 400)
    assert fact is not None and len(fact.why) <= 200


def test_ollama_says_what_a_model_can() -> None:
    assert learn_from_show({"capabilities": ["completion", "tools"]}) == Fact(True, why="/api/show: completion, tools")
    fact = learn_from_show({"capabilities": ["completion", None]})
    assert fact is not None and fact.native_tool_calls is False
    assert learn_from_show({"capabilities": "tools"}) is None


def test_facts_hold_for_one_address_and_one_model() -> None:
    facts = MemoryFacts()
    ollama = providers.get("ollama")
    facts.put(ollama.base_url, "qwen3", Fact(native_tool_calls=False))
    assert not ollama.supports_native_tools("qwen3", facts=facts)
    assert ollama.supports_native_tools("qwen2.5", facts=facts)
    assert providers.resolve("ollama:qwen3", base_url="box:11434", facts=facts).capabilities.native_tool_calls
    assert isinstance(ollama.convert_tools([{"name": "ping"}], "qwen3", facts=facts), providers.PromptGuided)
    assert len(facts) == 1


def test_the_caller_knows_better_than_the_facts() -> None:
    facts = MemoryFacts()
    ollama = providers.get("ollama")
    facts.put(ollama.base_url, "qwen3", Fact(native_tool_calls=False))
    assert ollama.capabilities("qwen3", {"native_tool_calls": True}, facts).native_tool_calls


def test_a_fact_turns_native_calls_on_where_the_row_says_no() -> None:
    facts = MemoryFacts()
    facts.put("http://localhost:11434", "my-finetune", learn_from_show({"capabilities": ["tools"]}) or Fact())
    assert providers.get("ollama").supports_native_tools("my-finetune", facts=facts)
