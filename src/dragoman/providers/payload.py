"""What a provider wants to be given for a list of tools: definitions in its wire's shape, or a text for the prompt."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.types import JsonObject


class OpenAI(Struct, frozen=True, tag="openai_chat"):
    """The `tools` of a chat completion."""

    tools: list[JsonObject]


class Responses(Struct, frozen=True, tag="openai_responses"):
    """The `tools` of a response."""

    tools: list[JsonObject]


class Anthropic(Struct, frozen=True, tag="anthropic"):
    """The `tools` of a message, each with an `input_schema`."""

    tools: list[JsonObject]


class Gemini(Struct, frozen=True, tag="gemini"):
    """The `tools` of generateContent: one object with `functionDeclarations`."""

    tools: list[JsonObject]


class Ollama(Struct, frozen=True, tag="ollama"):
    """The `tools` of /api/chat."""

    tools: list[JsonObject]


class Bedrock(Struct, frozen=True, tag="bedrock"):
    """The `toolConfig.tools` of Converse, each a `toolSpec`."""

    tools: list[JsonObject]


class Mistral(Struct, frozen=True, tag="mistral"):
    """The `tools` of a Mistral chat."""

    tools: list[JsonObject]


class Cohere(Struct, frozen=True, tag="cohere"):
    """The `tools` of a Cohere chat."""

    tools: list[JsonObject]


class PromptGuided(Struct, frozen=True, tag="prompt_guided"):
    """No definitions: a text that is appended to the system prompt, and the format in which calls come back."""

    instructions: str
    format: str = ""


ToolsPayload = OpenAI | Responses | Anthropic | Gemini | Ollama | Bedrock | Mistral | Cohere | PromptGuided

BY_WIRE: dict[str, Callable[[list[JsonObject]], ToolsPayload]] = {
    "openai_chat": OpenAI,
    "openai_responses": Responses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "ollama": Ollama,
    "bedrock": Bedrock,
    "mistral": Mistral,
    "cohere": Cohere,
}
