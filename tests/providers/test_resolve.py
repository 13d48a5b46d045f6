"""From `provider:model` to a decision: the wire, the quirks, the address, the capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import providers
from dragoman.errors import ConfigError, UnknownModel, UnknownProvider
from dragoman.providers import Capabilities, Fact, MemoryFacts, Profile, Provider, Registry
from dragoman.providers.endpoint import settle
from dragoman.wire.quirks import DEFAULTS

# ---- the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("openai:gpt-5.6", "openai_responses"),
        ("openai:gpt-4o", "openai_responses"),
        ("openai_chat:gpt-5.6", "openai_chat"),
        ("openai_responses:gpt-4o", "openai_responses"),
        ("azure:gpt-5.6", "openai_responses"),
        ("azure:gpt-4o", "openai_chat"),
        ("vertex:gemini-3-pro", "gemini"),
        ("vertex:claude-opus-4-8@20260101", "anthropic"),
        ("azure_ai:claude-opus-4-8", "anthropic"),
        ("bedrock:us.anthropic.claude-opus-4-8-v1:0", "bedrock"),
        ("opencode:claude-opus-4-8", "anthropic"),
        ("opencode:gpt-5.6", "openai_responses"),
        ("opencode:kimi-k2.5", "openai_chat"),
        ("openrouter:openai/gpt-5.6", "openai_chat"),
        ("xai:grok-4", "openai_chat"),
        ("ollama:qwen3:8b", "ollama"),
        ("codestral:codestral-latest", "mistral"),
    ],
)
def test_the_wire_of_a_model(model: str, wire: str) -> None:
    assert providers.resolve(model).wire == wire


FOREIGN: list[tuple[str, str, str, str]] = [
    ("openai:gpt-4o", "http://box:8000", "openai_chat", "max_tokens"),
    ("openai:gpt-4o", "https://llm.example/v1", "openai_chat", "max_tokens"),
    ("openai:gpt-5.6", "https://llm.example/v1", "openai_chat", "max_completion_tokens"),
    ("openai:gpt-4o", "https://api.openai.com", "openai_responses", ""),
    ("openai:gpt-4o", "https://api.openai.com/v1/responses", "openai_responses", ""),
    ("openai_responses:gpt-4o", "http://box:8000", "openai_responses", ""),
    ("azure:gpt-5.6", "https://mine.openai.azure.com/openai/v1", "openai_responses", ""),
    ("azure:gpt-5.6", "https://llm.example/v1", "openai_chat", "max_completion_tokens"),
    ("anthropic:claude-x", "https://llm.example/v1", "anthropic", ""),
    ("gemini:gemini-3-pro", "https://llm.example/v1beta", "gemini", ""),
    ("ollama:qwen3", "http://box:11434", "ollama", ""),
    ("custom:m", "http://box:8000/v1", "openai_chat", "max_tokens"),
]


def test_an_address_of_ones_own_has_the_chat_wire_unless_told() -> None:
    for model, base_url, wire, limit in FOREIGN:
        endpoint = providers.resolve(model, base_url=base_url)
        assert endpoint.wire == wire, (model, base_url)
        assert not limit or endpoint.quirks.max_tokens_field == limit, (model, base_url)
    told = providers.resolve("openai:gpt-4o", base_url="http://box:8000", wire="openai_responses")
    assert (told.wire, told.base_url) == ("openai_responses", "http://box:8000/v1")


def test_a_server_of_ones_own_gets_native_calls_first() -> None:
    for model in ("custom:m", "custom:qwen3", "openai:m", "custom:llama2"):
        endpoint = providers.resolve(model, base_url="http://box:8000")
        assert endpoint.capabilities.native_tool_calls is (endpoint.profile.native != "no"), model
        assert endpoint.is_own_server, model
        facts = MemoryFacts()
        facts.put(endpoint.base_url, endpoint.model, Fact(native_tool_calls=False))
        again = providers.resolve(model, base_url="http://box:8000", facts=facts)
        assert not again.capabilities.native_tool_calls, model


def test_the_caller_may_choose_among_the_wires() -> None:
    assert providers.resolve("ollama:qwen3", wire="anthropic").base_url == "http://localhost:11434/v1"
    with pytest.raises(UnknownProvider, match="unknown provider 'gemini'") as caught:
        providers.resolve("ollama:qwen3", wire="gemini")
    assert "ollama has ollama, openai_chat" in caught.value.next_step


def test_only_the_first_colon_parts_provider_and_model() -> None:
    assert providers.resolve("ollama:qwen3:8b").model == "qwen3:8b"
    assert providers.resolve("ollama", "qwen3:8b") == providers.resolve("ollama:qwen3:8b")


SPELLINGS: list[tuple[str, str, str, str]] = [
    ("openai:gpt-4o", "", "openai", "gpt-4o"),
    ("openai/gpt-4o", "", "openai", "gpt-4o"),
    ("gpt-4o", "", "openai", "gpt-4o"),
    ("o3-mini", "", "openai", "o3-mini"),
    ("chatgpt-4o-latest", "", "openai", "chatgpt-4o-latest"),
    ("claude-sonnet-4-5", "", "anthropic", "claude-sonnet-4-5"),
    ("claude", "", "anthropic", ""),
    ("claude/claude-opus-4-8", "", "anthropic", "claude-opus-4-8"),
    ("gemini-2.5-pro", "", "gemini", "gemini-2.5-pro"),
    ("gemini/gemini-2.5-pro", "", "gemini", "gemini-2.5-pro"),
    ("grok-4", "", "xai", "grok-4"),
    ("ollama/qwen3:8b", "", "ollama", "qwen3:8b"),
    ("ollama:hf.co/a/b:Q4", "", "ollama", "hf.co/a/b:Q4"),
    ("openrouter/openai/gpt-4o:free", "", "openrouter", "openai/gpt-4o:free"),
    ("openrouter:openai/gpt-4o", "", "openrouter", "openai/gpt-4o"),
    ("zai@coding/glm-4.6", "", "zai", "glm-4.6"),
    ("openai_chat/gpt-4o", "", "openai", "gpt-4o"),
    ("local", "", "local", "smollm2"),
    # With an address of one's own, the vendor is the first part of the model's own name.
    ("openai/gpt-oss-20b", "http://box:8000/v1", "custom", "openai/gpt-oss-20b"),
    ("openai/gpt-4o", "https://api.openai.com/v1", "openai", "gpt-4o"),
    ("openai:gpt-4o", "http://box:8000/v1", "openai", "gpt-4o"),
    ("Qwen/Qwen3-8B", "http://box:8000/v1", "custom", "Qwen/Qwen3-8B"),
    ("vllm/Qwen/Qwen3-8B", "http://box:8000/v1", "vllm", "Qwen/Qwen3-8B"),
    ("qwen3:8b", "http://box:8000/v1", "custom", "qwen3:8b"),
    ("gpt-4o", "http://box:8000/v1", "custom", "gpt-4o"),
    ("my-own", "http://box:8000/v1", "custom", "my-own"),
]


def test_a_model_can_be_spelled_in_many_ways() -> None:
    for written, base_url, provider, model in SPELLINGS:
        if model:
            endpoint = providers.resolve(written, base_url=base_url)
            assert (endpoint.provider.name, endpoint.model) == (provider, model), (written, base_url)
        else:
            assert providers.split(written, base_url)[1] == model


UNCLEAR: list[tuple[str, str, type[ConfigError], str]] = [
    ("qwen3", "", UnknownModel, "ollama:qwen3"),
    ("qwen3:8b", "", UnknownModel, "ollama:qwen3:8b"),
    ("deepseek-chat", "", UnknownModel, "deepseek:deepseek-chat"),
    ("mistral-large-latest", "", UnknownModel, "mistral:mistral-large-latest"),
    ("meta-llama/Llama-3.1-8B", "", UnknownModel, "ollama:meta-llama/Llama-3.1-8B"),
    ("Qwen/Qwen3-8B", "", UnknownModel, "openrouter:Qwen/Qwen3-8B"),
    ("nonsense", "", UnknownModel, "provider:model"),
    ("", "", UnknownModel, "provider:model"),
    ("ollama", "", UnknownModel, "ollama:MODEL"),
    ("ollama:", "", UnknownModel, "ollama:MODEL"),
    ("openai/", "", UnknownModel, "openai:MODEL"),
    ("opnai:gpt-4o", "", UnknownProvider, "'openai'"),
    ("opnai/gpt-4o", "", UnknownProvider, "'openai'"),
    ("opnai:foo", "http://box:8000/v1", UnknownProvider, "'openai'"),
    ("no/such", "", UnknownProvider, "dragoman providers"),
]


def test_a_name_that_is_not_clear_gets_a_suggestion() -> None:
    for written, base_url, kind, words in UNCLEAR:
        with pytest.raises(kind) as caught:
            providers.resolve(written, base_url=base_url)
        assert words in caught.value.explain(), written
        # The names of all providers would hide the suggestion.
        assert len(caught.value.explain()) < 300, written


# ---- quirks --------------------------------------------------------------------------------------------------------


def quirks(model: str, **settings: Any) -> Any:
    return providers.resolve(model, **settings).quirks


def test_quirks_that_models_bring() -> None:
    assert not quirks("anthropic:claude-opus-4-8").sends_sampling
    assert quirks("anthropic:claude-opus-4-6").sends_sampling
    assert quirks("gemini:gemini-3-pro").call_signatures and quirks("gemini:gemini-3-pro").json_schema
    assert not quirks("gemini:gemini-2.5-pro").call_signatures and quirks("gemini:gemini-2.5-pro").json_schema
    assert not quirks("gemini:gemini-2.0-flash").json_schema
    assert quirks("openai:gpt-5.6", wire="openai_chat").effort_with_tools == "none"
    assert quirks("openai:gpt-5.6").effort_with_tools == ""
    assert quirks("vllm:mistral-small-3.2").id_pattern == "^[a-zA-Z0-9]{9}$"
    assert quirks("bedrock:amazon.nova-pro-v1:0").inline_references


def test_quirks_of_a_wire_stay_on_that_wire() -> None:
    assert quirks("deepseek:deepseek-chat", wire="anthropic").unsigned_thinking
    assert not quirks("deepseek:deepseek-chat").unsigned_thinking
    assert quirks("deepseek:deepseek-chat").max_tokens_field == "max_tokens"
    assert quirks("deepseek:deepseek-chat", wire="anthropic").max_tokens_field == ""


ROW = Provider(
    "mine",
    base_url="http://box/v1",
    quirks={"empty_content": "", "name_limit": 32, "alternates": True, "replay_reasoning": "calls"},
    wire_quirks={"openai_chat": {"alternates": False}, "anthropic": {"name_limit": 5}},
)


@pytest.mark.parametrize(
    ("profile", "overrides", "expected"),
    [
        ({}, {}, {"empty_content": "", "name_limit": 32, "alternates": False, "stream_usage": True}),
        ({"quirks": {"name_limit": 64}}, {}, {"name_limit": 64}),
        ({"quirks": {"alternates": True}}, {}, {"alternates": True}),
        (
            {"quirks": {"alternates": True}, "wire_quirks": {"openai_chat": {"alternates": False}}},
            {},
            {"alternates": False},
        ),
        ({"quirks": {"name_limit": 64}}, {"name_limit": 16}, {"name_limit": 16}),
        ({"replay": "never"}, {}, {"replay_reasoning": "calls"}),
        ({"replay": "always"}, {}, {"replay_reasoning": "always"}),
        ({"replay": "always"}, {"replay_reasoning": "never"}, {"replay_reasoning": "never"}),
        ({"schema": "strict"}, {}, {"strict_tools": True}),
        ({"schema": "json_schema"}, {}, {"json_schema": True}),
        ({"schema": "inlined"}, {"inline_references": False}, {"inline_references": False}),
    ],
)
def test_the_family_wins_over_the_provider_and_the_caller_over_both(
    profile: dict[str, Any], overrides: dict[str, Any], expected: dict[str, Any]
) -> None:
    merged = settle(ROW, "m", profile=Profile("family", **profile), quirks=overrides).quirks
    assert {name: getattr(merged, name) for name in expected} == expected


def test_a_row_without_quirks_has_the_defaults() -> None:
    assert settle(Provider("plain"), "m", profile=Profile("family")).quirks == DEFAULTS


@pytest.mark.parametrize("wrong", [{"nmae_limit": 3}, {"name_limit": "many"}, {"empty_content": "maybe"}])
def test_a_quirk_that_does_not_exist_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="quirks of ollama on ollama: "):
        providers.resolve("ollama:qwen3", quirks=wrong)


# ---- the address ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "settings", "url"),
    [
        ("openai:gpt-4o", {}, "https://api.openai.com/v1"),
        ("gemini:gemini-3-pro", {"wire": "openai_chat"}, "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("zai@coding:glm-4.6", {}, "https://api.z.ai/api/coding/paas/v4"),
        ("zai:glm-4.6", {"place": "cn"}, "https://open.bigmodel.cn/api/paas/v4"),
        ("zai:glm-4.6", {"place": "cn", "wire": "anthropic"}, "https://open.bigmodel.cn/api/anthropic/v1"),
        ("ollama@cloud:gpt-oss:120b", {}, "https://ollama.com"),
        ("ollama@cloud:gpt-oss:120b", {"wire": "openai_chat"}, "https://ollama.com/v1"),
        ("ollama:qwen3", {"base_url": "box:11434"}, "http://box:11434"),
        ("ollama:qwen3", {"base_url": "box:11434", "wire": "openai_chat"}, "http://box:11434/v1"),
        ("ollama:qwen3", {"base_url": "http://box:11434/v1/"}, "http://box:11434"),
        ("vllm:qwen3", {"base_url": "http://gpu:8000"}, "http://gpu:8000/v1"),
        ("vllm:qwen3", {"base_url": "http://gpu:8000/v1/chat/completions"}, "http://gpu:8000/v1"),
        ("bedrock:nova", {"variables": {"region": "eu-west-1"}}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        (
            "databricks:claude-opus-4-8",
            {"variables": {"host": "https://dbc-1.cloud.databricks.com/"}},
            "https://dbc-1.cloud.databricks.com/serving-endpoints",
        ),
    ],
)
def test_the_address(model: str, settings: dict[str, Any], url: str) -> None:
    endpoint = providers.resolve(model, **settings)
    assert (endpoint.base_url, endpoint.missing) == (url, ())


def test_holes_that_nothing_fills_are_named() -> None:
    assert providers.resolve("vertex:gemini-3-pro").missing == ("location", "project")


def test_a_place_that_does_not_exist_or_does_not_serve_the_wire_is_told() -> None:
    with pytest.raises(ConfigError, match="no base URL 'moon'"):
        providers.resolve("zai@moon:glm-4.6")
    with pytest.raises(ConfigError, match="'coding' of zai does not serve anthropic"):
        providers.resolve("zai@coding:glm-4.6", wire="anthropic")


def test_keys_and_headers() -> None:
    endpoint = providers.resolve("anthropic:claude-opus-4-8")
    assert endpoint.key_names == ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    version = {"anthropic-version": "2023-06-01"}
    assert endpoint.headers_for("k") == {"x-api-key": "k", **version}
    assert endpoint.headers_for("k", key_name="ANTHROPIC_AUTH_TOKEN") == {"Authorization": "Bearer k", **version}
    assert endpoint.headers_for(None) == version
    assert providers.resolve("gemini:gemini-3-pro").headers_for("k") == {"x-goog-api-key": "k"}
    chat = providers.resolve("gemini:gemini-3-pro", wire="openai_chat")
    assert chat.headers_for("k") == {"Authorization": "Bearer k"}
    assert providers.get("cloudflare_gateway").headers_for("k") == {"cf-aig-authorization": "Bearer k"}
    assert providers.get("llamafile").headers_for("k") == {}
    assert providers.get("zai").headers_for("k", "anthropic") == {"Authorization": "Bearer k", **version}


# ---- capabilities --------------------------------------------------------------------------------------------------


def test_capabilities_follow_from_the_row_and_the_family() -> None:
    assert providers.get("ollama").capabilities("qwen3").native_tool_calls
    slow = Provider("slow", base_url="http://x/v1", declared={"streaming": False})
    assert not slow.capabilities("m").streaming
    assert slow.capabilities("m", {"streaming": True}).streaming


def test_a_family_without_tools_has_none_anywhere() -> None:
    assert not providers.get("gemini").supports_native_tools("gemma-3-27b-it")
    assert providers.get("gemini").supports_native_tools("gemini-3-pro")


@pytest.mark.parametrize(("provider", "model", "wanted"), [("ollama", "x", True), ("openai", "gpt-4o", False)])
def test_a_capability_is_overruled_per_call(provider: str, model: str, wanted: bool) -> None:
    row = providers.get(provider)
    usual = row.capabilities(model)
    changed = row.capabilities(model, overrides={"native_tool_calls": wanted})
    assert usual.native_tool_calls is not wanted
    assert changed.native_tool_calls is wanted
    assert changed.streaming == usual.streaming
    assert row.capabilities(model, overrides=Capabilities()) == Capabilities()


def test_a_capability_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no capability 'native_tools'; did you mean 'native_tool_calls'"):
        providers.get("openai").capabilities(overrides={"native_tools": False})
    with pytest.raises(ConfigError, match="capabilities: "):
        providers.get("openai").capabilities(overrides={"streaming": "very"})


def test_formats_that_are_read_begin_with_the_family() -> None:
    endpoint = providers.resolve("minimax:MiniMax-M2.5")
    assert endpoint.formats[0] == "minimax_m2"
    assert "json_message" in endpoint.formats
    assert endpoint.body == {"reasoning_split": True}
    assert providers.resolve("together:deepseek-ai/DeepSeek-V3.1").formats == ("deepseek_v31", "hermes")


def test_a_registry_of_ones_own_uses_its_own_families() -> None:
    registry = Registry.default(()).with_profile(Profile("acme", match=("acme",), native="yes", format="fenced"))
    assert registry.resolve("ollama:acme-7b").capabilities.native_tool_calls
    assert not providers.resolve("ollama:acme-7b").capabilities.native_tool_calls
