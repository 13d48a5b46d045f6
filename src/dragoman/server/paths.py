"""The paths of a gateway: which wire they belong to, which are translated, and which go to an endpoint unchanged.

Nothing else leaves the gateway: a path that no table has is answered here. So a client with a key of the gateway cannot
use the files, the models or the administration of an endpoint with the key of that endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.types import Failure

TRANSLATED = {
    "/v1/chat/completions": "openai_chat",
    "/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/responses": "openai_responses",
    "/v1/messages": "anthropic",
    "/messages": "anthropic",
    "/api/chat": "ollama",
}
"""The paths whose requests are translated, with the wire of their clients. Those of Gemini contain a model."""
GENERATE = {"generateContent": False, "streamGenerateContent": True}
"""The translated verbs of Gemini, and whether each streams."""
_OPENAI = (
    *("embeddings", "completions", "moderations", "rerank"),
    *("audio/speech", "audio/transcriptions", "audio/translations"),
    *("images/generations", "images/edits", "images/variations"),
)
PASSED = {
    **{f"{version}/{name}": "openai_chat" for version in ("/v1", "") for name in _OPENAI},
    **dict.fromkeys(("/api/generate", "/api/embed", "/api/embeddings"), "ollama"),
}
"""The paths whose requests go unchanged to an endpoint of the same wire. All of them are sent with POST."""
_PASSED_VERBS = ("embedContent", "batchEmbedContents", "predict")
VERBS = frozenset({*GENERATE, "countTokens"})
"""The verbs of Gemini that the gateway answers itself."""
_GEMINI = ("/v1beta/models", *(f"/v1beta/models/MODEL:{verb}" for verb in (*GENERATE, "countTokens")))
_SHOWN: dict[str, tuple[str, ...]] = {
    "openai_chat": ("/v1/chat/completions", "/v1/responses", "/v1/models"),
    "anthropic": ("/v1/messages", "/v1/messages/count_tokens", "/v1/models"),
    "gemini": (*_GEMINI, *(f"/v1beta/models/MODEL:{verb}" for verb in _PASSED_VERBS)),
    "ollama": ("/api/chat", "/api/show", "/api/tags", "/api/ps", "/api/version"),
}
_FAMILIES = (("/api/", "ollama"), ("/v1beta/", "gemini"), ("/v1alpha/", "gemini"), ("/v1/messages", "anthropic"))
_VENDORS = {"anthropic-version": "anthropic", "x-goog-api-key": "gemini", "x-goog-api-client": "gemini"}
"""Headers that all clients of a vendor send, and others do not."""
find_gemini = re.compile(
    rf"/v1(?:beta|alpha)?/models/(?P<model>.+):(?P<verb>{'|'.join((*VERBS, *_PASSED_VERBS))})\Z"
).match
"""Matches the path of a verb of Gemini. Names of models may contain colons, as those of Ollama do."""
_is_plain = re.compile(r"(?:/[A-Za-z0-9_@+~-][A-Za-z0-9_@+~.:-]*)+", re.ASCII).fullmatch
"""Matches a path that every server reads in the same way: no empty segments, no dots alone, nothing encoded."""
_slashes = re.compile(r"/{2,}").sub
_doubled = re.compile(r"\A/v1(?=/(?:v1|v1beta|v1alpha|api)/)").sub


def tidy_path(path: str) -> str:
    """Return the path that a client means: users add `/v1` or a slash to a base URL where their program adds it too."""
    tidy = _slashes("/", path)
    return _doubled("", tidy).rstrip("/") or "/"


def wire_of(path: str, headers: Mapping[str, str] | None = None) -> str:
    """Return the wire of the clients that use a path. The headers of a request tell more about an unknown one."""
    if find_gemini(path):
        return "gemini"
    wire = TRANSLATED.get(path) or PASSED.get(path)
    wire = wire or next((wire for start, wire in _FAMILIES if path.startswith(start)), None)
    return wire or next((wire for name, wire in _VENDORS.items() if name in (headers or ())), "openai_chat")


def is_passed(path: str) -> bool:
    """Whether requests to a path go to an endpoint unchanged."""
    if path in PASSED:
        return True
    found = find_gemini(path)
    return found is not None and found["verb"] in _PASSED_VERBS


def is_plain(path: str) -> bool:
    """Whether an endpoint reads a path as it is written here."""
    return _is_plain(path) is not None


def refuse_path(method: str, path: str, headers: Mapping[str, str], allowed: list[str]) -> Failure:
    """Return the error for a path that the gateway does not have, or not for this method."""
    if allowed:
        said = f"{path[:200]} is used with {' or '.join(allowed)}, not with {method}"
        return Failure("bad_request", said, 405, "method_not_allowed")
    wire = wire_of(path, headers)
    shown = _SHOWN.get(wire, _SHOWN["openai_chat"])
    passed = [each for each in PASSED if PASSED[each] == wire and each.startswith(("/v1/", "/api/"))]
    said = f"this gateway has no {method} {path[:200]}; it has {', '.join([*shown, *passed])}"
    return Failure("not_found", said, 404, "unknown_path")
