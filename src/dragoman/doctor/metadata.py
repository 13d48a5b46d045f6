"""What an endpoint says about itself: its server, models and context window."""

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
# What endpoints tell about themselves: their models, and how much fits into a conversation.

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


class ListedModel(Struct, frozen=True):
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


def read_models(body: Any) -> list[ListedModel] | None:
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
                found.append(ListedModel(own, owner if isinstance(owner, str) else "", _size(entry)))
    return found


def find_model(listed: list[ListedModel], model: str) -> ListedModel | None:
    """The model of that name; Ollama's `qwen3` is its `qwen3:latest`."""
    names = (model, f"{model}:latest")
    return next((entry for entry in listed if entry.id in names), None)


def choose_model(listed: list[ListedModel]) -> str:
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


# --------------------------------------------------------------------------------------------------------------------
# Who is at an address: the server recognised by what it says when it is asked for its models.

Look = Callable[[str], Awaitable[Any]]
"""The JSON at an address; None where there is none."""

_OWNERS = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang", "library": "ollama", "lm-studio": "lmstudio"}
"""What servers write in `owned_by`, and which row they are."""


class RecognizedServer(Struct, frozen=True):
    """A server at an address: its row, its wire where that is not the row's first, its base URL, its models."""

    provider: str
    base_url: str
    wire: str = ""
    models: tuple[ListedModel, ...] = ()


async def recognise(url: str, look: Look) -> RecognizedServer:
    """The server at an address, by a few lookups that cost nothing. Raises ConfigError where nobody is known."""
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
    raise ConfigError(
        f"nobody at {url} lists models as an endpoint of a known kind does",
        hint="is the server running, and does it want a key (--key-env NAME)? else name the provider: "
        "dragoman doctor PROVIDER:MODEL --base-url URL",
    )


async def _by_server(root: str, models: list[ListedModel] | None, look: Look) -> RecognizedServer | None:
    """The servers that tell who they are."""
    # llama.cpp answers /api/tags as well, so it is asked first.
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
# The two findings that cost no tokens: the list of models, and the size of the context.

SMALL = 8192
"""Tools and a few results do not fit into less."""


def judge_models(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Whether the endpoint lists its models, and this one among them."""
    name = "models"
    listed = read_models(answers.get("models"))
    if listed is None:
        return Finding(name, "absent", "it lists no models")
    count = f"{len(listed)} model{'' if len(listed) == 1 else 's'}"
    if find_model(listed, endpoint.model) is not None:
        return Finding(name, "works", f"it lists {count}, this one among them")
    guess = nearest(endpoint.model, [entry.id for entry in listed])
    names = ", ".join(entry.id for entry in listed[:5])
    meant = f"did you mean {guess!r}?" if guess else ""
    return Finding(name, "works", f"it lists {count}, and none of this name", names, meant)


def judge_context(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """How many tokens fit into a conversation, if the endpoint tells."""
    name, asked = "context", endpoint.quirks.context_window
    if endpoint.wire == "ollama":
        return _judge_ollama(endpoint, *read_show(answers.get("show")))
    if endpoint.provider.transport:
        return Finding(name, "works" if asked else "unknown", f"{asked} tokens" if asked else "nobody says")
    listed = find_model(read_models(answers.get("models")) or [], endpoint.model)
    size = read_props(answers.get("props")) or (listed.context if listed is not None else 0)
    if not size:
        return Finding(name, "unknown", "it does not say", fix="name it where it matters: ContextSettings(window=N)")
    fact = Fact(quirks={"context_window": size}) if endpoint.provider.group in ("local", "custom") else None
    fix = f"start the server with a larger one ({_option(endpoint)})" if size < SMALL else ""
    return Finding(name, "broken" if size < SMALL else "works", f"{size} tokens", "", fix, fact)


def _judge_ollama(endpoint: Endpoint, most: int, given: int) -> Finding:
    name, asked = "context", endpoint.quirks.context_window
    if asked:
        held = min(asked, most or asked)
        fact = Fact(quirks={"context_window": held}) if held != asked else None
        of = f", of {most} that the model takes" if most else ""
        fix = "ask for more with the quirk context_window (num_ctx)" if held < SMALL and most > held else ""
        return Finding(name, "works" if held >= SMALL or not fix else "broken", f"{held} tokens{of}", "", fix, fact)
    if given:
        return Finding(name, "works", f"{given} tokens, by the file of the model")
    if not most:
        return Finding(name, "unknown", "it does not say")
    fix = "set the quirk context_window (num_ctx): the default is small and cuts tools silently"
    return Finding(name, "broken", "nobody asks for a context", "", fix)


def _option(endpoint: Endpoint) -> str:
    known = {"llamacpp": "-c N", "llamafile": "-c N", "vllm": "--max-model-len N", "sglang": "--context-length N"}
    return known.get(endpoint.provider.name, "see its options")
