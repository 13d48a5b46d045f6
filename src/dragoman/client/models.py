"""The models of an endpoint: their list and their context windows, by requests that cost no tokens."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard
from urllib.parse import urlencode

import msgspec
from msgspec import Struct, structs

from dragoman import providers
from dragoman.client import portal
from dragoman.client.auth import Auth, choose_auth
from dragoman.client.client import base_of, fits, open_transport
from dragoman.client.exchange import from_fault
from dragoman.client.keys import Secret, find_key
from dragoman.client.transport import HttpRequest, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError, ProtocolError
from dragoman.providers import Endpoint, learn_from_show
from dragoman.providers.endpoint import codec_of
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.types import JsonObject
from dragoman.wire.failures import as_error

# --------------------------------------------------------------------------------------------------------------------
# Lists of models, in the shape of every server.

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
# By server: OpenAI and most others; Ollama; Gemini, Cohere; LM Studio; Bedrock.
_NAMES = ("id", "model", "name", "key", "modelId")
_LISTS = ("data", "models", "modelSummaries")
# By server: Ollama; LM Studio; Mistral.
_TOOL_WORDS = ("tools", "tool_use", "trained_for_tool_use", "function_calling")
_MOST_MODELS = 5000
_num_ctx = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE).search
# Models with such names are not for conversations.
_is_no_chat = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|image", re.IGNORECASE).search


class ListedModel(Struct, frozen=True):
    """One model of an endpoint's list."""

    id: str
    """The name to send in requests."""
    owner: str = ""
    context: int = 0
    """The context window in tokens; 0 if the endpoint does not report it."""
    tools: bool | None = None
    """Whether the endpoint says that the model supports tools; None if it says nothing."""


def read_models(body: Any) -> list[ListedModel] | None:
    """Return the models of a list in any known shape; None if it is not such a list."""
    entries = _entries(body)
    if entries is None:
        return None
    found = []
    for entry in entries:
        named = next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), "")
        if named:
            owner = entry.get("owned_by")
            found.append(ListedModel(named, owner if isinstance(owner, str) else "", _size(entry), _tools(entry)))
    return found


def _entries(body: Any) -> list[Mapping[str, Any]] | None:
    if isinstance(body, Mapping):
        body = next((body[name] for name in _LISTS if isinstance(body.get(name), list)), None)
    return [entry for entry in body[:_MOST_MODELS] if isinstance(entry, Mapping)] if isinstance(body, list) else None


def find_model(listed: Iterable[ListedModel], model: str) -> ListedModel | None:
    """Return the model of that name; for Ollama, `qwen3` is `qwen3:latest`, and Gemini lists `models/NAME`."""
    names = (model, f"{model}:latest", f"models/{model}")
    return next((entry for entry in listed if entry.id in names), None)


def choose_model(listed: Iterable[ListedModel]) -> str:
    """Return the model to use if none is named: the first chat model."""
    names = [entry.id for entry in listed]
    return next((name for name in names if not _is_no_chat(name)), names[0] if names else "")


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
    for source in (*_loaded(entry), entry, meta if isinstance(meta, Mapping) else {}):
        for name in _SIZES:
            if _is_size(source.get(name)):
                return int(source[name])
    return 0


def _loaded(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings of the loaded instances of a model, which LM Studio lists: they are smaller than its maximum."""
    instances = entry.get("loaded_instances")
    settings = [each.get("config") for each in instances if isinstance(each, Mapping)] if _is_list(instances) else []
    return [each for each in settings if isinstance(each, Mapping)]


def _tools(entry: Mapping[str, Any]) -> bool | None:
    """Whether an entry says that the model supports tools: in a list of words, or in a table of flags."""
    abilities = entry.get("capabilities")
    if isinstance(abilities, Mapping):
        flags = [abilities[word] for word in _TOOL_WORDS if isinstance(abilities.get(word), bool)]
        return any(flags) if flags else None
    if _is_list(abilities):
        return any(word in abilities for word in _TOOL_WORDS)
    # OpenRouter lists the parameters of requests.
    accepted = entry.get("supported_parameters")
    return "tools" in accepted if _is_list(accepted) and accepted else None


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# --------------------------------------------------------------------------------------------------------------------
# The requests for metadata, by endpoint.

_PAGE = "1000"
_FIRST_PAGE = {"anthropic": {"limit": _PAGE}, "gemini": {"pageSize": _PAGE}, "cohere": {"page_size": _PAGE}}
"""By wire: how the longest page of a list is requested."""


class Lookup(Struct, frozen=True):
    """A request for metadata."""

    kind: str
    """`models`, `show` or `props`."""
    url: str
    body: JsonObject | None = None


def lookups_for(endpoint: Endpoint, base: str) -> tuple[Lookup, ...]:
    """Return the lookups for an endpoint; `base` is its complete base URL."""
    if endpoint.provider.transport:
        return ()
    plain, _, query = base.partition("?")
    root = plain.removesuffix("/v1")
    if endpoint.wire == "ollama" or endpoint.provider.name == "ollama":
        show = Lookup("show", f"{root}/api/show", {"model": endpoint.model})
        return Lookup("models", f"{root}/api/tags"), show
    listed = Lookup("models", join_query(_list_url(endpoint, plain), query))
    if endpoint.provider.group in ("local", "custom"):
        return listed, Lookup("props", f"{root}/props")
    return (listed,)


def _list_url(endpoint: Endpoint, base: str) -> str:
    if endpoint.wire == "bedrock":
        # The list is at the host of the control plane.
        return base.replace("//bedrock-runtime.", "//bedrock.") + "/foundation-models"
    if endpoint.wire == "cohere" and base.endswith("/v2"):
        base = base.removesuffix("/v2") + "/v1"
    return f"{base}/models"


def join_query(url: str, query: str) -> str:
    """Return a URL with one more query, if it is not empty."""
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _next_page(body: Any) -> dict[str, str]:
    """Return the query of the next page of a list; empty after the last page."""
    if not isinstance(body, Mapping):
        return {}
    for ours, theirs in (("nextPageToken", "pageToken"), ("next_page_token", "page_token")):
        if isinstance(body.get(ours), str) and body[ours]:
            return {theirs: body[ours]}
    if body.get("has_more") is True and isinstance(body.get("last_id"), str):
        return {"after_id": body["last_id"]}
    return {}


# --------------------------------------------------------------------------------------------------------------------
# A client for metadata.

SHORT = Timeouts(connect=5.0, first_byte=15.0, idle=15.0)
"""Metadata needs no computation: a server that takes longer is not asked for more."""
_STUDIO_PATHS = ("/api/v1/models", "/api/v0/models")
_STUDIO_TYPES = ("llm", "vlm", "embedding", "embeddings")
_MOST_BYTES = 4 << 20
_MOST_PAGES = 20
_MOST_SHOWN = 64
_AT_ONCE = 4


class JsonAnswer(Struct, frozen=True):
    """The answer to a request for metadata. `body` is None if it is not JSON, and `text` is its beginning."""

    status: int
    body: Any = None
    text: str = ""


class MetadataClient:
    """Sends requests that cost no tokens to one endpoint. Call `close` at the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: Transport | None = None,
        key: str | Secret | None = None,
        environment: Mapping[str, str] | None = None,
        timeouts: Timeouts = SHORT,
    ) -> None:
        variables = os.environ if environment is None else environment
        self.endpoint = endpoint
        self.auth: Auth = choose_auth(endpoint, find_key(endpoint, key, None, variables), variables)
        self._environment = variables
        given = transport if transport is not None and fits(transport, endpoint) else None
        self._transport = open_transport(endpoint, variables) if given is None else given
        self._is_ours = given is None
        self._timeouts = timeouts

    @property
    def base_url(self) -> str:
        return base_of(self.endpoint, self._environment)

    async def close(self) -> None:
        if self._is_ours:
            await self._transport.close()

    async def send(
        self, url: str, body: JsonObject | None = None, headers: Mapping[str, str] | None = None
    ) -> JsonAnswer:
        """Send a GET, or a POST with a body, and return the answer. Raises TransportFault."""
        data = b"" if body is None else msgspec.json.encode(body)
        written = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            written["Content-Type"] = "application/json"
        method = "GET" if body is None else "POST"
        signed = await self.auth.sign(HttpRequest(method, url, written, data))
        response = await self._transport.send(signed, self._timeouts)
        received = bytearray()
        try:
            async for piece in response.pieces():
                received += piece
                if len(received) > _MOST_BYTES:
                    raise TransportFault("too_large", "the answer is larger than allowed", code="body")
        finally:
            await response.close()
        # Redacted before it is read: a server may repeat the key in its message.
        data = RequestRedactor(self.auth.secrets).data(bytes(received))
        text = data[:2000].decode("utf-8", "replace")
        try:
            return JsonAnswer(response.status, msgspec.json.decode(data), text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return JsonAnswer(response.status, None, text)

    async def look_up(self, url: str, body: JsonObject | None = None) -> Any:
        """Return the JSON at a URL of the endpoint, or None."""
        try:
            answer = await self.send(url, body)
        except TransportFault:
            return None
        return answer.body if answer.status == 200 else None

    async def list_models(self, *, details: bool = False) -> list[ListedModel]:
        """Return the models of the endpoint. With `details`, further requests find missing context windows.

        Raises an error that names the answer of the endpoint if it has no list.
        """
        lookups = {lookup.kind: lookup for lookup in lookups_for(self.endpoint, self.base_url)}
        if "models" not in lookups:
            name = self.endpoint.provider.name
            raise ConfigError(f"{name} is not a server, so it has no list of models", hint="dragoman local list")
        models = await self._read_pages(lookups["models"].url)
        if not details:
            return models
        if "show" in lookups:
            return await self.show_models(models, lookups["show"].url)
        if "props" not in lookups or all(entry.context for entry in models):
            return models
        models = fill_details(models, await self.lm_studio_models(self.base_url.partition("?")[0].removesuffix("/v1")))
        return fill_context(models, read_props(await self.look_up(lookups["props"].url)))

    async def lm_studio_models(self, root: str) -> list[ListedModel]:
        """Return the models from LM Studio's own list, with context windows; empty for other servers."""
        for path in _STUDIO_PATHS:
            body = await self.look_up(root + path)
            if any(
                "max_context_length" in entry and entry.get("type") in _STUDIO_TYPES for entry in _entries(body) or ()
            ):
                return read_models(body) or []
        return []

    async def show_models(self, models: Iterable[ListedModel], url: str) -> list[ListedModel]:
        """Return Ollama's models with what its /api/show says about them. It asks about the first 64 models."""
        free = asyncio.Semaphore(_AT_ONCE)

        async def show(entry: ListedModel) -> ListedModel:
            async with free:
                body = await self.look_up(url, {"model": entry.id})
            fact = learn_from_show(body)
            tools = entry.tools if fact is None else fact.native_tool_calls
            return structs.replace(entry, context=read_show(body)[0] or entry.context, tools=tools)

        listed = list(models)
        shown = await asyncio.gather(*map(show, listed[:_MOST_SHOWN]))
        return [*shown, *listed[_MOST_SHOWN:]]

    async def _read_pages(self, url: str) -> list[ListedModel]:
        found: dict[str, ListedModel] = {}
        query = dict(_FIRST_PAGE.get(self.endpoint.wire, {}))
        for _ in range(_MOST_PAGES):
            answer = await self._send_checked(join_query(url, urlencode(query)))
            listed = read_models(answer.body)
            if listed is None:
                message = "the answer to the request for the list of models is not such a list"
                raise ProtocolError(message, wire=self.endpoint.wire, raw=answer.text)
            known = len(found)
            found |= {entry.id: entry for entry in listed}
            following = _next_page(answer.body)
            # A server that ignores the query returns the first page again.
            if not following or len(found) == known:
                break
            query |= following
        return list(found.values())

    async def _send_checked(self, url: str) -> JsonAnswer:
        try:
            answer = await self.send(url)
        except TransportFault as fault:
            raise as_error(from_fault(fault)) from None
        if answer.status == 200:
            return answer
        body = answer.text if answer.body is None else answer.body
        failure = codec_of(self.endpoint).decode_failure(answer.status, body, {})
        shown = failure.message or "no message"
        raise as_error(
            structs.replace(failure, message=f"{url.partition('?')[0]} answers with status {answer.status}: {shown}")
        )


def fill_details(models: Iterable[ListedModel], others: Iterable[ListedModel]) -> list[ListedModel]:
    """Return the models with the details of another list, where theirs are missing."""
    known = {entry.id: entry for entry in others}
    found = []
    for entry in models:
        other = known.get(entry.id, entry)
        tools = other.tools if entry.tools is None else entry.tools
        found.append(structs.replace(entry, context=entry.context or other.context, tools=tools))
    return found


def fill_context(models: Iterable[ListedModel], size: int) -> list[ListedModel]:
    """Return the models with the context window of their server, where the list does not contain one."""
    return [entry if entry.context or not size else structs.replace(entry, context=size) for entry in models]


async def alist_models(
    endpoint: Endpoint | str,
    *,
    base_url: str = "",
    key: str | Secret | None = None,
    transport: Transport | None = None,
    environment: Mapping[str, str] | None = None,
    timeouts: Timeouts = SHORT,
    details: bool = False,
) -> list[ListedModel]:
    """Return the models that an endpoint lists, in its order. `endpoint` is a provider: `ollama`, `anthropic`.

    With `details`, dragoman also asks for context windows that the list does not contain: Ollama's /api/show for each
    model, and llama.cpp's /props. Raises a typed error if the endpoint does not answer or has no list.
    """
    if isinstance(endpoint, str):
        name, model = providers.split(endpoint, base_url)
        endpoint = providers.resolve(name, model, base_url=base_url)
    client = MetadataClient(endpoint, transport=transport, key=key, environment=environment, timeouts=timeouts)
    try:
        return await client.list_models(details=details)
    finally:
        await client.close()


list_models = portal.blocking(
    alist_models,
    "list_models",
    """Return the models that an endpoint lists: `list_models("ollama")`. The arguments are those of `alist_models`.""",
)
