"""The lists of models, in the form of each wire, and the other small answers that clients ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct

from dragoman import __version__

OLLAMA_VERSION = "0.13.0"
"""The version of Ollama whose interface is answered; clients compare it with the oldest that they accept."""
_BORN = 1_700_000_000


class ModelEntry(Struct, frozen=True):
    """A model that a client can name."""

    name: str
    window: int | None = None
    owner: str = "dragoman"


def list_openai(models: Iterable[ModelEntry]) -> dict[str, Any]:
    """Return the answer to `/v1/models`."""
    data = [{"id": each.name, "object": "model", "created": _BORN, "owned_by": each.owner} for each in models]
    return {"object": "list", "data": data}


def list_anthropic(models: Iterable[ModelEntry]) -> dict[str, Any]:
    """Return the same in Anthropic's form."""
    when = datetime.fromtimestamp(_BORN, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = [{"type": "model", "id": each.name, "display_name": each.name, "created_at": when} for each in models]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def show_gemini(model: ModelEntry) -> dict[str, Any]:
    """Return the answer to `/v1beta/models/NAME`."""
    return {
        "name": f"models/{model.name}",
        "version": "1",
        "displayName": model.name,
        "inputTokenLimit": model.window or 32_768,
        "outputTokenLimit": 8_192,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def list_gemini(models: Iterable[ModelEntry]) -> dict[str, Any]:
    """Return the answer to `/v1beta/models`."""
    return {"models": [show_gemini(each) for each in models]}


def _describe_ollama(model: ModelEntry) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": datetime.fromtimestamp(_BORN, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "size": 0,
        "digest": sha256(model.name.encode()).hexdigest(),
        "details": _DETAILS,
    }


_DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "dragoman",
    "families": ["dragoman"],
    "parameter_size": "",
    "quantization_level": "",
}


def list_ollama(models: Iterable[ModelEntry]) -> dict[str, Any]:
    """Return the answer to `/api/tags`."""
    return {"models": [_describe_ollama(each) for each in models]}


def list_running(models: Iterable[ModelEntry]) -> dict[str, Any]:
    """Return the answer to `/api/ps`."""
    forever = "2099-01-01T00:00:00Z"
    return {"models": [{**_describe_ollama(each), "expires_at": forever, "size_vram": 0} for each in models]}


def show_ollama(model: ModelEntry) -> dict[str, Any]:
    """Return the answer to `/api/show`. Every model can call tools here."""
    info: dict[str, Any] = {"general.architecture": "dragoman"}
    if model.window:
        info["dragoman.context_length"] = model.window
    return {
        "modelfile": "",
        "parameters": f"num_ctx {model.window}" if model.window else "",
        "template": "{{ .Prompt }}",
        "details": _DETAILS,
        "model_info": info,
        "capabilities": ["completion", "tools"],
        "modified_at": datetime.fromtimestamp(_BORN, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


Listing = Callable[[Iterable[ModelEntry]], dict[str, Any]]
LISTS: dict[str, Listing] = {
    "/v1/models": list_openai,
    "/models": list_openai,
    "/v1beta/models": list_gemini,
    "/api/tags": list_ollama,
    "/api/ps": list_running,
}
"""The lists by path."""
_GOOGLE = frozenset({"x-goog-api-key", "x-goog-api-client"})
_one = re.compile(r"(?:/v1|/v1beta)?/models/(?P<name>.+)\Z").match


def find_list(path: str, headers: Mapping[str, str]) -> Listing | None:
    """Return the list that a path asks for."""
    listing = LISTS.get(path)
    return _own_form(headers) if listing is list_openai else listing


def _own_form(headers: Mapping[str, str]) -> Listing:
    """Three vendors have a list at `/v1/models`. Their clients differ in a header that each of them always sends."""
    if "anthropic-version" in headers:
        return list_anthropic
    return list_gemini if _GOOGLE & headers.keys() else list_openai


def find_name(path: str) -> str | None:
    """Return the name of the model that a path asks about."""
    found = _one(path)
    return found["name"] if found is not None else None


def describe_model(path: str, headers: Mapping[str, str], model: ModelEntry) -> dict[str, Any]:
    """Return the answer about one model, in the form of the client's wire."""
    form = list_gemini if path.startswith("/v1beta/") else _own_form(headers)
    one: dict[str, Any] = show_gemini(model) if form is list_gemini else form([model])["data"][0]
    return one


def describe_load(model: str) -> dict[str, Any]:
    """Return the answer to `/api/chat` without messages, which asks to load a model."""
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"role": "assistant", "content": ""}
    return {"model": model, "created_at": when, "message": said, "done_reason": "load", "done": True}


def describe_version() -> dict[str, str]:
    """Return the answer to `/api/version`."""
    return {"version": OLLAMA_VERSION, "gateway": f"dragoman {__version__}"}
