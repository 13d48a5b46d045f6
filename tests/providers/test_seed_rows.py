"""The fourteen providers of seed 004: native or not, the wire, and the text formats; with the stated differences."""

from __future__ import annotations

import pytest

from dragoman import providers

# name: native (as the row says), the wire, the wire of the seed, formats that are read from text
ROWS = {
    "openai": ("yes", "openai_responses", "openai_chat", []),
    "anthropic": ("yes", "anthropic", "anthropic", ["anthropic_xml"]),
    "openrouter": ("yes", "openai_chat", "openai_chat", ["hermes", "fenced_tool_call"]),
    "gemini": ("yes", "gemini", "gemini", []),
    "venice": ("per_model", "openai_chat", "openai_chat", []),
    "groq": ("yes", "openai_chat", "openai_chat", []),
    "mistral": ("yes", "mistral", "mistral", []),
    "deepseek": ("yes", "openai_chat", "openai_chat", []),
    "xai": ("yes", "openai_chat", "openai_chat", []),
    "moonshot": ("yes", "openai_chat", "openai_chat", []),
    "glm": ("yes", "openai_chat", "openai_chat", ["glm45", "glm_lines"]),
    "minimax": ("yes", "openai_chat", "openai_chat", ["json_message"]),
    "ollama": ("per_model", "ollama", "ollama", ["hermes", "json_message"]),
    "custom": ("learned", "openai_chat", "openai_chat", ["hermes"]),
}


@pytest.mark.parametrize(("name", "expected"), ROWS.items(), ids=ROWS)
def test_a_row_of_the_seed(name: str, expected: tuple[str, str, str, list[str]]) -> None:
    native, wire, seed_wire, read = expected
    row = providers.get(name)
    assert (row.native, row.wire) == (native, wire)
    assert seed_wire in row.wires
    assert set(read) <= {row.format, *row.formats}
    assert row.supports_native_tools() == (native == "yes")


def test_openrouter_is_the_chat_codec_with_flags() -> None:
    endpoint = providers.resolve("openrouter:anthropic/claude-opus-4.8")
    assert endpoint.wire == "openai_chat"
    assert (endpoint.quirks.reasoning_field, endpoint.quirks.replay_reasoning) == ("reasoning_details", "always")


@pytest.mark.parametrize(
    ("model", "native"),
    [("qwen3", True), ("llama3.1:8b", True), ("gemma3:4b", False), ("phi3", False), ("somebody/finetune", False)],
)
@pytest.mark.parametrize("name", ["ollama", "venice"])
def test_ollama_and_venice_are_native_per_model(name: str, model: str, native: bool) -> None:
    assert providers.get(name).supports_native_tools(model) is native


def test_a_custom_endpoint_is_native_until_a_fact_says_otherwise_and_without_an_address_it_is_not() -> None:
    """The seed never tries native calls there. A run now tries them first, and remembers what it learned."""
    facts = providers.MemoryFacts()
    settings = {"base_url": "http://box:9000/v1", "facts": facts}
    assert not providers.resolve("custom:qwen3").capabilities.native_tool_calls
    assert providers.resolve("custom:qwen3", **settings).capabilities.native_tool_calls
    facts.put("http://box:9000/v1", "qwen3", providers.Fact(native_tool_calls=False))
    assert not providers.resolve("custom:qwen3", **settings).capabilities.native_tool_calls
    assert providers.resolve("custom:qwen2.5", **settings).capabilities.native_tool_calls


def test_glm_is_taught_its_own_text_when_calls_are_not_native() -> None:
    payload = providers.get("glm").convert_tools([{"name": "ping"}], "glm-4.6", {"native_tool_calls": False})
    assert isinstance(payload, providers.PromptGuided)
    assert payload.format == "glm45"
    assert "<tool_call>ping\n" in payload.instructions
