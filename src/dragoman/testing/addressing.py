"""Which wire a request is written in, which model it names, and whether it asks for a stream."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from dragoman import wire
from dragoman.types import JsonObject, Request
from dragoman.wire.codec import as_object

# The ends of paths, the longer ones first; two wires share the first, and the script says which of them it speaks.
_PATHS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"/chat/completions$", ("openai_chat", "mistral")),
    (r"/responses$", ("openai_responses",)),
    (r"/messages$", ("anthropic",)),
    (r":(stream)?[gG]enerateContent$", ("gemini",)),
    (r"/converse(-stream)?$", ("bedrock",)),
    (r"/api/chat$", ("ollama",)),
    (r"/chat$", ("cohere",)),
)
_MODEL = re.compile(r"/(?:models?)/(?P<model>.+?)(?::(?:streamG|g)enerateContent|/converse(?:-stream)?)$")


def find_wire(url: str, preferred: str) -> str:
    """The wire that the path of a request belongs to: the preferred one unless the path says otherwise."""
    path = urlsplit(url).path
    for pattern, wires in _PATHS:
        if re.search(pattern, path):
            return preferred if preferred in wires else wires[0]
    return preferred


def read_request(url: str, body: bytes, spoken: str) -> tuple[Request, JsonObject]:
    """The request in neutral form, and its body as JSON."""
    path = urlsplit(url).path
    found = _MODEL.search(path)
    model = unquote(found["model"]) if found else ""
    streams = path.endswith((":streamGenerateContent", "/converse-stream"))
    fields = as_object(body)
    return wire.get(spoken).decode_request(fields, model=model, stream=streams or None), fields
