"""Detection of the server at a URL: its kind, its wires, its models and their context windows.

No request of it costs tokens. A path is tested with an empty request: a server that has the path complains about the
missing fields, and a server without it answers 404 or 405.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman import providers
from dragoman.client import portal
from dragoman.client.client import open_transport
from dragoman.client.keys import Secret
from dragoman.client.models import (
    JsonAnswer,
    ListedModel,
    MetadataClient,
    choose_model,
    fill_context,
    fill_details,
    find_model,
    join_query,
    read_models,
    read_props,
)
from dragoman.client.transport import Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError, ConnectFailed, Unauthorized
from dragoman.providers import Endpoint, Provider, Registry, normalise_base_url
from dragoman.providers.provider import holes_of, move
from dragoman.secrets.exchanges import show_address
from dragoman.types import JsonObject
from dragoman.wire.failures import CONNECTION_HINTS, PROTOCOL_HINTS

_TIMEOUTS = Timeouts(connect=3.0, first_byte=5.0, idle=5.0)
_SECONDS = 20.0

_OWNERS = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang", "library": "ollama", "lm-studio": "lmstudio"}
"""The values of `owned_by`, and the rows of their servers."""

_PATHS = {"openai_chat": "/chat/completions", "openai_responses": "/responses", "anthropic": "/messages"}
_CONTROL = "/no-such-path"
"""A path that no server has. If it looks like a wire, then an empty request proves nothing here."""
_REPLY_FIELDS = {"openai_chat": "choices", "openai_responses": "output", "anthropic": "content", "ollama": "message"}
_says_model = re.compile(r"\bmodel\b", re.IGNORECASE).search
_LOCKED = frozenset({401, 403, 407})
_NEAR = frozenset({None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", "model-runner.docker.internal"})
"""Hosts of rows at which any server may be."""


class DetectedServer(Struct, frozen=True):
    """A server: the row of its provider, its wires and its models."""

    provider: str
    """The name of the row; `custom` if the kind of the server is unknown."""
    urls: dict[str, str]
    """The base URL of each wire that it speaks, the preferred wire first."""
    models: tuple[ListedModel, ...] = ()
    """Empty if it has no list."""

    @property
    def wire(self) -> str:
        """The preferred wire."""
        return next(iter(self.urls))

    @property
    def base_url(self) -> str:
        """The base URL of the preferred wire."""
        return self.urls[self.wire]

    def endpoint(self, model: str = "", wire: str = "", registry: Registry | None = None, **settings: Any) -> Endpoint:
        """Return the endpoint of one model, by default of the first chat model, with what the server reported about it.

        The settings are those of `Registry.resolve`.
        """
        name = model or choose_model(self.models)
        wire = wire or self.wire
        rows = providers.default() if registry is None else registry
        place: dict[str, Any] = {"wire": wire, "base_url": self.urls.get(wire, self.base_url)}
        listed = find_model(self.models, name)
        if listed is None:
            return rows.resolve(self.provider, name, **place, **settings)
        plain = rows.resolve(self.provider, name, **place)
        quirks = {**_reported_context(plain, listed.context), **(settings.pop("quirks", None) or {})}
        able = {} if listed.tools is None else {"native_tool_calls": listed.tools}
        able |= settings.pop("capabilities", None) or {}
        return rows.resolve(self.provider, name, **place, quirks=quirks, capabilities=able, **settings)


def _reported_context(endpoint: Endpoint, size: int) -> dict[str, int]:
    """The quirk for a reported context window. Ollama reports what a model supports, which may not fit into memory."""
    if not size or endpoint.provider.group not in ("local", "custom"):
        return {}
    asked = endpoint.quirks.context_window
    return {"context_window": min(size, asked) if endpoint.wire == "ollama" and asked else size}


# --------------------------------------------------------------------------------------------------------------------
# What the answers mean, without I/O.


def speaks(wire: str, answer: JsonAnswer | None) -> bool:
    """Whether the answer to an empty request shows that the server has the path of a wire."""
    if answer is None or answer.status in _LOCKED or answer.status in (405, 501, 502, 503, 504):
        return False
    is_page = answer.text.lstrip()[:1] == "<"
    if answer.status == 404:
        # Some servers look for the model first: "model '' not found".
        return isinstance(answer.body, Mapping) and _says_model(answer.text) is not None
    if answer.status < 300:
        return isinstance(answer.body, Mapping) and _REPLY_FIELDS.get(wire, "") in answer.body
    return answer.status >= 400 and not is_page and (answer.body is not None or answer.status in (400, 415, 422))


def _is_llamacpp(props: Any) -> bool:
    return isinstance(props, Mapping) and "default_generation_settings" in props


def _models_of_gemini(body: Any) -> tuple[ListedModel, ...]:
    """The models of Gemini's list. A small server may answer every path with OpenAI's list, which has another key."""
    return tuple(read_models(body) or ()) if isinstance(body, Mapping) and "models" in body else ()


def _root_of(given: str) -> str:
    """The URL below which the paths of all wires are: the given one without the version of a wire."""
    for suffix in ("/v1", "/v1beta", "/api"):
        if given.endswith(suffix):
            return given.removesuffix(suffix)
    return given


def find_known_host(registry: Registry, url: str) -> tuple[Provider, str] | None:
    """Return the provider on the internet that has the host of a URL, and the name of the place in its row."""
    host = urlsplit(url).hostname
    for row in registry:
        if host in _NEAR or not row.speakable or holes_of(row.base_url):
            continue
        for place, each in row.urls.items():
            if url == each or (host == urlsplit(each).hostname != urlsplit(row.base_url).hostname):
                return row, place
        if host in {urlsplit(each).hostname for each in (row.base_url, *row.wire_urls.values())}:
            return row, ""
    return None


def _urls_of(row: Provider, place: str) -> dict[str, str]:
    """The base URL of each wire of a row. A place may serve only some of them."""
    if not place:
        return {wire: row.url(wire) for wire in row.wires}
    urls = {wire: move(row.url(wire), row.base_url, row.urls[place]) for wire in row.wires}
    return {wire: url for wire, url in urls.items() if url is not None}


# --------------------------------------------------------------------------------------------------------------------
# The detection.


class _Detection:
    """One detection: the client for metadata, and what was tried."""

    def __init__(self, url: str, client: MetadataClient, registry: Registry) -> None:
        self.shown = show_address(url)
        self._registry = registry
        self._client = client
        given, _, self._query = normalise_base_url(url).partition("?")
        self.given = given
        self.root = _root_of(given)
        self.tried: dict[str, str] = {}
        self._statuses: list[int] = []

    async def ask(self, url: str, body: JsonObject | None = None) -> JsonAnswer | None:
        """Return an answer; None if there was none. Raises ConnectFailed if no server is there.

        A server that has answered is there, even if it does not accept many connections at once.
        """
        name = f"{'GET' if body is None else 'POST'} {urlsplit(url).path or '/'}"
        headers = {"anthropic-version": "2023-06-01"} if url.endswith("/messages") else None
        try:
            answer = await self._client.send(join_query(url, self._query), body, headers)
        except TransportFault as fault:
            self.tried[name] = fault.code or fault.kind
            is_absent = fault.kind in ("unreachable", "insecure") or fault.code in PROTOCOL_HINTS
            if is_absent and not self._statuses:
                hints = PROTOCOL_HINTS if fault.kind == "broken_protocol" else CONNECTION_HINTS
                hint = hints.get(fault.code, "start the server, or check the address")
                raise ConnectFailed(f"no server answers at {self.shown}: {fault.message}", hint=hint) from None
            return None
        self.tried[name] = str(answer.status)
        self._statuses.append(answer.status)
        return answer

    async def page(self, url: str) -> Any:
        """Return the JSON at a URL, or None."""
        answer = await self.ask(url)
        return answer.body if answer is not None and answer.status == 200 else None

    async def run(self, assume: str) -> DetectedServer:
        # Alone, so that one failed connection is enough to know that no server is there.
        listed = await self.page(f"{self.root}/v1/models")
        props, tags, gemini = await asyncio.gather(
            *(self.page(self.root + path) for path in ("/props", "/api/tags", "/v1beta/models"))
        )
        models, base = read_models(listed), f"{self.root}/v1"
        if models is None and self.given != base:
            listed = await self.page(f"{self.given}/models")
            models, base = read_models(listed), self.given
            base = base if models is not None else f"{self.root}/v1"
        provider, found = await self._find_server(models, props, tags)
        urls = await self._find_wires(provider, base)
        named = _models_of_gemini(gemini)
        if named and provider == "custom":
            urls["gemini"] = f"{self.root}/v1beta"
            found = found or named
        if not urls:
            urls = self._guess_wires(listed, models, base, provider, assume)
        preferred = "anthropic" if isinstance(listed, Mapping) and "has_more" in listed else ""
        return DetectedServer(provider, self._sort(provider, urls, preferred), found)

    async def _find_server(
        self, models: list[ListedModel] | None, props: Any, tags: Any
    ) -> tuple[str, tuple[ListedModel, ...]]:
        """The row of the server, and its models with their context windows."""
        listed = models or []
        # llama.cpp also answers /api/tags, so it is checked first.
        if _is_llamacpp(props):
            return "llamacpp", tuple(fill_context(listed, read_props(props)))
        local = read_models(tags) if isinstance(tags, Mapping) and "models" in tags else None
        owners = {_OWNERS[entry.owner] for entry in listed if entry.owner in _OWNERS}
        # SGLang answers it as well, and names itself in its other list.
        if local is not None and owners <= {"ollama"}:
            return "ollama", tuple(await self._client.show_models(local, f"{self.root}/api/show"))
        if len(owners) == 1:
            return owners.pop(), tuple(listed)
        own = await self._client.lm_studio_models(self.root)
        if own:
            return "lmstudio", tuple(fill_details(listed, own) or own)
        return "custom", tuple(listed)

    async def _find_wires(self, provider: str, base: str) -> dict[str, str]:
        """The wires whose paths the server has, each with its base URL."""
        places = {wire: (base, base + path) for wire, path in _PATHS.items()}
        if provider != "custom":
            # llama.cpp has a path of Ollama, but not its protocol: the row decides.
            places["ollama"] = (self.root, f"{self.root}/api/chat")
            wires = self._registry.get(provider).wires
            places = {wire: place for wire, place in places.items() if wire in wires}
        places[_CONTROL] = (base, base + _CONTROL)
        answers = await asyncio.gather(*(self.ask(url, {}) for _, url in places.values()))
        pairs = zip(places.items(), answers, strict=True)
        found = {wire: place for (wire, (place, _)), answer in pairs if speaks(wire, answer)}
        return {} if _CONTROL in found else found

    def _guess_wires(
        self, listed: Any, models: list[ListedModel] | None, base: str, provider: str, assume: str
    ) -> dict[str, str]:
        """The wire that the list of models suggests. Raises an error that names what was tried if there is none."""
        if provider == "ollama":
            return {"ollama": self.root}
        if models is not None:
            return {"anthropic" if isinstance(listed, Mapping) and "has_more" in listed else "openai_chat": base}
        if assume:
            return {assume: self.given}
        tried = ", ".join(f"{name}: {status}" for name, status in self.tried.items())
        if _LOCKED.intersection(self._statuses):
            raise Unauthorized(f"the server at {self.shown} rejects the key, or needs one (tried {tried})")
        raise ConfigError(
            f"the server at {self.shown} is of no known kind: "
            f"it has no list of models and no known path (tried {tried})",
            hint="check the address; if it is right, name the model (-m), and a wire other than openai_chat (--wire)",
        )

    def _sort(self, provider: str, urls: dict[str, str], preferred: str) -> dict[str, str]:
        order = [preferred, *self._registry.get(provider).wires]
        return dict(sorted(urls.items(), key=lambda entry: order.index(entry[0]) if entry[0] in order else len(order)))


async def adetect(
    url: str,
    *,
    key: str | Secret | None = None,
    transport: Transport | None = None,
    environment: Mapping[str, str] | None = None,
    registry: Registry | None = None,
    timeouts: Timeouts = _TIMEOUTS,
    seconds: float = _SECONDS,
    assume: str = "",
) -> DetectedServer:
    """Detect the server at a URL, such as `http://localhost:11434` or `http://box:8000/v1`, within `seconds`.

    A host of a known provider gets the row and the key of that provider. Any other server gets only the given `key`.
    `assume` is the wire of a server that answers, but shows neither a list of models nor a known path. Raises
    ConnectFailed if no server answers, Unauthorized if it needs a key, and ConfigError if it is of no known kind; the
    message names what was tried.
    """
    rows = providers.default() if registry is None else registry
    variables = os.environ if environment is None else environment
    known = find_known_host(rows, normalise_base_url(url))
    endpoint = rows.resolve("custom", "", base_url=url)
    if known is not None:
        endpoint = rows.resolve(known[0], "", place=known[1])
    carrier = open_transport(endpoint, variables) if transport is None else transport
    try:
        client = MetadataClient(endpoint, transport=carrier, key=key, environment=variables, timeouts=timeouts)
        async with asyncio.timeout(seconds):
            if known is not None:
                return DetectedServer(known[0].name, _urls_of(*known), tuple(await client.list_models()))
            return await _Detection(url, client, rows).run(assume)
    except TimeoutError:
        raise ConnectFailed(f"the server at {show_address(url)} did not answer within {seconds:g} s") from None
    finally:
        if transport is None:
            await carrier.close()


detect = portal.blocking(
    adetect,
    "detect",
    """Detect the server at a URL: its wires, its models and their context windows. For arguments see `adetect`.""",
)
