"""The number of tokens in a request: counted by the endpoint if it has a counter, else estimated.

No counter runs the model, and the counters of the vendors are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman import providers
from dragoman.client import portal
from dragoman.client.keys import Secret
from dragoman.client.models import SHORT, MetadataClient, join_query
from dragoman.client.transport import Timeouts, Transport, TransportFault
from dragoman.providers import Endpoint
from dragoman.providers.endpoint import codec_of
from dragoman.providers.tokens import Estimate
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Message, Request, Text
from dragoman.wire.values import write_model


class TokenCount(Struct, frozen=True):
    """The number of input tokens of a request."""

    tokens: int
    is_estimate: bool
    """Whether dragoman estimated it, because the endpoint has no counter or did not answer."""


# --------------------------------------------------------------------------------------------------------------------
# The counters: where a request is counted, what is sent, and what comes back.


class Counter(Struct, frozen=True):
    """The counter of one kind of endpoint."""

    url: Callable[[str, str], str]
    """Called with the base URL and the model."""
    write: Callable[[JsonObject, str], JsonObject]
    """Called with the body of a request and the model."""
    path: tuple[str, ...]
    """Where the number is in the answer."""


def _only(*names: str) -> Callable[[JsonObject, str], JsonObject]:
    return lambda body, model: {name: body[name] for name in names if name in body}


_ANTHROPIC = Counter(
    lambda base, model: f"{base}/messages/count_tokens",
    _only("model", "messages", "system", "tools", "tool_choice", "thinking"),
    ("input_tokens",),
)
_RESPONSES = Counter(
    lambda base, model: f"{base}/responses/input_tokens",
    _only("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "previous_response_id"),
    ("input_tokens",),
)
_GEMINI = Counter(
    lambda base, model: f"{base}/models/{write_model(model.removeprefix('models/'))}:countTokens",
    lambda body, model: {"generateContentRequest": {"model": f"models/{model.removeprefix('models/')}", **body}},
    ("totalTokens",),
)
_VLLM = Counter(
    lambda base, model: f"{base.removesuffix('/v1')}/tokenize", _only("model", "messages", "tools"), ("count",)
)


def find_counter(endpoint: Endpoint) -> Counter | None:
    """Return the counter of an endpoint; None if it has none."""
    name, wire = endpoint.provider.name, endpoint.wire
    if name == "vllm" and wire == "openai_chat":
        return _VLLM
    if endpoint.provider.auth in ("gcp", "sigv4") or endpoint.provider.transport:
        return None
    if wire == "openai_responses" and name == "openai" and not endpoint.is_own_server:
        return _RESPONSES
    return {"anthropic": _ANTHROPIC, "gemini": _GEMINI}.get(wire)


def read_count(body: Any, path: Iterable[str]) -> int | None:
    """Return the number in the answer of a counter; None if there is none."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body if isinstance(body, int) and not isinstance(body, bool) and body > 0 else None


def estimate_tokens(endpoint: Endpoint, request: Request) -> TokenCount:
    """Return an estimate, without a request. It errs on the high side."""
    return TokenCount(Estimate(endpoint).count(request.messages, request.tools), True)


# --------------------------------------------------------------------------------------------------------------------
# Counting.


async def acount_tokens(
    model: str | Endpoint,
    prompt: str | Message | Iterable[Message | Mapping[str, Any]],
    *,
    tools: Iterable[object] | None = None,
    system: str | None = None,
    base_url: str = "",
    key: str | Secret | None = None,
    transport: Transport | None = None,
    environment: Mapping[str, str] | None = None,
    timeouts: Timeouts = SHORT,
) -> TokenCount:
    """Return the number of input tokens that a request would have, with the tools as the endpoint gets them.

    Anthropic, Gemini, OpenAI's Responses API and vLLM count it themselves. Otherwise, or if the endpoint does not
    answer, it is an estimate.
    """
    from dragoman.extraction.responses import read_messages
    from dragoman.extraction.tool_mode import choose_tool_mode, compose

    endpoint = providers.resolve(model, base_url=base_url) if isinstance(model, str) else model
    head = [Message("system", [Text(system)])] if system else []
    if isinstance(prompt, str):
        said = [Message("user", [Text(prompt)])]
    else:
        said = [prompt] if isinstance(prompt, Message) else read_messages(prompt)
    mode = choose_tool_mode(endpoint, Toolset.of(tools) or Toolset(()))
    request = compose([*head, *said], mode, boundaries=["0" * 8] * len(said)).request
    counter = find_counter(endpoint)
    counted = None
    if counter is not None:
        client = MetadataClient(endpoint, transport=transport, key=key, environment=environment, timeouts=timeouts)
        try:
            counted = await _count(client, counter, request)
        finally:
            await client.close()
    return estimate_tokens(endpoint, request) if counted is None else TokenCount(counted, False)


async def _count(client: MetadataClient, counter: Counter, request: Request) -> int | None:
    endpoint = client.endpoint
    body = counter.write(codec_of(endpoint).encode_request(request), endpoint.model)
    base, _, query = client.base_url.partition("?")
    try:
        answer = await client.send(join_query(counter.url(base, endpoint.model), query), body)
    except TransportFault:
        return None
    return read_count(answer.body, counter.path) if answer.status == 200 else None


count_tokens = portal.blocking(
    acount_tokens,
    "count_tokens",
    """Return the number of input tokens that a request would have. The arguments are those of `acount_tokens`.""",
)
