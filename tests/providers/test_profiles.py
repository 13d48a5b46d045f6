"""Families of models: how a name is made plain, which family it is, and what the family brings."""

from __future__ import annotations

import pytest
from tests.tables import each_row

from dragoman import formats, providers
from dragoman.providers import Profile, plain_name
from dragoman.providers.registry import check_profile, shipped

PROFILES = shipped().profiles


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("gpt-5.6", "gpt-5-6"),
        ("Qwen/Qwen3-Coder_30B", "qwen3-coder-30b"),
        ("qwen3:8b", "qwen3-8b"),
        ("us.anthropic.claude-opus-4-8-20260101-v1:0", "claude-opus-4-8-20260101-v1-0"),
        ("anthropic/claude-opus-4.8:beta", "claude-opus-4-8-beta"),
        ("claude-opus-4-8@20260101", "claude-opus-4-8-20260101"),
        ("models/gemini-3-pro", "gemini-3-pro"),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "llama-v3-1-8b-instruct"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3-1-8b-instruct"),
        ("hf.co/bartowski/Llama-3.1-8B-GGUF:Q4_K_M", "llama-3-1-8b-gguf-q4-k-m"),
        ("databricks-claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("@cf/meta/llama-3.1-8b-instruct", "llama-3-1-8b-instruct"),
        ("ft:gpt-4o:org::id", "gpt-4o-org-id"),
        ("", ""),
        ("  /// ", ""),
    ],
)
def test_a_plain_name(model: str, plain: str) -> None:
    assert plain_name(model) == plain


FAMILIES = {
    "gpt_oss": ["gpt-oss:20b", "openai/gpt-oss-120b"],
    "gpt_5_4": ["gpt-5.4", "gpt-5.6-mini", "openai/gpt-5.4-2026-03-05", "gpt-6"],
    "gpt_5": ["gpt-5", "gpt-5-2025-08-07", "gpt-5.2", "gpt-5-mini", "gpt-5.1-codex"],
    "gpt_5_chat": ["gpt-5-chat-latest", "gpt-5.4-chat", "chatgpt-4o-latest"],
    "gpt_4": ["gpt-4o", "gpt-4.1-mini", "gpt-35-turbo", "gpt-3.5-turbo"],
    "openai_o": ["o1", "o3-mini", "o4-mini"],
    "claude_4_7": ["claude-opus-4-7", "claude-opus-4.8", "claude-opus-5", "claude-opus-5-5", "claude-haiku-5-5"],
    "claude": ["claude-opus-4-20250514", "claude-opus-4-6", "claude-3-5-sonnet-20241022", "claude-haiku-4-5"],
    "claude_2": ["claude-2.1", "claude-instant-1.2"],
    "gemini_3": ["gemini-3-pro", "gemini-3.5-flash", "google/gemini-3-pro-preview"],
    "gemini_2_5": ["gemini-2.5-flash"],
    "gemini": ["gemini-2.0-flash-exp", "gemini-1.5-pro"],
    "gemma_4": ["gemma4", "google/gemma-4-27b-it"],
    "gemma": ["gemma3:4b", "gemma-3-27b-it", "gemma2", "google/gemma-2-9b"],
    "functiongemma": ["functiongemma"],
    "deepseek_v4": ["deepseek-v4-pro", "deepseek-ai/DeepSeek-V4-Flash"],
    "deepseek_v3_2": ["deepseek-v3.2", "deepseek-chat", "deepseek-reasoner"],
    "deepseek_v3_1": ["DeepSeek-V3.1-Terminus", "deepseek-v3.1:671b"],
    "deepseek_v3": ["deepseek-v3", "deepseek-v3-0324"],
    "deepseek_r1": ["deepseek-r1", "deepseek-r1-0528", "deepseek-r1:671b"],
    "deepseek_distilled": ["deepseek-r1:8b", "deepseek-r1-distill-llama-70b"],
    "qwen3_coder": ["qwen3-coder:30b", "Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3-coder-next"],
    "qwen3_5": ["qwen3.5-397b-a17b", "qwen3.6:27b", "qwen3.8-max"],
    "qwen3_thinking": ["qwen3-4b-thinking-2507", "qwq:32b"],
    "qwen3": ["qwen3", "qwen3:8b", "qwen3-vl", "qwen3-next-80b-a3b-instruct"],
    "qwen": ["qwen2.5:7b", "qwen-max", "qwen2.5-coder:14b"],
    "glm_4_7": ["glm-4.7", "glm-5", "zai-org/GLM-4.7-Flash"],
    "glm_4_5": ["glm-4.6", "glm-4.5-air", "glm-4p6"],
    "glm": ["glm-4-9b-chat", "chatglm3"],
    "kimi_k3": ["kimi-k3"],
    "kimi_k2_5": ["kimi-k2.5", "kimi-k2-thinking", "kimi-k2p5"],
    "kimi_k2": ["kimi-k2", "moonshotai/Kimi-K2-Instruct-0905"],
    "minimax_m3": ["MiniMax-M3"],
    "minimax_m2": ["minimax-m2", "MiniMaxAI/MiniMax-M2.5"],
    "magistral": ["magistral-medium-latest"],
    "mistral_v11": ["devstral-2", "mistral-small-3.2-24b", "ministral-3:8b", "mistral-large-latest"],
    "mistral": ["mistral:7b", "mixtral-8x7b-instruct", "open-mistral-nemo", "mistral-nemo"],
    "hermes": ["Hermes-3-Llama-3.1-8B", "nous-hermes2", "nousresearch/hermes-4-70b"],
    "nemotron_3": ["nvidia/nemotron-3-nano-30b-a3b"],
    "nemotron": ["llama-3.3-nemotron-super-49b", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"],
    "llama_4": ["llama-4-scout", "meta-llama/Llama-4-Maverick-17B"],
    "llama_3_2": ["llama3.2:3b"],
    "llama_3_1": ["llama3.1", "llama-3.3-70b-versatile", "us.meta.llama3-1-70b-instruct-v1:0"],
    "llama": ["llama3:8b", "llama-2-7b", "llama3", "codellama"],
    "command": ["command-a-03-2025", "command-r7b"],
    "command_r_2024": ["command-r-plus", "command-r-08-2024"],
    "granite_4": ["granite4:small-h", "ibm-granite/granite-4.0-h-small"],
    "granite": ["granite3.3:8b"],
    "phi_4_mini": ["phi4-mini", "microsoft/Phi-4-mini-instruct"],
    "phi": ["phi4", "phi3.5"],
    "smollm2": ["smollm2:1.7b"],
    "smollm3": ["SmolLM3-3B"],
    "functionary": ["functionary-small-v3.1"],
    "functionary_v3_2": ["functionary-small-v3.2"],
    "grok": ["grok-4"],
    "nova": ["us.amazon.nova-pro-v1:0", "amazon/nova-2-lite"],
    "sonar": ["sonar-pro", "perplexity/sonar-reasoning"],
    "unknown": ["my-deployment", "x", "philosopher", "interneuron"],
}


@each_row(("family", "model"), [(family, model) for family, models in FAMILIES.items() for model in models])
def test_the_family_of_a_model(family: str, model: str) -> None:
    assert providers.profile(model).name == family


def test_there_are_many_families_and_the_unknown_one_is_last() -> None:
    assert len(PROFILES) >= 40
    assert PROFILES[-1].name == "unknown"
    assert len({profile.name for profile in PROFILES}) == len(PROFILES)


@each_row("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_profile_is_whole(profile: Profile) -> None:
    assert profile.match
    for name in (profile.format, *profile.formats, profile.prompt_format):
        assert not name or formats.get(name)


@pytest.mark.parametrize("format", sorted({profile.prompt_format or "hermes" for profile in PROFILES}))
def test_what_instructions_teach_reads_back_as_a_call(format: str) -> None:
    tool = {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
    parsed = formats.parse(formats.instructions([tool], format), format, tools=[tool])
    assert [call.name for call in parsed.calls] == ["search"]


def test_a_format_of_special_tokens_is_never_taught() -> None:
    taught = {profile.prompt_format for profile in PROFILES} | {row.format for row in shipped()}
    tool = {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
    for name in taught - {""}:
        written = formats.instructions([tool], name)
        assert "<|" not in written and "[TOOL_CALLS]" not in written, name


def test_no_model_has_no_family() -> None:
    assert shipped().profile(None).name == shipped().profile("").name == "unknown"


@each_row("profile", PROFILES, ids=[profile.name for profile in PROFILES])
def test_a_profile_that_ships_is_well_formed(profile: Profile) -> None:
    check_profile(profile)
