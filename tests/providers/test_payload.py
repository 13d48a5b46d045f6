"""What a provider wants to be given for a list of tools."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman import formats, providers
from dragoman.errors import ConfigError
from dragoman.providers import WIRES, PromptGuided, ToolsPayload
from dragoman.toolset import Toolset
from dragoman.wire.quirks import Quirks

SHELL = {
    "name": "shell",
    "description": "Execute a shell command",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The shell command to execute"}},
        "required": ["command"],
    },
}


class StandIn:
    """A codec that says who it is instead of encoding."""

    def __init__(self, name: str, quirks: Quirks) -> None:
        self.name = name
        self.quirks = quirks

    def encode_definitions(self, tools: Toolset) -> list[dict[str, Any]]:
        return [{"wire": self.name, "names": list(tools.names), "strict": self.quirks.strict_tools}]


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.wire.registry.get", StandIn)


@pytest.mark.parametrize(
    ("provider", "model", "wire"),
    [
        ("openai", "gpt-5.6", "openai_responses"),
        ("openai_chat", "gpt-4o", "openai_chat"),
        ("openrouter", "openai/gpt-4o", "openai_chat"),
        ("anthropic", "claude-opus-4-8", "anthropic"),
        ("gemini", "gemini-3-pro", "gemini"),
        ("ollama", "qwen3", "ollama"),
        ("bedrock", "amazon.nova-pro-v1:0", "bedrock"),
        ("mistral", "mistral-large-latest", "mistral"),
        ("cohere", "command-a-03-2025", "cohere"),
        ("ollama", "gemma3:4b", ""),
        ("perplexity", "sonar-pro", ""),
        ("custom", "gpt-4o", ""),
    ],
)
@pytest.mark.usefixtures("stand_ins")
def test_the_payload_has_the_shape_of_the_wire(provider: str, model: str, wire: str) -> None:
    row = providers.get(provider)
    payload = row.convert_tools([SHELL], model)
    if wire:
        assert providers.resolve(provider, model).wire == wire
        assert payload == ToolsPayload(wire, [{"wire": wire, "names": ["shell"], "strict": False}])
    else:
        assert isinstance(payload, PromptGuided)
    assert isinstance(payload, PromptGuided) is not row.supports_native_tools(model)


PARAMETERS = SHELL["parameters"]
FUNCTION = {"type": "function", "function": SHELL}


@pytest.mark.parametrize(
    ("provider", "model", "tools"),
    [
        ("openrouter", "openai/gpt-4o", [FUNCTION]),
        ("groq", "llama-3.3-70b-versatile", [FUNCTION]),
        ("glm", "glm-4.6", [FUNCTION]),
        ("ollama", "qwen3", [FUNCTION]),
        ("mistral", "mistral-large-latest", [FUNCTION]),
        (
            "anthropic",
            "claude-3-5-sonnet-20241022",
            [{"name": "shell", "description": SHELL["description"], "input_schema": PARAMETERS}],
        ),
    ],
)
def test_seed_004_definitions_in_the_shape_of_each_provider(provider: str, model: str, tools: list[Any]) -> None:
    payload = providers.get(provider).convert_tools([SHELL], model)
    assert not isinstance(payload, PromptGuided)
    assert payload.tools == tools


@pytest.mark.usefixtures("stand_ins")
def test_the_quirks_of_the_endpoint_reach_the_codec() -> None:
    endpoint = providers.resolve("openai:gpt-4o", quirks={"strict_tools": True})
    (definition,) = endpoint.convert_tools([SHELL]).tools  # type: ignore[union-attr]
    assert definition["strict"] is True


@pytest.mark.usefixtures("stand_ins")
def test_the_caller_may_ask_for_the_other_way_or_the_other_wire() -> None:
    row = providers.get("openai")
    assert isinstance(row.convert_tools([SHELL], "gpt-4o", {"native_tool_calls": False}), PromptGuided)
    chosen = row.convert_tools([SHELL], "gpt-4o", wire="openai_chat")
    assert isinstance(chosen, ToolsPayload) and chosen.wire == "openai_chat"
    custom = providers.get("custom").convert_tools([SHELL], "m", {"native_tool_calls": True})
    assert isinstance(custom, ToolsPayload) and custom.wire == "openai_chat"


def test_instructions_are_those_of_the_rows_format() -> None:
    payload = providers.get("custom").convert_tools([SHELL])
    assert payload == PromptGuided(formats.instructions([SHELL], "hermes", layout="list"), "hermes")
    assert "## shell\nExecute a shell command\n" in payload.instructions
    assert '<tool_call>\n{"name": "shell", "arguments": {"command": ' in payload.instructions


def test_a_family_is_taught_what_it_was_trained_on() -> None:
    payload = providers.get("custom").convert_tools([SHELL], "qwen3-coder-30b")
    assert isinstance(payload, PromptGuided)
    assert payload.format == "qwen3_coder"
    assert "<function=shell>\n<parameter=command>" in payload.instructions


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_need_no_instructions(tools: Any) -> None:
    assert providers.get("custom").convert_tools(tools) == PromptGuided("", "hermes")


def test_an_endpoint_of_its_own_kind_is_told_when_native_calls_are_forced() -> None:
    with pytest.raises(ConfigError, match="does not support the protocol of oci") as caught:
        providers.get("oci").convert_tools([SHELL], "m", {"native_tool_calls": True})
    assert caught.value.next_step.startswith("Not speakable: ")


def test_a_payload_is_a_tagged_value() -> None:
    either = ToolsPayload | PromptGuided
    for name in WIRES:
        written = msgspec.json.encode(ToolsPayload(name, [SHELL]))
        assert msgspec.json.decode(written)["type"] == "tools"
        assert msgspec.json.decode(written)["wire"] == name
        assert msgspec.json.decode(written, type=either) == ToolsPayload(name, [SHELL])
    guided = PromptGuided("Use tools.", "hermes")
    assert msgspec.json.decode(msgspec.json.encode(guided), type=either) == guided
