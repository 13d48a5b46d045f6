"""What endpoints tell about themselves: their models, and how much fits into a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from dragoman.providers import Endpoint
from dragoman.types import JsonObject

# By server: vLLM; OpenRouter and many hosts; Groq; Mistral, LM Studio; Gemini; others.
_SIZES = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "inputTokenLimit",
    "max_input_tokens",
    "n_ctx",
    "max_sequence_length",
)
_MOST_MODELS = 5000
_num_ctx = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE).search
# What such models are for is no conversation.
_is_no_chat = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|image", re.IGNORECASE).search


class Listed(Struct, frozen=True):
    """One model of an endpoint's list. `context` is 0 where the list does not tell."""

    id: str
    owner: str = ""
    context: int = 0


class Lookup(Struct, frozen=True):
    """Something to look up that costs no tokens."""

    kind: str
    """`models`, `show` or `props`."""
    url: str
    body: JsonObject | None = None


def lookups_for(endpoint: Endpoint, base: str) -> tuple[Lookup, ...]:
    """Where this endpoint may tell about itself; `base` is its base URL without holes."""
    if endpoint.provider.transport or endpoint.wire == "bedrock":
        return ()
    base, _, query = base.partition("?")
    root = base.removesuffix("/v1")
    behind = f"?{query}" if query else ""
    provider = endpoint.provider.name
    if endpoint.wire == "ollama" or provider == "ollama":
        show = Lookup("show", f"{root}/api/show", {"model": endpoint.model})
        return Lookup("models", f"{root}/api/tags"), show
    listed = Lookup("models", f"{base}/models{behind}")
    if endpoint.provider.group in ("local", "custom"):
        return listed, Lookup("props", f"{root}/props")
    return (listed,)


def read_models(body: Any) -> list[Listed] | None:
    """The models of a list in any of its shapes; None if it is none."""
    if isinstance(body, Mapping):
        body = next((body[name] for name in ("data", "models") if isinstance(body.get(name), list)), None)
    if not isinstance(body, list):
        return None
    found = []
    for entry in body[:_MOST_MODELS]:
        if isinstance(entry, Mapping):
            named = next((entry[key] for key in ("id", "model", "name") if isinstance(entry.get(key), str)), "")
            if named:
                owner = entry.get("owned_by")
                own = str(named).removeprefix("models/")
                found.append(Listed(own, owner if isinstance(owner, str) else "", _size(entry)))
    return found


def find_model(listed: list[Listed], model: str) -> Listed | None:
    """The model of that name; Ollama's `qwen3` is its `qwen3:latest`."""
    names = (model, f"{model}:latest")
    return next((entry for entry in listed if entry.id in names), None)


def choose_model(listed: list[Listed]) -> str:
    """The model to examine where none is named: the first that is one to talk with."""
    chatty = [entry.id for entry in listed if not _is_no_chat(entry.id)]
    return next(iter(chatty or [entry.id for entry in listed]), "")


def read_show(body: Any) -> tuple[int, int]:
    """Of Ollama's answer to /api/show: what the model takes at most, and what its file asks for; 0 for unknown."""
    if not isinstance(body, Mapping):
        return 0, 0
    about = body.get("model_info")
    sizes = [
        value
        for name, value in (about.items() if isinstance(about, Mapping) else ())
        if isinstance(name, str) and name.endswith(".context_length") and _is_size(value)
    ]
    asked = _num_ctx(body["parameters"]) if isinstance(body.get("parameters"), str) else None
    return (sizes[0] if sizes else 0), (int(asked[1]) if asked else 0)


def read_props(body: Any) -> int:
    """The context of a llama.cpp server, by /props; 0 for unknown."""
    if not isinstance(body, Mapping):
        return 0
    settings = body.get("default_generation_settings")
    found = settings.get("n_ctx") if isinstance(settings, Mapping) else body.get("n_ctx")
    return found if _is_size(found) else 0


def _size(entry: Mapping[str, Any]) -> int:
    meta = entry.get("meta")
    for source in (entry, meta if isinstance(meta, Mapping) else {}):
        for name in _SIZES:
            if _is_size(source.get(name)):
                return int(source[name])
    return 0


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
