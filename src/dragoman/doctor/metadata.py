"""The metadata of an endpoint: its server, its models and its context window."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from dragoman.doctor.probe import Finding
from dragoman.errors import ConfigError, nearest
from dragoman.providers import Endpoint, Fact, normalise_base_url
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Lookups for the models of an endpoint and the size of its context window.

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
# Models with such names are not for conversations.
_is_no_chat = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|image", re.IGNORECASE).search


class ListedModel(Struct, frozen=True):
    """One model of an endpoint's list. `context` is 0 if the list does not contain it."""

    id: str
    owner: str = ""
    context: int = 0


class Lookup(Struct, frozen=True):
    """A lookup that costs no tokens."""

    kind: str
    """`models`, `show` or `props`."""
    url: str
    body: JsonObject | None = None


def lookups_for(endpoint: Endpoint, base: str) -> tuple[Lookup, ...]:
    """Return the lookups for an endpoint; `base` is its complete base URL."""
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


def read_models(body: Any) -> list[ListedModel] | None:
    """Return the models of a list in any known shape; None if it is not such a list."""
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
                found.append(ListedModel(named, owner if isinstance(owner, str) else "", _size(entry)))
    return found


def find_model(listed: list[ListedModel], model: str) -> ListedModel | None:
    """Return the model of that name; for Ollama, `qwen3` is `qwen3:latest`, and Gemini lists `models/NAME`."""
    names = (model, f"{model}:latest", f"models/{model}")
    return next((entry for entry in listed if entry.id in names), None)


def choose_model(listed: list[ListedModel]) -> str:
    """Return the model to examine if none is named: the first chat model."""
    chatty = [entry.id for entry in listed if not _is_no_chat(entry.id)]
    return next(iter(chatty or [entry.id for entry in listed]), "")


def read_show(body: Any) -> tuple[int, int]:
    """Return from Ollama's /api/show the maximum context of the model, and the one that its file sets; 0 if unknown."""
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
    """Return the context window of a llama.cpp server, from /props; 0 if unknown."""
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


# --------------------------------------------------------------------------------------------------------------------
# Detection of the server at a URL by its list of models.

Look = Callable[[str], Awaitable[Any]]
"""Returns the JSON at a URL, or None."""

_OWNERS = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang", "library": "ollama", "lm-studio": "lmstudio"}
"""The values of `owned_by`, and the rows of their servers."""


class RecognizedServer(Struct, frozen=True):
    """A server at a URL: its row, its wire if it is not the row's first, its base URL and its models."""

    provider: str
    base_url: str
    wire: str = ""
    models: tuple[ListedModel, ...] = ()


async def recognise(url: str, look: Look, model: str = "") -> RecognizedServer:
    """Detect the server at a URL with a few free lookups.

    Raises ConfigError if it lists no models, unless the caller names the `model`: then it is a custom server.
    """
    given = normalise_base_url(url)
    root = given.partition("?")[0].removesuffix("/v1").removesuffix("/api")
    listed = await look(f"{root}/v1/models")
    models = read_models(listed)
    found = await _by_server(root, models, look)
    if found is not None:
        return found
    if models is not None:
        wire = "anthropic" if isinstance(listed, dict) and "has_more" in listed else ""
        return RecognizedServer("custom", f"{root}/v1", wire, tuple(models))
    for base, wire in ((given, ""), (f"{root}/v1beta", "gemini")):
        models = read_models(await look(f"{base}/models"))
        if models is not None:
            return RecognizedServer("custom", base, wire, tuple(models))
    if model:
        return RecognizedServer("custom", given)
    raise ConfigError(
        f"the server at {url} is not of a known kind: it returns no list of models",
        hint="check that it is running and whether it needs a key (--key-env NAME), or name the model: "
        "dragoman doctor URL --model NAME; if it is no server of chat completions, also its --wire",
    )


async def _by_server(root: str, models: list[ListedModel] | None, look: Look) -> RecognizedServer | None:
    """Detect the servers that identify themselves."""
    # llama.cpp also answers /api/tags, so it is checked first.
    props = await look(f"{root}/props")
    if isinstance(props, dict) and "default_generation_settings" in props:
        return RecognizedServer("llamacpp", f"{root}/v1", "", tuple(models or ()))
    tags = await look(f"{root}/api/tags")
    local = read_models(tags) if isinstance(tags, dict) and "models" in tags else None
    if local is not None:
        return RecognizedServer("ollama", root, "ollama", tuple(local))
    owners = {_OWNERS[entry.owner] for entry in models or () if entry.owner in _OWNERS}
    if len(owners) == 1:
        return RecognizedServer(owners.pop(), f"{root}/v1", "", tuple(models or ()))
    return None


# --------------------------------------------------------------------------------------------------------------------
# The two findings that cost no tokens: the list of models, and the size of the context window.

SMALL = 8192
"""Tools and a few results do not fit into a smaller context window."""


def judge_models(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Judge whether the endpoint lists its models, including this one."""
    name = "models"
    listed = read_models(answers.get("models"))
    if listed is None:
        return Finding(name, "absent", "it lists no models")
    count = f"{len(listed)} model{'' if len(listed) == 1 else 's'}"
    if find_model(listed, endpoint.model) is not None:
        return Finding(name, "works", f"it lists {count}, including this one")
    guess = nearest(endpoint.model, [entry.id for entry in listed])
    names = ", ".join(entry.id for entry in listed[:5])
    meant = f"did you mean {guess!r}?" if guess else ""
    return Finding(name, "works", f"it lists {count}, but not this one", names, meant)


def judge_context(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Judge the size of the context window, if the endpoint reports it."""
    name, asked = "context", endpoint.quirks.context_window
    if endpoint.wire == "ollama":
        return _judge_ollama(endpoint, *read_show(answers.get("show")))
    if endpoint.provider.transport:
        return Finding(name, "works" if asked else "unknown", f"{asked} tokens" if asked else "nobody says")
    listed = find_model(read_models(answers.get("models")) or [], endpoint.model)
    size = read_props(answers.get("props")) or (listed.context if listed is not None else 0)
    if not size:
        return Finding(name, "unknown", "it is not reported", fix="set it if necessary: ContextSettings(window=N)")
    fact = Fact(quirks={"context_window": size}) if endpoint.provider.group in ("local", "custom") else None
    fix = f"start the server with a larger one ({_option(endpoint)})" if size < SMALL else ""
    return Finding(name, "broken" if size < SMALL else "works", f"{size} tokens", "", fix, fact)


def _judge_ollama(endpoint: Endpoint, most: int, given: int) -> Finding:
    name, asked = "context", endpoint.quirks.context_window
    if asked:
        held = min(asked, most or asked)
        fact = Fact(quirks={"context_window": held}) if held != asked else None
        of = f" of the {most} that the model supports" if most else ""
        fix = "request more with the quirk context_window (num_ctx)" if held < SMALL and most > held else ""
        return Finding(name, "works" if held >= SMALL or not fix else "broken", f"{held} tokens{of}", "", fix, fact)
    if given:
        return Finding(name, "works", f"{given} tokens, from the file of the model")
    if not most:
        return Finding(name, "unknown", "it is not reported")
    fix = "set the quirk context_window (num_ctx): the default is small, and tools are truncated silently"
    return Finding(name, "broken", "no context window is requested", "", fix)


def _option(endpoint: Endpoint) -> str:
    known = {"llamacpp": "-c N", "llamafile": "-c N", "vllm": "--max-model-len N", "sglang": "--context-length N"}
    return known.get(endpoint.provider.name, "see its options")
