"""A request, or only a conversation, carried from one wire to another, with the report of what that cost."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.types import Request, ToolCall, ToolResult
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.registry import get, names

_CONVERSATIONS = {"gemini": "contents", "openai_responses": "input"}


def convert(body: Any, source: Codec, target: Codec, *, model: str = "") -> Prepared:
    """The request that `body` is on the wire `source`, as the wire `target` takes it.

    `body` is a whole request, or the list of messages alone. `model` replaces the model that it names.
    """
    request = read(body, source)
    if model:
        request = replace(request, model=model)
    prepared = target.prepare(request)
    if not request.model:
        # A conversation names no model, and an empty name would only be refused.
        prepared = replace(prepared, body={key: value for key, value in prepared.body.items() if key != "model"})
    return prepared


def read(body: Any, source: Codec) -> Request:
    """The request in a body or a list of messages; a ConfigError where there is none."""
    whole = {_CONVERSATIONS.get(source.name, "messages"): body} if isinstance(body, list) else body
    request = source.decode_request(whole)
    if not request.messages:
        raise ConfigError(f"there is no conversation in it that {source.name} would know", hint=_guess(body, source))
    return request


def _guess(body: Any, source: Codec) -> str:
    found = {name: _count(body, get(name)) for name in names() if name != source.name}
    most = max(found.values())
    if not most:
        return "give the body of a request, or the list of its messages"
    return f"it looks like {' or '.join(name for name, count in found.items() if count == most)}: use --from"


def _count(body: Any, codec: Codec) -> int:
    """How much of a body a wire can make sense of."""
    whole = {_CONVERSATIONS.get(codec.name, "messages"): body} if isinstance(body, list) else body
    request = codec.decode_request(whole)
    parts = [part for message in request.messages for part in message.parts]
    calls = sum(isinstance(part, ToolCall | ToolResult) for part in parts)
    return len(parts) + 10 * (calls + len(request.tools))
