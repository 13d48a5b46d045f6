"""Which endpoint answers a request: patterns of model names, slots, balance, cool-down and fallbacks."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman import providers
from dragoman.characters import escape_message
from dragoman.client import DetectedServer, TokenCount, acount_tokens, adetect
from dragoman.client.client import Client, shared_transport
from dragoman.client.models import choose_model, find_model
from dragoman.client.rate_limit import RateLimiter, Slot
from dragoman.client.retry import Breakers, Retries
from dragoman.client.transport import Timeouts, Transport
from dragoman.errors import ConfigError, DragomanError, UnknownModel
from dragoman.pipeline.signatures import restore_reasoning
from dragoman.providers import Endpoint, Fact, Facts, MemoryFacts
from dragoman.providers.tokens import Estimate
from dragoman.server.models import ModelEntry
from dragoman.server.quotas import Candidate
from dragoman.server.settings import (
    CHARACTERS_PER_TOKEN,
    EndpointSettings,
    GatewaySettings,
    RouteSettings,
    as_list,
    named_endpoints,
)
from dragoman.types import FAILURE_CAUSES, Failure, File, Image, Request, ToolResult
from dragoman.wire.media import settle

if TYPE_CHECKING:
    from dragoman.pipeline import Backend

_is_small = re.compile(r"haiku|(?<![a-z])(?:mini|nano|small|lite)(?![a-z])", re.IGNORECASE).search
"""Names of models that agent programs use for work in the background; Gemini and MiniMax are none."""
_FILLED = 0.75
"""The part of a context window that a prompt may fill: the answer needs room too."""
_MOST_CLIENTS = 64
_MOST_NAMES = 256
_LONGEST_NAME = 1024
_FAILURES_OF_AN_ORIGIN = 15
_PAUSE_OF_AN_ORIGIN = 5.0
BETAS = "anthropic-beta"
_LONGEST_WAIT = 20.0
"""The seconds that an endpoint may ask the gateway to wait. If it asks for more, the client is told, and decides."""
log = logging.getLogger("dragoman.server")


class Target:
    """One endpoint of a gateway, with its load and its health. It observes its requests."""

    def __init__(self, name: str, row: EndpointSettings, router: Router, server: DetectedServer | None) -> None:
        self.name = name
        self.settings = row
        self.server = server
        self.endpoint = find_endpoint(row, "", router.facts, server)
        self.busy = 0
        self.resting_until = 0.0
        requests, tokens, concurrent = row.requests_per_minute, row.tokens_per_minute, row.max_concurrent
        is_limited = any(limit is not None for limit in (requests, tokens, concurrent))
        self._limiter = RateLimiter(requests=requests, tokens=tokens, concurrent=concurrent) if is_limited else None
        self._router = router
        self._clients: dict[tuple[str, str], Client] = {}
        self._windows: dict[str, int] = {}

    @property
    def takes_any_model(self) -> bool:
        """Whether the client chooses the model."""
        return bool(self.settings.url) and not self.settings.model

    def name_model(self, asked: str) -> str:
        """Return the name of the model at the endpoint, for the name that a client said."""
        if not self.takes_any_model:
            return self.endpoint.model
        listed = self.server.models if self.server is not None else ()
        if not listed:
            return asked
        found = find_model(listed, asked)
        # An agent program asks for a model of its vendor, and means the one that is here.
        return found.id if found is not None else choose_model(listed)

    def client_for(self, model: str, login: str | None = None, betas: str = "", tokens: int = 0) -> Client:
        """Return the client for a model. The model decides on the profile of an endpoint, so each has its own.

        `login` is the key of the client of the gateway, for an endpoint that forwards it. `betas` are the features
        that this client switched on with a header: the endpoint refuses their fields without it. `tokens` is about the
        size of the prompt.
        """
        name = self.name_model(model)
        if tokens and self.endpoint.wire == "ollama":
            self._widen(name, tokens)
        headers = {**self.settings.headers, BETAS: betas} if betas else self.settings.headers
        if login is not None and self.settings.forward_login:
            endpoint = self._find_endpoint(name)
            return self._router.open_client(endpoint, self.settings, self._limiter, headers, login)
        client = self._clients.get((name, betas))
        if client is None:
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            row = self.settings
            endpoint = self._find_endpoint(name)
            client = self._router.open_client(endpoint, row, self._limiter, headers)
            self._clients[name, betas] = client
        return client

    def _find_endpoint(self, model: str) -> Endpoint:
        window = self._windows.get(model)
        row = replace(self.settings, context_window=window) if window else self.settings
        return find_endpoint(row, model, self._router.facts, self.server)

    def _widen(self, model: str, tokens: int) -> None:
        """Ask Ollama for a larger context window if a prompt needs one, up to what the model supports.

        The window decides how much memory a model takes, so it begins small. It never becomes smaller again, because
        Ollama loads the model anew for every change.
        """
        listed = find_model(self.server.models, model) if self.server is not None else None
        window = self._windows.get(model) or self.endpoint.quirks.context_window
        if listed is None or self.settings.context_window is not None or not 0 < window < listed.context:
            return
        wide = window
        while wide < listed.context and tokens > wide * _FILLED:
            wide *= 2
        if wide != window:
            self._windows[model] = min(wide, listed.context)
            self._clients = {key: client for key, client in self._clients.items() if key[0] != model}
            log.info("the endpoint %s gets num_ctx %d for %s", self.name, self._windows[model], escape_message(model))

    async def count(self, request: Request, wire: str, login: str | None = None) -> TokenCount:
        """Return the input tokens of a request of a client, which speaks `wire`."""
        row = self.settings
        return await acount_tokens(
            self.client_for(self._router.name_model(request.model)).endpoint,
            restore_reasoning(request.messages, wire),
            tools=request.tools,
            key=(login if row.forward_login else None) or find_row_key(row),
            transport=self._router.transport,
        )

    def slot(self, size: int) -> AbstractAsyncContextManager[Slot | None]:
        """Wait until the endpoint may get a request of this many bytes that no client of ours sends."""
        return nullcontext() if self._limiter is None else self._limiter.slot(size // CHARACTERS_PER_TOKEN)

    def accept(self, server: DetectedServer) -> None:
        """Use a server that did not answer when the gateway started."""
        self.server = server
        self.endpoint = find_endpoint(self.settings, "", self._router.facts, server)
        self.resting_until = 0.0
        self.forget()

    def forget(self) -> None:
        """Open the clients again with the next request, because there are new facts."""
        self._clients.clear()

    # ---- as the observer of its requests ----------------------------------------------------------------------------

    def started(self) -> None:
        self.busy += 1

    def ended(self, failure: Failure | None) -> None:
        self.busy -= 1
        if failure is not None and failure.code == "pool":
            # This process has no connection left, which says nothing about the endpoint.
            return
        if failure is not None and FAILURE_CAUSES.get(failure.kind) in ("outage", "rate", "endpoint"):
            self._router.rest(self)

    def learned(self, endpoint: Endpoint, fact: Fact) -> None:
        facts = self._router.facts
        facts.put(endpoint.base_url, endpoint.model, (facts.get(endpoint.base_url, endpoint.model) or Fact()) | fact)
        self.forget()


class Route(Struct, frozen=True):
    """A row of the routes, with its endpoints."""

    settings: RouteSettings
    targets: dict[str, Target]
    patterns: tuple[re.Pattern[str], ...]

    def matches(self, model: str) -> bool:
        return any(pattern.match(model) for pattern in self.patterns)

    def pick(self, names: Sequence[str], now: float) -> list[Target]:
        """Return the endpoints in the order of their use: rested and least busy first."""
        chosen = [self.targets[name] for name in names]
        return (
            chosen if len(chosen) == 1 else sorted(chosen, key=lambda target: (target.resting_until > now, target.busy))
        )


class Chosen(Struct, frozen=True):
    """The endpoints for one request, in the order in which they are tried, and the slot that decided."""

    route: Route
    targets: list[Target]
    model: str
    slot: str = ""
    tokens: int = 0
    """About the size of the request."""

    def only(self, wire: str) -> Chosen:
        """Return the same choice without the endpoints that do not speak a wire."""
        return replace(self, targets=[target for target in self.targets if target.endpoint.wire == wire])

    def candidates(self) -> list[Candidate]:
        """Return the endpoints, each with the name of its model."""
        return [(target.endpoint, target.name_model(self.model)) for target in self.targets]

    def backends(self, login: str | None = None, betas: str = "") -> list[Backend]:
        """Return how each endpoint is asked. `login` is the key of the client, `betas` its header of this name."""
        from dragoman.pipeline.exchange import Backend

        settings = self.route.settings
        trust = "compat" if settings.profile == "passthrough" else settings.profile
        return [
            Backend(
                target.client_for(self.model, login, betas if target.endpoint.wire == "anthropic" else "", self.tokens),
                target.settings.tool_mode,
                trust,
                settings.repair_turns,
                target,
            )
            for target in self.targets
        ]


class Router:
    """Chooses endpoints for requests."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        servers: Mapping[str, DetectedServer] | None = None,
        transport: Transport | None = None,
        facts: Facts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`servers` are those that were detected at the URLs of endpoints, by the name of the endpoint."""
        self.settings = settings
        self._servers = servers or {}
        self.facts = facts if facts is not None else MemoryFacts()
        self._clock = clock
        self.transport = transport
        self.observe: Callable[[Transport, str], Transport] | None = None
        """Wraps the transport of each client; the second argument is the wire."""
        # A server may fail with one request of one client, and answer all others.
        self._breakers = Breakers(_FAILURES_OF_AN_ORIGIN, min(_PAUSE_OF_AN_ORIGIN, settings.gateway.cool_down))
        self._search: asyncio.Task[None] | None = None
        self._searched = clock()
        self.targets: dict[str, Target] = {}
        self._found: dict[str, Route] = {}
        self.routes = [self._open_route(row) for row in settings.routes]
        for target in self.missing():
            self.rest(target)

    def _open_route(self, row: RouteSettings) -> Route:
        targets = {name: self._open_target(name) for name in named_endpoints(row)}
        patterns = tuple(re.compile(translate(pattern), re.IGNORECASE) for pattern in as_list(row.match))
        return Route(row, targets, patterns)

    def _open_target(self, name: str) -> Target:
        if name not in self.targets:
            row = self.settings.endpoints.get(name) or EndpointSettings(model=name)
            self.targets[name] = Target(name, row, self, self._servers.get(name))
        return self.targets[name]

    def open_client(
        self,
        endpoint: Endpoint,
        row: EndpointSettings,
        limiter: RateLimiter | None,
        headers: Mapping[str, str],
        login: str | None = None,
    ) -> Client:
        """Return a client for an endpoint. All of them share the connections."""
        own = endpoint.provider.transport
        transport = shared_transport(endpoint) if own or self.transport is None else self.transport
        if self.observe is not None:
            transport = self.observe(transport, endpoint.wire)
        return Client(
            endpoint,
            transport=transport,
            key=login or find_row_key(row),
            headers=headers,
            breakers=self._breakers,
            retries=Retries(patience=_LONGEST_WAIT),
            timeouts=Timeouts(first_byte=row.first_byte_timeout, idle=row.idle_timeout, total=row.total_timeout),
            limiter=limiter,
        )

    def choose(self, request: Request, size: int = 0) -> Chosen:
        """Return the endpoints for a request. `size` is the size of its body in bytes. Raises UnknownModel."""
        model = self.name_model(request.model)
        route = self._find_route(model)
        slot = find_slot(route.settings, request, size)
        first = as_list(getattr(route.settings, slot)) if slot else []
        targets = route.pick(first or as_list(route.settings.to), self._clock())
        if rest := as_list(route.settings.fallback):
            targets = list(dict.fromkeys([*targets, *(route.targets[name] for name in rest)]))
        return Chosen(route, targets, model, slot, size // CHARACTERS_PER_TOKEN)

    def _find_route(self, model: str) -> Route:
        """Return the first route whose patterns fit a model, as for the last requests with this name."""
        route = self._found.get(model)
        if route is None:
            route = next((route for route in self.routes if route.matches(model)), None)
            if route is None:
                raise UnknownModel(model, [each.name for each in self.models()])
            if len(self._found) >= _MOST_NAMES:
                self._found.clear()
            if len(model) <= _LONGEST_NAME:
                self._found[model] = route
        return route

    def missing(self) -> list[Target]:
        """Return the endpoints whose server did not answer when the gateway started, so its kind is unknown."""
        rows = self.targets.values()
        return [target for target in rows if target.server is None and target.settings.url and not target.settings.wire]

    def look_again(self) -> None:
        """Detect missing servers in the background, at most once in each cool-down."""
        now = self._clock()
        if now - self._searched < self.settings.gateway.cool_down or (self._search and not self._search.done()):
            return
        if missing := self.missing():
            self._searched = now
            self._search = asyncio.ensure_future(self._detect(missing))

    async def _detect(self, missing: Sequence[Target]) -> None:
        rows = {target.name: target.settings for target in missing}
        for name, server in (await _detect_all(rows, self.transport)).items():
            if isinstance(server, DetectedServer):
                self.targets[name].accept(server)
                log.info("the endpoint %s answers now", name)

    def name_model(self, asked: str) -> str:
        """Return the model that an alias means."""
        return self.settings.aliases.get(asked, asked)

    def rest(self, target: Target) -> None:
        """Avoid an endpoint for a while, because it failed."""
        target.resting_until = self._clock() + self.settings.gateway.cool_down

    def resting(self) -> list[str]:
        """Return the names of the endpoints that failed a short time ago."""
        now = self._clock()
        return [target.name for target in self.targets.values() if target.resting_until > now]

    def models(self) -> list[ModelEntry]:
        """Return the models that a client can ask for."""
        found: dict[str, ModelEntry] = {}
        for target in self.targets.values():
            window = target.endpoint.quirks.context_window or None
            owner = target.endpoint.provider.name
            if target.takes_any_model:
                for listed in target.server.models if target.server is not None else ():
                    found.setdefault(listed.id, ModelEntry(listed.id, listed.context or window, owner))
            elif target.endpoint.model:
                found.setdefault(target.endpoint.model, ModelEntry(target.endpoint.model, window, owner))
        for name in self._plain_names():
            found.setdefault(name, ModelEntry(name))
        return list(found.values())

    def _plain_names(self) -> list[str]:
        patterns = [name for route in self.routes for name in as_list(route.settings.match)]
        return [*self.settings.aliases, *(name for name in patterns if not set(name) & set("*?["))]


async def find_servers(settings: GatewaySettings, transport: Transport | None = None) -> dict[str, DetectedServer]:
    """Return the servers at the URLs of the endpoints whose wire is not given.

    A server that does not answer is left out, and looked for again later. Raises the errors of `adetect` if none of the
    endpoints can answer.
    """
    rows = {name: row for name, row in settings.endpoints.items() if row.url and not row.wire}
    found = await _detect_all(rows, transport)
    errors = {name: server for name, server in found.items() if isinstance(server, DragomanError)}
    named = {name for route in settings.routes for name in named_endpoints(route)}
    if errors and named <= errors.keys():
        raise next(iter(errors.values()))
    for name, error in errors.items():
        log.warning("the endpoint %s is not used yet: %s", name, error)
    return {name: server for name, server in found.items() if isinstance(server, DetectedServer)}


async def _detect_all(
    rows: Mapping[str, EndpointSettings], transport: Transport | None
) -> dict[str, DetectedServer | DragomanError]:
    """Return the server of each endpoint, or the error."""

    async def detect(row: EndpointSettings) -> DetectedServer | DragomanError:
        try:
            return await adetect(row.url, key=find_row_key(row), transport=transport, assume="openai_chat")
        except DragomanError as error:
            return error

    return dict(zip(rows, await asyncio.gather(*map(detect, rows.values())), strict=True))


def find_row_key(row: EndpointSettings) -> str | None:
    """Return the key of an endpoint, if its row has one."""
    return row.key or (os.environ.get(row.key_env) if row.key_env else None) or None


def find_endpoint(
    row: EndpointSettings, model: str, facts: Facts | None = None, server: DetectedServer | None = None
) -> Endpoint:
    """Return the endpoint of a row for a model. Raises a ConfigError that says what is missing."""
    if not row.url and not row.model:
        raise ConfigError("an endpoint has neither a model nor a URL", hint='set model = "provider:model"')
    settings: dict[str, Any] = {"facts": facts}
    if row.context_window is not None:
        settings["quirks"] = {"context_window": row.context_window}
    if not row.url:
        return providers.resolve(row.model, **settings)
    if server is not None:
        # The model of a row without a URL has its provider before it, and so may this one.
        return server.endpoint((row.model or model).removeprefix(f"{server.provider}:"), **settings)
    return providers.resolve("custom", row.model or model, base_url=row.url, wire=row.wire, **settings)


def find_slot(row: RouteSettings, request: Request, size: int) -> str:
    """Return the slot of a route that a request belongs to; empty for the endpoints of the route itself."""
    if row.images and _has_image(request):
        return "images"
    if row.long_context and size > row.long_context_tokens * CHARACTERS_PER_TOKEN and _is_long(request, row):
        return "long_context"
    if row.background and _is_small(request.model):
        return "background"
    reasoning = request.options.get("reasoning")
    if row.thinking and isinstance(reasoning, dict) and reasoning.get("enabled") is not False:
        return "thinking"
    return ""


def _is_long(request: Request, row: RouteSettings) -> bool:
    """Whether a large request is a long one: images are large, and have few tokens."""
    return Estimate().count(request.messages, request.tools) > row.long_context_tokens


def _has_image(request: Request) -> bool:
    return any(
        _is_image(part) or (isinstance(part, ToolResult) and not isinstance(part.content, str) and _holds_image(part))
        for message in request.messages
        for part in message.parts
    )


def _holds_image(result: ToolResult) -> bool:
    return any(_is_image(part) for part in result.content)


def _is_image(part: object) -> bool:
    """Whether a part is an image; some clients send images as files."""
    return isinstance(part, Image) or (isinstance(part, File) and isinstance(settle(part), Image))
